//! The command `lacuna`: start everything on one machine, submit trainers, look at what
//! happens and why, replay a recording, measure the bus.
//!
//! Commands read through `client`; what they print is made by `view` and `live`, plain
//! functions of data. `up` starts the services as child processes.

mod args;
mod bench;
mod client;
mod codes;
mod commands;
mod demo;
mod error;
mod forecast;
mod live;
mod log;
mod output;
mod play;
mod replay;
mod reproduce;
mod submit_file;
mod table;
mod up;
mod view;

pub use args::{Cli, main};
