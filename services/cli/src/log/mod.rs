//! Reads any log as a trace, the first step of all commands that take a log.
//!
//! Logs of holes, or of jobs with their nodes, become holes in memory. Logs of jobs without nodes
//! go through the simulated batch scheduler. It reads the log again for each walk, so memory does
//! not grow with the log.

mod args;
mod caveats;
mod error;
mod from_slurm;
mod holes;
mod in_memory;
mod input;
mod jobs_on_nodes;
mod load;
mod machine;
mod options;
mod ours;
mod outage_filter;
mod outages;
mod part;
mod placed;
mod progress;
mod sample;
mod simulated;
mod summary;
mod unavailable;

pub use args::{LogArgs, LogDetails, WholeLogArgs};
pub use error::unreadable;
pub use input::Input;
pub use load::load;
pub use options::LogOptions;
pub use progress::Bar;
pub use summary::{HoleSource, LeftOut, LogSummary};
