//! The machine and its trainers in virtual time.

mod decide;
mod gantt;
mod jointly;
mod kinds;
#[cfg(test)]
mod lockstep;
mod member;
mod pool;
mod recorder;
mod run;
mod seer;
mod tally;
mod thin;
mod verify;

pub(crate) use decide::Decider;
pub(crate) use kinds::Kinds;
pub(crate) use run::World;
pub(crate) use tally::{Offer, Tally};
