//! Adapters of live schedulers (Slurm, PBS, LSF): each polls or follows one.
//!
//! An adapter makes no events but observations: what nodes are at a moment. `reconcile` compares a
//! observation with the ledger, and the difference becomes events. So a hook's newer word holds, and a
//! repeated or failed answer changes nothing. The answers are read in `lacuna_scheduler`, the one
//! reader of each scheduler's answers.

pub(crate) mod command;
mod follow;
mod lsf;
mod metrics;
pub mod pacer;
mod pbs;
mod slurm;
mod source;

use lacuna_model::{NodeId, Span, Timestamp};
use lacuna_runtime::{Context, Misconfigured, OnError, ServiceError};
use lacuna_scheduler::settings::Polling;
use lacuna_scheduler::{LsfState, NodeStatus, PlannedJob, RunningJobs};
use lacuna_timeline::UnknownNodes;
use tokio::sync::{mpsc, oneshot};

pub use metrics::{FollowMetrics, SchedulerMetrics};

use source::Source;

/// What an adapter has seen.
#[derive(Debug)]
pub struct Observation {
    /// The moment that it speaks of. What is known to have happened later holds.
    pub at: Timestamp,
    /// What nodes are; of nodes that are not listed nothing is said.
    pub nodes: Vec<(NodeId, NodeStatus)>,
    /// Promises that are new, changed or withdrawn.
    pub planned: Vec<PlannedJob>,
    /// Told when all that came of it is kept.
    pub done: oneshot::Sender<Receipt>,
}

/// What has become of a observation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
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
pub(crate) fn start(
    ctx: &Context,
    nodes: &UnknownNodes,
) -> Result<Option<mpsc::Receiver<Observation>>, ServiceError> {
    let settings = &ctx.config.ingest;
    let (to, observations) = mpsc::channel(WAITING);
    // A program that nobody can kill, or a file system that hangs, shows by silence.
    let make = |name: &'static str, commands: &[&str], silence| -> Result<_, ServiceError> {
        let metrics = SchedulerMetrics::new(&ctx.registry, commands)?;
        let health = ctx.health.check(name, Some(silence));
        let to = to.clone();
        Ok(move || Source::new(name, to.clone(), metrics.clone(), health.clone()))
    };
    if let Some(slurm) = settings.slurm.clone() {
        let zone = zone(slurm.time_zone.as_deref())?;
        let source = make("slurm", &["sinfo", "squeue"], silence(&slurm.polling))?;
        ctx.tasks.spawn("slurm", OnError::Restart, move |stop| {
            slurm::Poller::new(slurm.clone(), zone.clone(), source()).run(stop)
        });
    } else if let Some(pbs) = settings.pbs.clone() {
        let zone = zone(pbs.time_zone.as_deref())?;
        // Read once more by the adapter: what cannot be read ends the service here.
        follow::load::<RunningJobs>(pbs.following.state_file.as_deref())?;
        let source = make("pbs", &["pbsnodes"], silence(&pbs.polling))?;
        let follow = FollowMetrics::new(&ctx.registry)?;
        ctx.tasks.spawn("pbs", OnError::Restart, move |stop| {
            let made = pbs::Adapter::new(pbs.clone(), zone.clone(), source(), follow.clone());
            async move { made?.run(stop).await }
        });
    } else if let Some(lsf) = settings.lsf.clone() {
        let listed = match nodes {
            UnknownNodes::Refuse(listed) => listed.clone(),
            UnknownNodes::Accept => {
                let text = "configuration: ingest.nodes_file is absent: lsb.events lists no nodes";
                return Err(Misconfigured(text.to_owned()).into());
            }
        };
        follow::load::<LsfState>(lsf.following.state_file.as_deref())?;
        let source = make("lsf", &[], lsf.following.every.max(LSF_SILENCE))?;
        let follow = FollowMetrics::new(&ctx.registry)?;
        ctx.tasks.spawn("lsf", OnError::Restart, move |stop| {
            let made = lsf::Adapter::new(lsf.clone(), listed.clone(), source(), follow.clone());
            async move { made?.run(stop).await }
        });
    } else {
        return Ok(None);
    }
    Ok(Some(observations))
}

/// After so long without a look at its file the adapter of LSF is taken to hang.
const LSF_SILENCE: Span = Span::from_secs(60);

/// After so long without a word the adapter is taken to hang: it waits for `longest_wait` at
/// most, with jitter, and each request has its limit.
fn silence(polling: &Polling) -> Span {
    let longest = polling.longest_wait.as_ms().saturating_mul(2);
    Span::from_ms(longest.saturating_add(polling.limit.as_ms().saturating_mul(4)))
}

/// The zone of local times in answers.
fn zone(name: Option<&str>) -> Result<jiff::tz::TimeZone, Misconfigured> {
    match name {
        None => Ok(jiff::tz::TimeZone::system()),
        Some(name) => jiff::tz::TimeZone::get(name)
            .map_err(|error| Misconfigured(format!("configuration: time_zone {name:?}: {error}"))),
    }
}
