//! Adapters of live schedulers, with fake commands, a real nats-server and the whole service.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on stops"
)]

mod cases;
mod common;
mod faults;
mod flux;
mod follow;
mod json;
mod metrics;
mod pacer;
mod reconcile;
mod slurm;
mod topology;
