//! `lacuna-lab reproduce`: repeats published figures on their own trace, and measures the gain of
//! forecasts, of policies of gangs, of exact placement of layers, of kinds of nodes, of goodput, of
//! one traced run and of machines that Lacuna was not built on.
//!
//! `published` is the table of published figures. Each of its rows is one run of `lacuna`, so that
//! a row can be repeated by hand and rows use all cores. `table` and `page` show the results beside
//! the published figures.

mod args;
mod dally;
mod data;
mod distance;
mod forecast;
mod goodput;
mod heterps;
mod kept;
mod kinds;
mod machines;
mod page;
mod parcae;
mod published;
mod row;
mod run;
mod stash;
mod table;

pub(crate) use args::{ReproduceCommand, run};
