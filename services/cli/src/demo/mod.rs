//! `lacuna demo`: two minutes of the whole, then a summary, a report, and nothing left running.

mod args;
mod input;
mod outcome;
mod play;
mod report;

pub(crate) use args::{DemoArgs, run};
pub use input::shufflenet;
