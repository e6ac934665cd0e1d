//! Control: the shell around [`lacuna_trainer::controller`].
//!
//! One loop reads all messages and feeds them to the controller as inputs. The effects that the
//! controller returns are applied in their order, many writes at a time. Their outcome is the next
//! input, before any other message is read. A timer runs the same loop, so that a lost message
//! repairs itself.

mod access;
mod archive;
mod audit;
mod controls;
mod days;
mod effects;
mod executor;
mod feed;
mod handover;
mod metrics;
mod places;
mod rate;
mod replies;
mod room;
mod sections;
mod service;
mod settings;
mod start;
mod store;
mod tickets;
mod times;
mod training;

pub use audit::AuditMetrics;
pub use executor::{ObservedMetrics, PilotMetrics};
pub use metrics::Metrics;
pub use sections::{Config, Context, Sections};
pub use service::run;
