//! The planner's tests, in one binary so that the solver is linked once.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "helpers of tests fail as tests do"
)]

mod check;
mod common;
mod explain;
mod fair;
mod file;
mod foresight;
mod foresight_announced;
mod foresight_doubts;
mod groups;
mod joint;
mod language;
mod objectives;
mod oracles;
mod patterns;
mod planner;
mod programme;
mod reach;
mod recorded;
mod scheduling;
mod stability;
