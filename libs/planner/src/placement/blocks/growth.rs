//! Growth of pinned trainers into idle nodes, as long as that pays. Where nodes are of several kinds,
//! flexible trainers grow beyond their blocks too, since a block has nodes of one kind.

use crate::placement::{FirstHits, Member, Scenarios, Sets, Settings, places};

/// A trainer that may grow, with its present node set.
struct Candidate<'a> {
    j: u32,
    member: &'a Member<'a>,
    nodes: u32,
    /// One of its nodes.
    node: usize,
    set: FirstHits,
    /// Value of the present node set, less its switching cost.
    value: f64,
    best: Growth,
}

/// A growth into the first free nodes of a kind below the trainer's switch of a level.
#[derive(Clone, Copy, Default)]
struct Growth {
    gain: f64,
    level: usize,
    kind: usize,
    nodes: usize,
}

/// Lets members of unchanged nodes grow into the free nodes, longest-lasting nodes first. The
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
    let several = scenarios.tells_kinds();
    let mut candidates: Vec<Candidate<'_>> = (0..)
        .zip(members)
        .zip(sets.iter())
        .filter_map(|((j, member), held)| {
            let nodes = held.len() as u32;
            let flexible = member.is_flexible();
            if nodes >= member.item.max || flexible && (!several || nodes == 0) {
                return None;
            }
            let mut set = FirstHits::valued(scenarios, settings);
            set.extend(scenarios, held.iter().copied());
            let present = member.item.present();
            if !flexible && set.shape().mix != present {
                return None;
            }
            Some(Candidate {
                j,
                member,
                nodes,
                node: held.last().copied().unwrap_or_default(),
                value: set.means().value(member, shadow_price)
                    - member.switching_cost(&set.shape(), settings.hysteresis),
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
        let mut winner = candidates.swap_remove(first);
        let best = winner.best;
        let taken = reachable(&free, scenarios, winner.node, &best).take(best.nodes);
        for node in taken {
            if let Some(owner) = owners.get_mut(node) {
                *owner = Some(winner.j);
            }
            winner.set.add(scenarios, node);
        }
        // It may grow in another kind next.
        winner.nodes += best.nodes as u32;
        winner.value += best.gain;
        if several && winner.nodes < winner.member.item.max {
            candidates.push(winner);
        }
        free.retain(|&node| owners.get(node).is_some_and(Option::is_none));
    }
}

/// Free nodes of the kind of a growth below the switch of a node at its level, in their order.
fn reachable<'a>(
    free: &'a [usize],
    scenarios: &'a Scenarios,
    node: usize,
    &Growth { level, kind, .. }: &Growth,
) -> impl Iterator<Item = usize> + 'a {
    let switches = scenarios.switches();
    let own = switches.switch(node, level);
    let free = free.iter().copied();
    free.filter(move |&other| switches.switch(other, level) == own && scenarios.kind(other) == kind)
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
    let levels = candidate.set.tier()..=scenarios.switches().levels();
    let ways = levels.flat_map(|level| scenarios.kinds().map(move |kind| (level, kind)));
    for (level, kind) in ways {
        let mut set = candidate.set.clone();
        let mut growth = Growth {
            level,
            kind,
            ..Growth::default()
        };
        let free = reachable(free, scenarios, candidate.node, &growth);
        for (taken, node) in (1..=room).zip(free) {
            set.add(scenarios, node);
            let cost = member.switching_cost(&set.shape(), settings.hysteresis);
            growth.gain = set.means().value(member, shadow_price) - candidate.value - cost;
            growth.nodes = taken;
            if growth.gain > 0.0 && best.is_none_or(|best| growth.gain > best.gain) {
                best = Some(growth);
            }
        }
    }
    best
}
