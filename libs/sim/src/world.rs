//! The machine and its trainers in virtual time. [`World`] is the loop; each other file holds one
//! part of it.

mod decide;
mod gantt;
mod kinds;
mod launch;
mod launcher;
mod member;
mod membership;
mod observer;
mod pool;
mod recorder;
mod replan;
mod run;
mod saves;
mod series;
mod sites;
mod stages;
mod tally;
mod valuation;

pub(crate) use decide::Decisions;
pub(crate) use kinds::{Kinds, of_one_kind};
pub(crate) use launcher::Launcher;
pub(crate) use observer::Observer;
pub(crate) use run::World;
pub(crate) use tally::{OfKind, Offer, Tally};
