//! The shell of every service: arguments, configuration, telemetry, bus, clock, supervision,
//! shutdown and exit codes. Cores do not depend on this crate.
//!
//! A service is a `main.rs` of a few lines:
//!
//! ```no_run
//! use lacuna_runtime::{Context, NoArgs, Running, ServiceError, Start, service_main};
//! use lacuna_wire::address;
//!
//! lacuna_runtime::metrics! {
//!     struct Metrics {
//!         pools: prometheus::IntCounter = "lacuna_watcher_pools_total", "pools seen";
//!     }
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     service_main("watcher", |ctx, args| Box::pin(run(ctx, args)) as Running)
//! }
//!
//! async fn run(ctx: Context, _args: NoArgs) -> Result<(), ServiceError> {
//!     let metrics = Metrics::new(&ctx.registry)?;
//!     // Health: `/healthz` answers 503 if this check is not renewed within 30 s.
//!     let alive = ctx.health.check("loop", Some(lacuna_model::Span::from_secs(30)));
//!     // State: the last value first, then every newer one; survives restarts of NATS.
//!     let mut pools = ctx.bus.follow(&address::pool(&ctx.cluster), Start::Last).await?;
//!     let mut timer = tokio::time::interval(std::time::Duration::from_secs(5));
//!     loop {
//!         tokio::select! {
//!             () = ctx.shutdown.cancelled() => return Ok(()),
//!             pool = pools.next() => {
//!                 let pool = pool?; // the end of a subscription is an error
//!                 metrics.pools.inc();
//!                 tracing::info!(seq = pool.message.pool.seq,
//!                     correlation = %pool.envelope.correlation, "pool");
//!             }
//!             _ = timer.tick() => {} // every loop also runs on a timer
//!         }
//!         alive.ok();
//!     }
//! }
//! ```
//!
//! | Task | Use |
//! |---|---|
//! | publish without a stream or acknowledgement | [`Bus::publish`] |
//! | publish into a stream, acknowledged | [`Bus::store`]; many at a time: [`Bus::store_later`] |
//! | receive a subject that no stream keeps | [`Bus::subscribe`] |
//! | receive a subject that a stream keeps | [`Bus::follow`], [`Bus::follow_direct`] |
//! | newest value now | [`Bus::last`] |
//! | request and answer | [`Bus::request`], [`Bus::respond`] |
//! | take what users ask of the instance that leads | [`Bus::requests`] |
//! | compare-and-set, list, watch | [`Bus::bucket`] |
//! | each message until it is processed | [`Bus::queue`] |
//! | notice an outage | [`Bus::link`] |
//! | run a program, and end it with its children | [`command::run`], [`command::ProcessGroup`] |
//!
//! All receivers decode, turn undecodable messages into dead letters, and continue. They are safe
//! to drop in `select!`, and survive `kill -9` and restart of nats-server. After a reconnection
//! [`Start::Last`] delivers the newest values again, so receivers must accept repetitions.

pub mod args;
pub mod bus;
pub mod clock;
pub mod command;
pub mod config;
pub mod http;
pub mod identity;
pub mod leader;
mod memory;
pub mod metrics;
pub mod nats_conf;
pub mod nats_server;
pub mod process;
pub mod secret;
pub mod service;
pub mod supervise;
pub mod task;
pub mod telemetry;
mod unkept;
pub mod virtual_time;
mod watchdog;

pub use args::{CommonArgs, NoArgs};
pub use bus::{
    Bucket, Bus, BusError, Delays, Delivery, Entry, Follow, Link, Nats, Newest, PendingAck, Queue,
    Received, SimulatedServer, Start, Subscription, TextRequest, Trap, Weather,
};
pub use clock::{ClusterClock, Stopwatch};
pub use config::{Config, ConfigError, NoSections};
pub use http::{Health, HealthCheck};
pub use identity::{Identity, IdentityError};
pub use secret::Secret;
pub use service::{Context, Misconfigured, Running, Superseded, exit, service_main, simulate};
pub use supervise::{OnError, ServiceError, Tasks};
pub use unkept::Requests;
