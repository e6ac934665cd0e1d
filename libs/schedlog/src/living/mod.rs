//! Living schedulers: the answers of their commands as records, and what the records mean for
//! holes.
//!
//! Nothing here runs a command or reads a clock. An answer is taken whole or not at all: a
//! damaged one says nothing about any node, so that it changes nothing.
//!
//! - [`NodeFlags`]: the state words of Slurm, of any version, in any notation
//! - [`sinfo`], [`squeue`]: formats to ask for, and the records that come back
//! - [`json`]: the same records out of slurmrestd or `--json`
//! - [`standing()`]: whether a node is a hole
//! - [`pbs`]: accounting records as they are written, `pbsnodes` and `qstat`
//! - [`lsf`]: `lsb.events` as it is written
//! - [`Held`]: which nodes jobs hold
//! - [`Watch`]: what has changed since the answer before; absence is not gone
//! - [`settings`]: the sections of these schedulers in the configuration

mod absence;
mod flags;
mod held;
pub mod json;
pub mod lsf;
pub mod pbs;
mod records;
pub mod settings;
pub mod sinfo;
pub mod squeue;
mod standing;
mod watch;

pub use absence::Absence;
pub use flags::{Base, NodeFlags};
pub use held::{Held, Run};
pub use lsf::{LsfEvents, LsfState};
pub use pbs::{PbsJob, PbsNode, PbsRecords, pbs_standing};
pub use records::{AnswerError, RECORD_END, SEPARATOR};
pub use sinfo::NodeReport;
pub use squeue::{JobReport, JobState};
pub use standing::{Standing, standing};
pub use watch::{Promise, Sight, Watch};
