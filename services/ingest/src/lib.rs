//! Ingest: numbers what the main scheduler does. Events come from external programs or out of
//! a recording; they leave with numbers without gaps, and a full snapshot every few seconds.
//!
//! - [`ledger`]: numbering, refusing, remembering; no I/O
//! - [`player`]: a recording in its three paces; no I/O
//! - [`shell`]: reads and writes the bus

mod files;
pub mod ledger;
mod metrics;
pub mod player;
mod recover;
pub mod shell;
mod takeover;
mod writer;

pub use metrics::Metrics;
pub use shell::run;
