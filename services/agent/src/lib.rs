//! The agent: the shell around [`lacuna_trainer::agent`], for one node or for many.
//!
//! - [`run`] is the service: commands in, statuses and progress out;
//! - `launcher` starts and stops what trains: simulated runs, or any program under a guard
//!   that never leaves an orphan;
//! - `lock` lets one agent alone play a node;
//! - `tail` reads the progress that a program writes.

mod descendants;
mod guard;
mod launcher;
mod lock;
mod metrics;
mod service;
mod shell;
mod tail;

pub use guard::{GUARD, guard};
pub use launcher::{Command, Happened, Launcher, Settings, Simulated};
pub use metrics::Metrics;
pub use service::{AgentArgs, run};
pub use tail::{Line, Tail};
