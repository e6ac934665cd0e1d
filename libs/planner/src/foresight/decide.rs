//! The decision: what is in view is allocated, and the rest stands.

use lacuna_model::{Doubt, Outcome, Policy, Solve};

use crate::decider::{Decision, Foretold, Settings, Situation};
use crate::joint::{Assignment, Joint, Request, Scenarios};
use crate::ordinal::{At, Candidate, Per, Slot, Taking};
use crate::{Item, Sizes, joint, patterns};

use super::parts::Part;
use super::view::View;

/// A decision that is asked for.
#[derive(Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub(crate) situation: &'a Situation<'a>,
    pub(crate) foretold: Foretold<'a>,
    pub(crate) settings: &'a Settings,
    pub(crate) seed: u64,
    pub(crate) stopwatch: &'a dyn Fn() -> f64,
}

/// What was weighed, and what came of it. Nodes are places in the order in which they are expected
/// to leave; trainers are those that take part, in the order of the candidates.
#[derive(Debug, Clone)]
pub struct Foreseen {
    /// How things were weighed, as far ahead as was looked.
    pub settings: joint::Settings,
    /// What was decided.
    pub assignment: Assignment,
    /// Which way of finding it won, by name.
    pub proposal: &'static str,
    /// Candidates that restart anyway, or can no longer run, and take other nodes with that.
    pub repooled: Vec<u32>,
    /// How the program over patterns ended, if it was solved.
    pub patterns: Option<Outcome>,
    pub(super) items: Vec<Item>,
    pub(super) hit: Vec<bool>,
    pub(super) start_s: Vec<f64>,
    pub(super) before: Vec<Option<u32>>,
    pub(super) scenarios: Scenarios,
    pub(super) view: View,
    /// The candidates that take part.
    pub(super) taking: Per<Taking, Vec<At<Candidate>>>,
    pub(super) doubts: Vec<Doubt>,
    /// What each owner's trainers were decided on, if nodes were shared out over several.
    pub(super) parts: Vec<Part>,
}

/// An answer to a request, and how it was found.
#[derive(Debug, Clone, Default)]
pub(super) struct Found {
    pub(super) assignment: Assignment,
    pub(super) proposal: &'static str,
    pub(super) patterns: Option<Outcome>,
    pub(super) solve: Option<Solve>,
    /// Whether the program over patterns failed, so that the dynamic program decided.
    pub(super) fell_back: bool,
}

impl Foreseen {
    /// The questions that were decided one by one, with the answers: that of each owner, or the
    /// whole.
    pub fn decided(&self) -> impl Iterator<Item = (Request<'_>, &Assignment)> {
        let whole = self.parts.is_empty();
        let whole = whole.then(|| (self.request(), &self.assignment));
        let parts = self.parts.iter();
        let parts = parts.map(|part| (part.request(), part.assignment()));
        parts.chain(whole)
    }

    /// The question, as [`crate::joint`] takes it.
    #[must_use]
    pub fn request(&self) -> Request<'_> {
        Request {
            trainers: &self.items,
            hit: &self.hit,
            start_s: &self.start_s,
            owners: &self.before,
            scenarios: &self.scenarios,
        }
    }
}

/// How things are weighed for these candidates, looking as far ahead as makes sense for them.
pub(crate) fn reach(settings: &Settings, situation: &Situation<'_>) -> joint::Settings {
    let candidates = situation.candidates.iter();
    let typical_s = situation
        .foretold
        .and_then(|f| f.pool.joint.as_ref()?.typical_s);
    let most = &settings.foresight.joint;
    most.reach(candidates.map(|c| (&c.item, c.start_s)), typical_s)
}

/// Decides by forecasts.
pub(crate) fn decide(joint: &mut Joint, ask: &Ask<'_>) -> Decision {
    let settings = reach(ask.settings, ask.situation);
    let view = View::new(ask.situation, &ask.foretold, settings.horizon_s);
    let decision = view.and_then(|view| allocate(joint, ask, settings, view));
    decision.unwrap_or_else(|doubt| stand(ask.situation, doubt))
}

/// Whose each slot stays if no trainer gets any: a trainer that has too few keeps none, one that
/// has too many the first in the order of the slots.
pub(super) fn standing(situation: &Situation<'_>) -> Vec<Option<u32>> {
    let keeps = |item: &Item| if item.current < item.min { 0 } else { item.max };
    let mut left: Vec<u32> = situation
        .candidates
        .iter()
        .map(|c| keeps(&c.item))
        .collect();
    situation
        .slots
        .iter()
        .map(|slot| {
            let left = slot.owner.and_then(|j| left.get_mut(j as usize))?;
            *left = left.checked_sub(1)?;
            slot.owner
        })
        .collect()
}

/// How many slots each candidate has.
pub(super) fn counts(situation: &Situation<'_>, owners: &[Option<u32>]) -> Vec<u32> {
    let mut counts = vec![0; situation.candidates.len()];
    for &j in owners.iter().flatten() {
        if let Some(count) = counts.get_mut(j as usize) {
            *count += 1;
        }
    }
    counts
}

/// Every candidate keeps what it has, as far as the pool still has it.
pub(crate) fn stand(situation: &Situation<'_>, doubt: Doubt) -> Decision {
    let owners = standing(situation);
    Decision {
        sizes: Sizes {
            counts: counts(situation, &owners),
            objective: 0.0,
        },
        owners,
        solve: Solve {
            outcome: Outcome::NoIncumbent,
            objective: 0.0,
            solver: "none".to_owned(),
            shortcut: None,
            stopped_by_clock: false,
        },
        foreseen: None,
        doubt: Some(doubt),
        shares: Vec::new(),
    }
}

/// Allocates what is in view.
///
/// # Errors
/// [`Doubt::Internal`].
fn allocate(
    joint: &mut Joint,
    ask: &Ask<'_>,
    settings: joint::Settings,
    view: View,
) -> Result<Decision, Doubt> {
    let situation = ask.situation;
    // Trainers whose holes are in doubt do not take part.
    let taking = view.frozen.iter().filter(|(_, frozen)| !**frozen);
    let taking = taking.map(|(j, _)| j).collect();
    let candidates = situation.candidates.iter().zip(&view.frozen.0);
    let candidates = candidates.filter(|(_, frozen)| !**frozen).map(|(c, _)| c);
    let mut foreseen = Foreseen {
        items: candidates
            .clone()
            .map(|c| within_maximum(&c.item))
            .collect(),
        hit: candidates
            .clone()
            .map(|c| settings.repool && c.hit)
            .collect(),
        start_s: candidates.map(|c| c.start_s).collect(),
        before: Vec::new(),
        scenarios: view
            .line
            .draw(&ask.foretold, ask.settings.foresight.scenarios, ask.seed),
        doubts: view.doubts.clone(),
        parts: Vec::new(),
        assignment: Assignment::default(),
        proposal: "",
        patterns: None,
        repooled: Vec::new(),
        settings,
        view,
        taking: Per::new(taking),
    };
    foreseen.before = foreseen.owners_before(situation)?;
    joint.weigh(settings);
    let owners = situation.owners();
    let (shares, found) = if owners.is_empty() {
        (Vec::new(), find(joint, ask, &settings, &foreseen.request()))
    } else {
        let find = |request: &Request<'_>| find(joint, ask, &settings, request);
        foreseen.by_owner(situation, owners, find)?
    };
    let solve = foreseen.take(found);
    let mut owners: Per<Slot, _> = Per::new(standing(situation));
    let assigned = foreseen
        .view
        .slots
        .0
        .iter()
        .zip(&foreseen.assignment.owners);
    for (&slot, owner) in assigned {
        *owners.get_mut(slot)? = match owner {
            Some(j) => Some(foreseen.taking.get(At::new(*j))?.number()),
            None => None,
        };
    }
    let owners = owners.0;
    foreseen.repooled = foreseen.repooled(situation, &owners)?;
    Ok(Decision {
        sizes: Sizes {
            counts: counts(situation, &owners),
            objective: foreseen.assignment.worth,
        },
        owners,
        solve,
        foreseen: Some(Box::new(foreseen)),
        doubt: None,
        shares,
    })
}

impl Foreseen {
    /// Whose each place is. A trainer that has too many gives up those that are expected to end
    /// first.
    fn owners_before(&self, situation: &Situation<'_>) -> Result<Vec<Option<u32>>, Doubt> {
        let slots: Per<Slot, _> = Per::new(situation.slots);
        let room = self.items.iter().map(|item| item.max).collect();
        let mut room: Per<Taking, Vec<u32>> = Per::new(room);
        let mut before = vec![None; self.view.slots.0.len()];
        for (&slot, before) in self.view.slots.0.iter().zip(&mut before).rev() {
            let owner = slots.get(slot)?.owner.map(At::new);
            // Of trainers that do not take part there is no slot in view.
            let Some(at) = owner.and_then(|j| self.taking.0.binary_search(&j).ok()) else {
                continue;
            };
            let left = room.get_mut(At::new(at as u32))?;
            if *left > 0 {
                *left -= 1;
                *before = Some(at as u32);
            }
        }
        Ok(before)
    }

    /// Keeps an answer.
    fn take(&mut self, found: Found) -> Solve {
        if found.fell_back {
            let why = "the program over patterns failed, and the dynamic program decided";
            let why = why.to_owned();
            self.doubts.insert(0, Doubt::FellBack { why });
        }
        self.proposal = found.proposal;
        self.patterns = found.patterns;
        self.assignment = found.assignment;
        found.solve.unwrap_or_else(|| by_segments(&self.assignment))
    }

    /// Trainers that restart anyway, or can no longer run, and take another node set with that.
    fn repooled(
        &self,
        situation: &Situation<'_>,
        owners: &[Option<u32>],
    ) -> Result<Vec<u32>, Doubt> {
        let mut changed: Per<Candidate, _> = Per::new(vec![false; situation.candidates.len()]);
        for (slot, owner) in situation.slots.iter().zip(owners) {
            if slot.owner != *owner {
                for j in [slot.owner, *owner].into_iter().flatten() {
                    *changed.get_mut(At::new(j))? = true;
                }
            }
        }
        let cannot_run = |item: &Item| 0 < item.current && item.current < item.min;
        let mut repooled = Vec::new();
        for (&j, (item, hit)) in self.taking.0.iter().zip(self.items.iter().zip(&self.hit)) {
            if (*hit || cannot_run(item)) && *changed.get(j)? {
                repooled.push(j.number());
            }
        }
        Ok(repooled)
    }
}

/// Allocates by consecutive segments, then by patterns where the policy has it. `joint` weighs
/// things by `settings`.
fn find(
    joint: &mut Joint,
    ask: &Ask<'_>,
    settings: &joint::Settings,
    request: &Request<'_>,
) -> Found {
    let assignment = joint.decide(request);
    let mut found = Found {
        proposal: assignment.proposal.name(),
        solve: Some(by_segments(&assignment)),
        assignment,
        ..Found::default()
    };
    if ask.settings.policy != Policy::MilpPatterns {
        return found;
    }
    let milp = &ask.settings.milp;
    let mut options = patterns::Options::new(ask.stopwatch);
    options.tree_nodes = options.tree_nodes.min(milp.tree_nodes);
    options.iterations = milp.iterations;
    options.time_limit = milp.time_limit;
    if milp.gap > 0.0 {
        options.gap = milp.gap;
    }
    let plans = [found.assignment.owners.as_slice()];
    let salvage = found.assignment.salvage;
    let (better, answer) = patterns::decide(request, settings, salvage, &plans, &options);
    found.patterns = Some(answer.outcome);
    found.fell_back = answer.outcome == Outcome::Failed;
    if !found.fell_back {
        found.proposal = answer.source.name();
        found.assignment = better;
    }
    if let Some(solve) = &mut found.solve {
        solve.stopped_by_clock = answer.stopped_by_clock;
        if !found.fell_back {
            solve.outcome = answer.outcome;
            solve.objective = found.assignment.worth;
            "patterns".clone_into(&mut solve.solver);
        }
    }
    found
}

fn by_segments(assignment: &Assignment) -> Solve {
    Solve {
        outcome: Outcome::Found,
        objective: assignment.worth,
        solver: "segments".to_owned(),
        shortcut: None,
        stopped_by_clock: false,
    }
}

/// The trainer as one that has no more than it may.
fn within_maximum(item: &Item) -> Item {
    let mut item = item.clone();
    if item.current > item.max {
        item.current = item.max;
        item = item.at_its_rate();
    }
    item
}
