//! Controller and agents: hand-written cases, and a world that loses, repeats and delays messages.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may panic"
)]

mod common;

mod archive;
mod broken;
mod chaos;
mod controller;
mod controls;
mod credit;
mod distance;
mod elsewhere;
mod ending;
mod entries;
mod figures;
mod first_failure;
mod harm;
mod kinds;
mod learnt;
mod loaders;
mod members;
mod on_demand;
mod one_account;
mod plans;
mod probes;
mod profile;
mod quarantine;
mod regroup;
mod replace;
mod replayed;
mod restart;
mod unheard;
