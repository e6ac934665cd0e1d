//! Bound trainers grow into what nobody has, as long as that pays.

use super::worth::{Member, Set};
use super::{Scenarios, Settings};

/// A trainer that may grow, with its present node set.
struct Candidate {
    member: usize,
    nodes: u32,
    set: Set,
    /// What it is worth as it is.
    worth: f64,
    /// The best growth into what is free: gain and nodes taken.
    best: Option<(f64, usize)>,
}

/// Lets the members `bound` whose size has not changed yet grow into the free nodes, those that
/// stay longest first: the growth that gains most is carried out, then the next, until none pays.
/// `owners` is changed in place; it says for each place whose the node is.
pub(super) fn grow(
    members: &[Member<'_>],
    bound: &[usize],
    owners: &mut [Option<u32>],
    scenarios: &Scenarios,
    settings: &Settings,
    salvage: f64,
) {
    let mut free: Vec<usize> = places(owners, None).collect();
    free.reverse();
    let mut candidates: Vec<Candidate> = bound
        .iter()
        .filter_map(|&j| {
            let member = members.get(j)?;
            let mut set = Set::empty(scenarios.count(), settings.horizon_s);
            let mut nodes = 0;
            for node in places(owners, u32::try_from(j).ok()) {
                set.add(scenarios, node);
                nodes += 1;
            }
            let room = nodes == member.item.current && nodes < member.item.max;
            let worth = set.means().worth(member, nodes, salvage);
            room.then_some(Candidate {
                member: j,
                nodes,
                set,
                worth,
                best: None,
            })
        })
        .collect();
    while !free.is_empty() && !candidates.is_empty() {
        for candidate in &mut candidates {
            if let Some(member) = members.get(candidate.member) {
                candidate.best = best(candidate, member, &free, scenarios, settings, salvage);
            }
        }
        candidates.retain(|candidate| candidate.best.is_some());
        let gain = |c: &Candidate| c.best.map_or(f64::NEG_INFINITY, |(gain, _)| gain);
        let ranked = candidates.iter().map(gain).enumerate();
        let first = ranked.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(at, _)| at);
        let Some(winner) = first.map(|at| candidates.swap_remove(at)) else {
            return;
        };
        let taken = winner.best.map_or(0, |(_, taken)| taken);
        for node in free.drain(..taken) {
            if let Some(owner) = owners.get_mut(node) {
                *owner = u32::try_from(winner.member).ok();
            }
        }
    }
}

/// The best number of free nodes to take, in their order, if any gains.
fn best(
    candidate: &Candidate,
    member: &Member<'_>,
    free: &[usize],
    scenarios: &Scenarios,
    settings: &Settings,
    salvage: f64,
) -> Option<(f64, usize)> {
    let charge = member.charge(candidate.nodes + 1, settings.hysteresis);
    let room = (member.item.max - candidate.nodes) as usize;
    let mut set = candidate.set.clone();
    let mut best = None;
    for (taken, &node) in (1..=room).zip(free) {
        set.add(scenarios, node);
        let nodes = candidate.nodes + taken as u32;
        let gain = set.means().worth(member, nodes, salvage) - candidate.worth - charge;
        if gain > best.map_or(0.0, |(most, _)| most) {
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
