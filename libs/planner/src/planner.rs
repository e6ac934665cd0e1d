//! From a pool and trainers to a plan with its reasons.

use lacuna_model::{
    Allocation, Doubt, Generation, NodeId, Plan, PlanReport, Pool, TrainerId, TrainerRecord,
};

use crate::decider::{Candidate, Decider, Decision, Foretold, Settings, Situation};
use crate::objective::{Objective, ObjectiveError};
use crate::roster::{Roster, users};
use crate::translate::{Translated, translate};
use crate::{foresight, verdict};

/// What a plan is made from.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// The pool.
    pub pool: &'a Pool,
    /// The trainers, in order of admission.
    pub trainers: &'a [TrainerRecord],
    /// Nodes that no trainer may have.
    pub unusable: &'a [NodeId],
    /// The number that the plan will have.
    pub generation: Generation,
    /// Whether the pool is so old that no trainer may grow on its word.
    pub stale: bool,
}

/// Makes plans. Two planners with equal settings make equal plans of equal inputs, whatever
/// they planned before (unless the clock stops a solve, which the report then says).
#[derive(Debug, Clone, Default)]
pub struct Planner {
    decider: Decider,
    roster: Roster,
    stopwatch: Seconds,
}

/// Seconds since any fixed moment.
#[derive(Debug, Clone, Copy)]
struct Seconds(fn() -> f64);

impl Default for Seconds {
    /// Stands still.
    fn default() -> Self {
        Self(|| 0.0)
    }
}

impl Planner {
    /// A planner with these settings, that maximises what each trainer asks for within fair shares
    /// of the owners.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            roster: Roster::new(Objective::default(), settings.horizon.as_secs_f64()),
            decider: Decider::new(settings),
            ..Self::default()
        }
    }

    /// With another objective for all trainers.
    #[must_use]
    pub fn maximising(mut self, objective: Objective) -> Self {
        self.roster = Roster::new(objective, self.settings().horizon.as_secs_f64());
        self
    }

    /// With a stopwatch (seconds since any fixed moment), by which solves keep to their emergency
    /// stop. Without one they end by their work alone.
    #[must_use]
    pub fn timed_by(mut self, stopwatch: fn() -> f64) -> Self {
        self.stopwatch = Seconds(stopwatch);
        self
    }

    /// Its settings.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        self.decider.settings()
    }

    /// A plan for the active among `trainers` (in order of admission) on the nodes of the pool
    /// that are not `unusable`. When the solver has no answer, or fails, the present allocation
    /// stands as far as the pool still has it.
    #[must_use]
    pub fn plan(
        &mut self,
        pool: &Pool,
        trainers: &[TrainerRecord],
        unusable: &[NodeId],
        generation: Generation,
    ) -> Plan {
        self.plan_of(&Input {
            pool,
            trainers,
            unusable,
            generation,
            stale: false,
        })
    }

    /// The same, told whether the pool is stale: then the present allocation stands as far as
    /// the pool still has it, whatever the policy.
    #[must_use]
    pub fn plan_of(&mut self, input: &Input<'_>) -> Plan {
        let Input { pool, trainers, .. } = *input;
        let case = translate(pool, trainers, input.unusable);
        let candidates = self.roster.candidates(&case, trainers, pool);
        let users = match self.roster.objective() {
            Objective::Fair => Some(users(&case, trainers)),
            _ => None,
        };
        let situation = Situation {
            candidates: &candidates,
            slots: &case.slots,
            users: users.as_ref(),
            max_change: None,
            foretold: Some(Foretold {
                pool,
                holes: &case.holes,
                known: &[],
                complete_s: 0.0,
            }),
            doubt: input.stale.then_some(Doubt::StalePool),
        };
        let decision = self.decider.decide(&situation, &self.stopwatch.0);
        let report = self.report(input, &case, &situation, &decision);
        let repooled = decision.foreseen.iter().flat_map(|f| &f.repooled);
        let id = |&j: &u32| name(&case, trainers, j);
        Plan {
            generation: input.generation,
            as_of: pool.as_of,
            seq: pool.seq,
            allocations: allocations(&case, trainers, &candidates, &decision.owners),
            repooled: repooled.filter_map(id).collect(),
            report,
        }
    }

    /// Why the objective could not be applied to some trainers of the newest plan; those keep
    /// what they ask for themselves.
    #[must_use]
    pub fn refused(&self) -> &[ObjectiveError] {
        self.roster.refused()
    }

    /// The reasons of a decision.
    fn report(
        &self,
        input: &Input<'_>,
        case: &Translated,
        situation: &Situation<'_>,
        decision: &Decision,
    ) -> PlanReport {
        let Input { pool, trainers, .. } = *input;
        let solve = decision.solve.clone();
        if decision.foreseen.is_none() && decision.doubt.is_none() {
            let problem = self.decider.problem();
            let (sizes, owners) = (&decision.sizes, &decision.owners);
            return PlanReport {
                forecast: None,
                solve,
                trainers: verdict::of_trainers(case, problem, trainers, decision),
                holes: verdict::of_holes(case, problem, pool, trainers, sizes, owners),
            };
        }
        let joint = match &decision.foreseen {
            Some(foreseen) => foreseen.settings,
            None => foresight::reach(self.settings(), situation),
        };
        let worded = foresight::word(&foresight::Asked {
            case,
            candidates: situation.candidates,
            pool,
            trainers,
            decision,
            joint: &joint,
        });
        PlanReport {
            solve,
            trainers: worded.trainers,
            holes: worded.holes,
            forecast: Some(Box::new(worded.report)),
        }
    }
}

/// The name of a trainer of a case.
fn name(case: &Translated, trainers: &[TrainerRecord], j: u32) -> Option<TrainerId> {
    let place = *case.trainers.get(j as usize)?;
    Some(trainers.get(place)?.spec.id.clone())
}

/// The nodes of each trainer that has any, in the order of the case; nodes sorted.
fn allocations(
    case: &Translated,
    trainers: &[TrainerRecord],
    candidates: &[Candidate],
    owners: &[Option<u32>],
) -> Vec<Allocation> {
    let mut nodes: Vec<Vec<NodeId>> = vec![Vec::new(); candidates.len()];
    for (node, owner) in case.nodes.iter().zip(owners) {
        if let Some(list) = owner.and_then(|j| nodes.get_mut(j as usize)) {
            list.push(node.clone());
        }
    }
    (0_u32..)
        .zip(nodes)
        .filter(|(_, nodes)| !nodes.is_empty())
        .filter_map(|(j, mut nodes)| {
            nodes.sort_unstable();
            Some(Allocation {
                trainer: name(case, trainers, j)?,
                nodes,
            })
        })
        .collect()
}
