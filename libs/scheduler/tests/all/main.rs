//! Answers and logs of live schedulers, and the node statuses and planned jobs read from them.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on stops"
)]

mod answers;
mod flags;
mod flux;
mod journal;
mod json;
mod large;
mod property;
mod records;
mod schedulers;
