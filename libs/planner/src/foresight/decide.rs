//! The decision: what is in view is allocated, and the rest stands.

use lacuna_model::{
    Doubt, ForecastReport, Launch, OrderSource, Outcome, Pool, Solve, TrainerId, TrainerRecord,
};

use crate::joint::{Assignment, Joint, Request, Scenarios};
use crate::translate::Translated;
use crate::{Item, patterns};

use super::reasons::{Reasons, Weighed};
use super::verdicts;
use super::view::View;
use super::{Asked, Foreseen};

/// Plans by forecasts.
pub(crate) fn plan(asked: &Asked<'_>) -> Foreseen {
    let horizon_s = asked.settings.joint.horizon_s;
    let view = match &asked.doubt {
        Some(doubt) => Err(doubt.clone()),
        None => View::new(asked.case, asked.pool, horizon_s),
    };
    match view {
        Ok(view) => allocate(asked, view),
        Err(doubt) => stand(asked, doubt),
    }
}

/// Whether a departure has hit a trainer, so that it restarts anyway: nodes of its run are gone,
/// or control says that they were and its pause is not over yet. `held` nodes are left to it.
pub(super) fn is_hit(record: &TrainerRecord, held: u32, pool: &Pool) -> bool {
    let pauses = record.hit_at.is_some_and(|at| {
        let ago_s = pool.as_of.since(at).as_secs_f64();
        ago_s < record.spec.rescale.down_s.max(f64::MIN_POSITIVE)
    });
    record.nodes.len() > held as usize || pauses
}

/// Whose each slot of a case stays if nothing is given to anybody: a trainer that has too few
/// keeps none, one that has too many the first in the order of the pool.
fn standing(case: &Translated) -> Vec<Option<u32>> {
    let mut left: Vec<u32> = case
        .problem
        .trainers
        .iter()
        .map(|item| if item.current < item.min { 0 } else { item.max })
        .collect();
    case.slots
        .iter()
        .map(|slot| {
            let left = slot.owner.and_then(|j| left.get_mut(j as usize))?;
            *left = left.checked_sub(1)?;
            slot.owner
        })
        .collect()
}

/// What everybody has stands.
fn stand(asked: &Asked<'_>, doubt: Doubt) -> Foreseen {
    let owners = standing(asked.case);
    let nobody = Reasons::of_doubt(asked, &owners);
    let report = ForecastReport {
        horizon_s: asked.settings.joint.horizon_s,
        hysteresis: asked.settings.joint.hysteresis,
        scenarios: 0,
        salvage: 0.0,
        order: OrderSource::Expectation,
        proposal: "standing".to_owned(),
        doubts: vec![doubt],
        classes: Vec::new(),
        class_of: vec![None; asked.pool.holes.len()],
        trainers: nobody.trainers,
    };
    let solve = Solve {
        outcome: Outcome::NoIncumbent,
        objective: 0.0,
        solver: "none".to_owned(),
        shortcut: None,
    };
    Foreseen {
        trainers: verdicts::of_trainers(asked, &report.trainers, &nobody.old_worth),
        holes: verdicts::of_holes(asked, &owners, |_| true),
        repooled: Vec::new(),
        owners,
        solve,
        report,
    }
}

/// What a start stalls a trainer, seconds: nothing in the published accounting, which simulated
/// trainers follow; but a program has to be started.
pub(crate) fn start(item: &Item, record: &TrainerRecord) -> f64 {
    match record.spec.launch {
        Launch::Simulated => 0.0,
        Launch::Command { .. } => item.up_s,
    }
}

/// Allocates what is in view.
fn allocate(asked: &Asked<'_>, view: View) -> Foreseen {
    let case = asked.case;
    // Trainers whose holes are in doubt stand aside.
    let taking: Vec<u32> = (0_u32..)
        .zip(&view.frozen)
        .filter(|(_, frozen)| !**frozen)
        .map(|(j, _)| j)
        .collect();
    let ordinal = |j: u32| taking.binary_search(&j).ok().map(|at| at as u32);
    let mut items = Vec::with_capacity(taking.len());
    let mut hit = Vec::with_capacity(taking.len());
    let mut start_s = Vec::with_capacity(taking.len());
    for &j in &taking {
        let item = case.problem.trainers.get(j as usize);
        let record = case.trainers.get(j as usize);
        let record = record.and_then(|&at| asked.trainers.get(at));
        if let (Some(item), Some(record)) = (item, record) {
            items.push(within_maximum(item));
            let hits = is_hit(record, item.current, asked.pool);
            hit.push(asked.settings.joint.repool && hits);
            start_s.push(start(item, record));
        }
    }
    let mut room: Vec<u32> = items.iter().map(|item| item.max).collect();
    // Who has too many gives up those that are expected to end first.
    let mut before: Vec<Option<u32>> = view
        .slots
        .iter()
        .rev()
        .map(|&slot| {
            let owner = case.slots.get(slot as usize).and_then(|s| s.owner);
            let owner = owner.and_then(ordinal)?;
            let left = room.get_mut(owner as usize)?;
            *left = left.checked_sub(1)?;
            Some(owner)
        })
        .collect();
    before.reverse();
    let scenarios = view
        .line
        .draw(asked.pool, asked.settings.scenarios, asked.seed);
    let request = Request {
        trainers: &items,
        hit: &hit,
        start_s: &start_s,
        owners: &before,
        scenarios: &scenarios,
    };
    let answer = assign(asked, &request);
    let mut owners = standing(case);
    for (&slot, owner) in view.slots.iter().zip(&answer.assignment.owners) {
        let owner = owner.and_then(|j| taking.get(j as usize).copied());
        if let Some(place) = owners.get_mut(slot as usize) {
            *place = owner;
        }
    }
    word(asked, &view, &request, answer, &scenarios, &taking, owners)
}

/// An allocation, and how it was found.
struct Answer {
    assignment: Assignment,
    outcome: Outcome,
    solver: &'static str,
    /// What won, by name.
    proposal: &'static str,
    fell_back: Option<Doubt>,
}

/// Allocates twice, so that what a free node-second is worth is taken from a plan of this very
/// input; then by patterns, if that is asked for.
fn assign(asked: &Asked<'_>, request: &Request<'_>) -> Answer {
    let mut joint = Joint::new(asked.settings.joint);
    let _ = joint.decide(request);
    let assignment = joint.decide(request);
    let by_segments = |assignment: Assignment, fell_back: Option<Doubt>| Answer {
        outcome: Outcome::Found,
        solver: "segments",
        proposal: assignment.proposal.name(),
        assignment,
        fell_back,
    };
    let Some(options) = &asked.patterns else {
        return by_segments(assignment, None);
    };
    let plans = [assignment.owners.as_slice()];
    let salvage = assignment.salvage;
    let (better, answer) = patterns::decide(request, joint.settings(), salvage, &plans, options);
    if answer.outcome == Outcome::Failed {
        let why = "the programme over patterns failed, and the dynamic programme was heeded";
        let why = why.to_owned();
        return by_segments(assignment, Some(Doubt::FellBack { why }));
    }
    Answer {
        assignment: better,
        outcome: answer.outcome,
        solver: "patterns",
        proposal: match answer.source {
            patterns::Source::Keep => "keep",
            patterns::Source::Warm => "segments",
            patterns::Source::Rounding => "rounding",
            patterns::Source::Highs => "highs",
        },
        fell_back: None,
    }
}

/// Says why.
fn word(
    asked: &Asked<'_>,
    view: &View,
    request: &Request<'_>,
    answer: Answer,
    scenarios: &Scenarios,
    taking: &[u32],
    owners: Vec<Option<u32>>,
) -> Foreseen {
    let assignment = &answer.assignment;
    let reasons = Reasons::new(&Weighed {
        asked,
        view,
        request,
        assignment,
        scenarios,
        taking,
        owners: &owners,
    });
    let joint = asked.settings.joint;
    let report = ForecastReport {
        horizon_s: joint.horizon_s,
        hysteresis: joint.hysteresis,
        scenarios: scenarios.count() as u32,
        salvage: assignment.salvage,
        order: view.line.source,
        proposal: answer.proposal.to_owned(),
        doubts: answer
            .fell_back
            .into_iter()
            .chain(view.doubts.clone())
            .collect(),
        classes: reasons.classes,
        class_of: reasons.class_of,
        trainers: reasons.trainers,
    };
    let taken = |hole: usize| {
        let class = report.class_of.get(hole).copied().flatten();
        let class = class.and_then(|class| report.classes.get(class as usize));
        class.is_none_or(|class| class.offer.is_some())
    };
    Foreseen {
        trainers: verdicts::of_trainers(asked, &report.trainers, &reasons.old_worth),
        holes: verdicts::of_holes(asked, &owners, taken),
        repooled: repooled(asked, taking, request, &owners),
        owners,
        solve: Solve {
            outcome: answer.outcome,
            objective: answer.assignment.worth,
            solver: answer.solver.to_owned(),
            shortcut: None,
        },
        report,
    }
}

/// Trainers that restart anyway, or can no longer run, and take another node set with that.
fn repooled(
    asked: &Asked<'_>,
    taking: &[u32],
    request: &Request<'_>,
    owners: &[Option<u32>],
) -> Vec<TrainerId> {
    let case = asked.case;
    let mut changed = vec![false; case.trainers.len()];
    for (slot, owner) in case.slots.iter().zip(owners) {
        if slot.owner != *owner {
            for j in [slot.owner, *owner].into_iter().flatten() {
                if let Some(changed) = changed.get_mut(j as usize) {
                    *changed = true;
                }
            }
        }
    }
    let loose = taking.iter().zip(request.trainers.iter().zip(request.hit));
    loose
        .filter(|(j, (item, hit))| {
            let has = case.problem.trainers.get(**j as usize);
            let loose = **hit || item.current < item.min;
            loose
                && has.is_some_and(|item| item.current > 0)
                && changed.get(**j as usize) == Some(&true)
        })
        .filter_map(|(j, _)| asked.trainers.get(*case.trainers.get(*j as usize)?))
        .map(|record| record.spec.id.clone())
        .collect()
}

/// The trainer as one that has no more than it may.
fn within_maximum(item: &Item) -> Item {
    let mut item = item.clone();
    if item.current > item.max {
        item.current = item.max;
        item.rate_now = item.value.get(item.max as usize).copied().unwrap_or(0.0);
    }
    item
}
