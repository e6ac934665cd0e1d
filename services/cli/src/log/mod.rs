//! Any log as a recording: what every command that takes a log does first.
//!
//! Logs of holes, or of jobs with their nodes, become holes in memory. Logs of jobs without
//! nodes go through the simulated batch scheduler, which reads them again for each walk, so
//! that memory does not grow with them.

mod args;
mod blocks;
mod crowded;
mod doubts;
mod facts;
mod held;
mod load;
mod machine;
mod outages;
mod placed;
mod progress;
mod simulated;

pub use args::LogArgs;
pub use facts::{Facts, Kind};
pub use load::{Input, load, unreadable};
pub use progress::Bar;
