//! Probes: sizes tried in order to measure them (`[control.profile]`).
//!
//! Plans give a trainer the sizes of most value, not those that reveal most of its curve. So a
//! profiled trainer trains now and then on fewer of its nodes, until its rate there is known.
//! The others are parked (`Measured.parked`): they stay under its lease, and other trainers' plans
//! are untouched. The planner sees all its nodes. A program that regroups is started again on
//! a parked node, to be taken in again. A plan that gives the trainer other nodes, or the loss of
//! nodes, ends the probe first.
//!
//! - Sizes: its minimum, and that doubled again and again, below what it has. What it has is
//!   measured in passing. What was measured of its family is not measured again. Once the replay of a
//!   step has met a measured size within 5 %, sizes whose rates it says are not tried.
//! - Tiers: nodes on several leaves are tried near to each other and far apart at each size, since
//!   plans may keep either. Nodes of one leaf have one tier.
//! - Order: from large to small, each next size is reached by leaving, and only the way back by
//!   joining; from small to large it is the other way round. The default is from large to small: in
//!   one go it saves a fifth where joining costs more than leaving. Within a small share each size
//!   is a probe of its own, and the order does not matter.
//! - Length: until three pairs of reports or more agree, or for as long as is allowed.
//! - Cost: the time of parked nodes, and the stalls of the changes. A probe begins, or continues
//!   with the next size, only if its estimated cost and the cost so far stay within a share of the
//!   trainer's node-time, past and expected.
//!
//! The remaining error is a bend between two probed sizes; plans that use such a size measure it.
//! `RESULTS.md` has the error and the cost of such curves, by `lacuna-lab bench profile` (`--share
//! 1` tries all sizes in one go, the default share of 5 % one at a time).

use std::collections::BTreeSet;

use lacuna_model::{NodeId, RunId, Tier, Timestamp, TrainerRecord};

use crate::Now;
use crate::account::Change;
use crate::controller::trainers::parked::parked;

/// The cost of one trainer's probes since control started, and the state of the present one.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Probes {
    /// Up to when the sums go (cluster time).
    upto: Option<Timestamp>,
    /// Node-seconds that it has had.
    held_node_s: f64,
    /// Of these, the cost of probes.
    spent_node_s: f64,
    /// The part of this cost that no note has reported yet.
    unsaid_node_s: f64,
    /// The newest incarnation that a probe has begun, until its stall is known.
    run: Option<RunId>,
    /// Since when it trains on the present number of nodes (real time).
    since: Timestamp,
    /// Sizes and tiers that did not settle in the time that there is.
    vain: BTreeSet<(u32, Tier)>,
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
                .parked
                .retain(|node| !nodes.is_empty() && !own(node));
        }
    }

    /// Since when the trainer trains on the present number of nodes (real time).
    pub(super) const fn since(&self) -> Timestamp {
        self.since
    }

    /// Whether a size at a tier did not settle in the time that there was.
    pub(super) fn was_in_vain(&self, place: (u32, Tier)) -> bool {
        self.vain.contains(&place)
    }

    /// Whether a probe of this cost, node-seconds, stays within a share of the trainer's
    /// node-time, past and to come.
    pub(super) fn allow(&self, cost_node_s: f64, share: f64, left_node_s: f64) -> bool {
        self.spent_node_s + cost_node_s <= share * self.held_node_s.min(left_node_s)
    }

    /// A size at a tier did not settle in the time that there is.
    pub(super) fn in_vain(&mut self, place: (u32, Tier)) {
        self.vain.insert(place);
    }

    /// Takes the cost that no note has reported yet, node-seconds, if a probe is over or `at_once`.
    pub(super) fn take_cost(&mut self, is_over: bool, at_once: bool) -> Option<f64> {
        let is_over = is_over && self.run.is_none();
        let says = self.unsaid_node_s > 0.0 && (is_over || at_once);
        says.then(|| std::mem::take(&mut self.unsaid_node_s))
    }
}
