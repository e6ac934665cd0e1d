//! The keeper against a scheduler that does all that schedulers do.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod cases;
mod chaos;
mod world;
