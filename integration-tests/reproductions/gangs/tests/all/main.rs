//! Tests of gangs: golden speeds, the engine's invariants, policies on small clusters, and the
//! published traces.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests may panic"
)]

mod common;
mod engine;
mod golden;
mod policies;
mod properties;
mod published;
