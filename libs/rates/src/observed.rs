//! Scaling curves measured while training.
//!
//! A trainer whose owner knows no curve is submitted with `profile = true`. Its curve is assumed at
//! first: one sample/s for each node. From its reports control measures the rate at each node
//! count: samples over time between consecutive reports of one incarnation, over all such pairs at
//! that count. The first samples of an incarnation only mark the beginning, so the start of the
//! program does not count. The newest pairs at a count are remembered. If the newest few of them
//! all say that the rate has changed, the others are forgotten, so the curve follows reality. After
//! two pairs the count is measured. The curve goes through all measured counts. At others it has what
//! the newest replay of a step that can be trusted says (`lacuna_model::StepModel`). Beyond the last one
//! it goes on linearly along its last piece, never falling, and stays level where loaders limit. A
//! rate below that of fewer nodes is kept as it is: the planner takes curves that dip. A new curve
//! makes a new plan.
//!
//! Rates and costs (`costs.rs`) stand in `TrainerRecord.measured` with spread, count and age, so
//! they outlive control. A rate holds for others of the owner and family (`Program.family`,
//! else the same command line, environment and launcher) until they have measured the same count.
//! Each verdict of a plan says whether the rate at the size given was measured, lies between
//! measured ones, is replayed, or is assumed (`TrainerVerdict.basis`).
//!
//! A rate is that of a tier: of nodes that are this far apart. The curve is that of tier 0. Where a
//! count was measured farther apart only, the curve goes through the rate without what that tier
//! costs at another count, or through the rate itself. The measured rates of the tiers from 1 on are
//! what distance costs (`Distance::Measured`). A tier without a measurement, below a measured one,
//! costs nothing. What a trainer that was never apart has, `links.rs` says.
//!
//! A trainer with rates by kind of node is measured on nodes of one kind, and has a curve of each
//! such kind. Nodes of several kinds together are not measured.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use lacuna_model::{
    CurvePoint, Distance, KindName, Measured, MeasuredRate, NodeId, NodeKinds, Progress, RunId,
    ScalingCurve, StepCosts, StepModel, Tier, Timestamp, Topology, TrainerRecord, TrainerSpec,
};

use crate::links::over_links;
use crate::relatives::{OfRelatives, Place};
use crate::stats::{restored, spread};
use crate::{Rates, is_off};

/// Pairs of reports at a node count that are remembered.
const REMEMBERED: usize = 24;
/// The newest pairs, in this number, show that the rate has changed if all of them lie on one side
/// of the mean of the others, further off than [`OFF`]. The others are forgotten then.
const NEWEST: usize = 4;
/// Pairs of reports after which a node count is measured.
const PAIRS: usize = 2;
/// A curve is replaced when the rate at a measured count is off by more than this share:
/// every replacement makes a new plan.
const OFF: f64 = 0.05;

/// Pairs of reports at one place: samples and seconds between them, oldest first.
#[derive(Debug, Clone, PartialEq, Default)]
struct Pairs(VecDeque<(f64, f64)>);

/// Samples a second over all of these pairs.
fn mean<'a>(pairs: impl Iterator<Item = &'a (f64, f64)>) -> f64 {
    let sum = |sum: (f64, f64), pair: &(f64, f64)| (sum.0 + pair.0, sum.1 + pair.1);
    let (samples, seconds) = pairs.fold((0.0, 0.0), sum);
    samples / seconds
}

impl Pairs {
    /// As many pairs of this length, seconds, as a kept measurement was made of.
    fn of(kept: &MeasuredRate, seconds: f64) -> Self {
        let count = kept.count.min(REMEMBERED as u32);
        let rates = restored(count, kept.rate, kept.spread);
        Self(rates.map(|rate| (rate * seconds, seconds)).collect())
    }

    fn add(&mut self, samples: f64, seconds: f64) {
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back((samples, seconds));
        let old = self.0.len().saturating_sub(NEWEST);
        if old < PAIRS {
            return;
        }
        let before = mean(self.0.iter().take(old));
        let newest = || self.0.iter().skip(old).map(|(samples, s)| samples / s);
        let above = newest().all(|rate| rate > before * (1.0 + OFF));
        let below = newest().all(|rate| rate < before * (1.0 - OFF));
        if above || below {
            self.0.drain(..old);
        }
    }

    /// What they say of the rate at `nodes` nodes, the newest of them at `at`.
    fn measured(&self, nodes: u32, at: Timestamp) -> Option<MeasuredRate> {
        let rate = mean(self.0.iter());
        let rates = self.0.iter().map(|(samples, seconds)| samples / seconds);
        (self.0.len() >= PAIRS && rate.is_finite() && rate > 0.0).then(|| MeasuredRate {
            nodes,
            rate,
            spread: spread(rates),
            count: self.0.len() as u32,
            at,
            from: None,
        })
    }
}

/// Where an incarnation trains, as far as its rate depends on it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site {
    /// The kind of all its nodes; nothing for a trainer to which all nodes are alike.
    pub kind: Option<KindName>,
    /// How far apart they are.
    pub tier: Tier,
}

impl Site {
    /// The site of these nodes of a trainer; nothing of nodes of several kinds, which are not measured.
    #[must_use]
    pub fn of(
        spec: &TrainerSpec,
        nodes: &[NodeId],
        kinds: &NodeKinds,
        topology: &Topology,
    ) -> Option<Self> {
        let tier = topology.tier(nodes);
        if spec.kinds.is_any() {
            return Some(Self { kind: None, tier });
        }
        let kind = kinds.of(nodes.first()?)?;
        let is_one = nodes.iter().all(|node| kinds.of(node) == Some(kind));
        let kind = Some(kind.clone());
        is_one.then_some(Self { kind, tier })
    }
}

/// The rates of one kind, or of all nodes alike.
#[derive(Debug, Clone, PartialEq, Default)]
struct OfKind {
    pairs: BTreeMap<Place, Pairs>,
    /// The rates through which the present curve goes.
    in_force: BTreeMap<Place, f64>,
}

/// State of a trainer's measured rates beside its record.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Observed {
    kinds: BTreeMap<Option<KindName>, OfKind>,
    last: Option<(RunId, Timestamp, f64)>,
    /// By tier from 1 on: the time of a byte over that on one leaf, where others have shown it.
    links: Vec<Option<f64>>,
    /// The newest incarnation of which a pair was taken, and seconds between its two reports.
    newest: Option<(RunId, f64)>,
}

impl Observed {
    /// Goes on from a record.
    #[must_use]
    pub fn resumed(record: &TrainerRecord) -> Self {
        let known = record
            .measured
            .iter()
            .flat_map(|measured| measured.by_kind());
        let kinds = known.map(|(kind, of)| {
            let in_force = places(of);
            let pairs = BTreeMap::new();
            (kind.cloned(), OfKind { pairs, in_force })
        });
        Self {
            kinds: kinds.collect(),
            ..Self::default()
        }
    }

    /// Seconds between the two newest reports of an incarnation, once there are any.
    #[must_use]
    pub fn interval(&self, run: RunId) -> Option<f64> {
        self.newest
            .filter(|(of, _)| *of == run)
            .map(|(_, seconds)| seconds)
    }

    /// Takes a report of the present incarnation. Returns whether a curve was replaced.
    pub fn observe(&mut self, record: &mut TrainerRecord, report: &Progress, site: &Site) -> bool {
        let nodes = record.nodes.len() as u32;
        if nodes == 0 || report.owed > 0.0 || report.samples <= 0.0 {
            return false;
        }
        let last = self.last.replace((report.run, report.at, report.samples));
        let Some((run, at, samples)) = last else {
            return false;
        };
        if run != report.run {
            return false;
        }
        let (more, seconds) = (report.samples - samples, report.at.since(at).as_secs_f64());
        if more <= 0.0 || seconds <= 0.0 {
            // Late, repeated, or without progress: the time goes on from the older one.
            self.last = last;
            return false;
        }
        self.newest = Some((run, seconds));
        let (kind, tier) = (site.kind.as_ref(), site.tier);
        let measured = record.measured.get_or_insert_default().of_mut(kind);
        let of = self.kinds.entry(site.kind.clone()).or_default();
        let known = measured.rate(nodes, tier);
        let pairs = of.pairs.entry((nodes, tier)).or_insert_with(|| {
            let own = known.filter(|known| known.from.is_none());
            own.map_or_else(Pairs::default, |own| Pairs::of(own, seconds))
        });
        pairs.add(more, seconds);
        let Some(rate) = pairs.measured(nodes, report.at) else {
            return false;
        };
        let before = of.in_force.get(&(nodes, tier)).copied();
        let is_new = before.is_none_or(|before| (rate.rate - before).abs() > OFF * before);
        measured.put(tier, rate);
        is_new && self.enforce_of(record, kind)
    }

    /// Takes the replay of a step of the present incarnation. Returns whether a curve was replaced.
    pub fn replayed(
        &mut self,
        record: &mut TrainerRecord,
        costs: &StepCosts,
        site: &Site,
        at: Timestamp,
    ) -> bool {
        let (kind, tier) = (site.kind.as_ref(), site.tier);
        let nodes = record.nodes.len() as u32;
        let all = nodes.saturating_mul(record.spec.launch.workers_per_node());
        let found = StepModel::of(costs, nodes, tier, at).filter(|_| costs.members == all);
        let Some(mut replay) = found else {
            return false;
        };
        let known = record.measured.as_deref().and_then(|m| m.of(kind));
        judge(
            &mut replay,
            &known.map(places).unwrap_or_default(),
            record.spec.max_nodes,
        );
        let judged = |replay: Option<&StepModel>| {
            replay.map_or((0, None), |one| (one.judged.rates.len(), one.judged.limit))
        };
        let is_other = judged(known.and_then(|of| of.replay.as_deref())) != judged(Some(&replay));
        let rates = Rates::of(record);
        let known = rates.curve_of(kind);
        let is_off = |point: &CurvePoint| {
            let before = known.map_or(0.0, |curve| curve.at(point.nodes));
            (point.rate - before).abs() > OFF * before
        };
        let is_new = is_other || replay.judged.rates.iter().any(is_off);
        let measured = record.measured.get_or_insert_default();
        measured.of_mut(kind).replay = Some(Box::new(replay));
        is_new && self.enforce_of(record, kind)
    }

    /// Lays the curves through the measured rates. Returns whether one is another one.
    pub fn enforce(&mut self, record: &mut TrainerRecord) -> bool {
        let known = record
            .measured
            .iter()
            .flat_map(|measured| measured.by_kind());
        let kinds: Vec<Option<KindName>> = known.map(|(kind, _)| kind.cloned()).collect();
        let mut changed = false;
        for kind in kinds {
            changed |= self.enforce_of(record, kind.as_ref());
        }
        changed
    }

    fn enforce_of(&mut self, record: &mut TrainerRecord, kind: Option<&KindName>) -> bool {
        // Of its sizes on this kind alone.
        let spec = match kind {
            None => Cow::Borrowed(&record.spec),
            Some(kind) => Cow::Owned(record.spec.on_kind(kind)),
        };
        let Some(measured) = record.measured.as_deref_mut() else {
            return false;
        };
        let measured = measured.of_mut(kind);
        let of = self.kinds.entry(kind.cloned()).or_default();
        of.in_force = places(measured);
        let mut points = near(&of.in_force);
        let mut replay = measured.replay.as_deref_mut();
        if let Some(replay) = &mut replay {
            judge(replay, &of.in_force, spec.max_nodes);
            let rates = &replay.judged.rates;
            points.extend(rates.iter().map(|point| (point.nodes, point.rate)));
        }
        // Below its least size the curve is the line from nothing, as one is assumed without any
        // measurement. Else a measured speed-up over one node that it never has would be compared
        // with an assumed one, and each trainer that is measured would make room for one that is not.
        let can_have = points.split_off(&spec.min_nodes);
        let points = if can_have.is_empty() {
            points
        } else {
            can_have
        };
        let is_limited = replay
            .as_ref()
            .is_some_and(|one| one.judged.limit.is_some());
        let Some(curve) = curve(&points, spec.max_nodes, is_limited) else {
            return false;
        };
        let known = &mut measured.in_force;
        let now = known.distance.as_ref().unwrap_or(&spec.distance);
        let distance = apart(&of.in_force, &curve).or_else(|| {
            over_links(
                replay.as_deref().filter(|_| kind.is_none())?,
                &self.links,
                now,
            )
        });
        let farther = distance.filter(|distance| distance != now);
        let is_farther = farther.is_some();
        known.distance = farther.or_else(|| known.distance.take());
        let changed = curve != *known.curve.as_ref().unwrap_or(&spec.throughput);
        known.curve = Some(curve);
        changed || is_farther
    }
}

/// The measured rates of a kind.
fn places(measured: &Measured) -> BTreeMap<Place, f64> {
    let rates = measured.at_all_tiers();
    rates
        .map(|(tier, rate)| ((rate.nodes, tier), rate.rate))
        .collect()
}

/// The rates of near nodes by count. A count that was measured farther apart only has the rate that
/// it would have without what that tier costs at the nearest count that was measured at both.
fn near(places: &BTreeMap<Place, f64>) -> BTreeMap<u32, f64> {
    let measured_near = |nodes: u32| places.get(&(nodes, Tier(0))).copied();
    let share = |nodes: u32, tier: Tier| {
        let far = places.iter().filter(|((_, of), _)| *of == tier);
        let both = far.filter_map(|(&(count, _), rate)| {
            let share = (rate / measured_near(count)?).min(1.0);
            Some((count.abs_diff(nodes), share))
        });
        let nearest = both.min_by_key(|(apart, _)| *apart);
        nearest.map_or(1.0, |(_, share)| share)
    };
    let mut near: BTreeMap<u32, f64> = BTreeMap::new();
    for (&(nodes, tier), &rate) in places {
        let rate = measured_near(nodes).unwrap_or_else(|| rate / share(nodes, tier));
        let best = near.entry(nodes).or_insert(rate);
        *best = best.max(rate);
    }
    near
}

/// Judges a replay beside the measured rates, for a trainer of at most `most` nodes.
fn judge(replay: &mut StepModel, places: &BTreeMap<Place, f64>, most: u32) {
    let alike = places.iter().filter(|((_, tier), _)| *tier == replay.tier);
    let alike = alike.map(|(&(nodes, _), &rate)| (nodes, rate)).collect();
    replay.judge(&alike, &near(places), most);
}

/// What distance costs by measured rates; nothing without any at tier 1 or farther.
fn apart(places: &BTreeMap<Place, f64>, curve: &ScalingCurve) -> Option<Distance> {
    let at = |tier: usize| {
        let of = places
            .iter()
            .filter(move |((nodes, of), _)| usize::from(of.0) == tier && *nodes > 1);
        of.map(|(&(nodes, _), &rate)| CurvePoint { nodes, rate })
            .collect::<Vec<_>>()
    };
    let far = places.keys().filter(|(nodes, _)| *nodes > 1);
    let far = far.map(|(_, tier)| usize::from(tier.0)).max()?;
    let far = far.min(Distance::MOST_TIERS);
    let mut tiers: Vec<Vec<CurvePoint>> = (1..=far).map(at).collect();
    let rate = curve.at(2);
    for points in tiers.iter_mut().filter(|points| points.is_empty()) {
        points.push(CurvePoint { nodes: 2, rate });
    }
    (!tiers.is_empty()).then_some(Distance::Measured(tiers))
}

/// The rate at `nodes`, more than any measured count, along the last piece of the curve.
fn beyond(points: &BTreeMap<u32, f64>, nodes: u32) -> Option<f64> {
    let mut from_last = points.iter().rev().map(|(n, rate)| (f64::from(*n), *rate));
    let (last, rate) = from_last.next()?;
    let (before, rate_before) = from_last.next().unwrap_or((0.0, 0.0));
    let slope = ((rate - rate_before) / (last - before)).max(0.0);
    Some(rate + slope * (f64::from(nodes) - last))
}

/// The curve through points, up to `max` nodes at least; level beyond the last one if it is limited.
fn curve(points: &BTreeMap<u32, f64>, max: u32, is_limited: bool) -> Option<ScalingCurve> {
    let mut points = points.clone();
    if *points.keys().next_back()? < max && !is_limited {
        let end = beyond(&points, max)?;
        points.insert(max, end);
    }
    ScalingCurve::new(points).ok()
}

impl Observed {
    /// Gives a trainer what was measured of its relatives at counts, and of costs, that it has not
    /// measured by itself. Returns whether a cost has changed; nothing if nothing has.
    pub fn take_over(&mut self, record: &mut TrainerRecord, of: OfRelatives) -> Option<bool> {
        let links = of.links();
        let mut taken = links != self.links;
        self.links = links;
        for ((kind, (nodes, tier)), rate) in of.rates {
            // Relatives with and without rates by kind measure different things.
            if kind.is_none() != record.spec.kinds.is_any() {
                continue;
            }
            let measured = record
                .measured
                .get_or_insert_default()
                .of_mut(kind.as_ref());
            let known = measured.rate(nodes, tier);
            if known.is_none_or(|known| known.from.is_some() && *known != rate) {
                measured.put(tier, rate);
                taken = true;
            }
        }
        let mut cost_changed = false;
        // The newest start counts for all trainers of the program, those that have their own included:
        // else the scatter of measurements would decide which of two equals comes first.
        if let Some(start) = of.start {
            let before = Rates::of(record).start_s();
            let known = &mut record.measured.get_or_insert_default().start;
            if known
                .as_ref()
                .is_none_or(|known| known.pause.at < start.pause.at)
            {
                *known = Some(start);
                cost_changed = is_off(Rates::of(record).start_s(), before);
                taken = true;
            }
        }
        // A cost without a measurement stays the owner's.
        if of.up.or(of.down).is_none() {
            return (taken || cost_changed).then_some(cost_changed);
        }
        let submitted = record.spec.rescale;
        let measured = record.measured.get_or_insert_default();
        let now = &mut measured.in_force;
        for (own, now, theirs, submitted) in [
            (measured.up, &mut now.up_s, of.up, submitted.up_s),
            (measured.down, &mut now.down_s, of.down, submitted.down_s),
        ] {
            if let (None, Some(theirs)) = (own, theirs)
                && is_off(theirs.mean_s, now.unwrap_or(submitted))
            {
                *now = Some(theirs.mean_s);
                cost_changed = true;
            }
        }
        (taken || cost_changed).then_some(cost_changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_go_through_what_was_measured_and_on_from_there() {
        let of = |points: &[(u32, f64)], max| {
            curve(&points.iter().copied().collect(), max, false).map(|c| c.table(max))
        };
        assert_eq!(of(&[(2, 20.0)], 4), Some(vec![0.0, 10.0, 20.0, 30.0, 40.0]));
        let bent = of(&[(1, 10.0), (2, 16.0)], 4);
        assert_eq!(bent, Some(vec![0.0, 10.0, 16.0, 22.0, 28.0]));
        // More nodes were measured to do worse, and the planner sees that.
        let worse = of(&[(1, 10.0), (2, 4.0)], 3);
        assert_eq!(worse, Some(vec![0.0, 10.0, 4.0, 4.0]));
        assert_eq!(of(&[], 3), None);
    }

    #[test]
    fn the_curve_is_that_of_near_nodes_and_the_rest_is_what_distance_costs() {
        let of = |points: &[(u32, u8, f64)]| {
            let places = points
                .iter()
                .map(|&(nodes, tier, rate)| ((nodes, Tier(tier)), rate));
            let places: BTreeMap<Place, f64> = places.collect();
            let curve = curve(&near(&places), 8, false).unwrap();
            let distance = apart(&places, &curve);
            let share = distance.map(|distance| {
                assert_eq!(distance.check(), Ok(()));
                [1, 2].map(|tier| distance.share(&curve, 4, Tier(tier)))
            });
            (curve.at(4), share)
        };
        // Never apart: nothing is said of distance.
        assert_eq!(of(&[(1, 0, 10.0), (4, 0, 40.0)]), (40.0, None));
        // Apart only: near nodes are no slower, so distance costs nothing that is known.
        assert_eq!(of(&[(4, 1, 30.0)]), (30.0, Some([1.0, 1.0])));
        assert_eq!(
            of(&[(4, 0, 40.0), (4, 1, 30.0)]),
            (40.0, Some([0.75, 0.75]))
        );
        // A tier between that was never measured.
        assert_eq!(of(&[(4, 0, 40.0), (4, 2, 10.0)]), (40.0, Some([1.0, 0.25])));
        // What the tier costs two nodes it costs four.
        assert_eq!(
            of(&[(2, 0, 20.0), (2, 1, 10.0), (4, 1, 16.0)]),
            (32.0, Some([0.5, 0.5]))
        );
        // Near nodes that were slower do not make distance a gain.
        assert_eq!(of(&[(4, 0, 20.0), (4, 1, 30.0)]), (20.0, Some([1.0, 1.0])));
    }
}
