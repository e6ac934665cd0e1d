//! Plans: from names to ordinals and back, with verdicts, reasons, a checker and explanations.

pub mod check;
mod displace;
pub mod explain;
mod kinds;
mod planner;
mod reasons;
mod roster;
pub mod translate;
mod verdict;

pub use planner::{Input, Planner};
