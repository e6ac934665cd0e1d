//! Controller and agents: hand-written cases, and a world that loses, repeats and delays messages.

#[expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may panic"
)]
mod common;

mod archive;
#[expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]
mod broken;
#[expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]
mod chaos;
mod controller;
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod controls;
mod credit;
mod distance;
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod elsewhere;
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod ending;
mod entries;
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod figures;
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod first_failure;
#[expect(clippy::indexing_slicing, reason = "a test may panic")]
mod harm;
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod kinds;
#[expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]
mod learnt;
#[expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]
mod loaders;
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod members;
#[expect(clippy::indexing_slicing, reason = "a test may panic")]
mod on_demand;
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod one_account;
mod plans;
#[expect(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]
mod probes;
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod profile;
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod quarantine;
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod regroup;
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod replayed;
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod repool;
#[expect(clippy::indexing_slicing, reason = "a test may panic")]
mod restart;
mod unheard;
