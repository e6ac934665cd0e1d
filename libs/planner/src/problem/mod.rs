//! The problem as data: situations, sizes and their values, instances and files.

mod allocation;
pub mod file;
pub mod instance;
mod mixes;
pub mod objective;
mod on_shapes;
pub(crate) mod ordinal;
mod situation;
mod switches;
pub mod worth;

pub use allocation::{Far, Item, Lost, Problem, Sizes};
pub use lacuna_rates::Shape;
pub use mixes::{Mix, MixTable, NO_NODES, OnKinds, mixes_of, pair};
pub(crate) use mixes::{count, less, sum, with_count};
pub use on_shapes::{MixProblem, MixSizes};
pub use situation::{Candidate, History, PoolForecast, Situation, Slot, Users};
pub use switches::Switches;
