//! A batch scheduler in virtual time: first come first served with backfill.
//!
//! - [`Simulator`] takes batch jobs one by one. Each step gives the changes of node states, and
//!   the past is not kept. [`simulate`] does the same for a workload in memory.
//! - [`occupancy`] finds the holes of a log that names the nodes of each job.
//! - [`workload`] draws batch jobs from a published model.
//!
//! Sources of the policies: Lifka, "The ANL/IBM SP scheduling system" (JSSPP 1995), for EASY,
//! as stated by Mu'alem and Feitelson (IEEE TPDS 12(6), 2001). Under EASY only the first waiting
//! job has a reservation. A later job may start at once in two cases: it ends before that
//! reservation by its requested walltime, or it uses only nodes that the first job will not need.
//! The same paper describes conservative backfill, in which every waiting job has a reservation.
//!
//! Times are whole seconds from an origin that the caller chooses. The crate has no I/O and reads
//! no clock.

mod announcer;
mod blocks;
mod conservative;
mod easy;
mod job;
mod machine;
mod named;
mod nodes;
pub mod occupancy;
mod policy;
mod preview;
mod profile;
mod queue;
mod recorded;
mod running;
mod schedule;
mod simulator;
mod state;
mod totals;
pub mod workload;

pub use announcer::Announcer;
pub use job::{BatchError, BatchJob, NodeRange, Placement};
pub use machine::{
    Backfill, CONSERVATIVE_DEPTH, Layout, Machine, Outage, Overrun, Oversized, Reservation, Starts,
};
pub use preview::{BusyUntil, PlannedHoles, Preview, PreviewedStart};
pub use schedule::{NodeHole, Schedule, records, simulate, simulate_on};
pub use simulator::{Simulator, Step};
pub use state::Ended;
pub use totals::Totals;
