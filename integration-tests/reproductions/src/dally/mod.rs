//! `dally`: policies of gangs on their traces, beside published figures.
//!
//! `case` is a trace on a cluster, `study` runs policies on cases with several orders of machines,
//! `reference` has what is published of them, and `table` shows the results.

mod args;
mod case;
mod figures;
mod reference;
mod results;
mod study;
mod table;

pub(crate) use args::{DallyArgs, run};
