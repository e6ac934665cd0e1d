//! Logs of batch jobs and of the states of nodes: what is read from each format, what is found
//! damaged in it, and how files are opened.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests may panic"
)]

#[path = "../common/logs.rs"]
mod logs;

mod opening;
mod sacct;
mod states;
mod swf;
