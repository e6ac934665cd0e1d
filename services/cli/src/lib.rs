//! The command `lacuna`: starts a cluster on one machine, submits trainers, shows and explains
//! their state, replays a trace.
//!
//! Commands read the cluster through `client`. Their output is made by `view` and `live`, plain
//! functions of data. `up` starts the services as child processes. The public modules serve the
//! command `lacuna-lab`, which reads the same logs, uses the same bus and prints alike.

mod args;
pub mod client;
mod codes;
mod commands;
mod demo;
pub mod entry;
pub mod error;
pub mod files;
mod live;
pub mod log;
pub mod output;
pub mod replay;
mod sections;
pub mod table;
pub mod up;
mod view;

pub use args::{Cli, main};
pub use commands::submit::submit_all;
pub use demo::shufflenet;
pub use sections::{Config, Sections};
