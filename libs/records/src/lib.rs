//! Texts of batch schedulers, cut into fields: numbers, times, lists of hosts, records of their own logs.
//!
//! The readers of whole logs (`lacuna-trace`) and of live schedulers (`lacuna-scheduler`) share them, so
//! that neither stands on the other.

mod error;
pub mod fields;
pub mod hosts;
pub mod lenient;
pub mod lsf;
mod outcome;
pub mod pbs;
mod slots;
pub mod times;

pub use error::{FieldError, excerpt};
pub use outcome::JobOutcome;
