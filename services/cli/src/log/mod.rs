//! Any log as a recording: what every command that takes a log does first.
//!
//! Logs of holes, or of jobs with their nodes, become holes in memory. Logs of jobs without
//! nodes go through the simulated batch scheduler, which reads them again for each walk, so
//! that memory does not grow with them.

mod args;
mod caveats;
mod error;
mod in_memory;
mod jobs_on_nodes;
mod load;
mod machine;
mod outage_filter;
mod outages;
mod progress;
mod simulated;
mod summary;
mod unavailable;

pub use args::LogArgs;
pub use error::unreadable;
pub use load::{Input, load};
pub use progress::Bar;
pub use summary::{HoleSource, LogSummary};
