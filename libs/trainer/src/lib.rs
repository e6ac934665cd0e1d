//! The life of an elastic trainer, as plain state machines: time is an argument, and effects are
//! returned as a list.
//!
//! - [`Queue`]: the order of admission of submitted trainers;
//! - [`Ledger`]: samples and stall debt of a simulated trainer over time;
//! - [`account`]: how samples and costs are counted;
//! - [`measure`]: definitions of efficiency, harvest, loss and samples lost;
//! - [`simulated`]: progress of a simulated trainer at a moment;
//! - [`controller`]: the state of control: admission, leases, incarnations, commands;
//! - [`controls`]: controls of the operator over the use of nodes, evaluated at a moment;
//! - [`agent`]: the agent of a node: which command it obeys, when it gives the node back by itself;
//! - [`settings`]: the sections `[control]` and `[agent]` of the configuration.

pub mod account;
pub mod agent;
pub mod controller;
pub mod controls;
pub mod measure;
pub mod settings;
pub mod simulated;

mod ledger;
mod now;
mod queue;

pub use ledger::Ledger;
pub use now::Now;
pub use queue::{Places, Queue, has_place};
