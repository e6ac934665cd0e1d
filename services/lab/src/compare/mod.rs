//! `lacuna-lab compare`: what Lacuna brings beside other rules and bounds, on recorded machines: by
//! forecasts, by the distance and the kinds of nodes, by goodput, and where nothing is known.

mod args;
mod distance;
mod forecast;
mod goodput;
mod kinds;
mod machines;

pub(crate) use args::{CompareCommand, run};
