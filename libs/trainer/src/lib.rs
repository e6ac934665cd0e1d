//! The life of an elastic trainer, as plain state machines: time is an argument, and what
//! must happen leaves as a list of effects.
//!
//! - [`Queue`]: which submitted trainer goes first;
//! - [`Ledger`]: samples and stall debt of a simulated trainer over time;
//! - [`account`]: how samples and costs are counted;
//! - [`measure`]: what efficiency, harvest, loss and samples lost are;
//! - [`simulated`]: how far a simulated trainer has come at a moment;
//! - [`controller`]: the state of control: admission, leases, incarnations, commands;
//! - [`controls`]: what the operator wants of the use of nodes, and what holds at a moment;
//! - [`agent`]: a node's side: which command to obey, when to give the node back alone;
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
