//! The machine and its trainers in virtual time.

mod decide;
mod kinds;
mod pool;
mod run;

pub(crate) use decide::Decider;
pub(crate) use kinds::Kinds;
pub(crate) use run::{Tally, World};
