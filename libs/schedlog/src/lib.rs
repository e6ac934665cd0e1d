//! Recordings and scheduler logs as records.
//!
//! Readers take plain or gzip-compressed input, stream it, and name the line, the column and
//! what was expected there when something does not fit. Nothing here knows what a record is
//! used for.

mod error;
mod holes;
mod moments;
mod nodes;
mod source;
mod trainers;
mod write;

pub use error::{FieldError, ReadError};
pub use holes::{HEADER, HoleList, HoleReader, Refused, read_holes};
pub use moments::{Moment, Window, moments};
pub use nodes::{first_nodes, read_nodes};
pub use source::{Source, open};
pub use trainers::{TrainerReader, read_trainers};
pub use write::{Compression, HoleWriter};
