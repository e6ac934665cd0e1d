//! `results`: makes published tables again, and their page, such as `RESULTS.md`.
//!
//! An `entry` is a table with the commands that make it; `own` lists those of Lacuna's own figures.
//! `page` is the file: a section for each table, with command, settings, machine and date.

mod args;
mod entry;
mod machine;
mod own;
mod page;
mod run;

pub use args::{ResultsArgs, run};
pub use entry::{Entry, Listing};
pub(crate) use own::OWN;
pub use page::{FIELDS, Page};
