//! What the replay of one step says of node counts and links that a trainer was never on.
//!
//! From [`StepCosts::elsewhere`], with T(n) the replayed step on n nodes, B(n) the batch there, and
//! n0 the nodes of the replayed step:
//!
//! ```text
//! v(n) = B(n) T(n0) / (B(n0) T(n))                 the rate over that on n0 nodes
//! P(n) = v(n) c(n),    c(m) = P(m) / v(m)          at each measured count m
//! ```
//!
//! c is linear between measured counts and constant outside them, so rates go through all that was
//! measured. The replay is no model of the trainer if it is off by more than [`StepModel::MOST_OFF`] at
//! a measured count. It is none either if its step is more than [`StepCosts::TRUSTED`] off the
//! measured one; then an earlier one counts.
//!
//! **Loaders that limit.** The replay gives each further member a reader that is as fast. Where
//! readers share what they read from, fewer nodes were measured to be faster than that, and no more
//! so than a step without waiting for data would be. Then nothing is gained beyond the largest
//! measured count. Loaders on other nodes are shared in the replay itself.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{Cause, CurvePoint, StepCosts, Tier, Timestamp};

/// Rates over that of the replayed step, and what they are worth beside the measured ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepModel {
    /// Nodes of the replayed step.
    pub nodes: u32,
    /// How far apart they were.
    pub tier: Tier,
    /// When it was reported, in the cluster's time.
    pub at: Timestamp,
    /// By how much the replayed step is off the measured one, as a share of it.
    pub off: f64,
    /// What waiting for data costs, as a share of the step.
    pub reading: f64,
    /// Rates over that on `nodes` nodes by node count, fewest first.
    pub speeds: Vec<CurvePoint>,
    /// Seconds that a byte takes on its way, over now, and the step then, over now; in this order.
    pub links: Vec<(f64, f64)>,
    /// What it is worth beside the measured rates.
    pub judged: Judged,
}

/// A replay beside the measured rates.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// The greatest error: of the replayed step, and at other measured counts.
    pub error: f64,
    /// Other measured counts that it meets within [`StepModel::MOST_OFF`].
    pub met: u32,
    /// Rates at counts that were not measured, fewest nodes first; none if it is no model.
    pub rates: Vec<CurvePoint>,
    /// The node count beyond which loaders limit.
    pub limit: Option<u32>,
}

impl StepModel {
    /// The most by which a replay may be off the rate at another measured count, as a share of it.
    pub const MOST_OFF: f64 = 0.10;
    /// By how much a rate may rise faster than the nodes: replayed steps scatter.
    const SCATTER: f64 = 0.05;

    /// What a step on `nodes` nodes says, which are `tier` apart; nothing of one that is not
    /// trusted, of nodes without a link between them, and of times that contradict each other.
    #[must_use]
    pub fn of(costs: &StepCosts, nodes: u32, tier: Tier, at: Timestamp) -> Option<Self> {
        let off = (costs.replayed / costs.measured - 1.0).abs();
        let is_trusted = costs.trusted && off <= StepCosts::TRUSTED && costs.replayed > 0.0;
        if !is_trusted || nodes < 2 || costs.members < nodes || !costs.members.is_multiple_of(nodes)
        {
            return None;
        }
        let read = costs.cost(Cause::Preparation) + costs.cost(Cause::Fetch);
        let reading = (read / costs.replayed).clamp(0.0, 1.0);
        Some(Self {
            nodes,
            tier,
            at,
            off,
            reading: if reading.is_finite() { reading } else { 0.0 },
            speeds: speeds(costs, nodes)?,
            links: links(costs)?,
            judged: Judged::default(),
        })
    }

    /// The rate on `nodes` nodes over that of the replayed step; nothing outside of what was
    /// replayed.
    #[must_use]
    pub fn speed(&self, nodes: u32) -> Option<f64> {
        let points = self.speeds.iter();
        line(
            points.map(|point| (f64::from(point.nodes), point.rate)),
            f64::from(nodes),
        )
    }

    /// Whether the rate at a count rests on the replay, beside these measured counts.
    #[must_use]
    pub fn says(&self, nodes: u32, measured: &BTreeSet<u32>) -> bool {
        let counts = || self.judged.rates.iter().map(|point| point.nodes);
        let above = counts().filter(|&count| count >= nodes).min();
        let below = counts().filter(|&count| count <= nodes).max();
        let known_above = measured.range(nodes..).next().copied();
        let known_below = measured.range(..=nodes).next_back().copied();
        let nearest_above = above.is_some_and(|at| known_above.is_none_or(|known| at < known));
        let nearest_below = below > known_below && (above.is_some() || known_above.is_some());
        !measured.contains(&nodes) && (nearest_above || nearest_below)
    }

    /// Judges the replay beside the rates that were measured of nodes as far apart (`alike`), for a
    /// trainer of at most `most` nodes. Its rates are those of near nodes, through the measured ones
    /// of these (`near`).
    pub fn judge(&mut self, alike: &BTreeMap<u32, f64>, near: &BTreeMap<u32, f64>, most: u32) {
        self.judged = self.beside(alike, near, most);
    }

    fn beside(&self, alike: &BTreeMap<u32, f64>, near: &BTreeMap<u32, f64>, most: u32) -> Judged {
        let mut judged = Judged {
            error: self.off,
            ..Judged::default()
        };
        let Some(&here) = alike.get(&self.nodes) else {
            return judged;
        };
        let at = |(&nodes, &rate): (&u32, &f64)| Some((nodes, rate, self.speed(nodes)?));
        let others = alike.iter().filter(|known| *known.0 != self.nodes);
        let mut is_model = true;
        let mut is_shared = true;
        for (nodes, rate, speed) in others.filter_map(at) {
            let off = speed * here / rate - 1.0;
            judged.error = judged.error.max(off.abs());
            if off.abs() <= Self::MOST_OFF {
                judged.met += 1;
                continue;
            }
            is_model = false;
            // With fewer nodes it reads faster, at best without a wait.
            is_shared &= if nodes < self.nodes {
                off < 0.0 && rate * (1.0 - self.reading) <= speed * here * (1.0 + Self::MOST_OFF)
            } else {
                off > 0.0
            };
        }
        if !is_model {
            let waits = self.reading > StepCosts::TRUSTED;
            judged.limit = near
                .last_key_value()
                .filter(|_| is_shared && waits)
                .map(|(&nodes, _)| nodes);
            return judged;
        }
        let known: Vec<_> = near.iter().filter_map(at).collect();
        let off = |nodes: u32| {
            let ratios = known.iter().map(|&(n, rate, v)| (f64::from(n), rate / v));
            let (first, last) = (known.first()?, known.last()?);
            line(ratios, f64::from(nodes.clamp(first.0, last.0)))
        };
        let counts = self.speeds.iter().map(|point| point.nodes);
        let mut counts: Vec<u32> = counts.filter(|&nodes| nodes < most).chain([most]).collect();
        counts.retain(|nodes| !near.contains_key(nodes));
        let rate = |nodes| {
            let rate = self.speed(nodes)? * off(nodes)?;
            (rate.is_finite() && rate > 0.0).then_some(CurvePoint { nodes, rate })
        };
        judged.rates = counts.into_iter().filter_map(rate).collect();
        judged
    }

    /// The step with a link over which a byte takes `slower` times as long, over now.
    #[must_use]
    pub fn step_with(&self, slower: f64) -> Option<f64> {
        let [.., before, last] = self.links.as_slice() else {
            return None;
        };
        let found = line(self.links.iter().copied(), slower);
        found.or_else(|| {
            let beyond = (slower - last.0) / (last.0 - before.0);
            (beyond > 0.0).then(|| last.1 + (last.1 - before.1).max(0.0) * beyond)
        })
    }

    /// Over which link, by the time of a byte over now, the step takes `slower` times as long.
    /// Nothing where that is not known, as of a link that is never waited for.
    #[must_use]
    pub fn link_with(&self, slower: f64) -> Option<f64> {
        let mut found = None;
        for pair in self.links.windows(2) {
            let [(x0, t0), (x1, t1)] = *pair else {
                continue;
            };
            if t1 > t0 && slower > t0 {
                found = Some(x0 + (x1 - x0) * (slower - t0) / (t1 - t0));
            }
        }
        found.filter(|x| x.is_finite())
    }
}

/// The value at `x` on the line through points of increasing places; nothing outside of them.
fn line(points: impl Iterator<Item = (f64, f64)>, x: f64) -> Option<f64> {
    let mut before: Option<(f64, f64)> = None;
    for (at, value) in points {
        if x <= at {
            let Some((from, of)) = before else {
                return (x >= at).then_some(value);
            };
            return Some(of + (value - of) * (x - from) / (at - from));
        }
        before = Some((at, value));
    }
    None
}

/// Rates by node count over the present one. Nothing if two of them contradict each other.
fn speeds(costs: &StepCosts, nodes: u32) -> Option<Vec<CurvePoint>> {
    let of_node = costs.members / nodes;
    let mut speeds = BTreeMap::from([(nodes, 1.0)]);
    let same_link = costs.elsewhere.iter().filter(|one| one.is_near());
    for one in same_link.filter(|one| one.members.is_multiple_of(of_node)) {
        if !(one.step.is_finite() && one.step > 0.0) {
            return None;
        }
        let (count, Some(batch)) = (one.members / of_node, costs.batch(one.members)) else {
            continue;
        };
        if count == 1 && of_node > 1 {
            // The members of one node have another link.
            continue;
        }
        let speed = batch * costs.replayed / one.step;
        let more = f64::from(count) / f64::from(nodes);
        let is_sound = speed.is_finite() && speed > 0.0 && count > 0;
        let is_faster = count > nodes && speed > more * (1.0 + StepModel::SCATTER);
        if !is_sound || is_faster || speeds.insert(count, speed).is_some() {
            return None;
        }
    }
    let points = speeds.into_iter();
    Some(
        points
            .map(|(nodes, rate)| CurvePoint { nodes, rate })
            .collect(),
    )
}

/// Steps by the time of a byte, both over now. Nothing if a slower link would take less.
fn links(costs: &StepCosts) -> Option<Vec<(f64, f64)>> {
    let rows = costs.elsewhere.iter();
    let here = rows.filter(|one| one.members == costs.members && !one.is_near());
    let mut links: Vec<(f64, f64)> = here
        .map(|one| (1.0 / one.link, one.step / costs.replayed))
        .collect();
    links.push((1.0, 1.0));
    links.sort_by(|a, b| a.0.total_cmp(&b.0));
    let is_sound = |&(x, t): &(f64, f64)| x.is_finite() && x > 0.0 && t.is_finite() && t > 0.0;
    let rises = links.windows(2).all(|pair| match *pair {
        [(x0, t0), (x1, t1)] => x1 > x0 && t1 >= t0 * (1.0 - StepModel::SCATTER),
        _ => true,
    });
    (links.iter().all(is_sound) && rises).then_some(links)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CauseCost, Follows, StepElsewhere};

    /// A step of 2 members: .1 s of computing and .02 s of a link that more members wait for longer.
    fn costs() -> StepCosts {
        let step = |members: u32, link: f64| StepElsewhere {
            members,
            link,
            step: truth(members, link),
        };
        let sizes = [1, 4, 8].map(|members| step(members, 1.0));
        let links = [0.25, 0.5, 2.0, 4.0].map(|link| step(2, link));
        StepCosts {
            members: 2,
            workers: 1,
            remote: 0,
            follows: Some(Follows::PerNode { samples: 8 }),
            steps: 64,
            left_out: 0,
            measured: 0.121,
            replayed: truth(2, 1.0),
            trusted: true,
            costs: Vec::new(),
            computes: 0.1,
            loaders: Vec::new(),
            elsewhere: sizes.into_iter().chain(links).collect(),
            slow: None,
            advice: Vec::new(),
        }
    }

    fn truth(members: u32, link: f64) -> f64 {
        0.1 + 0.02 * f64::from(members - 1) / link
    }

    fn rate(members: u32) -> f64 {
        8.0 * f64::from(members) / truth(members, 1.0)
    }

    fn replay(costs: &StepCosts) -> Option<StepModel> {
        StepModel::of(costs, 2, Tier(0), Timestamp::default())
    }

    fn judged(costs: &StepCosts, measured: &[(u32, f64)], most: u32) -> Judged {
        let mut replay = replay(costs).unwrap();
        let measured = measured.iter().copied().collect();
        replay.judge(&measured, &measured, most);
        replay.judged
    }

    fn off(points: &[CurvePoint]) -> f64 {
        let off = |point: &CurvePoint| (point.rate / rate(point.nodes) - 1.0).abs();
        points.iter().map(off).fold(0.0, f64::max)
    }

    #[test]
    fn sizes_never_tried_follow_from_one_that_was() {
        let found = judged(&costs(), &[(2, rate(2))], 8);
        let counts: Vec<u32> = found.rates.iter().map(|point| point.nodes).collect();
        assert_eq!(counts, [1, 4, 8]);
        assert!(off(&found.rates) < 1e-9, "{found:?}");
        assert!(
            (found.error - (1.0 - 0.12 / 0.121)).abs() < 1e-12,
            "{found:?}"
        );
        assert_eq!((found.met, found.limit), (0, None));
        // Up to the most nodes that it may have, on the line between replayed ones.
        let found = judged(&costs(), &[(2, rate(2))], 6);
        assert_eq!(found.rates.last().map(|point| point.nodes), Some(6));
        // The rate where the step was replayed is not measured yet.
        assert!(judged(&costs(), &[(4, rate(4))], 8).rates.is_empty());
    }

    #[test]
    fn a_batch_of_the_whole_group_is_shared() {
        let mut costs = costs();
        costs.follows = Some(Follows::Whole);
        let found = judged(&costs, &[(2, 10.0)], 4);
        let at = |nodes| {
            found
                .rates
                .iter()
                .find(|one| one.nodes == nodes)
                .unwrap()
                .rate
        };
        assert!((at(4) - 10.0 * truth(2, 1.0) / truth(4, 1.0)).abs() < 1e-9);
        for follows in [None, Some(Follows::Adaptive)] {
            costs.follows = follows;
            assert!(judged(&costs, &[(2, 10.0)], 4).rates.is_empty());
        }
    }

    #[test]
    fn measured_rates_win_and_the_others_go_through_them() {
        let found = judged(&costs(), &[(2, rate(2)), (4, 1.05 * rate(4))], 8);
        let counts: Vec<u32> = found.rates.iter().map(|point| point.nodes).collect();
        assert_eq!(counts, [1, 8]);
        let last = found.rates.last().unwrap();
        assert!((last.rate / rate(8) - 1.05).abs() < 1e-9, "{found:?}");
        assert_eq!(found.met, 1);
        // Further off than it may be, it is no model.
        let found = judged(&costs(), &[(2, rate(2)), (4, 1.2 * rate(4))], 8);
        assert!(found.rates.is_empty() && found.error > 0.16, "{found:?}");
        assert_eq!(found.limit, None);
    }

    #[test]
    fn what_is_not_trusted_or_no_number_says_nothing() {
        let bad: [fn(&mut StepCosts); 12] = [
            |costs| costs.trusted = false,
            |costs| costs.measured = 0.13,
            |costs| costs.measured = f64::NAN,
            |costs| costs.replayed = 0.0,
            |costs| costs.members = 3,
            |costs| costs.members = 0,
            |costs| costs.elsewhere[0].step = f64::NAN,
            |costs| costs.elsewhere[1].step = -1.0,
            |costs| (costs.follows, costs.elsewhere[0].step) = (None, f64::NAN),
            |costs| costs.elsewhere[2].step = 0.01,
            |costs| costs.elsewhere[1].members = 8,
            // A slower link, and a shorter step.
            |costs| costs.elsewhere[3].step = 0.1,
        ];
        for change in bad {
            let mut costs = costs();
            change(&mut costs);
            assert_eq!(replay(&costs), None, "{costs:?}");
        }
        assert_eq!(
            StepModel::of(&costs(), 1, Tier(0), Timestamp::default()),
            None
        );
        let mut none = costs();
        none.elsewhere.clear();
        assert!(judged(&none, &[(2, rate(2))], 8).rates.is_empty());
    }

    #[test]
    fn readers_that_share_what_they_read_from_limit() {
        let mut costs = costs();
        let wait = |seconds| CauseCost {
            cause: Cause::Fetch,
            seconds,
            percent: 0.0,
        };
        let measured = [(1, 1.3 * rate(1)), (2, rate(2))];
        // Its computing alone is slower than the replay says: no word of loaders.
        assert_eq!(judged(&costs, &measured, 8).limit, None);
        costs.costs = vec![wait(0.04)];
        let found = judged(&costs, &measured, 8);
        assert_eq!((found.limit, found.rates), (Some(2), Vec::new()));
        // More than all of the wait: not by reading.
        costs.costs = vec![wait(0.01)];
        assert_eq!(judged(&costs, &measured, 8).limit, None);
    }

    #[test]
    fn a_step_over_another_link_and_back() {
        let replay = replay(&costs()).unwrap();
        for slower in [0.5, 1.0, 3.0, 6.0] {
            let step = replay.step_with(slower).unwrap();
            assert!((step - truth(2, 1.0 / slower) / truth(2, 1.0)).abs() < 1e-9);
            let back = replay.link_with(step).unwrap();
            assert!((back - slower).abs() < 1e-9, "{slower} {back}");
        }
        assert_eq!(replay.step_with(0.1), None);
        let mut hidden = costs();
        hidden.elsewhere.retain(|one| one.members != 2);
        let hidden = StepModel::of(&hidden, 2, Tier(0), Timestamp::default()).unwrap();
        assert_eq!((hidden.step_with(2.0), hidden.link_with(1.5)), (None, None));
    }
}
