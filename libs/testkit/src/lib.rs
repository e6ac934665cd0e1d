//! For tests only: servers and services, in virtual time or not, golden files, builders, and
//! commands that run in a folder.

mod bench;
mod build;
mod figures;
mod golden;
mod logs;
mod nats;
mod process;
mod server;
mod service;

pub use bench::{Bench, json, program};
pub use build::{
    assignment, command, events, hole, launch, node, pool, record, reporting, shell, snapshot,
    spec, status, submission,
};
pub use figures::{Figures, figures};
pub use golden::golden;
pub use lacuna_skip::{Missing, Need, data, or_skip, torch_python};
pub use logs::logged_address;
pub use nats::{TestNats, connect};
pub use process::{Killed, lives};
pub use server::{Server, in_virtual_and_real_time, in_virtual_time};
pub use service::{Service, until};
