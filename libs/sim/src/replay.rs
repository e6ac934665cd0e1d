//! A whole replay: the replay itself, and the reference replays of its figures.

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering};

use lacuna_forecast::Fits;
use lacuna_model::{Distance, KindName, Policy, Span, Stall, TrainerSpec};
use lacuna_trainer::measure;

use crate::efficiency::Baseline;
use crate::summary::{HarvestOfKind, Summary};
use crate::world::{
    Decisions, Kinds, Launcher, Observer, OfKind, Offer, Tally, World, of_one_kind,
};
use crate::{
    History, Hooks, Lookahead, Loss, Milestone, PoolTrace, Practice, PracticeFigures, Progress,
    Settings, SimError, SolveTimes, limits,
};

/// Number of fitted models by which the scout is ahead.
const AHEAD: usize = 4;

/// The results of a replay.
#[derive(Debug, Clone, PartialEq)]
pub struct Replayed {
    /// The figures.
    pub summary: Summary,
    /// The history, if it was asked for.
    pub history: Option<History>,
    /// Wall-clock seconds of decisions: all up to 4,096, else every second, every fourth, ...
    pub solve_seconds: Vec<f64>,
    /// Distribution of the wall-clock times of decisions.
    pub solve_times: SolveTimes,
}

/// Replays a trace. A history is kept if `history` is given.
///
/// # Errors
/// [`SimError`].
pub fn replay(
    trace: &dyn PoolTrace,
    trainers: &[TrainerSpec],
    settings: &Settings,
    history: Option<History>,
    hooks: &mut Hooks<'_>,
) -> Result<Replayed, SimError> {
    limits::check(trace, trainers, settings)?;
    let plain = of_one_kind(trace, trainers);
    let trainers = plain.as_ref();
    let kinds = Kinds::on(trace, trainers, settings)?;
    let save = hooks.save.as_deref_mut();
    let mut decisions = Decisions::new(settings, hooks.stopwatch).showing(save);
    let is_over = AtomicBool::new(false);
    let (tally, milestones, order, anomalies, apart, mut history) =
        std::thread::scope(|scope| -> Result<_, SimError> {
            let mut live = |fits| {
                let remembers = history.is_some();
                let mut world = World::new(trace, trainers, &kinds, settings, remembers, fits)?;
                world.run(&mut decisions, &mut watch("replay", trace, hooks.progress))?;
                let (order, anomalies) = (world.order(), world.anomalies());
                let apart = world.apart();
                let milestones = std::mem::take(&mut world.milestones);
                let history = world.take_history();
                Ok((world.tally, milestones, order, anomalies, apart, history))
            };
            let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
            let counts = !settings.policy.forecasts() || kinds.nodes().is_some();
            if cores < 2 || counts || settings.lookahead == Lookahead::All {
                return live(Fits::Inside);
            }
            let (tell, hear) = Fits::scouted(AHEAD);
            // An error that ends the scout also ends the observer that follows it.
            scope.spawn(|| Observer::new(trace, settings, tell)?.go_ahead(&is_over));
            let lived = live(hear);
            is_over.store(true, Ordering::Relaxed);
            lived
        })?;
    let times = std::mem::take(&mut decisions.times);
    let shortcuts = std::mem::take(&mut decisions.shortcuts);
    let (unproven, clock_stops) = (decisions.unproven, decisions.clock_stops);
    let rules = std::mem::take(&mut decisions.rules).finish(tally.now_s);
    let verified = decisions.verified();
    drop(decisions);

    let unfinished = !settings.endless && tally.trainers_done < trainers.len() as u64;
    let (seconds, offer) = whole(&tally, trainers, settings);
    let equivalent_nodes = measure::equivalent_nodes(offer.node_s, seconds);
    let shares = tally.of_kinds.iter();
    let shares = shares.map(|of| measure::share(of.node_s, tally.offer.node_s));
    let baseline = Baseline::new(trainers, settings, &kinds).with_shares(shares);
    let dedicated = baseline.samples(trace.start(), seconds, equivalent_nodes)?;
    if let Some(history) = &mut history {
        for day in &mut history.days {
            let start = trace.start() + Span::from_secs_f64(day.from_s);
            let length = day.until_s - day.from_s;
            let nodes = measure::equivalent_nodes(day.offered, length);
            day.dedicated = baseline.samples(start, length, nodes)?;
        }
    }
    // Simulated trainers repeat no samples.
    let redone = Stall::default();
    let rescale = measure::samples_lost(tally.rescale_cost, &redone);
    let preempt = measure::samples_lost(tally.preempt_cost, &redone);
    let spare = (equivalent_nodes - baseline.usable_nodes()).max(0.0) * seconds;
    let free = settings.endless;
    let free = free.then(|| zero_cost(trace, trainers, settings, hooks));
    let free = free.transpose()?;
    let policy = (tally.samples, seconds / 3600.0);
    let beside = beside(
        trace,
        trainers,
        (settings, &kinds),
        policy,
        free.as_ref(),
        hooks,
    )?;
    let summary = Summary {
        efficiency: measure::efficiency(tally.samples, dedicated),
        hours: seconds / 3600.0,
        equivalent_nodes,
        harvested_node_hours: tally.used / 3600.0,
        idle_share_used: measure::share(tally.used, offer.node_s),
        samples: tally.samples,
        zero_cost_fraction: free
            .as_ref()
            .map(|free| measure::share(tally.samples, free.samples)),
        milestones: Milestone::list(
            &settings.milestones,
            &milestones,
            free.as_ref().map(|free| free.milestones.as_slice()),
        ),
        beside,
        rescale_cost_fraction: measure::share(rescale, tally.samples),
        pilot_wait_fraction: settings
            .pilot_start
            .map(|_| measure::share(tally.pilot_wait, tally.samples)),
        preempt_cost_fraction: measure::share(preempt, tally.samples),
        loss: Loss::new(dedicated, tally.samples, (rescale, preempt), offer, spare),
        preemptions: tally.preemptions,
        rescales: tally.rescales,
        rescales_at_hits: tally.rescales_at_hits,
        events: tally.events,
        trainers_done: tally.trainers_done,
        mean_completion_hours: (!settings.endless && tally.trainers_done > 0)
            .then(|| tally.completion_s / 3600.0 / tally.trainers_done as f64),
        unfinished,
        nodes: trace.nodes(),
        history_holes: trace.history(),
        start: trace.start(),
        end: trace.end(),
        solve_seconds: times.seconds(),
        shortcuts,
        unproven,
        clock_stops,
        verified,
        rules,
        wall_seconds: 0.0,
        peak_rss_bytes: 0,
        order,
        anomalies,
        apart,
        kinds: kinds.nodes().map(|names| {
            let by_kind = names.iter().zip(&tally.of_kinds);
            let of = |(kind, of): (&KindName, &OfKind)| HarvestOfKind {
                kind: kind.to_string(),
                offered_node_hours: of.node_s / 3600.0,
                harvested_node_hours: of.used / 3600.0,
                left_nodes: of.left,
                taken_nodes: of.taken,
            };
            by_kind.map(of).collect()
        }),
        settings: settings.clone(),
    };
    Ok(Replayed {
        summary,
        history,
        solve_seconds: times.sample().to_vec(),
        solve_times: times,
    })
}

/// Seconds that count, and what the pool offered in them: until the last trainer is done or, if the
/// list has no end or the trace ends first, in all.
fn whole(tally: &Tally, trainers: &[TrainerSpec], settings: &Settings) -> (f64, Offer) {
    if settings.endless || tally.trainers_done < trainers.len() as u64 {
        (tally.now_s, tally.offer)
    } else {
        (tally.last_end_s, tally.offer_at_last_end)
    }
}

/// What a replay of a practice has done: totals, hours, samples at milestones.
type Lived = (Tally, f64, Vec<f64>);

/// Replays the practices beside the policy. `policy` has the samples and hours of the policy.
fn beside(
    trace: &dyn PoolTrace,
    trainers: &[TrainerSpec],
    (settings, kinds): (&Settings, &Kinds),
    policy: (f64, f64),
    free: Option<&Free>,
    hooks: &mut Hooks<'_>,
) -> Result<Vec<PracticeFigures>, SimError> {
    let mut replay = |practice: Practice, launcher| -> Result<Lived, SimError> {
        // No practice forecasts, and none is verified.
        let plain = Settings {
            policy: practice.rule().unwrap_or(Policy::Dp),
            verify: false,
            ..settings.clone()
        };
        let world = World::new(trace, trainers, kinds, &plain, false, Fits::Inside)?;
        let mut world = world.with_launcher(launcher);
        let mut watch = watch(practice.name(), trace, hooks.progress);
        world.run(&mut Decisions::new(&plain, &|| 0.0), &mut watch)?;
        let (seconds, offer) = whole(&world.tally, trainers, settings);
        let tally = Tally {
            offer,
            ..world.tally
        };
        Ok((tally, seconds / 3600.0, world.milestones))
    };
    let mut figures = Vec::new();
    for &practice in &settings.beside.practices {
        let (nodes, (tally, hours, milestones)) = match practice {
            Practice::Dp | Practice::EqualShare => (None, replay(practice, None)?),
            Practice::TorchrunElastic => (None, replay(practice, Some(Launcher::Elastic))?),
            Practice::Requeue => {
                let mut sizes = Vec::new();
                for nodes in fixed_sizes(trace, trainers) {
                    let launcher = Some(Launcher::Requeue { nodes });
                    sizes.push((nodes, replay(practice, launcher)?));
                }
                let Some((nodes, best)) = best_size(sizes) else {
                    continue;
                };
                (Some(nodes), best)
            }
        };
        let at_free = free.map(|free| free.milestones.as_slice());
        let milestones = Milestone::list(&settings.milestones, &milestones, at_free);
        let free = free.map(|free| free.samples);
        let of = ((practice, nodes), (&tally, hours));
        figures.push(PracticeFigures::new(of.0, of.1, milestones, policy, free));
    }
    Ok(figures)
}

/// Sizes of jobs that are tried: powers of two up to the largest that a trainer can use and that was
/// idle at a time.
fn fixed_sizes(trace: &dyn PoolTrace, trainers: &[TrainerSpec]) -> Vec<u32> {
    let least = trainers.iter().map(|spec| spec.min_nodes).min();
    let most = trainers.iter().map(|spec| spec.max_nodes).max();
    let most = most.unwrap_or(1).min(trace.nodes()).max(1);
    let doubled = std::iter::successors(Some(1_u32), |size| size.checked_mul(2));
    let mut sizes: Vec<u32> = doubled.take_while(|size| *size < most).collect();
    sizes.push(most);
    // Below all minima sizes are the same.
    let small = sizes.partition_point(|size| Some(*size) <= least);
    sizes.drain(..small.saturating_sub(1));
    sizes
}

/// The best size of the whole time with what it has done. Its samples at a milestone are those of the
/// best size until then.
fn best_size(sizes: Vec<(u32, Lived)>) -> Option<(u32, Lived)> {
    let better = |best: (u32, Lived), found: (u32, Lived)| {
        let (mut best, other) = match is_better(&found.1, &best.1) {
            true => (found, best),
            false => (best, found),
        };
        for (samples, other) in best.1.2.iter_mut().zip(other.1.2) {
            *samples = samples.max(other);
        }
        best
    };
    sizes.into_iter().reduce(better)
}

/// Whether a replay has done more, or as much in less time.
fn is_better(one: &Lived, other: &Lived) -> bool {
    let (ours, theirs) = (one.0.samples, other.0.samples);
    let equal = (ours - theirs).abs() <= 1e-9 * theirs;
    (equal && one.1 < other.1) || (!equal && ours > theirs)
}

/// Samples of the zero-cost bound.
struct Free {
    /// Until the end.
    samples: f64,
    /// Until each milestone.
    milestones: Vec<f64>,
}

/// Samples in the same time without costs of rescaling and preemption, re-optimised at each
/// event: an upper bound for policies that decide event by event.
fn zero_cost(
    trace: &dyn PoolTrace,
    trainers: &[TrainerSpec],
    settings: &Settings,
    hooks: &mut Hooks<'_>,
) -> Result<Free, SimError> {
    let free = Settings {
        policy: Policy::Dp,
        cost_scale: 0.0,
        verify: false,
        ..settings.clone()
    };
    // Without distance, so that it stays a bound.
    let near = |spec: &TrainerSpec| TrainerSpec {
        distance: Distance::Free,
        ..spec.clone()
    };
    let trainers: &[TrainerSpec] = &trainers.iter().map(near).collect::<Vec<_>>();
    let kinds = Kinds::on(trace, trainers, &free)?;
    let mut world = World::new(trace, trainers, &kinds, &free, false, Fits::Inside)?;
    let mut watch = watch("zero-cost bound", trace, hooks.progress);
    world.run(&mut Decisions::new(&free, &|| 0.0), &mut watch)?;
    Ok(Free {
        samples: world.tally.samples,
        milestones: world.milestones,
    })
}

/// Reports progress at every 64th event.
fn watch<'a>(
    stage: &'static str,
    trace: &dyn PoolTrace,
    progress: &'a mut dyn FnMut(Progress),
) -> impl FnMut(&Tally) + 'a {
    let total_s = trace.length_s();
    move |tally| {
        if tally.events.is_multiple_of(64) {
            progress(Progress {
                stage,
                done_s: tally.now_s,
                total_s,
                events: tally.events,
                trainers_done: tally.trainers_done,
            });
        }
    }
}
