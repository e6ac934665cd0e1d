//! Adapters of live schedulers (Slurm, PBS, LSF): each polls or follows one.
//!
//! An adapter makes observations, not events: the status of nodes at a moment. `reconcile` compares
//! an observation with the ledger, and the difference becomes events. So a newer event of a hook
//! holds, and a repeated or failed answer changes nothing. `lacuna_scheduler` reads the answers.

pub(crate) mod command;
mod follow;
mod lsf;
mod metrics;
pub mod pacer;
mod pbs;
mod slurm;
mod source;

use lacuna_model::{NodeId, Span, Timestamp};
use lacuna_pool::UnknownNodes;
use lacuna_runtime::{Misconfigured, OnError, ServiceError};
use lacuna_scheduler::settings::Polling;
use lacuna_scheduler::{LsfState, NodeStatus, PlannedJob, RunningJobs};
use tokio::sync::{mpsc, oneshot};

pub use metrics::{FollowMetrics, SchedulerMetrics};

use source::Source;

use crate::sections::Context;
use crate::topology::{Asked, Asking};

/// An observation of an adapter.
#[derive(Debug)]
pub struct Observation {
    /// Moment of the observation. Later events of a node override it.
    pub at: Timestamp,
    /// Status of nodes. The status of unlisted nodes is unchanged.
    pub nodes: Vec<(NodeId, NodeStatus)>,
    /// Planned starts that are new, changed or withdrawn.
    pub planned: Vec<PlannedJob>,
    /// Gets the receipt once the events of the observation are stored.
    pub done: oneshot::Sender<Receipt>,
}

/// Answer of the shell to an observation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// Whether a stream keeps all events of the observation.
    pub stored: bool,
    /// Idle nodes that the observation does not list.
    pub unseen: Vec<NodeId>,
}

/// Capacity of the channel of observations; an adapter waits while it is full.
const WAITING: usize = 4;

/// Starts the configured adapter, if there is one. `asking` is what it asks the scheduler for
/// besides.
///
/// # Errors
/// [`Misconfigured`] if the settings of the adapter cannot work.
pub(crate) fn start(
    ctx: &Context,
    nodes: &UnknownNodes,
    asking: Vec<Asking>,
) -> Result<Option<mpsc::Receiver<Observation>>, ServiceError> {
    let settings = &ctx.config.ingest;
    let (to, observations) = mpsc::channel(WAITING);
    // A program that cannot be killed, or a file system that hangs, shows as silence.
    let make = |name: &'static str, commands: &[&str], silence| -> Result<_, ServiceError> {
        let metrics = SchedulerMetrics::new(&ctx.registry, commands)?;
        let health = ctx.health.check(name, Some(silence));
        let to = to.clone();
        Ok(move || Source::new(name, to.clone(), metrics.clone(), health.clone()))
    };
    if let Some(slurm) = settings.slurm.clone() {
        let zone = zone(slurm.time_zone.as_deref())?;
        let is_topology = |asking: &Asking| asking.asked() == Asked::Topology;
        let commands = match asking.iter().any(is_topology) {
            true => &["sinfo", "squeue", "scontrol"][..],
            false => &["sinfo", "squeue"],
        };
        let source = make("slurm", commands, silence(&slurm.polling))?;
        ctx.tasks.spawn("slurm", OnError::Restart, move |stop| {
            let asking = asking.clone();
            slurm::Poller::new(slurm.clone(), zone.clone(), source(), asking).run(stop)
        });
    } else if let Some(pbs) = settings.pbs.clone() {
        let zone = zone(pbs.time_zone.as_deref())?;
        // The adapter reads the file again. A file that cannot be read ends the service here.
        follow::load::<RunningJobs>(pbs.following.state_file.as_deref())?;
        let source = make("pbs", &["pbsnodes"], silence(&pbs.polling))?;
        let follow = FollowMetrics::new(&ctx.registry)?;
        ctx.tasks.spawn("pbs", OnError::Restart, move |stop| {
            let (source, asking) = (source(), asking.clone());
            let made = pbs::Adapter::new(pbs.clone(), zone.clone(), source, follow.clone(), asking);
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

/// The adapter of LSF counts as hanging after this time without a look at its file.
const LSF_SILENCE: Span = Span::from_secs(60);

/// Time without an answer or a failure after which an adapter counts as hanging. It waits at most
/// `longest_wait` with jitter, and each request has a limit.
fn silence(polling: &Polling) -> Span {
    let longest = polling.longest_wait.as_ms().saturating_mul(2);
    Span::from_ms(longest.saturating_add(polling.limit.as_ms().saturating_mul(4)))
}

/// Time zone of local times in answers.
fn zone(name: Option<&str>) -> Result<jiff::tz::TimeZone, Misconfigured> {
    match name {
        None => Ok(jiff::tz::TimeZone::system()),
        Some(name) => jiff::tz::TimeZone::get(name)
            .map_err(|error| Misconfigured(format!("configuration: time_zone {name:?}: {error}"))),
    }
}
