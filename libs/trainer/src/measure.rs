//! The figures of Lacuna, each defined once for all that show them: replay, control's totals and
//! metrics, `lacuna top`, the dashboard, Grafana (through control's metrics).
//!
//! Over a length of time `T` (seconds) the pool has `N(t)` nodes, of which trainer `j` holds
//! `n_j(t)`. `P_j(n)` is its scaling curve (samples/s), `s_j` its credited samples, `S` their sum.
//!
//! - **Idle node-seconds** `F = integral of N dt`; **equivalent nodes** `F / T`.
//! - **Harvested node-seconds** `H = integral of sum n_j dt`: under a lease, stalls included.
//! - **Idle share used** `H / F`.
//! - **Dedicated samples** `A`: samples of the same trainers in `T` on `F / T` nodes that are never
//!   taken away and never rescaled. For trainers that are all alike `A = T D(F / T)`, where `D(n)`
//!   is the rate of the best static split of `n` nodes among those that may run at a time
//!   ([`split_rate`]); a fraction of a node counts by interpolation.
//! - **Efficiency** `U = S / A` ([`efficiency`]). Samples of trainers that are not alike cannot be
//!   added. Replay knows their arrivals and takes `A` from a replay on dedicated nodes. The
//!   services weigh each trainer by its node-time: with `h_j` node-seconds held in `t_j` seconds,
//!   `U = sum of (h_j / F) s_j / (t_j P_j(h_j / t_j))`. That is the work of each trainer over the
//!   work of as many dedicated nodes as it held on average. With linear curves both definitions
//!   agree.
//! - **Loss**, by cause: `rescale` (the planner changes a size), `preempt` (nodes leave unasked),
//!   `restart` (a program fails or breaks and begins again on its nodes). It has two parts:
//!   - **Stall cost**, in samples, and **stalled** seconds. A simulated trainer is charged
//!     `up_s` or `down_s` seconds at the rate before the change (BFTrainer, arXiv 2106.12091),
//!     and for a start from no nodes `start_s` seconds at the rate after it.
//!     The stalled seconds of a program are measured by its first two reports after the change,
//!     and cost its rate between these. A start of a program is free.
//!   - **Samples redone**: samples that an ended incarnation reported and that its newest
//!     checkpoint does not cover, or that the state of a regrouped program has not absorbed.
//!     They are not credited, and are done again. A simulated trainer has none.
//! - **Samples lost** ([`samples_lost`]) are the stall cost and the samples redone together; the
//!   **share lost** ([`share_lost`]) is samples lost over samples done.

use std::collections::BTreeMap;

use lacuna_model::{
    Efficiency, Held, LossCause, Measured, OwnerUse, Past, PastKind, Phase, ScalingCurve, Stall,
    Stalls, Timestamp, TrainerRecord,
};
use lacuna_rates::Rates;

/// Idle node-seconds below which an efficiency is chance.
pub const LEAST_IDLE_NODE_S: f64 = 60.0;
/// A curve and counted node-time are refuted by work that exceeds them by this factor: reports
/// and clocks are not exact, and a measured rate has a spread.
const TOLERANCE: f64 = 1.2;

/// `a / b`, and 0 if `b` is not positive.
#[must_use]
pub fn share(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}

/// Samples lost over samples done; `None` where none is done, or more was lost than done, as soon after
/// the start: a share of next to nothing says nothing.
#[must_use]
pub fn share_lost(lost: f64, samples: f64) -> Option<f64> {
    (samples > 0.0 && lost <= samples).then(|| share(lost, samples))
}

/// Efficiency U: samples done over dedicated samples; 0 without dedicated samples.
#[must_use]
pub fn efficiency(samples: f64, dedicated: f64) -> f64 {
    share(samples, dedicated)
}

/// Share of the idle node-seconds that was harvested; `None` if no node was idle.
#[must_use]
pub fn idle_share_used(harvested_node_s: f64, idle_node_s: f64) -> Option<f64> {
    (idle_node_s > 0.0).then(|| share(harvested_node_s, idle_node_s))
}

/// Dedicated nodes that offer `idle_node_s` node-seconds in `seconds`.
#[must_use]
pub fn equivalent_nodes(idle_node_s: f64, seconds: f64) -> f64 {
    share(idle_node_s, seconds)
}

/// Samples lost to changes of one cause: their stall cost, and the samples redone.
#[must_use]
pub fn samples_lost(stall_cost: f64, stall: &Stall) -> f64 {
    stall_cost + stall.redone
}

/// Adds the stalls of one trainer to a sum.
pub fn add(sum: &mut Stalls, stalls: &Stalls) {
    let both = |one: Stall, other: Stall| Stall {
        seconds: one.seconds + other.seconds,
        redone: one.redone + other.redone,
    };
    *sum = Stalls {
        rescale: both(sum.rescale, stalls.rescale),
        preempt: both(sum.preempt, stalls.preempt),
        restart: both(sum.restart, stalls.restart),
    };
}

/// Counts the stall of one change: `seconds` without training, which cost `cost` samples.
pub(crate) fn stalled(record: &mut TrainerRecord, cause: LossCause, seconds: f64, cost: f64) {
    let (stall, sum) = match cause {
        LossCause::Rescale => (&mut record.stalls.rescale, &mut record.rescale_cost),
        LossCause::Preempt => (&mut record.stalls.preempt, &mut record.preempt_cost),
        LossCause::Restart => (&mut record.stalls.restart, &mut record.restart_cost),
    };
    stall.seconds += seconds;
    *sum += cost;
}

/// Counts samples that are done again; a negative number corrects an earlier one.
pub(crate) fn redone(record: &mut TrainerRecord, cause: LossCause, samples: f64) {
    let stall = match cause {
        LossCause::Rescale => &mut record.stalls.rescale,
        LossCause::Preempt => &mut record.stalls.preempt,
        LossCause::Restart => &mut record.stalls.restart,
    };
    stall.redone = (stall.redone + samples).max(0.0);
}

/// Counts the node-time of the incarnation that ends at `until`.
pub(crate) fn held(record: &mut TrainerRecord, until: Timestamp) {
    let Worked {
        seconds, node_s, ..
    } = Worked::of(record, Some(until));
    record.held = Held { seconds, node_s };
}

/// Samples/s of `max_parallel` equal trainers on `nodes` dedicated nodes, split in the best
/// way that never changes. A fraction of a node counts by interpolation between whole counts.
///
/// `rate` gives samples/s at 0, 1, 2, ... nodes; a trainer may use none or at least `min_nodes`.
#[must_use]
pub fn split_rate(rate: &[f64], min_nodes: u32, max_parallel: u32, nodes: f64) -> f64 {
    let usable = usable(rate, min_nodes);
    let nodes = nodes.max(0.0);
    let whole = |nodes: f64| {
        split(
            &usable,
            min_nodes.max(1) as usize,
            max_parallel,
            nodes as usize,
        )
    };
    let (below, part) = (nodes.floor(), nodes.fract());
    let low = whole(below);
    if part == 0.0 {
        return low;
    }
    low + (whole(below + 1.0) - low) * part
}

/// The best rate with at most 0, 1, 2, ... nodes: 0 below `min_nodes`, and never falling.
fn usable(rate: &[f64], min_nodes: u32) -> Vec<f64> {
    let mut best = 0.0_f64;
    let at_least = |n: usize| n >= min_nodes.max(1) as usize;
    rate.iter()
        .enumerate()
        .map(|(n, &rate)| {
            if at_least(n) {
                best = best.max(rate);
            }
            best
        })
        .collect()
}

/// The rate at `n` nodes; beyond the table, its last rate.
fn at(usable: &[f64], n: usize) -> f64 {
    usable.get(n).or(usable.last()).copied().unwrap_or(0.0)
}

/// The best split of whole nodes.
fn split(usable: &[f64], min: usize, max_parallel: u32, nodes: usize) -> f64 {
    // The minimum allows no more than `nodes / min` at a time.
    let most = (max_parallel as usize).min(nodes / min);
    let gain = |n: usize| at(usable, n + 1) - at(usable, n);
    let concave =
        (min..usable.len()).all(|n| gain(n) <= gain(n.max(min + 1) - 1) + 1e-9 * at(usable, n));
    if !concave {
        return at(&power(usable, most, nodes), nodes);
    }
    // With a concave curve, equal sizes are best for a given number of running trainers.
    let equal = |running: usize| {
        let (size, larger) = (nodes / running, nodes % running);
        (running - larger) as f64 * at(usable, size) + larger as f64 * at(usable, size + 1)
    };
    (1..=most).map(equal).fold(0.0, f64::max)
}

/// The best rates of `count` equal trainers together with at most `0..=nodes` nodes, by doubling.
fn power(usable: &[f64], mut count: usize, nodes: usize) -> Vec<f64> {
    let mut doubled: Vec<f64> = usable.iter().copied().take(nodes + 1).collect();
    let mut all = vec![0.0];
    while count > 0 {
        if count % 2 == 1 {
            all = together(&all, &doubled, nodes);
        }
        count /= 2;
        if count > 0 {
            doubled = together(&doubled, &doubled, nodes);
        }
    }
    all
}

/// The best rates of two groups that share at most `0..=nodes` nodes.
fn together(one: &[f64], other: &[f64], nodes: usize) -> Vec<f64> {
    let length = (one.len() + other.len()).saturating_sub(1).min(nodes + 1);
    let mut best = vec![0.0_f64; length];
    for (n, one) in one.iter().enumerate() {
        for (best, other) in best.iter_mut().skip(n).zip(other) {
            *best = best.max(one + other);
        }
    }
    best
}

/// Samples and node-time of one trainer.
#[derive(Debug, Clone)]
pub struct Worked<'a> {
    /// Its curve and sizes.
    pub rates: Rates<'a>,
    /// Credited samples.
    pub samples: f64,
    /// Seconds with at least one node.
    pub seconds: f64,
    /// Node-seconds.
    pub node_s: f64,
    /// Whether its curve is assumed: its owner has given none, and none is measured yet.
    pub assumed: bool,
}

impl<'a> Worked<'a> {
    /// The figures of a record. Its present incarnation counts up to `until`, or not at all.
    #[must_use]
    pub fn of(record: &'a TrainerRecord, until: Option<Timestamp>) -> Self {
        let nodes = record.nodes.len() as f64;
        let lasted = until.map_or(0.0, |until| until.since(record.run_since).as_secs_f64());
        let seconds = if nodes > 0.0 { lasted.max(0.0) } else { 0.0 };
        let measured = record.measured.as_deref();
        Self {
            rates: Rates::of(record),
            samples: record.samples(),
            seconds: record.held.seconds + seconds,
            node_s: record.held.node_s + seconds * nodes,
            assumed: record.spec.is_profiled() && measured.is_none_or(Measured::is_without_rate),
        }
    }

    /// Whether it held a node or has samples.
    fn did_work(&self) -> bool {
        self.samples > 0.0 || self.node_s > 0.0
    }

    /// Why its efficiency is unknown, if it is.
    fn unknown(&self) -> Option<Efficiency> {
        if !self.rates.spec().kinds.is_any() {
            Some(Efficiency::ByKind)
        } else if self.assumed {
            Some(Efficiency::CurveAssumed)
        } else if self.node_s <= 0.0 {
            Some(Efficiency::Uncounted)
        } else if self.samples > TOLERANCE * self.most() {
            Some(Efficiency::CurveExceeded)
        } else {
            None
        }
    }

    /// Samples over those of as many dedicated nodes as it held on average; 0 if it held none.
    fn efficiency(&self) -> f64 {
        let rate = self.rates.curve().rate(share(self.node_s, self.seconds));
        efficiency(self.samples, self.seconds * rate)
    }

    /// The most samples that its curve allows in its node-time.
    fn most(&self) -> f64 {
        let points = self.rates.curve().points().iter();
        let best = points.map(|point| point.rate / f64::from(point.nodes));
        self.node_s * best.fold(0.0, f64::max)
    }
}

/// Node-time offered to trainers, and the part of it that they harvested.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Offered {
    /// Seconds of cluster time.
    pub seconds: f64,
    /// Idle node-seconds.
    pub idle_node_s: f64,
    /// Harvested node-seconds.
    pub harvested_node_s: f64,
    /// Trainers that may run at a time.
    pub max_parallel: u32,
}

/// Efficiency U of these trainers on the offered node-time, or why it is not defined.
/// `past` holds the sums of archived trainers, which are not in `trainers`.
#[must_use]
pub fn efficiency_of<'a>(
    trainers: impl Iterator<Item = Worked<'a>>,
    past: &'a Past,
    offered: &Offered,
) -> Efficiency {
    if offered.idle_node_s < LEAST_IDLE_NODE_S || offered.seconds <= 0.0 {
        return Efficiency::TooLittleIdle;
    }
    if let Some(unknown) = past.unknown {
        return unknown;
    }
    // Trainers of each kind, and the sizes and curves of the kinds that did work.
    let mut kinds: BTreeMap<Kind, u32> = BTreeMap::new();
    let mut worked: BTreeMap<Kind, (u32, u32, ScalingCurve)> = BTreeMap::new();
    for past in &past.kinds {
        let (min, max, curve) = (past.min_nodes, past.max_nodes, &past.throughput);
        let kind = kind(min, max, curve);
        kinds.insert(kind.clone(), past.trainers);
        worked.insert(kind, (min, max, curve.clone()));
    }
    let (mut samples, mut node_s, mut weighed) = (past.samples, past.node_s, past.weighed);
    for trainer in trainers {
        let spec = trainer.rates.spec();
        let (min, max, curve) = (spec.min_nodes, spec.max_nodes, trainer.rates.curve());
        let kind = kind(min, max, curve);
        *kinds.entry(kind.clone()).or_default() += 1;
        if !trainer.did_work() {
            continue;
        }
        if let Some(unknown) = trainer.unknown() {
            return unknown;
        }
        samples += trainer.samples;
        node_s += trainer.node_s;
        weighed += trainer.node_s * trainer.efficiency();
        worked.insert(kind, (min, max, curve.clone()));
    }
    if node_s > TOLERANCE * offered.harvested_node_s + LEAST_IDLE_NODE_S {
        return Efficiency::Uncounted;
    }
    let mut of_work = worked.into_iter();
    let Some((kind, (min, max, curve))) = of_work.next() else {
        return Efficiency::NoTrainer;
    };
    if of_work.next().is_some() {
        return Efficiency::Known(share(weighed, offered.idle_node_s));
    }
    let listed = kinds.get(&kind).copied().unwrap_or_default();
    let nodes = equivalent_nodes(offered.idle_node_s, offered.seconds);
    let table = curve.table(max);
    let parallel = offered.max_parallel.min(listed);
    let rate = split_rate(&table, min, parallel, nodes);
    Efficiency::Known(efficiency(samples, offered.seconds * rate))
}

/// Trainers of one kind are alike in sizes and points of the curve.
type Kind = (u32, u32, Vec<(u32, u64)>);

/// The kind of trainers of these sizes and this curve.
fn kind(min_nodes: u32, max_nodes: u32, curve: &ScalingCurve) -> Kind {
    let points = curve.points().iter();
    let points = points.map(|point| (point.nodes, point.rate.to_bits()));
    (min_nodes, max_nodes, points.collect())
}

/// Adds what a trainer had until then to the sums of its owner.
pub(crate) fn add_owner(
    owners: &mut BTreeMap<String, OwnerUse>,
    record: &TrainerRecord,
    until: Option<Timestamp>,
) {
    let owner = record.spec.owner.clone().unwrap_or_default();
    let sums = owners.entry(owner).or_default();
    sums.trainers += 1;
    sums.done += u64::from(record.phase == Phase::Done);
    sums.node_s += Worked::of(record, until).node_s;
    sums.samples += record.samples();
}

/// Adds the figures of an ended trainer to the sums of archived trainers.
pub(crate) fn add_past(past: &mut Past, record: &TrainerRecord) {
    past.trainers += 1;
    past.order = past.order.max(record.order);
    past.done += u64::from(record.phase == Phase::Done);
    past.samples += record.samples();
    past.rescale_cost += record.rescale_cost;
    past.preempt_cost += record.preempt_cost;
    past.restart_cost += record.restart_cost;
    add(&mut past.stalls, &record.stalls);
    past.preemptions += record.preemptions;
    past.rescales += record.rescales;
    add_owner(&mut past.owners, record, None);
    let worked = Worked::of(record, None);
    if !worked.did_work() {
        return;
    }
    past.unknown = past.unknown.or_else(|| worked.unknown());
    past.node_s += worked.node_s;
    past.weighed += worked.node_s * worked.efficiency();
    let (spec, curve) = (&record.spec, worked.rates.curve());
    let alike = |kind: &&mut PastKind| {
        (kind.min_nodes, kind.max_nodes) == (spec.min_nodes, spec.max_nodes)
            && kind.throughput == *curve
    };
    if let Some(kind) = past.kinds.iter_mut().find(alike) {
        kind.trainers = kind.trainers.saturating_add(1);
    } else if past.kinds.len() < 2 {
        past.kinds.push(PastKind {
            min_nodes: spec.min_nodes,
            max_nodes: spec.max_nodes,
            throughput: curve.clone(),
            trainers: 1,
        });
    }
}
