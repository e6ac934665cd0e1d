//! The planner's tests, in one binary so that the solver is linked once.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "helpers of tests fail as tests do"
)]

mod apart;
mod apart_oracles;
mod blocks;
mod by_kind;
mod check;
mod columns;
mod common;
mod explain;
mod fair;
mod file;
mod forecast;
mod forecast_announced;
mod forecast_doubts;
mod groups;
mod guard;
mod horizon;
mod judge;
mod kinds_placed;
mod language;
mod milp;
mod mixed;
mod objectives;
mod oracles;
mod planner;
mod recorded;
mod scheduling;
mod stability;
mod together;
