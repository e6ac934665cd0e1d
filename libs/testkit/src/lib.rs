//! For tests only: a private nats-server, golden files, builders, and commands that run in a
//! folder.

mod bench;
mod build;
mod figures;
mod golden;
mod nats;
mod logs;

pub use bench::{Bench, json, program};
pub use build::{events, hole, node, pool, record, spec};
pub use figures::{Figures, figures};
pub use golden::golden;
pub use lacuna_skip::{Missing, Need, data, or_skip};
pub use nats::{TestNats, connect};
pub use logs::logged_address;
