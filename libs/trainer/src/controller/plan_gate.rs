//! Which plan is followed, and when: the newest one, once.
//!
//! - A plan is followed only if its generation is newer than any that was followed or waits.
//! - A plan waits while the bus is away, the pool is unknown, or the events that it knows of have
//!   not come. In lock step its version must be the present one, and a step has one plan.
//! - A plan names the incarnation (`runs`) of each trainer that it was made from. A trainer that
//!   has changed since is left as it is, with its nodes, and the rest of the plan is followed. A
//!   plan that names none must be made from the present version.
//! - A node of the followed plan that was no hole then is *missed*. When it is a hole again, a plan
//!   is due, and the planner may see no change of the pool.

use std::collections::{BTreeMap, BTreeSet};

use lacuna_model::{Generation, NodeId, Plan, RunId, TrainerId};

/// A plan with the trainers that it was made from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Offer {
    plan: Plan,
    version: u64,
    runs: BTreeMap<TrainerId, RunId>,
}

impl Offer {
    pub(crate) const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The version of the trainers that the plan was made from.
    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    /// Whether the plan was made for this incarnation of the trainer. `is_current` says whether
    /// the plan's version is the present one.
    pub(crate) fn fits(&self, id: &TrainerId, run: Option<RunId>, is_current: bool) -> bool {
        if self.runs.is_empty() {
            is_current
        } else {
            run.as_ref() == self.runs.get(id)
        }
    }
}

/// The newest plan that waits, and the newest one that was followed.
#[derive(Debug, Default)]
pub(crate) struct PlanGate {
    followed: Generation,
    waiting: Option<Offer>,
    /// Nodes of the followed plan that were no holes.
    missed: BTreeSet<NodeId>,
    /// In lock step, the last step that has had its plan.
    step: Option<u64>,
}

impl PlanGate {
    /// Takes a plan in. Returns whether it is older than another; the newest, repeated, is not.
    pub(crate) fn offer(
        &mut self,
        plan: Plan,
        version: u64,
        runs: Vec<(TrainerId, RunId)>,
    ) -> bool {
        let waiting = self.waiting.as_ref().map(|offer| offer.plan.generation);
        let newest = waiting.map_or(self.followed, |g| g.max(self.followed));
        let generation = plan.generation;
        if generation > newest {
            self.waiting = Some(Offer {
                plan,
                version,
                runs: runs.into_iter().collect(),
            });
        }
        generation < newest
    }

    /// Lets the waiting plan through, if it is ready. It counts as followed from then on.
    pub(crate) fn pass(&mut self, is_ready: impl Fn(&Offer) -> bool) -> Option<Offer> {
        let offer = self.waiting.take_if(|offer| is_ready(offer))?;
        self.followed = offer.plan.generation;
        self.missed.clear();
        Some(offer)
    }

    /// The newest plan that was followed; 0 before the first.
    pub(crate) const fn followed(&self) -> Generation {
        self.followed
    }

    /// A node of the followed plan is no hole.
    pub(crate) fn miss(&mut self, node: &NodeId) {
        self.missed.insert(node.clone());
    }

    /// A node is a hole again. Returns whether the followed plan misses it.
    pub(crate) fn takes(&mut self, node: &NodeId) -> bool {
        self.missed.remove(node)
    }

    /// The same in lock step, where a step has one plan.
    pub(crate) fn pass_in_step(
        &mut self,
        step: u64,
        is_ready: impl Fn(&Offer) -> bool,
    ) -> Option<Offer> {
        if self.has_had(step) {
            return None;
        }
        let offer = self.pass(is_ready)?;
        self.step = Some(step);
        Some(offer)
    }

    /// Whether a step of lock step has had its plan.
    pub(crate) fn has_had(&self, step: u64) -> bool {
        self.step == Some(step)
    }
}

#[cfg(test)]
mod tests {
    use lacuna_model::Timestamp;

    use super::*;

    fn plan(generation: u64) -> Plan {
        Plan::by_hand(generation, Timestamp::default(), 0, Vec::new())
    }

    fn passed(gate: &mut PlanGate) -> Option<u64> {
        gate.pass(|_| true).map(|offer| offer.plan.generation.0)
    }

    #[test]
    fn only_the_newest_plan_passes_and_only_once() {
        let mut gate = PlanGate::default();
        assert!(!gate.offer(plan(3), 1, Vec::new()));
        assert!(
            gate.offer(plan(2), 1, Vec::new()),
            "older than one that waits"
        );
        assert!(!gate.offer(plan(4), 1, Vec::new()));
        assert_eq!(passed(&mut gate), Some(4));
        assert!(
            !gate.offer(plan(4), 1, Vec::new()),
            "a repetition is no older plan"
        );
        assert_eq!(passed(&mut gate), None);
        assert!(
            gate.offer(plan(3), 1, Vec::new()),
            "older than one that was followed"
        );
        assert_eq!(passed(&mut gate), None);
    }

    #[test]
    fn a_plan_waits_until_it_is_ready_and_a_step_has_one() {
        let mut gate = PlanGate::default();
        gate.offer(plan(1), 1, Vec::new());
        assert!(gate.pass_in_step(9, |_| false).is_none() && !gate.has_had(9));
        assert!(gate.pass_in_step(9, |_| true).is_some() && gate.has_had(9));
        gate.offer(plan(2), 1, Vec::new());
        assert!(gate.pass_in_step(9, |_| true).is_none());
        assert!(gate.pass_in_step(10, |_| true).is_some());
    }

    #[test]
    fn a_plan_fits_the_incarnations_that_it_names() {
        let mut gate = PlanGate::default();
        let a = TrainerId::new("a").unwrap();
        let b = TrainerId::new("b").unwrap();
        gate.offer(plan(1), 1, vec![(a.clone(), RunId(5))]);
        let offer = gate.pass(|_| true).unwrap();
        assert!(offer.fits(&a, Some(RunId(5)), false));
        assert!(!offer.fits(&a, Some(RunId(6)), true));
        assert!(!offer.fits(&b, Some(RunId(5)), true));
        gate.offer(plan(2), 1, Vec::new());
        let offer = gate.pass(|_| true).unwrap();
        assert!(offer.fits(&a, Some(RunId(6)), true) && !offer.fits(&a, Some(RunId(6)), false));
    }
}
