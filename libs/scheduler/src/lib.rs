//! Live batch schedulers: Slurm, PBS and LSF.
//!
//! - Query: [`sinfo`], [`squeue`] and [`json`] for Slurm, [`pbs`] for `pbsnodes`, `qstat` and
//!   accounting records, [`lsf`] for `lsb.events`. [`NodeFlags`] reads Slurm's state words.
//! - Classify: [`node_status()`] and [`pbs_node_status`] decide whether a node is a hole.
//!   [`RunningJobs`] knows the nodes of running jobs, [`Tracker`] compares one answer with the
//!   answers before it, and [`MissingNodes`] counts absences.
//! - Pilots: [`submit`] submits, cancels and lists them, and [`job`] describes them.
//! - [`topology`]: where nodes are, as Slurm, PBS and Slurm's jobs say.
//! - [`kinds`]: of which kind nodes are, as Slurm, PBS and LSF say.
//! - [`check`]: whether the Slurm of a site runs pilots without harm to batch jobs.
//! - [`ingest`]: the section `[ingest]`, and in [`settings`] `[ingest.slurm]`, `[ingest.pbs]` and
//!   `[ingest.lsf]`.
//!
//! The crate starts no process and reads no clock: it returns command lines and reads their
//! output. An answer is read whole or refused whole, so a damaged answer changes no node. PBS prints
//! texts of users into JSON as they are, so there a damaged text or node costs itself alone.

mod answer;
pub mod check;
mod flags;
pub mod ingest;
pub mod job;
mod jobs;
pub mod json;
pub mod kinds;
pub mod lsf;
mod missing;
mod node_status;
pub mod pbs;
pub mod settings;
pub mod sinfo;
pub mod squeue;
pub mod submit;
pub mod topology;
mod tracker;

pub use answer::{AnswerError, RECORD_END, SEPARATOR};
pub use flags::{Base, NodeFlags};
pub use jobs::{RunningJob, RunningJobs};
pub use lsf::{LsfEvents, LsfState};
pub use missing::MissingNodes;
pub use node_status::{NodeStatus, node_status};
pub use pbs::{PbsAnswer, PbsJob, PbsNode, PbsRecords, pbs_node_status};
pub use sinfo::NodeReport;
pub use squeue::{JobReport, JobState};
pub use tracker::{PlannedJob, PollResult, Tracker};
