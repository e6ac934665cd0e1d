//! Living schedulers: the answers of their commands as records, and what the records mean for
//! holes.
//!
//! Nothing here runs a command or reads a clock. An answer is taken whole or not at all: a
//! damaged one says nothing about any node, so that it changes nothing.
//!
//! - [`NodeFlags`]: the state words of Slurm, of any version, in any notation
//! - [`sinfo`], [`squeue`]: formats to ask for, and the records that come back
//! - [`standing`]: whether a node is a hole
//! - [`Watch`]: what has changed since the answer before; absence is not gone

mod flags;
mod records;
pub mod sinfo;
pub mod squeue;
mod standing;
mod watch;

pub use flags::{Base, NodeFlags};
pub use records::{AnswerError, RECORD_END, SEPARATOR};
pub use sinfo::NodeReport;
pub use squeue::{JobReport, JobState};
pub use standing::{PilotMarks, Standing, standing};
pub use watch::{Promise, Rules, Sight, Watch};
