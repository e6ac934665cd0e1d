//! For tests alone: a nats-server of one's own, golden files, builders, the commands at work in
//! a folder.

mod bench;
mod build;
mod figures;
mod golden;
mod nats;
mod said;

pub use bench::{Bench, json, program};
pub use build::{events, hole, node, pool, record, spec};
pub use figures::{Figures, figures};
pub use golden::golden;
pub use lacuna_skip::{Missing, Need, data, or_skip};
pub use nats::{TestNats, connect};
pub use said::said_address;
