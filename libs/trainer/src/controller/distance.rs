//! The rate of a simulated trainer by the distance of its nodes and by the uplinks that it shares. A
//! real program is as fast as it is.
//!
//! - A change of nodes is charged at the rate before it.
//! - Uplinks are looked at when a plan is followed, as they are once all trainers have their nodes. A
//!   trainer whose rate is another one then, on the same nodes, begins an incarnation that costs
//!   nothing ([`Change::Paced`]). A replay does the same (`sim::world`).

use std::collections::BTreeSet;

use lacuna_model::{Launch, NodeId, TrainerId, crowds};
use lacuna_rates::Rates;

use crate::Now;
use crate::account::Change;
use crate::controller::Controller;
use crate::controller::out::Out;
use crate::controller::trainers::{Target, Trainer};

impl Controller {
    /// Samples/s of a trainer on these nodes, where their kinds or their places say it.
    pub(super) fn rate_on(&self, trainer: &Trainer, nodes: &[NodeId]) -> Option<f64> {
        let rates = Rates::of(trainer.record());
        if !self.pays_for_distance(trainer) {
            return rates.by_kind(nodes, &self.kinds);
        }
        Some(rates.on_nodes(nodes, &self.kinds, &self.topology, trainer.crowd()))
    }

    fn pays_for_distance(&self, trainer: &Trainer) -> bool {
        let spec = &trainer.record().spec;
        let simulated = matches!(spec.launch, Launch::Simulated);
        simulated && !spec.distance.is_free() && !self.topology.is_empty()
    }

    /// Looks at the uplinks, as they are once all trainers have the nodes that they wait for.
    pub(super) fn look_at_uplinks(&mut self) {
        let Some(carries) = self.config.uplink else {
            return;
        };
        let leaf = |node| self.topology.leaf(node).ok_or(node);
        let leaves = self.trainers.admitted().map(|trainer| {
            let nodes = trainer.nodes().iter();
            match trainer.target().map(Target::nodes) {
                Some(target) => target.iter().map(leaf).collect(),
                None => nodes.map(leaf).collect(),
            }
        });
        let leaves: Vec<BTreeSet<Result<&str, &NodeId>>> = leaves.collect();
        let crowds = crowds(&leaves, carries);
        let all = self.trainers.admitted_where(|_| true);
        for (id, crowd) in all.iter().zip(crowds) {
            if let Some(trainer) = self.trainers.get_mut(id) {
                trainer.set_crowd(crowd);
            }
        }
    }

    /// Gives trainers that keep their nodes the rates that they have there now.
    pub(super) fn pace(&mut self, now: Now, out: &mut Out) {
        let is_off = |trainer: &Trainer| {
            let nodes = trainer.nodes();
            // A probe parks nodes: it ends first.
            let is_idle = trainer.target().is_none() && trainer.parked().is_empty();
            let stays = !nodes.is_empty() && is_idle;
            let rate = || self.rate_on(trainer, nodes);
            stays && self.pays_for_distance(trainer) && rate() != trainer.record().mix_rate
        };
        let paced: Vec<TrainerId> = self.trainers.admitted_where(is_off);
        for id in paced {
            let nodes = self.trainers.get(&id).map(|t| t.nodes().to_vec());
            self.begin_incarnation(&id, nodes.unwrap_or_default(), Change::Paced, now, out);
        }
    }
}
