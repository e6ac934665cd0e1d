//! The adapter of a live scheduler, which polls it, follows its file, or both.
//!
//! The adapter makes observations, not events: the status of nodes at a moment. `reconcile` compares
//! an observation with the ledger, and the difference becomes events. So a newer event of a hook
//! holds, and a repeated or failed answer changes nothing. `lacuna_scheduler` has the schedulers.

pub(crate) mod command;
mod follow;
mod live;
mod metrics;
pub mod pacer;
mod source;

use std::collections::BTreeSet;

use lacuna_model::{NodeId, Span, Timestamp};
use lacuna_pool::UnknownNodes;
use lacuna_runtime::{Misconfigured, OnError, ServiceError};
use lacuna_scheduler::NodeStatus;
use lacuna_scheduler::live::{Live, PlannedJob, Question};
use lacuna_scheduler::settings::Polling;
use tokio::sync::{mpsc, oneshot};

pub use metrics::{FollowMetrics, SchedulerMetrics};

use source::Source;

use crate::sections::Context;
use crate::topology::Asking;

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

/// Starts the adapter of the configured scheduler, if there is one. `asking` is what it asks the
/// scheduler for besides.
///
/// # Errors
/// [`Misconfigured`] if the settings of the adapter cannot work.
pub(crate) fn start(
    ctx: &Context,
    nodes: &UnknownNodes,
    asking: Vec<Asking>,
) -> Result<Option<mpsc::Receiver<Observation>>, ServiceError> {
    let Some(live) = ctx.config.ingest.live() else {
        return Ok(None);
    };
    let nodes = match nodes {
        UnknownNodes::Refuse(listed) => listed.clone(),
        UnknownNodes::Accept if live.needs_nodes() => {
            let text = "configuration: ingest.nodes_file is absent: the scheduler lists no nodes";
            return Err(Misconfigured(text.to_owned()).into());
        }
        UnknownNodes::Accept => BTreeSet::new(),
    };
    let zone = zone(live.time_zone())?;
    let follow = match live.follow() {
        Ok(followed) => {
            // The adapter reads the file again. One that cannot be read ends the service here.
            follow::load(followed.following.state_file.as_deref(), |_| Ok(()))?;
            Some(FollowMetrics::new(&ctx.registry)?)
        }
        Err(_) => None,
    };
    let name = live.scheduler().as_str();
    // A program that cannot be killed, or a file system that hangs, shows as silence.
    let silence = match (live.polling(), live.follow()) {
        (Ok(polling), _) => silence(polling),
        (_, Ok(followed)) => followed.following.every.max(FOLLOW_SILENCE),
        _ => FOLLOW_SILENCE,
    };
    let metrics = SchedulerMetrics::of_commands(&ctx.registry, &labels(live.as_ref(), &asking))?;
    let health = ctx.health.check(name, Some(silence));
    let (to, observations) = mpsc::channel(WAITING);
    let config = ctx.config.clone();
    ctx.tasks.spawn(name, OnError::Restart, move |stop| {
        let source = Source::new(name, to.clone(), metrics.clone(), health.clone());
        let (zone, asking, follow) = (zone.clone(), asking.clone(), follow.clone());
        let live = config.ingest.live().map(|mut live| {
            live.begin(zone, &nodes);
            live
        });
        async move {
            match live {
                Some(live) => {
                    live::Adapter::new(live, source, follow, asking)?
                        .run(stop)
                        .await
                }
                None => Ok(()),
            }
        }
    });
    Ok(Some(observations))
}

/// The commands of a scheduler as labels in metrics, each once.
fn labels(live: &dyn Live, asking: &[Asking]) -> Vec<&'static str> {
    let mut labels: Vec<&'static str> = Vec::new();
    let cycle = live.requests();
    let own = asking
        .iter()
        .filter_map(|asking| match asking.question(live) {
            Ok(Question::Own(request)) => Some(request),
            _ => None,
        });
    for request in cycle.into_iter().chain(own) {
        if !labels.contains(&request.label) {
            labels.push(request.label);
        }
    }
    labels
}

/// An adapter that only follows a file counts as hanging after this time without a look at it.
const FOLLOW_SILENCE: Span = Span::from_secs(60);

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
