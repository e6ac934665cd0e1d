//! Measurements of trainers while they train: rates and costs (`lacuna_rates`,
//! `trainers/stalls.rs`), what they learn (`trainers/learnt.rs`), and the probes that are run for
//! it (`trainers/probes.rs`).

use std::collections::BTreeSet;

use lacuna_model::{Action, Launch, NodeId, Progress, TrainerId};
use lacuna_rates::Site;

use crate::Now;
use crate::account::Change;
use crate::controller::out::Out;
use crate::controller::trainers::{Next, Target, all_nodes, next_probe};
use crate::controller::{Controller, Note};

/// The effect of a plan on a trainer that may be probing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DuringProbe {
    /// No probe is under way: the plan is followed.
    None,
    /// The probe is over, and no node is parked any more: the plan is followed, and nodes that it
    /// does not give to the trainer are to be released.
    Over,
    /// The probe goes on: the plan is not followed for the trainer now.
    GoesOn,
}

/// Rates and costs.
impl Controller {
    /// Measures by a report of a trainer's present incarnation.
    pub(super) fn measure(&mut self, report: &Progress, now: Now, out: &mut Out) {
        let id = &report.trainer;
        let Some(trainer) = self.trainers.get_mut(id) else {
            return;
        };
        let record = trainer.record();
        if report.run != record.run || record.spec.launch == Launch::Simulated {
            return;
        }
        let site = Site::of(&record.spec, &record.nodes, &self.kinds, &self.topology);
        let changed = trainer.measure(report, site.as_ref());
        let is_profiled = trainer.is_profiled();
        if changed.curve {
            // Of nodes by kind, control alone knows the rate.
            let rate = self
                .trainers
                .get(id)
                .and_then(|t| self.rate_on(t, t.nodes()));
            if let Some(trainer) = self.trainers.get_mut(id) {
                trainer.set_rate(rate);
            }
        }
        if changed.curve || changed.cost || changed.goodput {
            out.record(id);
            self.publication.change();
        }
        if !is_profiled {
            return;
        }
        if changed.curve || changed.start {
            for relative in self.trainers.admitted_where(|other| other.id() != id) {
                self.take_over(&relative, out);
            }
        }
        self.probe(id, now, out);
    }

    /// Gives a trainer the newest measurements of its family at counts that it has not measured
    /// itself.
    pub(super) fn take_over(&mut self, id: &TrainerId, out: &mut Out) {
        if self.trainers.take_over(id) {
            self.publication.change();
            out.record(id);
        }
    }
}

/// Probes.
impl Controller {
    /// Brings the probes of all trainers a step further.
    pub(super) fn probe_all(&mut self, now: Now, out: &mut Out) {
        for id in self.trainers.admitted_where(|_| true) {
            self.probe(&id, now, out);
        }
    }

    /// Brings the probe of a trainer a step further.
    fn probe(&mut self, id: &TrainerId, now: Now, out: &mut Out) {
        let lock_step = self.lock_step.is_on();
        let trainer = self.trainers.get_mut(id);
        let Some(trainer) = trainer.filter(|t| !lock_step && t.is_profiled()) else {
            return;
        };
        trainer.sum_up_probes(now);
        self.note_probe_cost(id, false, out);
        let trainer = self.trainers.get_mut(id).filter(|_| self.connected);
        let settings = &self.config.control.profile;
        match trainer.and_then(|t| next_probe(t, settings, (&self.topology, &self.kinds), now)) {
            Some(Next::Nodes(nodes)) => self.go_on_with(id, nodes, now, out),
            Some(Next::Full) => self.end_probe(id, now, out),
            None => {}
        }
    }

    /// The next incarnation has these of the trainer's nodes. Rank 0 stays the same node.
    fn go_on_with(&mut self, id: &TrainerId, nodes: Vec<NodeId>, now: Now, out: &mut Out) {
        let Some(trainer) = self.trainers.get_mut(id) else {
            return;
        };
        let present = trainer.nodes().len();
        out.note(Note::Probe {
            trainer: id.clone(),
            nodes: nodes.len() as u32,
            of: (present + trainer.parked().len()) as u32,
        });
        if nodes.len() < present {
            let leave = trainer.park(&nodes);
            self.begin_incarnation(id, nodes, Change::Shrunk, now, out);
            self.park(id, leave, now, out);
        } else {
            let nodes = nodes.into_iter().collect();
            trainer.set_target(Target::new(nodes, now.wall, Change::Grown));
            self.pursue(id, now, out);
        }
    }

    /// Tells agents that their nodes leave the incarnation and stay the trainer's: a program that
    /// regroups is started again at once, to be ready when it is taken in.
    fn park(&mut self, id: &TrainerId, nodes: Vec<NodeId>, now: Now, out: &mut Out) {
        let Some(trainer) = self.trainers.get(id) else {
            return;
        };
        let seq = trainer.record().run.0;
        let action = if trainer.regroups() {
            Action::Prepare(Box::new(trainer.assignment(&self.config.control)))
        } else {
            Action::Release {
                reason: "its trainer tries fewer nodes".to_owned(),
                at: Some(trainer.record().run_since),
            }
        };
        for node in nodes {
            self.send(&node, seq, action.clone(), now, out);
        }
    }

    /// The trainer goes on with all the nodes that it has.
    fn end_probe(&mut self, id: &TrainerId, now: Now, out: &mut Out) {
        let Some(trainer) = self.trainers.get(id) else {
            return;
        };
        if !trainer.parked().is_empty() {
            let all = all_nodes(trainer.record());
            self.go_on_with(id, all, now, out);
        }
    }

    /// Notes the cost of probes since the last note: when one is over, or at once.
    pub(super) fn note_probe_cost(&mut self, id: &TrainerId, at_once: bool, out: &mut Out) {
        let trainer = self.trainers.get_mut(id);
        if let Some(node_s) = trainer.and_then(|t| t.take_probe_cost(at_once)) {
            out.record(id);
            out.note(Note::ProbeEnded {
                trainer: id.clone(),
                node_s,
            });
        }
    }

    /// What a plan for a trainer means while it trains on fewer nodes than it has. The probe goes
    /// on if the plan leaves the trainer all of them. If it takes every member of an incarnation
    /// whose state lives in them, the trainer comes back to full size first, and a plan for that
    /// follows.
    pub(super) fn plan_during_probe(
        &mut self,
        id: &TrainerId,
        want: &BTreeSet<NodeId>,
        now: Now,
        out: &mut Out,
    ) -> DuringProbe {
        let trainer = self.trainers.get_mut(id);
        let Some(trainer) = trainer.filter(|trainer| !trainer.parked().is_empty()) else {
            return DuringProbe::None;
        };
        if want.iter().eq(&all_nodes(trainer.record())) {
            return DuringProbe::GoesOn;
        }
        let stay = trainer.nodes().iter().filter(|node| want.contains(*node));
        let lives_on = stay.count() >= trainer.min_nodes();
        if trainer.regroups() && !lives_on && !want.is_empty() {
            if trainer.target().is_none() {
                self.end_probe(id, now, out);
            }
            return DuringProbe::GoesOn;
        }
        trainer.unpark_all();
        DuringProbe::Over
    }
}
