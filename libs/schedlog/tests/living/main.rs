//! What living schedulers answer, and what is made of it.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on stops"
)]

mod answers;
mod flags;
mod property;
