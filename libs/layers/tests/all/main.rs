//! Tests of the placement of layers: published seeds, brute force, invariants, and
//! input that is wrong.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests may panic"
)]

mod brute;
mod brute_force;
mod common;
mod golden;
mod input;
mod invariants;
mod rates;
