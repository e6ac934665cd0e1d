//! The shell: it reads states from the bus and publishes plans.

use std::time::Duration;

use lacuna_model::{Generation, JudgedPlan, PlannerSettings, Span};
use lacuna_planner::Planner;
use lacuna_runtime::clock::wall;
use lacuna_runtime::leader::LOOP;
use lacuna_runtime::{BusError, Misconfigured, NoArgs, Running, ServiceError, Start};
use lacuna_wire::address;
use lacuna_wire::msg::PlanState;

use crate::judging::Judge;
use crate::metrics::Metrics;
use crate::pending::{Mode, Pending};
use crate::save::save;
use crate::sections::Context;
use crate::solver::{Solved, Solver};

/// Period of the loop without messages.
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
    // Generations stay above old ones even after a bus has lost all plans.
    let wall = Generation(u64::try_from(wall().unix_ms()).unwrap_or_default());
    let generation = last.map_or(wall, |last| last.max(wall));
    tracing::info!(generation = generation.0, policy = ?settings.policy, "planning");
    // Before the first plan: without kinds a trainer that tells them apart gets no node.
    let places = ctx.bus.last(&address::topology(&ctx.cluster)).await?;
    let places = places.map(|kept| kept.message).unwrap_or_default();
    let mut pending = Pending::new(generation, settings.stale_after).knowing(places);
    let mut solver = Solver::new(planner, settings.judged_share);
    let mut judge = Judge::default();
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
    let mut topologies = ctx
        .bus
        .follow(&address::topology(&ctx.cluster), Start::Last)
        .await?;
    let mut link = ctx.bus.link();
    let mut connection = link.seen().generation;
    let mut timer = tokio::time::interval(TICK);
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        alive.ok();
        let wait = wait(&pending, &solver, settings.debounce);
        // The rarest branch comes first, so that no branch starves.
        tokio::select! {
            biased;
            () = ctx.shutdown.cancelled() => break,
            () = link.changed() => {
                let now = link.seen();
                if now.up && std::mem::replace(&mut connection, now.generation) != now.generation {
                    pending.lost();
                }
            }
            tick = ticks.next() => {
                ctx.clock.update(&tick?.message);
                pending.set_mode(if ctx.clock.lock_step() { Mode::LockStep } else { Mode::Free });
            }
            state = topologies.next() => pending.take_places(state?.message),
            _ = timer.tick() => {}
            () = judge.next(&metrics), if judge.busy() => {}
            solved = solver.next(), if solver.busy() => {
                let mut solved = solved?;
                let sound = solved.violations.is_empty();
                let case = solved.case.take();
                let plan = (solved.plan.generation, solved.plan.as_of);
                let judged = judge.newest();
                finish(&ctx, &settings, &mut pending, &metrics, &mut newest, (solved, judged)).await;
                if sound {
                    solving.ok();
                    if let Some(case) = case {
                        judge.give(plan, case, &metrics);
                    }
                } else {
                    solving.fail("the newest plan failed its check and was not published");
                }
            }
            state = trainers.next() => {
                let mut state = state?;
                while let Some(newer) = trainers.try_next() {
                    state = newer;
                }
                pending.take_trainers(state.message, &state.envelope.correlation, state.arrived);
            }
            pool = pools.next() => {
                let mut pool = pool?;
                // Only the newest pool counts.
                while let Some(newer) = pools.try_next() {
                    pool = newer;
                }
                pending.take_pool(pool.message, &pool.envelope.correlation, pool.arrived);
            }
            () = async { tokio::time::sleep(wait.unwrap_or_default()).await }, if wait.is_some() => {
                if let Some(task) = pending.next_task() {
                    solver.give(task)?;
                }
            }
        }
    }
    judge.end().await;
    Ok(())
}

/// Time until the solver gets the next task; nothing if none is due.
fn wait(pending: &Pending, solver: &Solver, debounce: Span) -> Option<Duration> {
    let since = pending.waiting().filter(|_| !solver.busy())?;
    match pending.mode() {
        // The cluster waits for the plan, so a delay gains nothing.
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
    pending: &mut Pending,
    metrics: &Metrics,
    newest: &mut u64,
    (solved, judged): (Solved, Option<JudgedPlan>),
) {
    metrics.solved(&solved.plan, solved.seconds);
    for error in &solved.refused {
        tracing::warn!(%error, "objective does not fit, trainer keeps its own");
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
    if !pending.worth_publishing(&solved.plan, version) {
        metrics.plans.with_label_values(&["unchanged"]).inc();
        metrics.adopted(&solved.plan);
        return;
    }
    let watch = solved.task.newest;
    let message = PlanState {
        plan: solved.plan,
        trainers_version: version,
        runs: solved.task.trainers.runs(),
        latency_s: watch.seconds(),
        judged,
    };
    let correlation = &solved.task.correlation;
    // The plan is stored only directly after the newest known one. So a delayed plan of a former
    // planner never replaces a newer one.
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
            metrics.adopted(&message.plan);
            pending.published(&message.plan, version);
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
                resume(ctx, pending, newest).await;
            }
            // The plan may be stored; a plan of a newer generation does no harm.
            metrics.plans.with_label_values(&["unsent"]).inc();
            tracing::warn!(%error, correlation = %correlation, "plan not acknowledged, planning again");
            pending.again();
        }
    }
}

/// Resumes after the plan of the bus. It is an earlier one of this planner with a lost
/// acknowledgement, one of another planner, or none, if the server has lost it.
async fn resume(ctx: &Context, pending: &mut Pending, newest: &mut u64) {
    match newest_plan(ctx).await {
        Ok((sequence, generation)) => {
            pending.follow_on(generation.unwrap_or_default());
            *newest = sequence;
        }
        Err(error) => tracing::warn!(%error, "the newest plan cannot be read"),
    }
}

/// The sequence of the plan on the bus, 0 for none, and its generation if its version is known.
async fn newest_plan(ctx: &Context) -> Result<(u64, Option<Generation>), BusError> {
    let subject = address::plan(&ctx.cluster);
    if let Some(plan) = ctx.bus.last(&subject).await? {
        return Ok((plan.sequence, Some(plan.message.plan.generation)));
    }
    // No plan, or one of an unknown version, which the next plan replaces.
    Ok((ctx.bus.newest_number(&subject).await?, None))
}

/// # Errors
/// [`Misconfigured`] if the objective cannot be read.
fn planner(settings: &PlannerSettings) -> Result<Planner, Misconfigured> {
    let objective = settings.objective.parse().map_err(|error| {
        Misconfigured(format!(
            "planner.objective: {error}; named ones are fair, as-given, throughput, \
             scaling-efficiency, goodput, weighted, deadline, least-attained"
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
    fn an_unreadable_objective_is_a_wrong_configuration() {
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
