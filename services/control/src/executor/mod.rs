//! Pilots: the shell around [`lacuna_pilots::keeper`].
//!
//! It stands apart from the books: it learns from the bus which nodes are idle, what forecasts
//! say of them, how many nodes trainers can use and where agents speak, and it talks to the main
//! scheduler by the scheduler's own commands. What it starts, agents, is all that the books ever
//! hear of it.

mod commands;
mod metrics;
mod service;
mod settings;

use lacuna_runtime::config::PilotMode;
use lacuna_runtime::{Context, OnError, ServiceError};

pub use metrics::PilotMetrics;

/// The executor as control starts it.
#[derive(Debug)]
pub(crate) struct Executor {
    /// Whether plans are only looked at, because nobody will start agents.
    pub(crate) observes: bool,
}

impl Executor {
    /// The context for the books. Who observes plans as if agents were everywhere, and follows
    /// no plan.
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
pub(crate) async fn start(ctx: &Context) -> Result<Executor, ServiceError> {
    let Some(pilots) = ctx.config.control.pilots.clone() else {
        return Ok(Executor { observes: false });
    };
    let observes = pilots.mode == PilotMode::Observe;
    let metrics = PilotMetrics::new(&ctx.registry)?;
    let setup = settings::setup(ctx, &pilots)?;
    tracing::info!(
        mode = setup.mode.name(),
        scheduler = setup.scheduler.name(),
        partition = pilots.partition,
        "pilots"
    );
    // Heard before anything is asked for, so that no agent's first word is missed.
    let agents = ctx
        .bus
        .subscribe(&lacuna_wire::address::agents(&ctx.cluster))
        .await?;
    let mut first = Some(agents);
    let task = ctx.clone();
    ctx.tasks.spawn("pilots", OnError::Restart, move |stop| {
        let service = service::Service::new(task.clone(), setup.clone(), metrics.clone());
        service.run(first.take(), stop)
    });
    Ok(Executor { observes })
}
