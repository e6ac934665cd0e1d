//! The planner: from a pool and trainers to a plan with its reasons.

use std::borrow::Cow;

use lacuna_model::{
    Allocation, Doubt, Generation, HoleVerdict, NodeId, NodeKinds, Plan, PlanReport, Pool,
    Topology, TrainerId, TrainerRecord,
};

use super::kinds::{PlannedKinds, of_one_kind};
use super::reasons::{self, ReportInput};
use super::roster::{Roster, Told, users};
use super::translate::{Translated, translate};
use super::verdict;
use crate::decider::Decider;
use crate::decision::Decision;
use crate::judge::{Case, NotJudged};
use crate::objective::{Objective, ObjectiveError};
use crate::placement::forecast;
use crate::problem::{Candidate, History, PoolForecast, Situation};
use crate::settings::Settings;

/// The input of a plan.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// The pool.
    pub pool: &'a Pool,
    /// The trainers, in order of admission.
    pub trainers: &'a [TrainerRecord],
    /// Nodes that no trainer may get.
    pub unusable: &'a [NodeId],
    /// The generation of the plan.
    pub generation: Generation,
    /// Whether the pool is stale, so that no trainer may grow.
    pub stale: bool,
    /// Where nodes are; without a topology distance costs nothing.
    pub topology: Option<&'a Topology>,
    /// Of which kind nodes are; without kinds all are alike.
    pub kinds: Option<&'a NodeKinds>,
    /// Seconds for which a node of a trainer with a program waits for a pilot of its owner.
    pub pilot_s: f64,
    /// The newest plan that was followed; 0 before the first.
    pub followed: Generation,
}

/// A maker of plans. Two planners with equal settings make equal plans of equal inputs in the same
/// order. A solve that the clock stops is the exception, and the report says so.
#[derive(Debug, Clone, Default)]
pub struct Planner {
    decider: Decider,
    roster: Roster,
    /// The newest decision.
    decided: Option<Decision>,
}

impl Planner {
    /// A planner with these settings. It maximises each trainer's own objective within fair shares
    /// of the owners.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            roster: Roster::new(Objective::default(), settings.horizon.as_secs_f64()),
            decider: Decider::new(settings),
            ..Self::default()
        }
    }

    /// The planner with another objective for all trainers.
    #[must_use]
    pub fn maximising(mut self, objective: Objective) -> Self {
        self.roster = Roster::new(objective, self.settings().horizon.as_secs_f64());
        self
    }

    /// Its settings.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        self.decider.settings()
    }

    /// A plan for the active ones of `trainers` (in order of admission) on the nodes of the pool
    /// that are not `unusable`. If the solver fails or has no answer, the present allocation is
    /// kept, as far as the pool still has it.
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
            topology: None,
            kinds: None,
            pilot_s: 0.0,
            followed: Generation::default(),
        })
    }

    /// A plan for an input. With a stale pool the present allocation is kept, as far as the pool
    /// still has it, whatever the policy.
    #[must_use]
    pub fn plan_of(&mut self, input: &Input<'_>) -> Plan {
        let alike = NodeKinds::default();
        let kinds = input.kinds.unwrap_or(&alike);
        let trainers = of_one_kind(input.trainers, kinds, input.pool);
        let kinds = PlannedKinds::of(&trainers, kinds);
        let mut unusable = Cow::Borrowed(input.unusable);
        if let Some(kinds) = &kinds {
            unusable.to_mut().extend(kinds.strangers(input.pool));
        }
        let input = &Input {
            trainers: &trainers,
            unusable: &unusable,
            ..*input
        };
        let Input { pool, trainers, .. } = *input;
        let nowhere = Topology::default();
        let topology = input.topology.unwrap_or(&nowhere);
        let mut case = translate(pool, trainers, input.unusable, topology);
        let limits = self.settings().forecasting.joint;
        case.switches = case.switches.carrying(limits.crossing);
        case.switches = case.switches.sharing(limits.uplink);
        let of = kinds.iter().flat_map(|kinds| {
            let place = |node| kinds.place(node).unwrap_or_default();
            case.nodes.iter().map(place)
        });
        let of: Vec<u8> = of.collect();
        let told = kinds.as_ref().map(|kinds| Told {
            names: kinds.names(),
            of: &of,
        });
        let pilot_s = input.pilot_s;
        let candidates = self.roster.candidates(&case, trainers, pool, pilot_s, told);
        let lives = self.roster.lives(&case, trainers);
        let users = match self.roster.objective() {
            Objective::Fair => Some(users(&case, trainers)),
            _ => None,
        };
        let situation = Situation {
            candidates: &candidates,
            slots: &case.slots,
            switches: &case.switches,
            kinds: &of,
            users: users.as_ref(),
            pool_forecast: Some(PoolForecast {
                pool,
                holes: &case.holes,
                known: &[],
                complete_s: 0.0,
            }),
            history: Some(History {
                lives: &lives,
                number: input.generation.0,
                carried_out: Some(input.followed.0),
            }),
            doubt: input.stale.then_some(Doubt::StalePool),
        };
        let decision = self.decider.decide(&situation);
        let report = self.report(input, &case, &situation, kinds.as_ref(), &decision);
        let replaced = decision.evaluation.iter().flat_map(|f| &f.replaced);
        let id = |&j: &u32| name(&case, trainers, j);
        let plan = Plan {
            generation: input.generation,
            as_of: pool.as_of,
            seq: pool.seq,
            allocations: allocations(&case, trainers, &candidates, &decision.owners),
            replaced: replaced.filter_map(id).collect(),
            report,
        };
        self.decided = Some(decision);
        plan
    }

    /// The decision of the newest plan as a case for the judge.
    ///
    /// # Errors
    /// The reason for which it cannot be judged.
    pub fn case(&self) -> Result<Case, NotJudged> {
        let decided = self.decided.as_ref().ok_or(NotJudged::Doubt)?;
        self.decider.case(decided)
    }

    /// Errors of the objective for single trainers of the newest plan; those keep their own
    /// objective.
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
        kinds: Option<&PlannedKinds<'_>>,
        decision: &Decision,
    ) -> PlanReport {
        let Input { pool, trainers, .. } = *input;
        let solve = decision.solve.clone();
        let nodes = situation.nodes();
        let too_few = |record: &TrainerRecord| match kinds {
            Some(kinds) => kinds.too_few(record, nodes),
            None => verdict::too_few(record, nodes.iter().sum()),
        };
        if decision.evaluation.is_none() && decision.doubt.is_none() {
            let problem = self.decider.problem();
            let (sizes, owners) = (&decision.sizes, &decision.owners);
            let (trainers, holes) = match self.decider.mixed() {
                Some(problem) => {
                    let mixes = situation.mixes(owners.iter().copied());
                    let asked = (problem, &mixes[..], &too_few as _);
                    (
                        verdict::over_kinds(case, asked, trainers, decision),
                        verdict::holes(case, pool, trainers, owners, &HoleVerdict::NoBidder),
                    )
                }
                None => (
                    verdict::of_trainers(case, problem, trainers, decision),
                    verdict::of_holes(case, problem, pool, trainers, sizes, owners),
                ),
            };
            return PlanReport {
                forecast: None,
                followed: decision.followed.clone(),
                solve,
                trainers,
                holes,
            };
        }
        let settings = match &decision.evaluation {
            Some(evaluation) => evaluation.settings,
            None => forecast::reach(self.settings(), situation, None),
        };
        let verdicts = reasons::report(&ReportInput {
            case,
            candidates: situation.candidates,
            pool,
            trainers,
            decision,
            settings: &settings,
            too_few: &too_few,
        });
        PlanReport {
            solve,
            trainers: verdicts.trainers,
            holes: verdicts.holes,
            forecast: Some(Box::new(verdicts.report)),
            followed: decision.followed.clone(),
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
