//! A decision by forecasts: nodes and sizes at once.

use lacuna_planner::Sizes;
use lacuna_planner::joint::Request;

use super::decide::Decider;
use super::run::World;
use crate::SimError;

impl World<'_> {
    /// The planner decides by what is known of the holes, and changes are charged. `ends` are
    /// the ends that the look-ahead reveals.
    pub(super) fn replan_jointly(
        &mut self,
        decider: &mut Decider<'_, '_>,
        ends: &[f64],
    ) -> Result<(), SimError> {
        self.weigh()?;
        let Some(seer) = &mut self.seer else {
            return Ok(());
        };
        self.problem.nodes = self.pool.len();
        self.problem.max_change = None;
        self.problem.trainers.clear();
        let items = self.active.iter();
        let items = items.map(|m| m.kind.running_item(m.nodes, m.tables.as_ref()));
        self.problem.trainers.extend(items);
        let most = &self.settings.forecast.joint;
        let charges = self.settings.charge_starts;
        let start_s = |item: &lacuna_planner::Item| if charges { item.up_s } else { 0.0 };
        let start_s: Vec<f64> = self.problem.trainers.iter().map(start_s).collect();
        let typical_s = seer.typical_s();
        let horizon_s = decider.adapt(most, &self.problem.trainers, &start_s, typical_s);
        let scenarios = seer.look(self.tally.now_s, ends, horizon_s);
        let hit: Vec<bool> = self.active.iter().map(|member| member.was_hit).collect();
        let owners: Vec<Option<u32>> = seer.order.iter().map(|&n| self.pool.owner(n)).collect();
        let request = Request {
            trainers: &self.problem.trainers,
            hit: &hit,
            start_s: &start_s,
            owners: &owners,
            scenarios: &scenarios,
        };
        let assignment = decider.decide_jointly(&request);
        let mut counts = vec![0_u32; self.active.len()];
        for (&node, (old, new)) in seer.order.iter().zip(owners.iter().zip(&assignment.owners)) {
            if let Some(count) = new.and_then(|j| counts.get_mut(j as usize)) {
                *count += 1;
            }
            if old != new {
                self.pool.give(node, *new);
            }
        }
        let sizes = Sizes {
            counts,
            objective: assignment.worth,
        };
        let event = self.tally.events;
        let lives: Vec<u32> = if decider.shows() {
            self.active.iter().map(|member| member.life).collect()
        } else {
            Vec::new()
        };
        decider.accept(event, &self.problem, &sizes, &lives)?;
        self.charge_changes(&sizes.counts);
        Ok(())
    }
}
