//! Live batch schedulers: Slurm, PBS, LSF and Flux.
//!
//! - [`scheduler`]: what a scheduler can do, and how one is added. [`row`]: the list of schedulers. A
//!   scheduler is a folder: [`slurm`], [`pbs`], [`lsf`], [`flux`].
//! - [`live`]: how ingest reads one: polling cycles, followed files, topology, kinds.
//! - [`submit`] and [`job`]: how pilots are submitted, cancelled, listed and described.
//! - [`check`]: whether a site runs pilots without harm to batch jobs.
//! - [`ingest`]: the section `[ingest]`. [`settings`]: the sections `[ingest.<name>]`.
//!   [`kinds`]: the rules of `[ingest.kinds]`.
//! - [`RunningJobs`] knows the nodes of running jobs, and [`MissingNodes`] counts absences.
//!
//! The crate starts no process and reads no clock: it returns command lines and reads their
//! output. An answer is read whole or refused whole, so a damaged answer changes no node. PBS prints
//! texts of users into JSON as they are, so there a damaged text or node costs itself alone.

mod answer;
pub mod check;
pub mod flux;
pub mod ingest;
pub mod job;
mod jobs;
pub mod kinds;
mod labels;
mod list;
pub mod live;
pub mod lsf;
mod missing;
mod node_status;
pub mod pbs;
pub mod scheduler;
mod shared;
pub mod slurm;
pub mod submit;
mod unsupported;

/// The sections of live schedulers, as `[ingest.slurm]`, each in the folder of its scheduler, and what
/// they share.
pub mod settings {
    pub use crate::flux::Flux;
    pub use crate::lsf::Lsf;
    pub use crate::pbs::Pbs;
    pub use crate::shared::{Following, Marks, Polling};
    pub use crate::slurm::{Answers, Slurm};
}

pub use answer::{AnswerError, RECORD_END, SEPARATOR};
pub use job::JobState;
pub use jobs::{RunningJob, RunningJobs};
pub use list::{check_pilots, row};
pub use missing::MissingNodes;
pub use node_status::NodeStatus;
pub use scheduler::{Scheduler, SchedulerName, Sections};
pub use unsupported::Unsupported;
