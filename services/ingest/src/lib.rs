//! Ingest: numbers the events of the main scheduler.
//!
//! Events come from external programs, from a trace, or from an adapter that polls or follows a
//! live scheduler. Ingest publishes them with numbers without gaps, and a full snapshot every few
//! seconds.
//!
//! - [`ledger`]: numbers, refuses and deduplicates events; no I/O
//! - [`trace_source`]: a trace in its three paces; no I/O
//! - [`adapters`]: poll or follow a live scheduler
//! - [`shell`]: reads and writes the bus

pub mod adapters;
mod files;
pub mod ledger;
mod metrics;
mod reconcile;
mod recover;
mod sections;
pub mod shell;
mod takeover;
mod topology;
pub mod trace_source;
mod writer;

pub use metrics::Metrics;
pub use sections::{Config, Context, Sections};
pub use shell::run;
