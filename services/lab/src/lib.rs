//! The command `lacuna-lab`: benchmarks, comparisons with other rules and bounds, evaluation of
//! forecasts, and synthetic problems, machines and researchers.
//!
//! The command is for developers of Lacuna; the image `lacuna-lab` has it (`deploy/Dockerfile`). It takes reading of
//! logs, the bus client and output from the crate `lacuna-cli`, starts the command `lacuna` for
//! replays, and runs control and the agent in virtual time for `bench profile`. The public modules
//! serve the reproductions of other people's figures, which run rows and keep a page alike.

mod args;
mod bench;
mod compare;
pub mod findings;
mod forecast;
mod generate;
mod play;
mod replay;
pub mod results;
pub mod runs;
mod solve;
#[cfg(test)]
mod switches;
pub mod table;

pub use args::main;
