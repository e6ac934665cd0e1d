//! Bids of trainers for refused holes: gain and cost.

use lacuna_model::{More, Offer};

use super::node_set::{NodeSet, cost};
use super::weighed::Weighed;
use crate::placement::Member;

/// The trainers of a plan with their node sets, and the refused holes.
pub(super) struct Bids {
    /// New node set of each trainer of the request.
    node_sets: Vec<NodeSet>,
    /// Places of the refused holes, in order.
    refused: Vec<usize>,
}

impl Bids {
    /// `after` are the places of each trainer's nodes.
    pub(super) fn new(weighed: &Weighed<'_>, after: &[Vec<usize>], refused: Vec<usize>) -> Self {
        let of = |places: &Vec<usize>| weighed.node_set(places.iter().copied());
        Self {
            node_sets: after.iter().map(of).collect(),
            refused,
        }
    }

    /// The reason that the trainer `at` has no more nodes.
    pub(super) fn more(&self, weighed: &Weighed<'_>, at: usize, member: &Member<'_>) -> More {
        let Some(node_set) = self.node_sets.get(at) else {
            return More::NoneLeft;
        };
        let nodes = node_set.nodes();
        if nodes >= member.item.max {
            return More::Maximum;
        }
        if !member.is_flexible() && nodes < member.item.current {
            return More::Shrinks;
        }
        let last = self.refused.iter().rev().copied();
        let Some(offer) = self.bid(weighed, at, member, last) else {
            return More::NoneLeft;
        };
        if offer.gain > weighed.input.settings.hysteresis * offer.cost {
            More::Missed(offer)
        } else {
            More::NotWorthIt(offer)
        }
    }

    /// The bid of the trainer `at` for the best number of these places of one kind, in their order:
    /// at least one, and enough to run. Nothing if it can take none.
    fn bid(
        &self,
        weighed: &Weighed<'_>,
        at: usize,
        member: &Member<'_>,
        places: impl Iterator<Item = usize> + Clone,
    ) -> Option<Offer> {
        let scenarios = weighed.scenarios;
        let of_kind = |kind| places.clone().filter(move |at| scenarios.kind(*at) == kind);
        let bids = scenarios.kinds();
        let bids = bids.filter_map(|kind| self.bid_on_kind(weighed, at, member, of_kind(kind)));
        let net = |offer: &Offer| offer.gain - weighed.input.settings.hysteresis * offer.cost;
        bids.reduce(|best, next| if net(&next) > net(&best) { next } else { best })
    }

    fn bid_on_kind(
        &self,
        weighed: &Weighed<'_>,
        at: usize,
        member: &Member<'_>,
        places: impl Iterator<Item = usize>,
    ) -> Option<Offer> {
        let mut node_set = self.node_sets.get(at)?.clone();
        let (item, shadow_price) = (member.item, weighed.price(at));
        let before = node_set.nodes();
        if !member.is_flexible() && before < item.current {
            return None;
        }
        let (value, paid) = (
            node_set.value(member, shadow_price),
            cost(member, &node_set),
        );
        let mut taken = Vec::new();
        let mut best: Option<(f64, f64, f64, usize)> = None;
        for place in places.take(item.max.saturating_sub(before) as usize) {
            node_set.add(weighed.scenarios, place);
            taken.push(place);
            let nodes = node_set.nodes();
            if nodes < item.min {
                continue;
            }
            let gain = node_set.value(member, shadow_price) - value;
            if !gain.is_finite() {
                continue;
            }
            let cost = cost(member, &node_set) - paid;
            let net = gain - weighed.input.settings.hysteresis * cost;
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

/// The best bid for refused holes, that of the largest gain or the least loss. It takes the holes
/// at `places`, the last first, and further ones if the trainer needs more to run.
pub(super) fn best(weighed: &Weighed<'_>, bids: &Bids, places: &[usize]) -> Option<Offer> {
    let hysteresis = weighed.input.settings.hysteresis;
    let net = |offer: &Offer| offer.gain - hysteresis * offer.cost;
    let mut best: Option<Offer> = None;
    for (at, (member, node_set)) in weighed.members.iter().zip(&bids.node_sets).enumerate() {
        let short = member.item.min.saturating_sub(node_set.nodes()) as usize;
        let others = bids.refused.iter().rev().copied();
        let others = others.filter(|place| places.binary_search(place).is_err());
        let own = places.iter().rev().copied();
        let list = own.chain(others.take(short.saturating_sub(places.len())));
        let offer = bids.bid(weighed, at, member, list);
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
