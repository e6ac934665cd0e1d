//! Growth of pinned trainers into idle nodes, as long as that pays.

use crate::placement::{FirstHits, Member, Scenarios, Settings};

/// A trainer that may grow, with its present node set.
struct Candidate<'a> {
    j: u32,
    member: &'a Member<'a>,
    nodes: u32,
    set: FirstHits,
    /// Value of the present node set.
    value: f64,
    /// The best growth into the free nodes: gain and number of nodes.
    best: (f64, usize),
}

/// Lets pinned members of unchanged size grow into the free nodes, longest-lasting nodes first. The
/// growth with the largest gain is applied, then the next, until none pays. `owners` has the owner
/// of each place and is changed in place.
pub(super) fn grow(
    members: &[Member<'_>],
    owners: &mut [Option<u32>],
    scenarios: &Scenarios,
    settings: &Settings,
    shadow_price: f64,
) {
    let mut free: Vec<usize> = places(owners, None).collect();
    free.reverse();
    let pinned = (0..)
        .zip(members)
        .filter(|(_, member)| !member.is_flexible());
    let mut candidates: Vec<Candidate<'_>> = pinned
        .filter_map(|(j, member)| {
            let mut set = FirstHits::empty(scenarios.count(), settings.horizon_s);
            let mut nodes = 0;
            for node in places(owners, Some(j)) {
                set.add(scenarios, node);
                nodes += 1;
            }
            let room = nodes == member.item.current && nodes < member.item.max;
            let value = set.means().value(member, nodes, shadow_price);
            room.then_some(Candidate {
                j,
                member,
                nodes,
                set,
                value,
                best: (0.0, 0),
            })
        })
        .collect();
    while !free.is_empty() {
        candidates.retain_mut(|candidate| {
            let best = best(candidate, &free, scenarios, settings, shadow_price);
            candidate.best = best.unwrap_or(candidate.best);
            best.is_some()
        });
        let ranked = candidates.iter().enumerate();
        let first = ranked.max_by(|(_, a), (_, b)| a.best.0.total_cmp(&b.best.0));
        let Some(first) = first.map(|(at, _)| at) else {
            return;
        };
        let winner = candidates.swap_remove(first);
        for node in free.drain(..winner.best.1) {
            if let Some(owner) = owners.get_mut(node) {
                *owner = Some(winner.j);
            }
        }
    }
}

/// The best number of free nodes to take, in their order; nothing if none gains.
fn best(
    candidate: &Candidate<'_>,
    free: &[usize],
    scenarios: &Scenarios,
    settings: &Settings,
    shadow_price: f64,
) -> Option<(f64, usize)> {
    let member = candidate.member;
    let cost = member.switching_cost(candidate.nodes + 1, settings.hysteresis);
    let room = (member.item.max - candidate.nodes) as usize;
    let mut set = candidate.set.clone();
    let mut best: Option<(f64, usize)> = None;
    for (taken, &node) in (1..=room).zip(free) {
        set.add(scenarios, node);
        let nodes = candidate.nodes + taken as u32;
        let gain = set.means().value(member, nodes, shadow_price) - candidate.value - cost;
        if gain > 0.0 && best.is_none_or(|(most, _)| gain > most) {
            best = Some((gain, taken));
        }
    }
    best
}

/// Places of the nodes of one owner, or of the idle nodes, in order.
pub(super) fn places(
    owners: &[Option<u32>],
    owner: Option<u32>,
) -> impl Iterator<Item = usize> + '_ {
    owners
        .iter()
        .enumerate()
        .filter(move |(_, of)| **of == owner)
        .map(|(place, _)| place)
}
