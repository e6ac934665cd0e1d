//! A batch scheduler in virtual time: first come first served with EASY backfill.
//!
//! Source of the policy: Lifka, "The ANL/IBM SP scheduling system" (JSSPP 1995), as stated by
//! Mu'alem and Feitelson (IEEE TPDS 12(6), 2001): only the first waiting job has a reservation;
//! a later job may start at once if it ends before that reservation by its requested walltime,
//! or uses only nodes that the first job will not need.
//!
//! Nodes are placed first fit: a job takes the free nodes with the lowest numbers. Times are
//! whole seconds from an origin of the caller's choice.

mod easy;
mod free;
mod schedule;

pub use easy::simulate;
pub use schedule::{BatchError, BatchJob, NodeHole, Placement, Run, Schedule, records};
