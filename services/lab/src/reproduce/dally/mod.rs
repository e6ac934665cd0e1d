//! `lacuna-lab reproduce dally`: policies of gangs on their traces, beside published figures.
//!
//! `case` is a trace on a cluster, `study` runs policies on cases with several orders of machines,
//! `reference` has what is known of them. `table`, `verdicts`, `json` and `page` show the
//! results.

mod args;
mod case;
mod figures;
mod json;
mod page;
mod reference;
mod results;
mod study;
mod table;
mod verdicts;

pub(crate) use args::{DallyArgs, run};
