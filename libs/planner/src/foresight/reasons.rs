//! Why each hole and each trainer fares as it does, in numbers.
//!
//! Of single holes the numbers come from their forecasts: the expected time left within the
//! horizon, the probability that it ends within a rescale cost. Of node sets they come from the
//! scenarios that decided.

use std::collections::BTreeMap;

use lacuna_model::{Forecast, HoleClass, HoleVerdict, More, Offer, TrainerId, TrainerReason};

use crate::joint::{Assignment, Member, Request, Scenarios};
use crate::ordinal::{At, Candidate, Per, Taking};

use super::Asked;
use super::offers::{Offers, best};
use super::reach::{Reach, cost};
use super::view::View;

/// The horizon is divided into so many parts, and holes whose expected time left falls into the
/// same one are alike.
const PARTS: f64 = 8.0;

/// What was weighed, and what came of it.
pub(super) struct Weighed<'a> {
    pub(super) asked: &'a Asked<'a>,
    pub(super) view: &'a View,
    pub(super) request: &'a Request<'a>,
    /// Its trainers.
    pub(super) members: Vec<Member<'a>>,
    pub(super) assignment: &'a Assignment,
    /// What a free node-second is taken to be worth to each trainer.
    pub(super) prices: &'a [f64],
    pub(super) scenarios: &'a Scenarios,
    /// The trainers of the request, as trainers of the case.
    pub(super) taking: &'a Per<Taking, Vec<At<Candidate>>>,
    /// The new owner of each slot.
    pub(super) owners: &'a [Option<u32>],
}

/// The reasons.
#[derive(Debug, Clone, Default)]
pub(super) struct Reasons {
    pub(super) classes: Vec<HoleClass>,
    pub(super) class_of: Vec<Option<u32>>,
    pub(super) trainers: Vec<TrainerReason>,
    /// What the nodes that each trainer has would be worth.
    pub(super) old_worth: Vec<f64>,
}

impl Weighed<'_> {
    pub(super) fn horizon_s(&self) -> f64 {
        self.asked.joint.horizon_s
    }

    pub(super) fn name(&self, at: usize) -> Option<TrainerId> {
        let j = self.taking.get(At::new(at as u32)).ok()?;
        name(self.asked, j.number())
    }

    pub(super) fn price(&self, at: usize) -> f64 {
        self.prices.get(at).copied().unwrap_or_default()
    }

    pub(super) fn reach(&self, places: impl IntoIterator<Item = usize>) -> Reach {
        Reach::of(self.scenarios, self.horizon_s(), places)
    }

    fn forecast(&self, place: usize) -> Option<&Forecast> {
        let curve = *self.view.curve.get(At::new(place as u32)).ok()?;
        self.asked.pool.forecasts.get(curve as usize)
    }

    /// Mean expected time left of these places, within the horizon, seconds; 0 of none.
    pub(super) fn stay_s(&self, places: &[usize]) -> f64 {
        self.mean(places, |forecast| forecast.mean_within(self.horizon_s()))
    }

    /// Mean probability that one of these places ends within so many seconds.
    pub(super) fn ends(&self, places: &[usize], within_s: f64) -> f64 {
        self.mean(places, |forecast| 1.0 - forecast.open_after(within_s))
    }

    fn mean(&self, places: &[usize], of: impl Fn(&Forecast) -> f64) -> f64 {
        let sum: f64 = places
            .iter()
            .filter_map(|&p| self.forecast(p))
            .map(of)
            .sum();
        sum / places.len().max(1) as f64
    }

    /// Places by owner: of each trainer of the request, and those of nobody.
    fn by_owner(&self, owners: &[Option<u32>]) -> (Vec<Vec<usize>>, Vec<usize>) {
        let mut places = vec![Vec::new(); self.members.len()];
        let mut nobodys = Vec::new();
        for (place, owner) in owners.iter().enumerate() {
            match owner.and_then(|j| places.get_mut(j as usize)) {
                Some(list) => list.push(place),
                None => nobodys.push(place),
            }
        }
        (places, nobodys)
    }
}

fn name(asked: &Asked<'_>, j: u32) -> Option<TrainerId> {
    let place = *asked.case.trainers.get(j as usize)?;
    Some(asked.trainers.get(place)?.spec.id.clone())
}

impl Reasons {
    /// Of a plan that was made.
    pub(super) fn new(weighed: &Weighed<'_>) -> Self {
        let (before, _) = weighed.by_owner(weighed.request.owners);
        let (after, refused) = weighed.by_owner(&weighed.assignment.owners);
        let offers = Offers::new(weighed, &after, refused);
        let mut reasons = Self::of_doubt(weighed.asked, weighed.owners);
        let members = weighed.members.iter().zip(&weighed.taking.0);
        let members = members.zip(before.iter().zip(&after));
        for (at, ((member, j), (old, new))) in members.enumerate() {
            let j = j.number() as usize;
            let reason = reasons.trainers.get_mut(j);
            let Some((reason, old_worth)) = reason.zip(reasons.old_worth.get_mut(j)) else {
                continue;
            };
            let salvage = weighed.price(at);
            let reach = weighed.reach(new.iter().copied());
            reason.stay_s = weighed.stay_s(new);
            reason.until_s = reach.until_s();
            reason.ends = if new.is_empty() { 0.0 } else { reach.ends() };
            reason.worth = reach.worth(member, salvage);
            reason.cost = cost(member, reach.nodes());
            reason.more = offers.more(weighed, at, member);
            *old_worth = weighed.reach(old.iter().copied()).worth(member, salvage);
        }
        reasons.classify(weighed, &after, &offers);
        reasons
    }

    /// Of trainers about which the plan is in doubt: what they keep and lose.
    pub(super) fn of_doubt(asked: &Asked<'_>, owners: &[Option<u32>]) -> Self {
        let case = asked.case;
        let mut trainers: Vec<TrainerReason> = asked
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
            old_worth: vec![0.0; trainers.len()],
            class_of: vec![None; asked.pool.holes.len()],
            classes: Vec::new(),
            trainers,
        }
    }

    /// Puts holes into classes: of one new owner, kept or not, with about the same expected
    /// time left.
    fn classify(&mut self, weighed: &Weighed<'_>, after: &[Vec<usize>], offers: &Offers) {
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
                let class = class(weighed, owner, same, &places, after, offers)?;
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
                    .and_then(|slot| weighed.asked.case.holes.get(slot.number() as usize));
                if let Some(of) = hole.and_then(|&hole| self.class_of.get_mut(hole as usize)) {
                    *of = Some(number);
                }
            }
            self.classes.push(class);
        }
    }
}

/// One class of holes: of the trainer `owner` of the request, or of nobody.
fn class(
    weighed: &Weighed<'_>,
    owner: Option<u32>,
    same: bool,
    places: &[usize],
    after: &[Vec<usize>],
    offers: &Offers,
) -> Option<HoleClass> {
    let node = |place: Option<&usize>| {
        let slot = weighed.view.slots.get(At::new(*place? as u32)).ok()?;
        weighed
            .asked
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
        None => match best(weighed, offers, places) {
            Some(offer) => (HoleVerdict::NotWorthIt, Some(offer)),
            None => (HoleVerdict::NoTaker, None),
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

/// What these places bring to the trainer that has them: by how much less its other nodes would
/// be worth alone.
fn own(
    weighed: &Weighed<'_>,
    at: usize,
    same: bool,
    places: &[usize],
    all: &[usize],
) -> Option<Offer> {
    let member = weighed.members.get(at)?;
    let salvage = weighed.price(at);
    let whole = weighed.reach(all.iter().copied());
    let rest = all
        .iter()
        .filter(|place| places.binary_search(place).is_err());
    let rest = weighed.reach(rest.copied());
    let rest = if rest.nodes() < member.item.min {
        0.0
    } else {
        rest.worth(member, salvage)
    };
    let (within_s, cost) = if same {
        (member.item.down_s, 0.0)
    } else {
        (member.item.up_s, cost(member, whole.nodes()))
    };
    Some(Offer {
        trainer: weighed.name(at)?,
        nodes: places.len() as u32,
        within_s,
        ends: weighed.ends(places, within_s),
        gain: whole.worth(member, salvage) - rest,
        cost,
    })
}
