//! Logs of batch jobs and of node states: records of each format, damage, and opening of files.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests may panic"
)]

mod opening;
mod sacct;
mod states;
mod swf;
mod texts;
