//! `lacuna-lab reproduce`: every published figure again, on the recording that it was made from; and
//! what Lacuna adds to it.
//!
//! `published` is the table of what was published; each of its rows is one run of `lacuna`
//! itself, so that a row can be repeated by hand and rows use all cores. `table` and `page`
//! show what came of them beside what was published.

mod args;
mod data;
mod forecast;
mod page;
mod published;
mod row;
mod run;
mod table;

pub(crate) use args::{ReproduceCommand, run};
