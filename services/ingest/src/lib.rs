//! Ingest: numbers what the main scheduler does. Events come from external programs, out of a
//! recording, or from an adapter that asks or follows a living scheduler; they leave with numbers without gaps, and a full snapshot every few seconds.
//!
//! - [`ledger`]: numbering, refusing, remembering; no I/O
//! - [`source`]: a recording in its three paces; no I/O
//! - [`adapters`]: ask or follow a living scheduler
//! - [`shell`]: reads and writes the bus

pub mod adapters;
mod files;
pub mod ledger;
mod metrics;
pub mod source;
mod reconcile;
mod recover;
pub mod shell;
mod takeover;
mod writer;

pub use metrics::Metrics;
pub use shell::run;
