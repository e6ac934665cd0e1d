//! The command `lacuna-lab`: benchmarks, reproductions of published figures, evaluation of
//! forecasts, and synthetic problems, machines and researchers.
//!
//! The command is for developers of Lacuna, and no container image has it. It takes reading of
//! logs, the bus client and output from the crate `lacuna-cli`, starts the command `lacuna` for
//! replays, and runs control and the agent in virtual time for `bench profile`.

mod args;
mod bench;
mod forecast;
mod generate;
mod play;
mod reproduce;
mod results;
mod solve;

pub use args::main;
