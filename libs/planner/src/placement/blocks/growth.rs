//! Growth of pinned trainers into idle nodes, as long as that pays.

use crate::placement::{FirstHits, Member, Scenarios, Sets, Settings, places};

/// A trainer that may grow, with its present node set.
struct Candidate<'a> {
    j: u32,
    member: &'a Member<'a>,
    nodes: u32,
    /// One of its nodes.
    node: usize,
    set: FirstHits,
    /// Value of the present node set.
    value: f64,
    best: Growth,
}

/// A growth into the first free nodes below the trainer's switch of a level.
#[derive(Clone, Copy, Default)]
struct Growth {
    gain: f64,
    level: usize,
    nodes: usize,
}

/// Lets pinned members of unchanged size grow into the free nodes, longest-lasting nodes first. The
/// growth with the largest gain is applied, then the next, until none pays. Nodes below each switch
/// of a trainer are tried, from the nearest on. `owners` has the owner of each place and is changed
/// in place.
pub(super) fn grow(
    members: &[Member<'_>],
    owners: &mut [Option<u32>],
    scenarios: &Scenarios,
    settings: &Settings,
    shadow_price: f64,
) {
    let mut free: Vec<usize> = places(owners, None).collect();
    if free.is_empty() {
        return;
    }
    free.reverse();
    let sets = Sets::new(owners, members.len());
    let pinned = (0..).zip(members).zip(sets.iter());
    let pinned = pinned.filter(|((_, member), _)| !member.is_flexible());
    let mut candidates: Vec<Candidate<'_>> = pinned
        .filter_map(|((j, member), held)| {
            let nodes = held.len() as u32;
            if nodes != member.item.current || nodes >= member.item.max {
                return None;
            }
            let mut set = FirstHits::valued(scenarios, settings);
            set.extend(scenarios, held.iter().copied());
            Some(Candidate {
                j,
                member,
                nodes,
                node: held.last().copied().unwrap_or_default(),
                value: set.means().value(member, nodes, shadow_price),
                set,
                best: Growth::default(),
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
        let first = ranked.max_by(|(_, a), (_, b)| a.best.gain.total_cmp(&b.best.gain));
        let Some(first) = first.map(|(at, _)| at) else {
            return;
        };
        let winner = candidates.swap_remove(first);
        let Growth { level, nodes, .. } = winner.best;
        let taken = reachable(&free, scenarios, winner.node, level).take(nodes);
        for node in taken {
            if let Some(owner) = owners.get_mut(node) {
                *owner = Some(winner.j);
            }
        }
        free.retain(|&node| owners.get(node).is_some_and(Option::is_none));
    }
}

/// Free nodes below the switch of a node at a level, in their order.
fn reachable<'a>(
    free: &'a [usize],
    scenarios: &'a Scenarios,
    node: usize,
    level: usize,
) -> impl Iterator<Item = usize> + 'a {
    let switches = scenarios.switches();
    let own = switches.switch(node, level);
    let free = free.iter().copied();
    free.filter(move |&other| switches.switch(other, level) == own)
}

/// The best growth; nothing if none gains.
fn best(
    candidate: &Candidate<'_>,
    free: &[usize],
    scenarios: &Scenarios,
    settings: &Settings,
    shadow_price: f64,
) -> Option<Growth> {
    let member = candidate.member;
    let room = (member.item.max - candidate.nodes) as usize;
    let mut best: Option<Growth> = None;
    for level in candidate.set.tier()..=scenarios.switches().levels() {
        let mut set = candidate.set.clone();
        let free = reachable(free, scenarios, candidate.node, level);
        for (taken, node) in (1..=room).zip(free) {
            set.add(scenarios, node);
            let nodes = candidate.nodes + taken as u32;
            let cost = member.switching_cost(nodes, 0, settings.hysteresis);
            let gain = set.means().value(member, nodes, shadow_price) - candidate.value - cost;
            if gain > 0.0 && best.is_none_or(|best| gain > best.gain) {
                best = Some(Growth {
                    gain,
                    level,
                    nodes: taken,
                });
            }
        }
    }
    best
}
