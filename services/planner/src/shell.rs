//! The shell: states in, plans out.

use std::time::Duration;

use lacuna_model::{Generation, PlannerSettings, Span};
use lacuna_planner::Planner;
use lacuna_runtime::clock::wall;
use lacuna_runtime::leader::LOOP;
use lacuna_runtime::{BusError, Context, Misconfigured, NoArgs, Running, ServiceError, Start};
use lacuna_wire::address;
use lacuna_wire::msg::PlanState;

use crate::desk::{Desk, Mode};
use crate::metrics::Metrics;
use crate::save::save;
use crate::solver::{Solved, Solver};

/// The loop also runs when nothing comes.
const TICK: Duration = Duration::from_secs(2);

/// Runs until shutdown.
///
/// # Errors
/// If the bus is closed for good, or a solve panics.
pub fn run(ctx: Context, _: NoArgs) -> Running {
    Box::pin(serve(ctx))
}

async fn serve(ctx: Context) -> Result<(), ServiceError> {
    let settings = ctx.config.planner.clone();
    let planner = planner(&settings)?;
    let metrics = Metrics::new(&ctx.registry)?;
    let alive = ctx.health.check(LOOP, Some(Span::from_secs(30)));
    let solving = ctx.health.check("solver", None);
    solving.ok();
    let (mut newest, last) = newest_plan(&ctx).await?;
    // A bus that has lost all must not bring old numbers back.
    let wall = Generation(u64::try_from(wall().unix_ms()).unwrap_or_default());
    let generation = last.map_or(wall, |last| last.max(wall));
    tracing::info!(generation = generation.0, policy = ?settings.policy, "planning");
    let mut desk = Desk::new(generation, settings.stale_after);
    let mut solver = Solver::new(planner);
    let mut pools = ctx
        .bus
        .follow(&address::pool(&ctx.cluster), Start::Last)
        .await?;
    let mut trainers = ctx
        .bus
        .follow(&address::trainers(&ctx.cluster), Start::Last)
        .await?;
    let mut ticks = ctx
        .bus
        .follow(&address::clock(&ctx.cluster), Start::Last)
        .await?;
    let mut link = ctx.bus.link();
    let mut connection = link.seen().generation;
    let mut timer = tokio::time::interval(TICK);
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        alive.ok();
        let wait = wait(&desk, &solver, settings.debounce);
        // The rarest first, so that none has to wait for good.
        tokio::select! {
            biased;
            () = ctx.shutdown.cancelled() => return Ok(()),
            () = link.changed() => {
                let now = link.seen();
                if now.up && std::mem::replace(&mut connection, now.generation) != now.generation {
                    desk.lost();
                }
            }
            tick = ticks.next() => {
                ctx.clock.update(&tick?.message);
                desk.set_mode(if ctx.clock.lock_step() { Mode::LockStep } else { Mode::Free });
            }
            _ = timer.tick() => {}
            solved = solver.next(), if solver.busy() => {
                let solved = solved?;
                let sound = solved.violations.is_empty();
                finish(&ctx, &settings, &mut desk, &metrics, &mut newest, solved).await;
                if sound {
                    solving.ok();
                } else {
                    solving.fail("the newest plan failed its check and was not published");
                }
            }
            state = trainers.next() => {
                let mut state = state?;
                while let Some(newer) = trainers.try_next() {
                    state = newer;
                }
                desk.take_trainers(state.message, &state.envelope.correlation, state.arrived);
            }
            pool = pools.next() => {
                let mut pool = pool?;
                // Only the newest counts.
                while let Some(newer) = pools.try_next() {
                    pool = newer;
                }
                desk.take_pool(pool.message, &pool.envelope.correlation, pool.arrived);
            }
            () = async { tokio::time::sleep(wait.unwrap_or_default()).await }, if wait.is_some() => {
                if let Some(task) = desk.next_task() {
                    solver.give(task)?;
                }
            }
        }
    }
}

/// How long until the next task is given to the solver; nothing if none is due.
fn wait(desk: &Desk, solver: &Solver, debounce: Span) -> Option<Duration> {
    let since = desk.waiting().filter(|_| !solver.busy())?;
    match desk.mode() {
        // Time stands still; whoever waits gains nothing.
        Mode::LockStep => Some(Duration::ZERO),
        Mode::Free => {
            let passed = Duration::from_secs_f64(since.seconds());
            Some(debounce.to_std().saturating_sub(passed))
        }
    }
}

async fn finish(
    ctx: &Context,
    settings: &PlannerSettings,
    desk: &mut Desk,
    metrics: &Metrics,
    newest: &mut u64,
    solved: Solved,
) {
    metrics.solved(&solved.plan, solved.seconds);
    for error in &solved.refused {
        tracing::warn!(%error, "the objective does not fit, what the trainer asks for is taken");
    }
    if !solved.violations.is_empty() {
        metrics.plans.with_label_values(&["rejected"]).inc();
        for violation in &solved.violations {
            let label = format!("I{}", violation.number());
            metrics.rejected.with_label_values(&[&label]).inc();
            tracing::error!(%violation, generation = solved.plan.generation.0,
                correlation = %solved.task.correlation, "plan not published");
        }
        if let Some(dir) = &settings.rejected_dir
            && let Err(error) = save(dir, &solved)
        {
            tracing::warn!(%error, dir = %dir.display(), "rejected plan not saved");
        }
        return;
    }
    let version = solved.task.trainers.version;
    if !desk.worth_publishing(&solved.plan, version) {
        metrics.plans.with_label_values(&["unchanged"]).inc();
        metrics.stands(&solved.plan);
        return;
    }
    let watch = solved.task.newest;
    let message = PlanState {
        plan: solved.plan,
        trainers_version: version,
        runs: solved
            .task
            .trainers
            .trainers
            .iter()
            .map(|t| (t.spec.id.clone(), t.run))
            .collect(),
        latency_s: watch.seconds(),
    };
    let correlation = &solved.task.correlation;
    // After the newest plan that is known and after no other: what a former planner has sent and
    // the network has kept back must not land on top of a newer one.
    let subject = address::plan(&ctx.cluster);
    let stored = ctx
        .bus
        .store_after(&subject, &message, correlation, *newest)
        .await;
    match stored {
        Ok(sequence) => {
            *newest = sequence;
            metrics.plans.with_label_values(&["published"]).inc();
            metrics.latency.observe(watch.seconds());
            metrics.stands(&message.plan);
            desk.published(&message.plan, version);
            tracing::info!(
                generation = message.plan.generation.0,
                seq = message.plan.seq,
                trainers_version = version,
                solve_s = solved.seconds,
                latency_s = message.latency_s,
                correlation = %correlation,
                "plan"
            );
        }
        Err(error) => {
            if error.is_conflict() {
                take_up(ctx, desk, newest).await;
            }
            // It may have been kept; a plan of a newer generation does no harm.
            metrics.plans.with_label_values(&["unsent"]).inc();
            tracing::warn!(%error, correlation = %correlation, "plan not acknowledged, planning again");
            desk.again();
        }
    }
}

/// Takes up from the plan that the bus has: an earlier one of this planner whose acknowledgement was
/// lost, one of another planner, or none, because the server has lost it.
async fn take_up(ctx: &Context, desk: &mut Desk, newest: &mut u64) {
    match newest_plan(ctx).await {
        Ok((sequence, generation)) => {
            desk.follow_on(generation.unwrap_or_default());
            *newest = sequence;
        }
        Err(error) => tracing::warn!(%error, "the newest plan cannot be read"),
    }
}

/// The number of the plan that the bus has, 0 for none, and its generation if it is understood.
async fn newest_plan(ctx: &Context) -> Result<(u64, Option<Generation>), BusError> {
    let subject = address::plan(&ctx.cluster);
    if let Some(plan) = ctx.bus.last(&subject).await? {
        return Ok((plan.sequence, Some(plan.message.plan.generation)));
    }
    // None, or one in a version that this planner does not read, and writes over.
    Ok((ctx.bus.newest_number(&subject).await?, None))
}

/// # Errors
/// [`Misconfigured`] if the objective cannot be read.
fn planner(settings: &PlannerSettings) -> Result<Planner, Misconfigured> {
    let objective = settings.objective.parse().map_err(|error| {
        Misconfigured(format!(
            "planner.objective: {error}; named ones are fair, as-given, throughput, \
             scaling-efficiency, weighted, deadline, least-attained"
        ))
    })?;
    let planner = Planner::new(settings.into());
    Ok(planner.maximising(objective))
}

#[cfg(test)]
mod tests {
    use lacuna_model::Policy;

    use super::*;

    #[test]
    fn an_objective_that_cannot_be_read_is_a_wrong_configuration() {
        let with = |objective: &str| {
            planner(&PlannerSettings {
                objective: objective.to_owned(),
                ..PlannerSettings::default()
            })
        };
        assert_eq!(with("as-given").unwrap().settings().policy, Policy::Auto);
        assert!(with("fair").is_ok() && with("weight * sqrt(rate)").is_ok());
        let error = with("faire").unwrap_err().to_string();
        assert!(
            error.contains("planner.objective") && error.contains("least-attained"),
            "{error}"
        );
    }
}
