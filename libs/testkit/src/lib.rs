//! For tests alone: a nats-server of one's own, golden files, builders.

mod build;
mod golden;
mod nats;

pub use build::{events, hole, node, pool, record, spec};
pub use golden::golden;
pub use nats::{TestNats, connect, data_dir};
