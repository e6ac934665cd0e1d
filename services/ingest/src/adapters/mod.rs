//! Adapters of main schedulers: each asks or follows one, and tells the shell what it has seen.
//! The shell compares that with what the ledger knows, and publishes the difference.

pub(crate) mod command;
mod metrics;
pub mod pacer;
mod slurm;

use lacuna_model::{NodeId, Timestamp};
use lacuna_runtime::{Context, Misconfigured, OnError, ServiceError};
use lacuna_schedlog::living::{Promise, Standing};
use tokio::sync::{mpsc, oneshot};

pub use metrics::SchedulerMetrics;

/// What an adapter has seen.
#[derive(Debug)]
pub struct Sighting {
    /// The moment that it speaks of. What is known to have happened later holds.
    pub at: Timestamp,
    /// What nodes are; of nodes that are not listed nothing is said.
    pub nodes: Vec<(NodeId, Standing)>,
    /// Promises that are new, changed or withdrawn.
    pub promises: Vec<Promise>,
    /// Told when all that came of it is kept.
    pub done: oneshot::Sender<Kept>,
}

/// What has become of a sighting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Whether a stream keeps all that came of it.
    pub stored: bool,
    /// Nodes that are idle as far as is known, and of which it did not speak.
    pub unseen: Vec<NodeId>,
}

/// Sightings that have not been looked at; an adapter waits when there are more.
const WAITING: usize = 4;

/// Starts the adapter that is configured, if one is.
///
/// # Errors
/// [`Misconfigured`] if its settings cannot work.
pub(crate) fn start(ctx: &Context) -> Result<Option<mpsc::Receiver<Sighting>>, ServiceError> {
    let settings = &ctx.config.ingest;
    let (to, sightings) = mpsc::channel(WAITING);
    if let Some(slurm) = settings.slurm.clone() {
        let zone = zone(slurm.time_zone.as_deref())?;
        let metrics = SchedulerMetrics::new(&ctx.registry, &["sinfo", "squeue"])?;
        let health = ctx.health.check("slurm", None);
        ctx.tasks.spawn("slurm", OnError::Restart, move |stop| {
            let (slurm, zone, to) = (slurm.clone(), zone.clone(), to.clone());
            slurm::Poller::new(slurm, zone, metrics.clone(), health.clone()).run(to, stop)
        });
        return Ok(Some(sightings));
    }
    Ok(None)
}

/// The zone of local times in answers.
fn zone(name: Option<&str>) -> Result<jiff::tz::TimeZone, Misconfigured> {
    match name {
        None => Ok(jiff::tz::TimeZone::system()),
        Some(name) => jiff::tz::TimeZone::get(name)
            .map_err(|error| Misconfigured(format!("configuration: time_zone {name:?}: {error}"))),
    }
}
