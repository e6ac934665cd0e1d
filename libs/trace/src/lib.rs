//! Traces from files: scheduler logs, hole lists, host lists, and files that still grow.
//!
//! [`Log`] opens the log of any scheduler and streams [`JobRecord`]s or holes. [`tail`] follows a
//! file while a scheduler writes it. Readers stream plain or compressed input. An error names the
//! line, the column and the expected value. Live schedulers are the subject of `lacuna-scheduler`.

mod error;
mod event_batches;
mod format;
mod formats;
mod holes;
mod job;
mod kinds;
mod lines;
mod log;
mod nodes;
mod planned;
mod reading;
mod rows;
mod source;
pub mod tail;
pub mod topology;
mod write;

pub use error::ReadError;
pub use event_batches::{EventBatch, Window, event_batches};
pub use format::Format;
pub use holes::{HEADER, HoleList, HoleReader, Refused, read_holes};
pub use job::JobRecord;
pub use kinds::{KINDS_HEADER, read_kinds};
pub use lacuna_records::{FieldError, JobOutcome};
pub use log::{HoleLog, JobLog, Log};
pub use nodes::{first_nodes, read_nodes};
pub use planned::{PLANNED_HEADER, PlannedList, read_planned};
pub use reading::{Damage, DamagedLine, LogHeader, Reading};
pub use source::{Source, open};
pub use write::{Compression, HoleWriter, PlannedWriter};
