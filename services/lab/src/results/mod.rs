//! `lacuna-lab results`: every published table again, and the page that holds them, `RESULTS.md`.
//!
//! `tables` says which there are and how each is made, by commands of this program. `page` is the
//! file: a section for each table, which says by what, of what, where and when it was made.

mod args;
mod machine;
mod page;
mod run;
mod tables;

pub(crate) use args::{ResultsArgs, run};
