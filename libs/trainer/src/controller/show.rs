//! Read access to the controller's state.

use std::collections::{BTreeMap, HashMap};

use lacuna_model::{
    Attained, Efficiency, Launch, Member, NodeId, OwnerUse, Phase, Program, Timestamp, TrainerId,
    TrainerRecord, Troubled, Work,
};

use crate::Now;
use crate::controller::nodes::Node;
use crate::controller::trainers::{Trainer, all_nodes};
use crate::controller::{Apart, Controller, HeldNode, Tally, TrainersView};
use crate::measure::{self, Worked};

impl Controller {
    /// The version of the trainers that plans must be made from.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.publication.version()
    }

    /// Admitted trainers and their nodes.
    #[must_use]
    pub fn trainers_view(&self, now: Now) -> TrainersView {
        let attained = self.attained(now.cluster);
        let usable = self
            .nodes
            .iter()
            .filter(|(_, n)| n.is_idle() && n.is_usable());
        let usable = u32::try_from(usable.count()).unwrap_or(u32::MAX);
        let shown = |trainer: &Trainer| {
            let record = trainer.record();
            let of_owner = attained.get(record.spec.owner_or_self());
            let mut shown = TrainerRecord {
                // Parked nodes are its own.
                nodes: all_nodes(record),
                attained: *of_owner.unwrap_or(&record.attained),
                ..Self::for_all(record)
            };
            shown.spec.max_nodes = self.most_in_quota(trainer);
            if let Some(gain) = self.gain(&shown.spec) {
                shown.in_force_mut().gain = Some(gain);
            }
            if let Some(most) = self.most_elsewhere(trainer, usable, now) {
                shown.spec.max_nodes = shown.spec.max_nodes.min(most).max(shown.spec.min_nodes);
            }
            if trainer.ends() {
                let held = u32::try_from(shown.nodes.len()).unwrap_or(u32::MAX).max(1);
                (shown.spec.min_nodes, shown.spec.max_nodes) = (held, held);
                // It keeps them until its programs have ended.
                shown.spec.work = Work::UntilExit;
            }
            if trainer.lacks_pilots() || trainer.tries().rests() {
                let held = u32::try_from(shown.nodes.len()).unwrap_or(u32::MAX);
                shown.spec.max_nodes = held.clamp(shown.spec.min_nodes, shown.spec.max_nodes);
            }
            shown
        };
        let rests = |t: &Trainer| t.lacks_pilots() || t.tries().rests();
        let may_have_nodes = |t: &&Trainer| !t.nodes().is_empty() || !rests(t);
        let unusable = self.nodes.iter().filter(|(_, node)| !node.is_usable());
        TrainersView {
            version: self.version(),
            as_of: now.cluster,
            trainers: self
                .trainers
                .admitted()
                .filter(may_have_nodes)
                .filter(|trainer| self.is_planned(trainer))
                .map(shown)
                .collect(),
            unusable: unusable.map(|(id, _)| id.clone()).collect(),
            pilot_s: self.pilot_s(),
            followed: self.plans.followed(),
        }
    }

    /// How far apart the nodes of trainers are now.
    #[must_use]
    pub fn apart(&self) -> Apart {
        let mut apart = Apart::default();
        for trainer in self.trainers.admitted() {
            let tier = usize::from(self.topology.tier(trainer.nodes()).0);
            let last = apart.nodes.len() - 1;
            if let Some(nodes) = apart.nodes.get_mut(tier.min(last)) {
                *nodes += trainer.nodes().len() as u32;
            }
            apart.crossing += u32::from(tier > 0);
        }
        apart
    }

    /// Service of each owner by now, over all its trainers: those that wait, those that have ended
    /// and those in the archive too.
    fn attained(&self, now: Timestamp) -> HashMap<&str, Attained> {
        let past = self.past().attained.iter();
        let mut owners: HashMap<&str, Attained> =
            past.map(|(owner, of)| (owner.as_str(), *of)).collect();
        for record in self.trainers.records() {
            let own = owners.entry(record.spec.owner_or_self()).or_default();
            own.add(record.attained.by(now), now);
        }
        owners
    }

    /// A record as all users may see it: without the arguments and the environment of its program,
    /// by which users hand it passwords and tokens.
    #[must_use]
    pub fn for_all(record: &TrainerRecord) -> TrainerRecord {
        let mut record = record.clone();
        if let Launch::Command(Program { args, env, .. }) = &mut record.spec.launch {
            args.clear();
            env.clear();
        }
        record.ticket = None;
        record.ended_runs.clear();
        record
    }

    /// All records in order of arrival, those of ended trainers if `all`.
    #[must_use]
    pub fn records(&self, all: bool) -> Vec<&TrainerRecord> {
        let mut records: Vec<&TrainerRecord> = self
            .trainers
            .records()
            .filter(|record| all || !record.phase.is_final())
            .collect();
        records.sort_by_key(|record| record.order);
        records
    }

    /// One trainer's record.
    #[must_use]
    pub fn record(&self, trainer: &TrainerId) -> Option<&TrainerRecord> {
        self.trainers.record(trainer)
    }

    /// All nodes that were ever in the pool or under a lease, sorted.
    #[must_use]
    pub fn node_views(&self, now: Now) -> Vec<HeldNode> {
        let others = self.nodes.counterparts(now);
        let view = |(id, node): (&NodeId, &Node)| {
            let status = node.agent().status();
            let heard = status.and(node.agent().heard());
            HeldNode {
                node: id.clone(),
                idle_since: node.idle_since(),
                trainer: node.lease().owner().cloned(),
                epoch: node.lease().epoch(),
                activity: status.map(|status| status.activity.clone()),
                silent_s: heard.map(|heard| now.since(heard).as_secs_f64()),
                trouble: self.nodes.trouble(id, &others, now),
                is_down: node.is_down(),
            }
        };
        self.nodes.iter().map(view).collect()
    }

    /// Nodes with a trouble now, by its kind.
    #[must_use]
    pub fn troubled(&self, now: Now) -> Vec<Troubled> {
        self.nodes.troubled(now)
    }

    /// Every lease in force: the content of a renewal.
    #[must_use]
    pub fn leases(&self) -> Vec<Member> {
        let leased = |(id, node): (&NodeId, &Node)| {
            node.lease().owner().map(|_| Member {
                node: id.clone(),
                epoch: node.lease().epoch(),
            })
        };
        self.nodes.iter().filter_map(leased).collect()
    }

    /// How many commands wait for their acknowledgement.
    #[must_use]
    pub fn unacknowledged(&self) -> usize {
        self.nodes.unacknowledged()
    }

    /// Sums over all trainers and nodes.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let past = self.past();
        let mut tally = Tally {
            pool_nodes: self.nodes.in_pool(),
            leased_nodes: self.nodes.leased(),
            samples: past.samples,
            rescale_cost: past.rescale_cost,
            preempt_cost: past.preempt_cost,
            restart_cost: past.restart_cost,
            stalls: past.stalls,
            preemptions: past.preemptions,
            rescales: past.rescales,
            done: past.done,
            ..self.usage.tally()
        };
        for record in self.trainers.records() {
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

    /// What each owner's trainers have had so far, archived ones included.
    #[must_use]
    pub fn owners(&self) -> BTreeMap<String, OwnerUse> {
        let mut owners = self.past().owners.clone();
        for record in self.trainers.records() {
            measure::add_owner(&mut owners, record, self.usage.upto());
        }
        owners
    }

    /// Efficiency U of all that was offered so far.
    fn efficiency(&self) -> Efficiency {
        let offered = self.usage.offered(self.config.control.max_parallel);
        let records = self.trainers.records();
        let trainers = records
            .filter(|record| record.started.is_some() || !record.phase.is_final())
            .map(|record| Worked::of(record, self.usage.upto()));
        measure::efficiency_of(trainers, self.past(), &offered)
    }
}
