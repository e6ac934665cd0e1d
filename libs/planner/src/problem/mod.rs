//! The problem as data: situations, sizes and their values, instances and files.

mod allocation;
pub mod file;
pub mod instance;
pub mod kind;
pub mod objective;
pub(crate) mod ordinal;
mod situation;

pub use allocation::{Item, Problem, Sizes};
pub use situation::{Candidate, PoolForecast, Situation, Slot, Users};
