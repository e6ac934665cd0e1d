//! The agent: the shell around [`lacuna_trainer::agent`], for one node or for many.
//!
//! - [`run`] is the service: commands in, statuses and progress out;
//! - `launcher` starts and stops what trains: simulated runs, or any program under a guard
//!   that never leaves an orphan;
//! - `safety` is the thread that gives nodes back when all else hangs; `cgroup` and `descendants`
//!   find whatever a program has started;
//! - `outbox` says the newest, and nobody waits for the bus;
//! - `untrusted` opens files where programs may have been;
//! - `lock` lets one agent alone play a node;
//! - `tail` reads the progress that a program writes.

mod cgroup;
mod descendants;
mod guard;
mod launcher;
mod lock;
mod metrics;
mod order;
mod outbox;
mod safety;
mod service;
mod shell;
mod tail;
mod untrusted;

pub use guard::{GUARD, guard};
pub use launcher::{Command, Happened, Launcher, MembersSaid, Names, Settings, Simulated};
pub use metrics::Metrics;
pub use safety::{Process, Safety};
pub use service::{AgentArgs, run, run_alone};
pub use tail::{Line, Tail};
