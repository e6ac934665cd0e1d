//! The operator's page: what the services say, in a browser, live and read-only.
//!
//! `view` keeps the newest of what is heard and makes the picture of now, `history` who had which
//! node; both are plain data. `shell` listens on the bus, `web` answers browsers. Nothing here can
//! change anything: the service publishes no message.

mod change;
mod controls;
mod history;
mod metrics;
mod picture;
mod shell;
mod token;
mod view;
mod web;

pub use metrics::Metrics;
pub use shell::{GatewayArgs, run, run_at};
