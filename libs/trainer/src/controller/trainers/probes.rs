//! Probes: sizes tried for the sake of measuring (`[control.profile]`).
//!
//! Plans give a trainer the sizes that pay, not those that say most about its curve. So a profiled
//! trainer trains now and then on fewer of its nodes than it has, until its rate there is known.
//! The others are parked (`Measured.aside`): they stay under its lease, and other trainers' plans
//! are untouched. The planner is told of all its nodes. A program that regroups is started again on
//! a parked node, to be taken in again. A plan that gives the trainer other nodes, or the loss of
//! nodes, ends the probe first.
//!
//! - Sizes: its minimum, and that doubled again and again, below what it has. What it has is
//!   measured in passing. What was measured of its family is not measured again.
//! - Order: from large to small, each next size is reached by leaving, and only the way back by
//!   joining; from small to large it is the other way round. The default is from large to small: in
//!   one go it saves a fifth where joining costs more than leaving. Within a small share each size
//!   is a probe of its own, and the order does not matter.
//! - Length: until three pairs of reports or more agree, or for as long as is allowed.
//! - Cost: the time of parked nodes, and what is stalled by the changes. A probe begins, or goes on
//!   to the next size, only if what it will probably cost, with what was spent so far, is within a
//!   share of the node-time that the trainer has had, and of what it has still to come.
//!
//! A bend between two sizes that are tried is the error that remains; plans that use such a size
//! measure it. `RESULTS.md` has the error and the cost of such curves, by `lacuna-lab bench
//! profile` (`--share 1` tries all sizes in one go, the default share of 5 % one at a time).

use std::collections::BTreeSet;

use lacuna_model::{MeasuredRate, NodeId, Phase, RunId, Timestamp, TrainerRecord, Work};

use crate::Now;
use crate::account::Change;
use crate::controller::trainers::parked::parked;
use crate::controller::trainers::trainer::Trainer;
use crate::settings::{Profile, ProfileOrder};

/// Pairs of reports after which a rate is settled, if they agree.
const ENOUGH: u32 = 3;
/// They agree when the standard error of their mean is no more than this share of it.
const AGREE: f64 = 0.03;
/// Time between two reports, as long as none is known, seconds.
const INTERVAL_S: f64 = 5.0;

/// What probes have cost one trainer since control started, and where the present one is.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Probes {
    /// Up to when the sums go (cluster time).
    upto: Option<Timestamp>,
    /// Node-seconds that it has had.
    held_node_s: f64,
    /// Of these, the cost of probes.
    spent_node_s: f64,
    /// Of this, what no note has said yet.
    unsaid_node_s: f64,
    /// The newest incarnation that a probe has begun, until its stall is known.
    run: Option<RunId>,
    /// Since when it trains on the present number of nodes (real time).
    since: Timestamp,
    /// Sizes that did not settle in the time that there is.
    vain: BTreeSet<u32>,
}

impl Probes {
    /// Brings the sums up to now.
    pub(super) fn sum_up(&mut self, record: &mut TrainerRecord, now: Timestamp) {
        let seconds = self.upto.map_or(0.0, |upto| now.since(upto).as_secs_f64());
        self.upto = Some(now);
        let seconds = seconds.max(0.0);
        let parked = parked(record).len();
        self.held_node_s += (record.nodes.len() + parked) as f64 * seconds;
        self.spend(record, parked as f64 * seconds);
    }

    fn spend(&mut self, record: &mut TrainerRecord, node_s: f64) {
        if node_s > 0.0 {
            self.spent_node_s += node_s;
            self.unsaid_node_s += node_s;
            record.measured.get_or_insert_default().spent_node_s += node_s;
        }
    }

    /// The stall at the beginning of the present incarnation has been measured, in seconds.
    pub(super) fn stalled(&mut self, record: &mut TrainerRecord, seconds: f64) {
        if self.run.take() == Some(record.run) {
            self.spend(record, record.nodes.len() as f64 * seconds);
        }
    }

    /// An incarnation begins on these nodes, some of which may have been parked before.
    pub(super) fn begin(
        &mut self,
        record: &mut TrainerRecord,
        nodes: &[NodeId],
        change: Change,
        now: Now,
    ) {
        let probes = !parked(record).is_empty() && matches!(change, Change::Grown | Change::Shrunk);
        self.sum_up(record, now.cluster);
        self.since = now.wall;
        self.run = probes.then_some(record.run);
        if let Some(measured) = record.measured.as_deref_mut() {
            let own = |node: &NodeId| nodes.binary_search(node).is_ok();
            measured
                .aside
                .retain(|node| !nodes.is_empty() && !own(node));
        }
    }

    /// A size did not settle in the time that there is.
    pub(super) fn in_vain(&mut self, size: u32) {
        self.vain.insert(size);
    }

    /// Takes the cost that no note has said yet, node-seconds, if a probe is over or `at_once`.
    pub(super) fn take_cost(&mut self, is_over: bool, at_once: bool) -> Option<f64> {
        let is_over = is_over && self.run.is_none();
        let says = self.unsaid_node_s > 0.0 && (is_over || at_once);
        says.then(|| std::mem::take(&mut self.unsaid_node_s))
    }
}

/// Whether no more has to be measured at this count.
fn is_settled(record: &TrainerRecord, nodes: u32) -> bool {
    let mut rates = record.measured.iter().flat_map(|measured| &measured.rates);
    rates.any(|rate| rate.nodes == nodes && (rate.from.is_some() || agrees(rate)))
}

fn agrees(rate: &MeasuredRate) -> bool {
    let error = rate.spread / f64::from(rate.count).sqrt();
    rate.count >= ENOUGH && error <= AGREE * rate.rate
}

/// Sizes worth knowing of a trainer that has `full` nodes: fewest first.
fn sizes(min: u32, full: u32) -> impl DoubleEndedIterator<Item = u32> {
    (0..u32::BITS).filter_map(move |doublings| {
        let size = u64::from(min) << doublings;
        u32::try_from(size).ok().filter(|&size| size < full)
    })
}

/// Where a trainer is to go on, if not where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// On this number of its nodes.
    Size(u32),
    /// On all of its nodes.
    Full,
}

/// Where a trainer is to go on. Its sums must be up to date.
pub(crate) fn next(trainer: &mut Trainer, settings: &Profile, now: Now) -> Option<Next> {
    let record = trainer.record();
    if trainer.is_changing() || record.phase != Phase::Active || record.nodes.is_empty() {
        return None;
    }
    let present = record.nodes.len() as u32;
    let full = present + parked(record).len() as u32;
    let probes = present < full;
    let troubled =
        record.failures > 0 || record.hit_at.is_some() || !trainer.health().may_start(now);
    if troubled {
        return probes.then_some(Next::Full);
    }
    if !is_settled(record, present) {
        if !probes || now.since(trainer.probes().since) < settings.longest {
            return None;
        }
        trainer.probed_in_vain();
    }
    let trained = trainer.report_interval();
    if !probes && trained.is_none() {
        return None;
    }
    let (record, sums) = (trainer.record(), trainer.probes());
    let open = |size: &u32| !is_settled(record, *size) && !sums.vain.contains(size);
    let mut sizes = sizes(record.spec.min_nodes, full).filter(open);
    let size = match settings.order {
        ProfileOrder::LargeToSmall => sizes.rfind(|&size| size < present),
        ProfileOrder::SmallToLarge => sizes.find(|&size| !probes || size > present),
    };
    let interval = trained.unwrap_or(INTERVAL_S);
    let pays = |&size: &u32| {
        let cost = expected_cost(record, (present, size, full), interval);
        let left = left_node_s(record, full);
        sums.spent_node_s + cost <= settings.share * sums.held_node_s.min(left)
    };
    match size.filter(pays) {
        Some(size) => Some(Next::Size(size)),
        None => probes.then_some(Next::Full),
    }
}

/// What a probe will probably cost, node-seconds: from `present` nodes to `size`, to be measured
/// there with reports every `interval` seconds, and back to `full`.
fn expected_cost(
    record: &TrainerRecord,
    (present, size, full): (u32, u32, u32),
    interval: f64,
) -> f64 {
    let rescale = record.spec.rescale;
    let there = if size < present {
        rescale.down_s
    } else {
        rescale.up_s
    };
    // One report to begin with, then the pairs.
    let measuring = f64::from(ENOUGH + 1) * interval;
    let idle = f64::from(full - size) * (there + measuring);
    idle + f64::from(size) * there + f64::from(full) * rescale.up_s
}

/// Node-seconds that its work will still take on this number of nodes.
fn left_node_s(record: &TrainerRecord, nodes: u32) -> f64 {
    match record.spec.work {
        Work::UntilExit => f64::INFINITY,
        Work::Samples(work) => {
            let rate = record.spec.throughput.at(nodes);
            f64::from(nodes) * (work - record.samples()).max(0.0) / rate
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_doubled_from_the_minimum_and_stay_below_what_there_is() {
        let of = |min, full| sizes(min, full).collect::<Vec<_>>();
        assert_eq!(of(1, 8), [1, 2, 4]);
        assert_eq!(of(3, 13), [3, 6, 12]);
        assert_eq!(of(4, 4), [0_u32; 0]);
    }
}
