//! What the books show.

use std::collections::HashMap;

use lacuna_model::{
    Activity, Attained, Efficiency, Epoch, Launch, Member, NodeId, Phase, Span, Stalls, Timestamp,
    TrainerId, TrainerRecord,
};

use crate::Now;
use crate::book::Book;
use crate::book::trial::all_nodes;
use crate::measure::{self, Offered, Worked};

/// What the planner needs to know.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainersView {
    /// Grows with every change that a plan depends on.
    pub version: u64,
    /// The moment, in the cluster's time.
    pub as_of: Timestamp,
    /// Admitted trainers, in order of admission, as [`Book::for_all`] shows them.
    pub trainers: Vec<TrainerRecord>,
    /// Nodes that must not be given to anyone.
    pub unusable: Vec<NodeId>,
}

/// One node, as control sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeView {
    /// Which.
    pub node: NodeId,
    /// Since when it is a hole.
    pub idle_since: Option<Timestamp>,
    /// Who holds its lease.
    pub trainer: Option<TrainerId>,
    /// The fencing token.
    pub epoch: Epoch,
    /// What its agent last said.
    pub activity: Option<Activity>,
    /// Seconds since the agent's last word.
    pub silent_s: Option<f64>,
}

/// What has come of it all. The sums over time are kept across restarts.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Tally {
    /// Cluster time of the first event or submission.
    pub since: Option<Timestamp>,
    /// Cluster time up to which is summed.
    pub upto: Option<Timestamp>,
    /// Node-seconds in the pool.
    pub idle_node_s: f64,
    /// Node-seconds under a lease.
    pub harvested_node_s: f64,
    /// Samples done by all trainers.
    pub samples: f64,
    /// Stall cost of changes of size by the planner, in samples.
    pub rescale_cost: f64,
    /// Stall cost of preemptions, in samples.
    pub preempt_cost: f64,
    /// Stall cost of restarts of programs on the same nodes, in samples.
    pub restart_cost: f64,
    /// Seconds stalled and samples redone, by cause.
    pub stalls: Stalls,
    /// Efficiency U ([`crate::measure`]).
    pub efficiency: Efficiency,
    /// Times that a trainer lost nodes unasked.
    pub preemptions: u64,
    /// Times that the planner changed a trainer's size.
    pub rescales: u64,
    /// Trainers that have done their work.
    pub done: u64,
    /// Trainers waiting.
    pub queued: u32,
    /// Trainers admitted.
    pub active: u32,
    /// Nodes in the pool.
    pub pool_nodes: u32,
    /// Nodes under a lease.
    pub leased_nodes: u32,
}

impl Book {
    /// The version of the trainers that plans must be made from.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// Admitted trainers and what they hold.
    #[must_use]
    pub fn trainers_view(&self, now: Now) -> TrainersView {
        let attained = self.attained(now.cluster);
        TrainersView {
            version: self.version,
            as_of: now.cluster,
            trainers: self
                .active
                .iter()
                .filter_map(|id| self.trainers.get(id))
                .map(|trainer| {
                    let mut record = TrainerRecord {
                        // Nodes that are aside while fewer are tried are its own.
                        nodes: all_nodes(&trainer.record),
                        attained: *attained
                            .get(trainer.record.spec.owner_or_self())
                            .unwrap_or(&trainer.record.attained),
                        ..Self::for_all(&trainer.record)
                    };
                    record.spec.max_nodes = self.most_in_quota(trainer);
                    record
                })
                .collect(),
            unusable: self
                .nodes
                .iter()
                .filter(|(_, node)| !node.usable())
                .map(|(id, _)| id.clone())
                .collect(),
        }
    }

    /// Service of each owner by now, over all its trainers: those that wait, those that have ended
    /// and those that have left the books too.
    fn attained(&self, now: Timestamp) -> HashMap<&str, Attained> {
        let past = self.past.attained.iter();
        let mut owners: HashMap<&str, Attained> =
            past.map(|(owner, of)| (owner.as_str(), *of)).collect();
        for record in self.trainers.values().map(|trainer| &trainer.record) {
            let own = owners.entry(record.spec.owner_or_self()).or_default();
            own.add(record.attained.by(now), now);
        }
        owners
    }

    /// A record as everybody may see it: without the arguments and the environment of its
    /// program, in which users hand it passwords and tokens.
    #[must_use]
    pub fn for_all(record: &TrainerRecord) -> TrainerRecord {
        let mut record = record.clone();
        if let Launch::Command { args, env, .. } = &mut record.spec.launch {
            args.clear();
            env.clear();
        }
        record
    }

    /// All records in order of arrival, those of ended trainers if `all`.
    #[must_use]
    pub fn records(&self, all: bool) -> Vec<&TrainerRecord> {
        let mut records: Vec<&TrainerRecord> = self
            .trainers
            .values()
            .map(|trainer| &trainer.record)
            .filter(|record| all || !record.phase.is_final())
            .collect();
        records.sort_by_key(|record| record.order);
        records
    }

    /// One trainer's record.
    #[must_use]
    pub fn record(&self, trainer: &TrainerId) -> Option<&TrainerRecord> {
        self.trainers.get(trainer).map(|t| &t.record)
    }

    /// All nodes that were ever in the pool or under a lease, sorted.
    #[must_use]
    pub fn node_views(&self, now: Now) -> Vec<NodeView> {
        self.nodes
            .iter()
            .map(|(id, node)| NodeView {
                node: id.clone(),
                idle_since: node.idle_since,
                trainer: node.owner.clone(),
                epoch: node.epoch,
                activity: node.status.as_ref().map(|status| status.activity.clone()),
                silent_s: node
                    .status
                    .as_ref()
                    .and(node.heard)
                    .map(|heard| now.since(heard).as_secs_f64()),
            })
            .collect()
    }

    /// Every lease that stands: what a renewal says.
    #[must_use]
    pub fn leases(&self) -> Vec<Member> {
        self.nodes
            .iter()
            .filter(|(_, node)| node.owner.is_some())
            .map(|(id, node)| Member {
                node: id.clone(),
                epoch: node.epoch,
            })
            .collect()
    }

    /// How many commands wait for their acknowledgement.
    #[must_use]
    pub fn unacknowledged(&self) -> usize {
        self.unacked.len()
    }

    /// What has come of it all.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let mut tally = Tally {
            since: self.sums.since,
            upto: self.sums.upto,
            idle_node_s: self.sums.idle_node_s,
            harvested_node_s: self.sums.harvested_node_s,
            pool_nodes: self.pool_nodes,
            leased_nodes: self.leased_nodes,
            samples: self.past.samples,
            rescale_cost: self.past.rescale_cost,
            preempt_cost: self.past.preempt_cost,
            restart_cost: self.past.restart_cost,
            stalls: self.past.stalls,
            preemptions: self.past.preemptions,
            rescales: self.past.rescales,
            done: self.past.done,
            ..Tally::default()
        };
        for trainer in self.trainers.values() {
            let record = &trainer.record;
            tally.samples += record.samples();
            tally.rescale_cost += record.rescale_cost;
            tally.preempt_cost += record.preempt_cost;
            tally.restart_cost += record.restart_cost;
            measure::add(&mut tally.stalls, &record.stalls);
            tally.preemptions += record.preemptions;
            tally.rescales += record.rescales;
            match record.phase {
                Phase::Queued => tally.queued += 1,
                Phase::Active => tally.active += 1,
                Phase::Done => tally.done += 1,
                Phase::Cancelled | Phase::Failed => {}
            }
        }
        tally.efficiency = self.efficiency();
        tally
    }

    /// Efficiency U of all that was offered so far.
    fn efficiency(&self) -> Efficiency {
        let sums = &self.sums;
        let lasted = sums
            .upto
            .zip(sums.since)
            .map(|(upto, since)| upto.since(since));
        let offered = Offered {
            seconds: lasted.map_or(0.0, Span::as_secs_f64),
            idle_node_s: sums.idle_node_s,
            harvested_node_s: sums.harvested_node_s,
            max_parallel: self.config.control.max_parallel,
        };
        let records = self.trainers.values().map(|trainer| &trainer.record);
        let trainers = records
            .filter(|record| record.started.is_some() || !record.phase.is_final())
            .map(|record| Worked::of(record, sums.upto));
        measure::efficiency_of(trainers, &self.past, &offered)
    }
}
