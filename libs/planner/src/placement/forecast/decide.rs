//! The decision by forecasts: the holes in view are allocated, and all others keep their owners.

use lacuna_model::{Doubt, Outcome, Solve};

use crate::decision::Decision;
use crate::placement::blocks::{BlockPlacer, bounds};
use crate::placement::{self, Assignment, Member, Request, Scenarios};
use crate::problem::ordinal::{At, Candidate, Participant, Per, Slot};
use crate::problem::{Item, PoolForecast, Situation, Sizes};
use crate::settings::Settings;

use super::evaluation::{Evaluation, Found};
use super::kept::{counts, keep, kept_owners};
use super::view::View;

/// A query for a decision.
#[derive(Clone, Copy)]
pub(crate) struct Query<'a> {
    pub(crate) situation: &'a Situation<'a>,
    pub(crate) pool_forecast: PoolForecast<'a>,
    pub(crate) settings: &'a Settings,
    pub(crate) seed: u64,
    /// Time between two changes of a trainer, seconds, if it is known.
    pub(crate) kept_s: Option<f64>,
}

/// The settings of placement with the look ahead for these candidates, whose nodes change once in
/// `kept_s` seconds.
pub(crate) fn reach(
    settings: &Settings,
    situation: &Situation<'_>,
    kept_s: Option<f64>,
) -> placement::Settings {
    let candidates = situation.candidates.iter();
    let typical_s = situation
        .pool_forecast
        .and_then(|f| f.pool.joint.as_ref()?.typical_s);
    let most = &settings.forecasting.joint;
    let starts = candidates.map(|c| (&c.item, c.start_s));
    placement::Settings {
        limited: true,
        ..most.reach(starts, typical_s, kept_s)
    }
}

/// Decides by forecasts.
pub(crate) fn decide(placer: &mut BlockPlacer, query: &Query<'_>) -> Decision {
    let settings = reach(query.settings, query.situation, query.kept_s);
    let view = View::new(query.situation, &query.pool_forecast, settings.horizon_s);
    let decision = view.and_then(|view| allocate(placer, query, settings, view));
    decision.unwrap_or_else(|doubt| keep(query.situation, doubt))
}

/// Allocates the holes in view.
///
/// # Errors
/// [`Doubt::Internal`].
fn allocate(
    placer: &mut BlockPlacer,
    query: &Query<'_>,
    settings: placement::Settings,
    view: View,
) -> Result<Decision, Doubt> {
    let situation = query.situation;
    // A trainer with a doubtful hole does not participate.
    let participants = view.frozen.iter().filter(|(_, frozen)| !**frozen);
    let participants = participants.map(|(j, _)| j).collect();
    let candidates = situation.candidates.iter().zip(&view.frozen.0);
    let candidates = candidates.filter(|(_, frozen)| !**frozen).map(|(c, _)| c);
    let mut evaluation = Evaluation {
        items: candidates
            .clone()
            .map(|c| within_maximum(&c.item))
            .collect(),
        hit: candidates
            .clone()
            .map(|c| settings.replace && c.hit)
            .collect(),
        start_s: candidates.map(|c| c.start_s).collect(),
        before: Vec::new(),
        scenarios: scenarios(query, &view).within(settings.horizon_s),
        doubts: view.doubts.clone(),
        parts: Vec::new(),
        assignment: Assignment::default(),
        proposal: "",
        replaced: Vec::new(),
        settings,
        view,
        participants: Per::new(participants),
    };
    evaluation.before = evaluation.owners_before(situation)?;
    if !situation.kinds.is_empty() {
        evaluation.hold_before();
    }
    placer.set(settings);
    let owners = situation.owners();
    let (shares, found) = if owners.is_empty() {
        let found = find(placer, &evaluation.request());
        (Vec::new(), found)
    } else {
        let find = |request: &Request<'_>| find(placer, request);
        evaluation.by_owner(situation, owners, find)?
    };
    let solve = evaluation.take(found);
    if !evaluation.parts.is_empty() {
        evaluation.share_uplinks();
    }
    let mut owners: Per<Slot, _> = Per::new(kept_owners(situation));
    let assigned = evaluation
        .view
        .slots
        .0
        .iter()
        .zip(&evaluation.assignment.owners);
    for (&slot, owner) in assigned {
        *owners.get_mut(slot)? = match owner {
            Some(j) => Some(evaluation.participants.get(At::new(*j))?.number()),
            None => None,
        };
    }
    let owners = owners.0;
    evaluation.replaced = evaluation.replaced(situation, &owners)?;
    Ok(Decision {
        sizes: Sizes {
            counts: counts(situation, &owners),
            objective: evaluation.assignment.value,
        },
        owners,
        solve,
        evaluation: Some(Box::new(evaluation)),
        doubt: None,
        shares,
        followed: None,
    })
}

/// Scenarios of the holes in view; they lie below switches where distance costs anything, and are of
/// kinds where trainers tell these apart.
fn scenarios(query: &Query<'_>, view: &View) -> Scenarios {
    let count = query.settings.forecasting.scenarios;
    let mut drawn = view.line.draw(&query.pool_forecast, count, query.seed);
    if !query.situation.kinds.is_empty() {
        let slots = view.slots.0.iter().map(|slot| slot.number() as usize);
        let kinds = slots.map(|slot| query.situation.kind(slot));
        let items = query.situation.candidates.iter().map(|c| &c.item);
        drawn = drawn.of_kinds(kinds.collect(), Item::worth_of_kinds(items));
    }
    match query.situation.apart() {
        Some(switches) => {
            let slots = view.slots.0.iter().map(|slot| slot.number() as usize);
            drawn.below(switches.only(slots))
        }
        None => drawn,
    }
}

impl Evaluation {
    /// Present owner of each place. A trainer with too many nodes gives up those that are expected
    /// to leave first.
    fn owners_before(&self, situation: &Situation<'_>) -> Result<Vec<Option<u32>>, Doubt> {
        let slots: Per<Slot, _> = Per::new(situation.slots);
        let room = self.items.iter().map(|item| item.max).collect();
        let mut room: Per<Participant, Vec<u32>> = Per::new(room);
        let mut before = vec![None; self.view.slots.0.len()];
        for (&slot, before) in self.view.slots.0.iter().zip(&mut before).rev() {
            let owner = slots.get(slot)?.owner.map(At::new);
            // Slots of other trainers than participants are not in view.
            let Some(at) = owner.and_then(|j| self.participants.0.binary_search(&j).ok()) else {
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

    /// Makes the present nodes of each trainer those before, by kind.
    fn hold_before(&mut self) {
        let held = self.scenarios.mixes(&self.before, self.items.len());
        let owned = self.before.iter().copied().enumerate();
        let tiers = self.scenarios.switches().tiers(owned, held.len());
        for ((item, mix), tier) in self.items.iter_mut().zip(held).zip(tiers) {
            *item = item.clone().on(mix, tier);
        }
    }

    /// Takes in that trainers of all owners share uplinks, where owners were decided one by one: keeps
    /// to the limit, and to fewer crossing trainers where that is worth more.
    fn share_uplinks(&mut self) {
        let switches = self.scenarios.switches();
        if switches.crossing().is_none() && switches.uplink().is_none() {
            return;
        }
        let (request, prices) = (self.request(), self.prices());
        let members: Vec<Member<'_>> = request.members(self.settings.replace).collect();
        let bounds = bounds(&members, &self.scenarios);
        let price = |j: usize| prices.get(j).copied().unwrap_or(0.0);
        let worth = |owners: &[Option<u32>]| {
            placement::judge(&members, &self.scenarios, owners, &self.settings, price)
        };
        let mut owners = self.assignment.owners.clone();
        let most = switches.crossing();
        placement::uncross(switches, most, &self.before, &mut owners, &bounds);
        let mut best = (worth(&owners), owners.clone());
        for fewer in placement::lighter(switches, &self.before, &owners, &bounds) {
            let value = worth(&fewer);
            if value > best.0 {
                best = (value, fewer);
            }
        }
        drop(bounds);
        (self.assignment.value, self.assignment.owners) = best;
    }

    /// Stores an answer.
    fn take(&mut self, found: Found) -> Solve {
        self.proposal = found.proposal;
        self.assignment = found.assignment;
        found.solve.unwrap_or_else(|| by_blocks(&self.assignment))
    }

    /// The re-placed candidates: they restart anyway or can no longer run, and get another node
    /// set.
    fn replaced(
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
        let cannot_run = |item: &Item| 0 < item.current && !item.runs();
        let mut replaced = Vec::new();
        let items = self.items.iter().zip(&self.hit);
        for (&j, (item, hit)) in self.participants.0.iter().zip(items) {
            if (*hit || cannot_run(item)) && *changed.get(j)? {
                replaced.push(j.number());
            }
        }
        Ok(replaced)
    }
}

/// Allocates by blocks.
fn find(placer: &mut BlockPlacer, request: &Request<'_>) -> Found {
    let assignment = placer.decide(request);
    Found {
        proposal: assignment.proposal.name(),
        solve: Some(by_blocks(&assignment)),
        assignment,
    }
}

fn by_blocks(assignment: &Assignment) -> Solve {
    Solve {
        outcome: Outcome::Found,
        objective: assignment.value,
        solver: "dp over nodes".to_owned(),
        shortcut: None,
        stopped_by_clock: false,
    }
}

/// The trainer with no more nodes than its maximum.
fn within_maximum(item: &Item) -> Item {
    let mut item = item.clone();
    if item.current > item.max {
        item.current = item.max;
    }
    item
}
