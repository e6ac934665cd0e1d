//! The command line.

mod commands;
mod common;
mod controls;
#[path = "holes/main.rs"]
mod holes;
mod stalls;
