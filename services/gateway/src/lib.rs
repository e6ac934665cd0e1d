//! The operator's page: what the services say, in a browser, live and read-only. The service
//! publishes no message, so it can change nothing.
//!
//! - `view` keeps the newest of each state that others publish.
//! - `history` keeps who had which node: numbers for trainers, changes only, cut at
//!   `gateway.history` or at half a million changes.
//! - `picture` makes what the page shows, at most twice a second, once for all browsers.
//! - `web` sends it as server-sent events. What nodes do goes whole to a browser that comes, and as
//!   changes (`change`) to one that has the picture before.
//!
//! The page's files are part of the program. The page follows the past from the changes by itself,
//! and draws many nodes a line as means.

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
