//! Bound trainers grow into what nobody has, as long as that pays.

use super::worth::{Member, Set};
use super::{Scenarios, Settings};

/// A trainer that may grow, with its present node set.
struct Candidate<'a> {
    j: u32,
    member: &'a Member<'a>,
    nodes: u32,
    set: Set,
    /// What it is worth as it is.
    worth: f64,
    /// The best growth into what is free: gain and nodes taken.
    best: (f64, usize),
}

/// Lets bound members whose size has not changed yet grow into the free nodes, those that stay
/// longest first: the growth that gains most is carried out, then the next, until none pays.
/// `owners` is changed in place; it says for each place whose the node is.
pub(super) fn grow(
    members: &[Member<'_>],
    owners: &mut [Option<u32>],
    scenarios: &Scenarios,
    settings: &Settings,
    salvage: f64,
) {
    let mut free: Vec<usize> = places(owners, None).collect();
    free.reverse();
    let bound = (0..).zip(members).filter(|(_, member)| !member.is_loose());
    let mut candidates: Vec<Candidate<'_>> = bound
        .filter_map(|(j, member)| {
            let mut set = Set::empty(scenarios.count(), settings.horizon_s);
            let mut nodes = 0;
            for node in places(owners, Some(j)) {
                set.add(scenarios, node);
                nodes += 1;
            }
            let room = nodes == member.item.current && nodes < member.item.max;
            let worth = set.means().worth(member, nodes, salvage);
            room.then_some(Candidate {
                j,
                member,
                nodes,
                set,
                worth,
                best: (0.0, 0),
            })
        })
        .collect();
    while !free.is_empty() {
        candidates.retain_mut(|candidate| {
            let best = best(candidate, &free, scenarios, settings, salvage);
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

/// The best number of free nodes to take, in their order, if any gains.
fn best(
    candidate: &Candidate<'_>,
    free: &[usize],
    scenarios: &Scenarios,
    settings: &Settings,
    salvage: f64,
) -> Option<(f64, usize)> {
    let member = candidate.member;
    let charge = member.charge(candidate.nodes + 1, settings.hysteresis);
    let room = (member.item.max - candidate.nodes) as usize;
    let mut set = candidate.set.clone();
    let mut best: Option<(f64, usize)> = None;
    for (taken, &node) in (1..=room).zip(free) {
        set.add(scenarios, node);
        let nodes = candidate.nodes + taken as u32;
        let gain = set.means().worth(member, nodes, salvage) - candidate.worth - charge;
        if gain > 0.0 && best.is_none_or(|(most, _)| gain > most) {
            best = Some((gain, taken));
        }
    }
    best
}

/// Places of the nodes of one owner, or of nobody, in order.
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
