//! `lacuna demo`: the whole system for two minutes, then a summary and a report. All processes end.

mod args;
mod input;
mod outcome;
mod play;
mod report;

pub(crate) use args::{DemoArgs, run};
pub use input::shufflenet;
