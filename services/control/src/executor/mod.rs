//! Pilots: the shell around [`lacuna_pilots::keeper`], which decides which node gets a pilot and
//! which pilot must go.
//!
//! It is separate from the controller: it learns from the bus which nodes are idle, what
//! forecasts say of them, how many nodes trainers can use and where agents speak. It submits pilots
//! (one-node jobs of the lowest priority that run `lacuna-agent --pilot`) by the main scheduler's
//! own commands. Agents are all that the controller state hears of it.
//!
//! - With a helper (`helper.rs`) each pilot is the job of a trainer's owner. The controller tells which
//!   trainer has each node (`owners.rs`), and hears which trainers may have no pilots.
//! - It submits nothing before it has heard of the controls, and none where nodes are withheld. A
//!   pilot on a withheld node is cancelled once nothing trains there.
//! - In mode `observe` plans are not followed but counted (`pilots::observe`).

mod check;
mod commands;
mod helper;
mod metrics;
mod observe;
mod owners;
mod service;
mod settings;

use std::collections::BTreeMap;

use lacuna_model::pilots::Mode;
use lacuna_model::{ControlsChange, NodeId};
use lacuna_runtime::{OnError, ServiceError};
use lacuna_scheduler::job::JobId;
use lacuna_wire::address;
use tokio::sync::{mpsc, oneshot, watch};

use crate::access::{Access, Denied};
use crate::audit::Trail;
use crate::sections::Context;
use check::Check;
use service::Service;

pub use metrics::PilotMetrics;
pub use observe::ObservedMetrics;
pub(crate) use owners::{Grants, NoPilots};

/// The executor as control starts it.
#[derive(Debug)]
pub(crate) struct Executor {
    /// Whether plans are observed only, because no agent will be started.
    pub(crate) observes: bool,
    /// Nodes whose pilot is being cancelled: no batch job waits for them.
    pub(crate) cancelled: mpsc::UnboundedReceiver<NodeId>,
    /// Controls to store, which operators set at the executor.
    pub(crate) controls_requests: mpsc::UnboundedReceiver<ControlsRequest>,
    /// The nodes and tickets of trainers, for the executor, where a helper submits pilots.
    pub(crate) grants: Option<watch::Sender<Grants>>,
    /// Trainers whose owners may have no pilots.
    pub(crate) no_pilots: mpsc::UnboundedReceiver<NoPilots>,
    /// Pilots that the scheduler no longer knows, though their agents report.
    pub(crate) forgotten: watch::Receiver<Forgotten>,
}

/// A pilot for each node.
pub(crate) type Forgotten = BTreeMap<NodeId, JobId>;

/// A change of the controls that is to outlive the executor, asked for by an operator.
#[derive(Debug)]
pub(crate) struct ControlsRequest {
    pub(crate) change: ControlsChange,
    pub(crate) by: String,
    /// The version of the controls that keep it.
    pub(crate) answer: oneshot::Sender<Result<u64, Denied>>,
}

impl Executor {
    /// The context for the controller. In mode `observe` it needs no agents, and it follows no
    /// plan.
    pub(crate) fn context(&self, ctx: Context) -> Context {
        if !self.observes {
            return ctx;
        }
        let mut config = (*ctx.config).clone();
        config.control.require_agents = false;
        Context {
            config: std::sync::Arc::new(config),
            ..ctx
        }
    }
}

/// Starts the executor, if there is one.
///
/// # Errors
/// If its configuration cannot be used.
pub(crate) async fn start(
    ctx: &Context,
    (access, trail): (Access, Trail),
) -> Result<Executor, ServiceError> {
    let (cancels, cancelled) = mpsc::unbounded_channel();
    let (requests, controls_requests) = mpsc::unbounded_channel();
    let (refusals, no_pilots) = mpsc::unbounded_channel();
    let (unknown, forgotten) = watch::channel(Forgotten::new());
    let Some(pilots) = ctx.config.control.pilots.clone() else {
        return Ok(Executor {
            observes: false,
            cancelled,
            controls_requests,
            grants: None,
            no_pilots,
            forgotten,
        });
    };
    let metrics = PilotMetrics::new(&ctx.registry)?;
    let observed = ObservedMetrics::new(&ctx.registry)?;
    let setup = settings::setup(ctx, &pilots)?;
    let check = Check::of(&pilots, setup.environment.clone());
    let mut forbidden = false;
    if pilots.mode == Mode::On
        && let Some(check) = &check
    {
        let findings = check.run().await;
        metrics.findings(&findings);
        forbidden = check.forbids(&findings);
    }
    // Without pilots plans are observed and not followed.
    let observes = pilots.mode == Mode::Observe || forbidden;
    tracing::info!(
        mode = setup.mode.name(),
        forbidden,
        scheduler = %setup.scheduler.scheduler(),
        partition = pilots.partition,
        "pilots"
    );
    // Heard before anything is asked for, so that no agent's first status is missed.
    let agents = ctx.bus.subscribe(&address::agents(&ctx.cluster)).await?;
    let mut first = Some(agents);
    let assumed = pilots.assumed;
    let grants = pilots.by_helper().then(watch::Sender::default);
    let granted = grants.as_ref().map(watch::Sender::subscribe);
    let task = ctx.clone();
    ctx.tasks.spawn("pilots", OnError::Restart, move |stop| {
        let mut service = Service::new(
            task.clone(),
            setup.clone(),
            (metrics.clone(), access.clone(), trail.clone()),
            forbidden,
        );
        service.check.clone_from(&check);
        service.cancels = Some(cancels.clone());
        service.controls_requests = Some(requests.clone());
        service.grants.clone_from(&granted);
        service.no_pilots = Some(refusals.clone());
        service.forgotten = Some(unknown.clone());
        service.observe = observes.then(|| (assumed, observed.clone()));
        service.run(first.take(), stop)
    });
    Ok(Executor {
        observes,
        cancelled,
        controls_requests,
        grants,
        no_pilots,
        forgotten,
    })
}
