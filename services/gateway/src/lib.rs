//! The operator's page: the states of the services in a browser, live and read-only. The gateway
//! publishes no state, so it cannot change anything.
//!
//! - `view` keeps the newest of each state that the services publish.
//! - `history` keeps the trainer of each node over time: codes of trainers, changes only, cut at
//!   `gateway.history` or at half a million changes.
//! - `answers` says whether anybody is harmed, whether anything is broken, and what is gained.
//! - `watched` keeps what nats-server's monitor (`bus_state`) and Prometheus (`alerts`) say.
//! - `recent` puts the events of one rack and moment on one line.
//! - `learnt` keeps what trainers report of their steps and batches over time.
//! - `snapshot` makes the data of the page, at most twice a second, once for all browsers.
//! - `web` sends it as server-sent events. A new browser gets the states of all nodes, and a
//!   browser with the snapshot before gets the changes (`change`).
//!
//! The page's files are part of the program. The page extends the history from the changes itself,
//! and draws many nodes per line as means.

mod alerts;
mod answers;
mod bus_state;
mod change;
mod controls;
mod history;
mod learnt;
mod metrics;
mod recent;
mod sections;
mod shell;
mod snapshot;
mod thinned;
mod token;
mod view;
mod watched;
mod web;

pub use metrics::Metrics;
pub use sections::{Config, Context, Sections};
pub use shell::{GatewayArgs, run, run_at};
