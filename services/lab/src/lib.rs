//! The command `lacuna-lab`: measure, reproduce what was published, judge forecasts, and make what
//! is not there: problems, machines, researchers.
//!
//! It is for who works on Lacuna, and no container has it. How logs are read, how the bus is spoken
//! to and how results are printed it takes from the command `lacuna`, which it starts for replays.

mod args;
mod bench;
mod forecast;
mod generate;
mod play;
mod reproduce;
mod results;
mod solve;

pub use args::main;
