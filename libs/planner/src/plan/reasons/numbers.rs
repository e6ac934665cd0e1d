//! The reasons of each hole and each trainer, in numbers.
//!
//! The numbers of single holes come from their forecasts: the expected stay within the horizon, and
//! the probability of an end within a rescale cost. The numbers of node sets come from the
//! scenarios of the decision.

use std::collections::BTreeMap;

use lacuna_model::{HoleClass, HoleVerdict, More, Offer, TrainerReason};

use super::bids::{Bids, best};
use super::input::ReportInput;
use super::node_set::cost;
use super::weighed::Weighed;
use crate::problem::ordinal::At;

/// Number of parts of the horizon. Holes with an expected stay in the same part are alike.
const PARTS: f64 = 8.0;

/// The reasons of a decision.
#[derive(Debug, Clone, Default)]
pub(super) struct Reasons {
    pub(super) classes: Vec<HoleClass>,
    pub(super) class_of: Vec<Option<u32>>,
    pub(super) trainers: Vec<TrainerReason>,
    /// Value of the present nodes of each trainer.
    pub(super) old_value: Vec<f64>,
}

impl Reasons {
    /// The reasons of a decision with an evaluation.
    pub(super) fn new(weighed: &Weighed<'_>) -> Self {
        let (before, _) = weighed.by_owner(weighed.request.owners);
        let (after, refused) = weighed.by_owner(&weighed.assignment.owners);
        let bids = Bids::new(weighed, &after, refused);
        let mut reasons = Self::of_doubt(weighed.input, weighed.owners);
        let members = weighed.members.iter().zip(&weighed.participants.0);
        let members = members.zip(before.iter().zip(&after));
        for (at, ((member, j), (old, new))) in members.enumerate() {
            let j = j.number() as usize;
            let reason = reasons.trainers.get_mut(j);
            let Some((reason, old_value)) = reason.zip(reasons.old_value.get_mut(j)) else {
                continue;
            };
            let shadow_price = weighed.price(at);
            let node_set = weighed.node_set(new.iter().copied());
            reason.stay_s = weighed.stay_s(new);
            reason.until_s = node_set.until_s();
            reason.ends = if new.is_empty() { 0.0 } else { node_set.ends() };
            reason.worth = node_set.value(member, shadow_price);
            reason.cost = cost(member, &node_set);
            reason.more = bids.more(weighed, at, member);
            let before = weighed.node_set(old.iter().copied());
            let value = before.value(member, shadow_price);
            *old_value = if value.is_finite() { value } else { 0.0 };
        }
        reasons.classify(weighed, &after, &bids);
        reasons
    }

    /// The reasons of a decision in doubt: the nodes that trainers keep and lose.
    pub(super) fn of_doubt(input: &ReportInput<'_>, owners: &[Option<u32>]) -> Self {
        let case = input.case;
        let mut trainers: Vec<TrainerReason> = input
            .candidates
            .iter()
            .map(|candidate| TrainerReason {
                hit: candidate.hit,
                kept: 0,
                gained: 0,
                lost: 0,
                stay_s: 0.0,
                until_s: 0.0,
                ends: 0.0,
                worth: 0.0,
                cost: 0.0,
                more: More::Doubt,
            })
            .collect();
        let mut count = |j: Option<u32>, what: fn(&mut TrainerReason) -> &mut u32| {
            if let Some(reason) = j.and_then(|j| trainers.get_mut(j as usize)) {
                *what(reason) += 1;
            }
        };
        for (slot, owner) in case.slots.iter().zip(owners) {
            if slot.owner == *owner {
                count(*owner, |reason| &mut reason.kept);
            } else {
                count(slot.owner, |reason| &mut reason.lost);
                count(*owner, |reason| &mut reason.gained);
            }
        }
        Self {
            old_value: vec![0.0; trainers.len()],
            class_of: vec![None; input.pool.holes.len()],
            classes: Vec::new(),
            trainers,
        }
    }

    /// Puts holes into classes: one new owner, kept or not, and about the same expected stay.
    fn classify(&mut self, weighed: &Weighed<'_>, after: &[Vec<usize>], bids: &Bids) {
        let horizon_s = weighed.horizon_s();
        let mut alike: BTreeMap<(Option<u32>, bool, u32), Vec<usize>> = BTreeMap::new();
        let changes = weighed.request.owners.iter();
        let changes = changes.zip(&weighed.assignment.owners).enumerate();
        for (place, (old, new)) in changes {
            let part = weighed.stay_s(&[place]) / horizon_s * PARTS;
            let part = part.clamp(0.0, PARTS - 1.0) as u32;
            let key = (*new, old == new, part);
            alike.entry(key).or_default().push(place);
        }
        let mut classes: Vec<(HoleClass, Vec<usize>)> = alike
            .into_iter()
            .filter_map(|((owner, same, _), places)| {
                let class = class(weighed, owner, same, &places, after, bids)?;
                Some((class, places))
            })
            .collect();
        classes.sort_by_key(|(_, places)| places.first().copied());
        for (number, (class, places)) in (0_u32..).zip(classes) {
            for place in places {
                let hole = weighed
                    .view
                    .slots
                    .get(At::new(place as u32))
                    .ok()
                    .and_then(|slot| weighed.input.case.holes.get(slot.number() as usize));
                if let Some(of) = hole.and_then(|&hole| self.class_of.get_mut(hole as usize)) {
                    *of = Some(number);
                }
            }
            self.classes.push(class);
        }
    }
}

/// One class of holes: those of the trainer `owner` of the request, or idle ones.
fn class(
    weighed: &Weighed<'_>,
    owner: Option<u32>,
    same: bool,
    places: &[usize],
    after: &[Vec<usize>],
    bids: &Bids,
) -> Option<HoleClass> {
    let node = |place: Option<&usize>| {
        let slot = weighed.view.slots.get(At::new(*place? as u32)).ok()?;
        weighed
            .input
            .case
            .nodes
            .get(slot.number() as usize)
            .cloned()
    };
    let (verdict, offer) = match owner.map(|at| at as usize) {
        Some(at) => {
            let trainer = weighed.name(at)?;
            let offer = own(weighed, at, same, places, after.get(at)?);
            let verdict = if same {
                HoleVerdict::Kept { trainer }
            } else {
                HoleVerdict::Assigned { trainer }
            };
            (verdict, offer)
        }
        None => match best(weighed, bids, places) {
            Some(offer) => (HoleVerdict::NotWorthIt, Some(offer)),
            None => (HoleVerdict::NoBidder, None),
        },
    };
    Some(HoleClass {
        holes: places.len() as u32,
        first: node(places.first())?,
        last: node(places.last())?,
        verdict,
        stay_s: weighed.stay_s(places),
        offer,
    })
}

/// Gain of these places for their trainer: the value of its node set less that of its other nodes
/// alone.
fn own(
    weighed: &Weighed<'_>,
    at: usize,
    same: bool,
    places: &[usize],
    all: &[usize],
) -> Option<Offer> {
    let member = weighed.members.get(at)?;
    let shadow_price = weighed.price(at);
    let whole = weighed.node_set(all.iter().copied());
    let rest = all
        .iter()
        .filter(|place| places.binary_search(place).is_err());
    let rest = weighed.node_set(rest.copied());
    let rest = if rest.nodes() < member.item.min {
        0.0
    } else {
        // It may not be able to run on the others alone.
        Some(rest.value(member, shadow_price))
            .filter(|value| value.is_finite())
            .unwrap_or(0.0)
    };
    let (within_s, cost) = if same {
        (member.item.down_s, 0.0)
    } else {
        (member.item.up_s, cost(member, &whole))
    };
    Some(Offer {
        trainer: weighed.name(at)?,
        nodes: places.len() as u32,
        within_s,
        ends: weighed.ends(places, within_s),
        gain: whole.value(member, shadow_price) - rest,
        cost,
    })
}
