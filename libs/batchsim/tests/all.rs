//! The batch scheduler: its rules, an oracle, and recorded workloads.

mod batch;
mod common;
mod occupancy;
mod oracle;
mod preview;
mod rules;
#[path = "common/slow.rs"]
mod slow;
mod theta;
mod workload;
