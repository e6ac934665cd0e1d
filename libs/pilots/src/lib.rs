//! Pilots: one-node jobs of ours in a batch scheduler, each of which brings an agent to an idle
//! node.
//!
//! - [`keeper`]: which node needs a pilot and which pilot must go, as a state machine;
//! - [`scheduler`]: what is asked of a batch scheduler, as command lines and answers, for
//!   [`slurm`] and [`pbs`];
//! - [`job`]: pilots as the scheduler lists them;
//! - [`limit`]: from a forecast to a pilot's time limit;
//! - [`check`]: whether a site's Slurm lets pilots run without harm;
//! - [`observe`]: what pilots would have brought where none is started;
//! - [`settings`]: the section `[control.pilots]` of the configuration.
//!
//! Nothing here starts a process, reads a clock or knows the bus.

pub mod check;
pub mod job;
pub mod keeper;
pub mod limit;
pub mod observe;
pub mod pbs;
pub mod scheduler;
pub mod settings;
pub mod slurm;
