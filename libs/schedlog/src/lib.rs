//! Recordings and scheduler logs as records.
//!
//! [`Log`] opens the log of any scheduler and streams [`JobRecord`]s or holes; [`living`] reads
//! what a scheduler answers now, and [`tail`] follows
//! files that it writes.
//! Readers take plain or compressed input, stream it, and name the line, the column and
//! what was expected there when something does not fit. Nothing here knows what a record is
//! used for.

mod error;
mod fields;
mod format;
mod formats;
mod holes;
pub mod hosts;
mod job;
mod lines;
pub mod living;
mod local;
mod log;
mod moments;
mod nodes;
mod planned;
mod reading;
mod rows;
mod source;
pub mod tail;
mod trainers;
mod write;

pub use error::{FieldError, ReadError};
pub use format::Format;
pub use holes::{HEADER, HoleList, HoleReader, Refused, read_holes};
pub use job::{JobOutcome, JobRecord};
pub use log::{HoleLog, JobLog, Log};
pub use moments::{Moment, Window, moments};
pub use nodes::{first_nodes, read_nodes};
pub use planned::{PLANNED_HEADER, PlannedList, read_planned};
pub use reading::{Damage, DamagedLine, LogHeader, Reading};
pub use source::{Source, open};
pub use trainers::{TrainerReader, read_trainers};
pub use write::{Compression, HoleWriter, PlannedWriter};
