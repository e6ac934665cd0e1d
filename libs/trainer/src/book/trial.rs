//! Probes: sizes tried for the sake of measuring (`[control.profile]`).
//!
//! Plans give a trainer the sizes that pay, not those that say most about its curve. So a profiled
//! trainer trains now and then on fewer of its nodes than it has, until its rate there is known.
//! The others are parked (`Measured.aside`): they stay under its lease, and other trainers' plans
//! are untouched. The planner is told of all its nodes. A program that regroups is started anew on
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

use lacuna_model::{
    Action, MeasuredRate, NodeId, Phase, RunId, Timestamp, TrainerId, TrainerRecord, Work,
};

use crate::Now;
use crate::account::Change;
use crate::book::runs::assignment;
use crate::book::state::{Out, Target, Trainer};
use crate::book::{Book, Note};
use crate::settings::ProfileOrder;

/// Pairs of reports after which a rate is settled, if they agree.
const ENOUGH: u32 = 3;
/// They agree when the standard error of their mean is no more than this share of it.
const AGREE: f64 = 0.03;
/// Time between two reports, as long as none is known, seconds.
const INTERVAL_S: f64 = 5.0;

/// What trying sizes has cost one trainer since control started, and where it stands.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Trials {
    /// Up to when the sums go (cluster time).
    upto: Option<Timestamp>,
    /// Node-seconds that it has had.
    held_node_s: f64,
    /// Of these, what trials have cost.
    spent_node_s: f64,
    /// Of this, what was told to nobody yet.
    untold_node_s: f64,
    /// The newest run that a trial has begun, until its pause is known.
    run: Option<RunId>,
    /// Since when it trains on the present number of nodes (real time).
    since: Timestamp,
    /// Sizes that did not settle in the time that there is.
    vain: BTreeSet<u32>,
}

impl Trials {
    /// Brings the sums up to now.
    fn sum_up(&mut self, record: &mut TrainerRecord, now: Timestamp) {
        let seconds = self.upto.map_or(0.0, |upto| now.since(upto).as_secs_f64());
        self.upto = Some(now);
        let seconds = seconds.max(0.0);
        let aside = aside(record).len();
        self.held_node_s += (record.nodes.len() + aside) as f64 * seconds;
        self.spend(record, aside as f64 * seconds);
    }

    fn spend(&mut self, record: &mut TrainerRecord, node_s: f64) {
        if node_s > 0.0 {
            self.spent_node_s += node_s;
            self.untold_node_s += node_s;
            record.measured.get_or_insert_default().spent_node_s += node_s;
        }
    }

    /// The pause at the beginning of the present run has turned out to be so long.
    pub(crate) fn paused(&mut self, record: &mut TrainerRecord, seconds: f64) {
        if self.run.take() == Some(record.run) {
            self.spend(record, record.nodes.len() as f64 * seconds);
        }
    }

    /// A run begins on these nodes, some of which may have been aside before.
    pub(crate) fn turned(
        &mut self,
        record: &mut TrainerRecord,
        nodes: &[NodeId],
        change: Change,
        now: Now,
    ) {
        let tries = !aside(record).is_empty() && matches!(change, Change::Grown | Change::Shrunk);
        self.sum_up(record, now.cluster);
        self.since = now.wall;
        self.run = tries.then_some(record.run);
        if let Some(measured) = record.measured.as_deref_mut() {
            let own = |node: &NodeId| nodes.binary_search(node).is_ok();
            measured
                .aside
                .retain(|node| !nodes.is_empty() && !own(node));
        }
    }
}

impl Trainer {
    /// Whether it has a use for the node's lease.
    pub(crate) fn needs(&self, node: &NodeId) -> bool {
        self.record.nodes.binary_search(node).is_ok()
            || aside(&self.record).binary_search(node).is_ok()
            || self.target.as_ref().is_some_and(|t| t.nodes.contains(node))
    }
}

/// Nodes that a trainer holds beside those of its run.
pub(crate) fn aside(record: &TrainerRecord) -> &[NodeId] {
    record.measured.as_deref().map_or(&[], |m| &m.aside)
}

/// Takes a node from those aside. Returns whether it was among them.
pub(crate) fn drop_aside(record: &mut TrainerRecord, node: &NodeId) -> bool {
    let Some(measured) = record.measured.as_deref_mut() else {
        return false;
    };
    let before = measured.aside.len();
    measured.aside.retain(|other| other != node);
    measured.aside.len() < before
}

/// Nodes that it holds in all, sorted.
pub(crate) fn all_nodes(record: &TrainerRecord) -> Vec<NodeId> {
    let mut all: Vec<NodeId> = record.nodes.iter().chain(aside(record)).cloned().collect();
    all.sort();
    all
}

/// Too few to go on with are joined by those that are aside, as the whole next run.
pub(crate) fn or_all(record: &TrainerRecord, mut rest: Vec<NodeId>) -> Vec<NodeId> {
    let min = record.spec.min_nodes as usize;
    if rest.len() < min {
        rest.extend(aside(record).iter().cloned());
        rest.sort();
    }
    rest
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

/// What a plan is for a trainer that may try a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InTrial {
    /// It tries none: the plan is followed.
    No,
    /// It tried one, and has no nodes aside any more: the plan is followed, and what it does not
    /// give to the trainer is to be released.
    Over,
    /// The plan is not followed for it now.
    GoesOn,
}

/// Where the trainer is to go on, if not where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Size(u32),
    Full,
}

impl Book {
    /// Brings the trials of all trainers a step further.
    pub(crate) fn try_all_sizes(&mut self, now: Now, out: &mut Out) {
        for id in self.active.clone() {
            self.try_sizes(&id, now, out);
        }
    }

    /// Brings the trials of a trainer a step further.
    pub(crate) fn try_sizes(&mut self, id: &TrainerId, now: Now, out: &mut Out) {
        let lock_step = self.lock_step();
        let Some(trainer) = self.trainers.get_mut(id) else {
            return;
        };
        if lock_step || !super::profile::is_profiled(&trainer.record.spec) {
            return;
        }
        trainer.trials.sum_up(&mut trainer.record, now.cluster);
        self.tell_cost(id, false, out);
        match self.next_size(id, now) {
            Some(Next::Size(size)) => self.go_on_with(id, size as usize, now, out),
            Some(Next::Full) => self.end_trial(id, now, out),
            None => {}
        }
    }

    /// Where it is to go on.
    fn next_size(&mut self, id: &TrainerId, now: Now) -> Option<Next> {
        let config = &self.config;
        let trainer = self.trainers.get_mut(id)?;
        let record = &trainer.record;
        let waits = trainer.target.is_some() || trainer.loss.is_some() || trainer.restart.is_some();
        if waits || record.phase != Phase::Active || !self.connected || record.nodes.is_empty() {
            return None;
        }
        let present = record.nodes.len() as u32;
        let full = present + aside(record).len() as u32;
        let tries = present < full;
        let troubled =
            record.failures > 0 || record.hit_at.is_some() || now.wall < trainer.not_before;
        if troubled {
            return tries.then_some(Next::Full);
        }
        if !is_settled(record, present) {
            if !tries || now.since(trainer.trials.since) < config.control.profile.longest {
                return None;
            }
            trainer.trials.vain.insert(present);
        }
        let record = &trainer.record;
        let trained = trainer.profile.interval(record.run);
        if !tries && trained.is_none() {
            return None;
        }
        let open = |size: &u32| !is_settled(record, *size) && !trainer.trials.vain.contains(size);
        let mut sizes = sizes(record.spec.min_nodes, full).filter(open);
        let size = match config.control.profile.order {
            ProfileOrder::LargeToSmall => sizes.rfind(|&size| size < present),
            ProfileOrder::SmallToLarge => sizes.find(|&size| !tries || size > present),
        };
        let interval = trained.unwrap_or(INTERVAL_S);
        let size = size.filter(|&size| {
            let cost = expected_cost(record, (present, size, full), interval);
            let spent = trainer.trials.spent_node_s;
            let left = left_node_s(record, full);
            let most = config.control.profile.share * trainer.trials.held_node_s.min(left);
            spent + cost <= most
        });
        match size {
            Some(size) => Some(Next::Size(size)),
            None => tries.then_some(Next::Full),
        }
    }

    /// The next run is on so many of the trainer's nodes; rank 0 stays who it is.
    fn go_on_with(&mut self, id: &TrainerId, size: usize, now: Now, out: &mut Out) {
        let Some(trainer) = self.trainers.get_mut(id) else {
            return;
        };
        let present = trainer.record.nodes.len();
        out.note(Note::Trial {
            trainer: id.clone(),
            nodes: size as u32,
            of: (present + aside(&trainer.record).len()) as u32,
        });
        if size < present {
            let mut stay = trainer.record.nodes.clone();
            let leave = stay.split_off(size);
            let measured = trainer.record.measured.get_or_insert_default();
            measured.aside.extend(leave.iter().cloned());
            measured.aside.sort();
            self.change_run(id, stay, Change::Shrunk, now, out);
            self.put_aside(id, leave, now, out);
        } else {
            let more = size - present;
            let nodes = trainer.record.nodes.iter();
            let nodes = nodes.chain(aside(&trainer.record).iter().take(more));
            trainer.target = Some(Target {
                nodes: nodes.cloned().collect(),
                since: now.wall,
                change: Change::Grown,
            });
            self.pursue(id, now, out);
        }
    }

    /// Tells agents that their nodes leave the run and stay the trainer's: a program that
    /// regroups is started again at once, to be ready when it is taken in.
    fn put_aside(&mut self, id: &TrainerId, nodes: Vec<NodeId>, now: Now, out: &mut Out) {
        let Some(trainer) = self.trainers.get(id) else {
            return;
        };
        let record = &trainer.record;
        let seq = record.run.0;
        let action = if record.spec.launch.regroups() {
            let store = self.config.control.store.clone();
            Action::Prepare(Box::new(assignment(record, store)))
        } else {
            Action::Release {
                reason: "its trainer tries fewer nodes".to_owned(),
                at: Some(record.run_since),
            }
        };
        for node in nodes {
            self.send(&node, seq, action.clone(), now, out);
        }
    }

    /// The trainer goes on with all the nodes that it has.
    fn end_trial(&mut self, id: &TrainerId, now: Now, out: &mut Out) {
        let Some(trainer) = self.trainers.get(id) else {
            return;
        };
        let all = all_nodes(&trainer.record).len();
        if trainer.record.nodes.len() < all {
            self.go_on_with(id, all, now, out);
        }
    }

    /// Says what trials have cost since the last word on it: when one is over, or at once.
    pub(crate) fn tell_cost(&mut self, id: &TrainerId, at_once: bool, out: &mut Out) {
        let Some(trainer) = self.trainers.get_mut(id) else {
            return;
        };
        let over = aside(&trainer.record).is_empty() && trainer.trials.run.is_none();
        if trainer.trials.untold_node_s > 0.0 && (over || at_once) {
            let node_s = std::mem::take(&mut trainer.trials.untold_node_s);
            out.records.insert(id.clone());
            out.note(Note::TrialOver {
                trainer: id.clone(),
                node_s,
            });
        }
    }

    /// What a plan for a trainer means while it tries fewer nodes than it has. The trial goes on
    /// if the plan leaves the trainer all of them. If it takes every member of a run whose state
    /// lives in them, the run comes back to full size first, and a plan for that follows.
    pub(crate) fn plan_in_trial(
        &mut self,
        id: &TrainerId,
        want: &BTreeSet<NodeId>,
        now: Now,
        out: &mut Out,
    ) -> InTrial {
        let Some(trainer) = self.trainers.get_mut(id) else {
            return InTrial::No;
        };
        let record = &mut trainer.record;
        if aside(record).is_empty() {
            return InTrial::No;
        }
        let all = all_nodes(record);
        if want.iter().eq(&all) {
            return InTrial::GoesOn;
        }
        let stay = record.nodes.iter().filter(|node| want.contains(*node));
        let lives_on = stay.count() >= record.spec.min_nodes as usize;
        if record.spec.launch.regroups() && !lives_on && !want.is_empty() {
            if trainer.target.is_none() {
                self.end_trial(id, now, out);
            }
            return InTrial::GoesOn;
        }
        if let Some(measured) = record.measured.as_deref_mut() {
            measured.aside.clear();
        }
        InTrial::Over
    }
}

/// What a trial will probably cost, node-seconds: from `present` nodes to `size`, to be measured
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

/// Node-seconds that its work will still take on so many nodes.
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
