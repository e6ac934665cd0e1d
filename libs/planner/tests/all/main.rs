//! The planner's tests, in one binary so that the solver is linked once.

mod check;
mod common;
mod explain;
mod language;
mod oracles;
mod planner;
mod programme;
mod scheduling;
mod stability;
