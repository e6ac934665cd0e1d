//! A batch scheduler in virtual time: first come first served with backfill.
//!
//! Sources of the policies: Lifka, "The ANL/IBM SP scheduling system" (JSSPP 1995), for EASY,
//! as stated by Mu'alem and Feitelson (IEEE TPDS 12(6), 2001): only the first waiting job has a
//! reservation; a later job may start at once if it ends before that reservation by its
//! requested walltime, or uses only nodes that the first job will not need. The same paper
//! describes conservative backfill, in which every waiting job has a reservation.
//!
//! [`Simulator`] takes jobs one by one and says step by step what each node does, without
//! keeping the past; [`simulate`] does the same for a workload in memory. Times are whole
//! seconds from an origin of the caller's choice.

mod announcer;
mod blocks;
mod conservative;
mod easy;
mod job;
mod machine;
mod named;
mod nodes;
mod outlook;
mod profile;
mod queue;
mod recorded;
mod running;
mod schedule;
mod simulator;
mod state;
mod totals;

pub use announcer::Announcer;
pub use job::{BatchError, BatchJob, Placement, Run};
pub use machine::{
    Backfill, CONSERVATIVE_DEPTH, Layout, Machine, Outage, Overrun, Oversized, Reservation, Starts,
};
pub use outlook::{BusyUntil, Outlook, PlannedStart, Wanted};
pub use schedule::{NodeHole, Schedule, records, simulate, simulate_on};
pub use simulator::{Simulator, Step};
pub use state::Ended;
pub use totals::Totals;
