//! The agent of one node or of many: the shell around [`lacuna_trainer::agent`].
//!
//! - [`run`] is the service: it receives commands and sends statuses and progress;
//! - `launcher` starts and stops training: simulated runs, or any program under a guard that leaves
//!   no orphan;
//! - `safety` is the thread that gives nodes back when everything else hangs; `cgroup` and
//!   `descendants` find all processes of a program;
//! - `outbox` sends the newest messages, so that no code waits for the bus;
//! - `account` is the account of a program that does not run under the agent's;
//! - `untrusted` opens files that programs may have changed;
//! - `removal` removes the folders that programs have filled;
//! - `lock` ensures that a node has one agent only;
//! - `workers` starts the processes of a program under its guard, and ends them together;
//! - `tail` reads the progress that a program writes.

mod account;
mod cgroup;
mod descendants;
mod guard;
mod launcher;
mod lock;
mod metrics;
mod order;
mod outbox;
mod removal;
mod safety;
mod sections;
mod service;
mod shell;
mod tail;
mod untrusted;
mod worth;

pub use guard::{GUARD, OWNER, become_owner, guard};
pub use launcher::{
    Command, Launcher, LauncherEvent, MembersAnswer, Names, Order, Played, Settings, Simulated,
    StandIn,
};
pub use metrics::Metrics;
pub use removal::{REMOVE, remove_folder};
pub use safety::{Process, Safety};
pub use sections::{Config, Context, Sections};
pub use service::{AgentArgs, run, run_alone, run_with};
pub use tail::{Line, Tail};
