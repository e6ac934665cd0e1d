//! The keeper against a simulated scheduler with all known behaviours.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod cases;
mod chaos;
mod trainers;
mod world;
