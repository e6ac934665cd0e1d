//! What refused holes would bring to whom.

use lacuna_model::{More, Offer};

use crate::joint::Member;

use super::reach::{Reach, cost};
use super::reasons::Weighed;

/// The trainers of a plan with their nodes, and the holes that nobody got.
pub(super) struct Offers {
    /// Of each trainer of the request: its new node set.
    reach: Vec<Reach>,
    /// Places of the refused holes, in order.
    refused: Vec<usize>,
}

impl Offers {
    /// `after` are the places of each trainer's nodes.
    pub(super) fn new(weighed: &Weighed<'_>, after: &[Vec<usize>], refused: Vec<usize>) -> Self {
        let of = |places: &Vec<usize>| weighed.reach(places.iter().copied());
        Self {
            reach: after.iter().map(of).collect(),
            refused,
        }
    }

    /// Why the trainer `at` has no more nodes.
    pub(super) fn more(&self, weighed: &Weighed<'_>, at: usize, member: &Member<'_>) -> More {
        let Some(reach) = self.reach.get(at) else {
            return More::NoneLeft;
        };
        let nodes = reach.nodes();
        if nodes >= member.item.max {
            return More::Maximum;
        }
        if !member.is_loose() && nodes < member.item.current {
            return More::Shrinks;
        }
        let last = self.refused.iter().rev().copied();
        let Some(offer) = self.offer(weighed, at, member, last) else {
            return More::NoneLeft;
        };
        if offer.gain > weighed.asked.joint.hysteresis * offer.cost {
            More::Missed(offer)
        } else {
            More::NotWorthIt(offer)
        }
    }

    /// The best number of these places for the trainer `at` to take, in their order, at least
    /// one, and as many as it needs to run. None if it cannot take any.
    fn offer(
        &self,
        weighed: &Weighed<'_>,
        at: usize,
        member: &Member<'_>,
        places: impl Iterator<Item = usize>,
    ) -> Option<Offer> {
        let mut reach = self.reach.get(at)?.clone();
        let (item, salvage) = (member.item, weighed.price(at));
        let before = reach.nodes();
        if !member.is_loose() && before < item.current {
            return None;
        }
        let (worth, paid) = (reach.worth(member, salvage), cost(member, before));
        let mut taken = Vec::new();
        let mut best: Option<(f64, f64, f64, usize)> = None;
        for place in places.take(item.max.saturating_sub(before) as usize) {
            reach.add(weighed.scenarios, place);
            taken.push(place);
            let nodes = reach.nodes();
            if nodes < item.min {
                continue;
            }
            let gain = reach.worth(member, salvage) - worth;
            let cost = cost(member, nodes) - paid;
            let net = gain - weighed.asked.joint.hysteresis * cost;
            if best.is_none_or(|(most, ..)| net > most) {
                best = Some((net, gain, cost, taken.len()));
            }
        }
        let (_, gain, cost, count) = best?;
        taken.truncate(count);
        Some(Offer {
            trainer: weighed.name(at)?,
            nodes: count as u32,
            within_s: item.up_s,
            ends: weighed.ends(&taken, item.up_s),
            gain,
            cost,
        })
    }
}

/// What refused holes would bring to the trainer that would gain most by them, or lose least:
/// those at `places`, the last first, and if it needs more to run, others with them.
pub(super) fn best(weighed: &Weighed<'_>, offers: &Offers, places: &[usize]) -> Option<Offer> {
    let hysteresis = weighed.asked.joint.hysteresis;
    let net = |offer: &Offer| offer.gain - hysteresis * offer.cost;
    let mut best: Option<Offer> = None;
    for (at, (member, reach)) in weighed.members.iter().zip(&offers.reach).enumerate() {
        let short = member.item.min.saturating_sub(reach.nodes()) as usize;
        let others = offers.refused.iter().rev().copied();
        let others = others.filter(|place| places.binary_search(place).is_err());
        let own = places.iter().rev().copied();
        let list = own.chain(others.take(short.saturating_sub(places.len())));
        let offer = offers.offer(weighed, at, member, list);
        if let Some(offer) = offer
            && best.as_ref().is_none_or(|best| net(&offer) > net(best))
        {
            best = Some(offer);
        }
    }
    best.map(|mut offer| {
        offer.ends = weighed.ends(places, offer.within_s);
        offer
    })
}
