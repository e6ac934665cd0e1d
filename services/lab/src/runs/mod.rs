//! Rows of a study that are processes of `lacuna`: run several at a time, each with its seeds, and
//! found again if their outputs were kept.

mod data;
mod kept;
mod row;
mod run;
mod table;

pub(crate) use data::{GOODPUT, KIND_RATES};
pub use data::{Recording, SUMMIT};
pub use kept::Kept;
pub use row::{Done, Outcome, Row};
pub use run::{Runner, default_jobs, program, seeds, seeds_note};
pub use table::commands;
