//! `lacuna-lab results`: makes the published tables again, and their page, `RESULTS.md`.
//!
//! `tables` lists the tables with the commands of this program that make them. `page` is the file:
//! a section for each table, with command, settings, machine and date.

mod args;
mod machine;
mod page;
mod run;
mod tables;

pub(crate) use args::{ResultsArgs, run};
