//! Scaling curves measured while training.
//!
//! A trainer whose owner knows no curve is submitted with one sample/s for each node, and is
//! marked. From its reports control measures the rate at each node count: samples over time
//! between consecutive reports of one run, summed over all such pairs at that count. The
//! first samples of a run only mark the beginning, so that the start of the program does not
//! count. The newest pairs at a count are remembered; if the newest few of them all say that the
//! rate has changed, the others are forgotten, so that the curve follows reality. After two pairs the count is measured; the curve goes through all measured counts,
//! and beyond the last goes on linearly along its last piece, never falling. A rate below
//! that of the smallest measured count is raised to it: more nodes are never planned to do
//! worse than fewest, which is what a scaling curve must promise.

use std::collections::{BTreeMap, VecDeque};

use lacuna_model::{Launch, Progress, RunId, ScalingCurve, Timestamp, TrainerSpec};

/// Pairs of reports at a node count that are remembered.
const REMEMBERED: usize = 24;
/// So many newest pairs that all lie on one side of the mean of the others, further off than
/// [`OFF`], show that the rate has changed: the others are forgotten.
const NEWEST: usize = 4;
/// Pairs of reports after which a node count is measured.
const PAIRS: usize = 2;
/// A curve is replaced when the rate at a measured count is off by more than this share:
/// every replacement makes a new plan.
const OFF: f64 = 0.05;

/// Pairs of reports at one node count: samples and seconds between them, oldest first.
#[derive(Debug, Clone, PartialEq, Default)]
struct Pairs(VecDeque<(f64, f64)>);

/// Samples a second over all of these pairs.
fn mean<'a>(pairs: impl Iterator<Item = &'a (f64, f64)>) -> f64 {
    let sum = |sum: (f64, f64), pair: &(f64, f64)| (sum.0 + pair.0, sum.1 + pair.1);
    let (samples, seconds) = pairs.fold((0.0, 0.0), sum);
    samples / seconds
}

impl Pairs {
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

    fn rate(&self) -> Option<f64> {
        let rate = mean(self.0.iter());
        (self.0.len() >= PAIRS && rate.is_finite() && rate > 0.0).then_some(rate)
    }
}

/// What was measured of one trainer since control started.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Profile {
    sums: BTreeMap<u32, Pairs>,
    last: Option<(RunId, Timestamp, f64)>,
}

impl Profile {
    /// Takes a report of the present run on `nodes` nodes. Returns whether the curve of the
    /// spec was replaced.
    pub(crate) fn observe(
        &mut self,
        spec: &mut TrainerSpec,
        nodes: u32,
        report: &Progress,
    ) -> bool {
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
            // Late, repeated, or without news: the time goes on from the older one.
            self.last = last;
            return false;
        }
        let sum = self.sums.entry(nodes).or_default();
        sum.add(more, seconds);
        let Some(rate) = sum.rate() else { return false };
        let known = measured(spec).get(&nodes).copied();
        if known.is_some_and(|known| (rate - known).abs() <= OFF * known) {
            return false;
        }
        let mut points = measured(spec);
        points.extend(
            self.sums
                .iter()
                .filter_map(|(nodes, sum)| Some((*nodes, sum.rate()?))),
        );
        match curve(&points, spec.max_nodes) {
            Some(curve) if curve != spec.throughput => {
                spec.throughput = curve;
                true
            }
            _ => false,
        }
    }
}

/// Whether its owner asked for it.
pub(crate) fn is_profiled(spec: &TrainerSpec) -> bool {
    matches!(spec.launch, Launch::Command { profile: true, .. })
}

/// The counts at which the present curve was measured: all of its points, but none of the
/// assumed curve and not an end that only goes on from the others. So nothing beside the
/// curve has to be kept over a restart of control.
fn measured(spec: &TrainerSpec) -> BTreeMap<u32, f64> {
    let assumed = ScalingCurve::linear(1.0, spec.max_nodes);
    if assumed.is_ok_and(|assumed| assumed == spec.throughput) {
        return BTreeMap::new();
    }
    let mut points: BTreeMap<u32, f64> = spec
        .throughput
        .points()
        .iter()
        .map(|point| (point.nodes, point.rate))
        .collect();
    if let Some((last, rate)) = points.pop_last() {
        let on = beyond(&points, last);
        if on.is_none_or(|on| (on - rate).abs() > 1e-9 * rate) {
            points.insert(last, rate);
        }
    }
    points
}

/// The rate at `nodes`, more than any measured count, along the last piece of the curve.
fn beyond(points: &BTreeMap<u32, f64>, nodes: u32) -> Option<f64> {
    let mut from_last = points.iter().rev().map(|(n, rate)| (f64::from(*n), *rate));
    let (last, rate) = from_last.next()?;
    let (before, rate_before) = from_last.next().unwrap_or((0.0, 0.0));
    let slope = ((rate - rate_before) / (last - before)).max(0.0);
    Some(rate + slope * (f64::from(nodes) - last))
}

/// The curve through measured points, up to `max` nodes at least.
fn curve(points: &BTreeMap<u32, f64>, max: u32) -> Option<ScalingCurve> {
    let lowest = *points.values().next()?;
    let mut points: BTreeMap<u32, f64> = points
        .iter()
        .map(|(nodes, rate)| (*nodes, rate.max(lowest)))
        .collect();
    if *points.keys().next_back()? < max {
        let end = beyond(&points, max)?;
        points.insert(max, end);
    }
    ScalingCurve::new(points).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_go_through_what_was_measured_and_on_from_there() {
        let of = |points: &[(u32, f64)], max| {
            curve(&points.iter().copied().collect(), max).map(|c| c.table(max))
        };
        assert_eq!(of(&[(2, 20.0)], 4), Some(vec![0.0, 10.0, 20.0, 30.0, 40.0]));
        let bent = of(&[(1, 10.0), (2, 16.0)], 4);
        assert_eq!(bent, Some(vec![0.0, 10.0, 16.0, 22.0, 28.0]));
        // More nodes were measured to do worse.
        let worse = of(&[(1, 10.0), (2, 4.0)], 3);
        assert_eq!(worse, Some(vec![0.0, 10.0, 10.0, 10.0]));
        assert_eq!(of(&[], 3), None);
    }
}
