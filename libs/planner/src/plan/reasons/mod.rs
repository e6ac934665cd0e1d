//! Reasons of decisions by forecasts, in numbers.
//!
//! Holes with about the same expected stay and the same owner form one class of the report. A class
//! has its expected stay, the trainer that it serves or would have served, and the gain and the
//! cost of that. So the report grows with the trainers and not with the holes. `lacuna plan` and
//! `lacuna explain` print it.

mod bids;
mod input;
mod node_set;
mod numbers;
mod report;
mod verdicts;
mod weighed;

pub(super) use input::ReportInput;
pub(super) use report::report;
