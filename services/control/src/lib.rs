//! Control: the shell around [`lacuna_trainer::controller`].
//!
//! One loop reads everything and feeds the books; what they ask for is carried out in order,
//! many writes at a time, and the outcome is fed back before anything else is read. A timer
//! runs the same loop, so that a lost message repairs itself.

mod access;
mod archive;
mod audit;
mod carry;
mod desk;
mod executor;
mod feed;
mod handover;
mod metrics;
mod rate;
mod requests;
mod room;
mod service;
mod settings;
mod start;
mod times;

pub use audit::AuditMetrics;
pub use executor::{ObservedMetrics, PilotMetrics};
pub use metrics::Metrics;
pub use service::run;
