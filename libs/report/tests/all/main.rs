//! The tests of reports, in one binary so that the solver is linked once.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;
mod hostile;
mod of_replay;
mod pages;
mod pool;
