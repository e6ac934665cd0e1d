//! The placement by blocks: several proposals of sizes are applied, and the best answer is taken.

use std::borrow::Cow;

use crate::placement::Scenarios;
use crate::placement::{
    Assignment, Bounds, LeafByLeaf, Member, Proposal, Request, Settings, attainable, below, judge,
    lighter, nearest, net_value, net_value_among, places, uncross,
};
use crate::problem::{
    Item, Lost, Mix, MixProblem, NO_NODES, Problem, Shape, count, less, mixes_of, with_count,
};
use crate::{dp, mixed};

use super::growth::grow;
use super::lines;
use super::partition::Partition;

/// Most steps of the program over counts of several kinds for one proposal.
const GUIDE_STEPS: u64 = mixed::MOST_STEPS / 20;

/// The part of the horizon over which the kinds of flexible trainers are best.
const BLOCKS: f64 = 0.5;

/// Allocates nodes to trainers by scenarios. Its memory between decisions is room only; the answer
/// depends on the request alone.
#[derive(Debug, Clone, Default)]
pub struct BlockPlacer {
    settings: Settings,
    /// One of each proposal: its problems differ little from decision to decision.
    sizes: [dp::Solver; Proposal::ALL.len()],
    partition: Partition,
}

impl BlockPlacer {
    /// A placer with these settings.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            ..Self::default()
        }
    }

    /// Changes the settings.
    pub fn set(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// The highest shadow price of a node-second, objective units: the rate per node of the best
    /// trainer at its largest size.
    #[must_use]
    pub fn highest_price(trainers: &[Item]) -> f64 {
        trainers
            .iter()
            .map(Item::largest_per_node)
            .fold(0.0, f64::max)
    }

    /// The shadow price of a node-second that a decision implies, objective units: its value per
    /// allocated node-second. Without allocated node-seconds it is the highest price.
    fn price(&self, request: &Request<'_>, plan: &Assignment) -> f64 {
        let horizon = self.settings.horizon_s;
        let held = plan.owners.iter().enumerate().filter(|(_, o)| o.is_some());
        let scenarios = request.scenarios;
        let stay = |(node, _)| scenarios.worth(node) * scenarios.stay_s(node, horizon);
        let node_s: f64 = held.map(stay).sum();
        if node_s > 0.0 {
            (plan.value / node_s).max(0.0)
        } else {
            Self::highest_price(request.trainers)
        }
    }

    /// Decides twice: at the highest shadow price, and at the price that this decision implies.
    /// Owners outside the request count as none, and so do the owners of nodes beyond the
    /// scenarios. Where distance matters, blocks are cut from the departure order and from the line
    /// leaf by leaf, and the better answer counts.
    pub fn decide(&mut self, request: &Request<'_>) -> Assignment {
        let line = LeafByLeaf::new(request, self.settings.horizon_s);
        let members: Vec<Member<'_>> = request.members(self.settings.replace).collect();
        let sizes = self.guides(&members, request);
        let decide = |placer: &mut Self, price| {
            let answer = placer.decide_at(&members, request, &sizes, price);
            let Some(line) = &line else { return answer };
            let near = placer.decide_at(&members, &line.request(request), &sizes, price);
            if near.value > answer.value {
                line.back(near)
            } else {
                answer
            }
        };
        let first = decide(self, Self::highest_price(request.trainers));
        let price = self.price(request, &first);
        decide(self, price)
    }

    fn decide_at(
        &mut self,
        members: &[Member<'_>],
        request: &Request<'_>,
        guides: &[Vec<Mix>],
        shadow_price: f64,
    ) -> Assignment {
        let mut best = Assignment {
            owners: kept(members, request),
            value: 0.0,
            proposal: Proposal::Keep,
            shadow_price,
        };
        best.value = self.judge(members, request, &best.owners, shadow_price);
        let mut tried: Vec<(bool, Cow<'_, [Mix]>)> = Vec::new();
        let switches = request.scenarios.switches();
        for (proposal, guide) in Proposal::ALL.into_iter().zip(guides) {
            let mut guide = Cow::from(guide);
            if proposal == Proposal::Near {
                if switches.is_flat() {
                    continue;
                }
                self.shrink_near(members, request, guide.to_mut(), shadow_price);
            }
            let exactly = proposal == Proposal::Mixes;
            if exactly && !request.scenarios.tells_kinds() {
                continue;
            }
            let asked = (exactly, guide);
            if tried.contains(&asked) {
                continue;
            }
            let owners = self.apply(members, request, (&asked.1, exactly), shadow_price);
            let (owners, value) = self.uncrowded(members, request, owners, shadow_price);
            tried.push(asked);
            if value > best.value {
                best = Assignment {
                    owners,
                    value,
                    proposal,
                    shadow_price,
                };
            }
        }
        best
    }

    /// The guiding sizes of each proposal for pinned trainers: the present ones, or the best ones if
    /// no node left for a time. Those of flexible trainers are 0, since they come from their blocks;
    /// where nodes are of several kinds, they say from which kinds.
    fn guides(&mut self, members: &[Member<'_>], request: &Request<'_>) -> Vec<Vec<Mix>> {
        let scenarios = request.scenarios;
        let trainers = members.iter().map(|member| {
            let mut item = member.item.clone();
            if member.is_flexible() {
                (item.up_s, item.pilot_s, item.down_s) = (0.0, 0.0, 0.0);
                item.lost = Lost::default();
            }
            item
        });
        let mut trainers: Vec<Item> = trainers.collect();
        let switches = scenarios.switches();
        if !switches.is_flat() {
            attainable::lower(&mut trainers, request.owners, switches);
        }
        let present: Vec<Mix> = members.iter().map(|member| member.item.present()).collect();
        if scenarios.tells_kinds() {
            let mut problem = MixProblem {
                nodes: scenarios.mix(),
                horizon_s: 0.0,
                trainers,
            };
            let mut best = |share: f64| {
                problem.horizon_s = self.settings.horizon_s * share;
                mixed::solve_within(&problem, GUIDE_STEPS).0.mixes
            };
            let long = best(BLOCKS);
            let guide = |proposal: Proposal| match proposal.share() {
                Some(BLOCKS) => long.clone(),
                Some(share) => best(share),
                None => {
                    let all = members.iter().zip(&present).zip(&long);
                    let of = |((member, present), long): ((&Member<'_>, &Mix), &Mix)| {
                        if member.is_flexible() {
                            *long
                        } else {
                            *present
                        }
                    };
                    all.map(of).collect()
                }
            };
            return Proposal::ALL.into_iter().map(guide).collect();
        }
        let mut problem = Problem {
            nodes: request.owners.len() as u32,
            trainers,
            ..Problem::default()
        };
        let guide = |(proposal, solver): (Proposal, &mut dp::Solver)| {
            let mut guide = match proposal.share() {
                _ if proposal == Proposal::Mixes => Vec::new(),
                Some(share) => {
                    problem.horizon_s = self.settings.horizon_s * share;
                    let counts = solver.solve(&problem).counts.into_iter();
                    counts.map(|nodes| Shape::of(nodes, 0).mix).collect()
                }
                None => present.clone(),
            };
            for (guide, member) in guide.iter_mut().zip(members) {
                if member.is_flexible() {
                    *guide = NO_NODES;
                }
            }
            guide
        };
        Proposal::ALL
            .into_iter()
            .zip(&mut self.sizes)
            .map(guide)
            .collect()
    }

    /// Brings pinned trainers to their guiding sizes: they shrink from the front and grow from the
    /// back, the largest first. Then flexible trainers get the best blocks of each kind, or `exactly`
    /// their guiding sizes, and pinned ones grow.
    fn apply(
        &mut self,
        members: &[Member<'_>],
        request: &Request<'_>,
        (guide, exactly): (&[Mix], bool),
        shadow_price: f64,
    ) -> Vec<Option<u32>> {
        let scenarios = request.scenarios;
        let (mut growing, mut given_up) = (Vec::new(), Vec::with_capacity(members.len()));
        for (j, (member, &guide)) in (0_u32..).zip(members.iter().zip(guide)) {
            let present = member.item.present();
            given_up.push(less(present, guide));
            let more = less(guide, present);
            for kind in scenarios.kinds() {
                let more = count(&more, kind) as usize;
                if !member.is_flexible() && more > 0 {
                    growing.push((j, count(&guide, kind), kind, more));
                }
            }
        }
        let mut owners: Vec<Option<u32>> = request.owners.to_vec();
        if !scenarios.switches().is_flat() {
            self.give_up_far(members, request, &mut given_up, &mut owners, shadow_price);
        }
        for (place, owner) in owners.iter_mut().enumerate() {
            let Some(j) = owner.map(|j| j as usize) else {
                continue;
            };
            let kind = scenarios.kind(place);
            let given_up = given_up.get_mut(j).and_then(|mix| mix.get_mut(kind));
            match members.get(j).zip(given_up) {
                Some((member, _)) if member.is_flexible() => *owner = None,
                Some((_, left)) if *left > 0 => {
                    *left -= 1;
                    *owner = None;
                }
                Some(_) => {}
                // An owner outside the request.
                None => *owner = None,
            }
        }
        growing.sort_by_key(|&(j, size, kind, _)| (std::cmp::Reverse(size), j, kind));
        let switches = scenarios.switches();
        let free_of = |owners: &[Option<u32>], kind| -> Vec<usize> {
            let free = places(owners, None);
            free.filter(|&place| scenarios.kind(place) == kind)
                .collect()
        };
        for (j, _, kind, more) in growing {
            let own = match switches.is_flat() {
                true => Vec::new(),
                false => places(&owners, Some(j)).collect(),
            };
            for place in nearest(switches, &free_of(&owners, kind), &own, more) {
                if let Some(owner) = owners.get_mut(place) {
                    *owner = Some(j);
                }
            }
        }
        let give = |owners: &mut [Option<u32>], blocks: Vec<(usize, Vec<usize>)>| {
            for (j, nodes) in blocks {
                for node in nodes {
                    if let Some(owner) = owners.get_mut(node) {
                        *owner = u32::try_from(j).ok();
                    }
                }
            }
        };
        let (partition, settings) = (&mut self.partition, &self.settings);
        if scenarios.tells_kinds() {
            for again in [false, true]
                .into_iter()
                .filter(|again| !(exactly && *again))
            {
                for kind in scenarios.kinds() {
                    let free = free_of(&owners, kind);
                    let held = scenarios.mixes(&owners, members.len());
                    let held = again.then_some(held.as_slice());
                    let views = lines::views(members, guide, (exactly, held), kind);
                    let Some(first) = free.first().filter(|_| !views.is_empty()) else {
                        continue;
                    };
                    let price = shadow_price * scenarios.worth(*first);
                    let on: Vec<Member<'_>> = views.iter().map(|(_, view)| view.member()).collect();
                    let blocks = partition.cut(&on, &free, scenarios, settings, price);
                    let named = blocks.into_iter();
                    let named = named.filter_map(|(at, nodes)| Some((views.get(at)?.0, nodes)));
                    give(&mut owners, named.collect());
                }
                lines::without_impossible(members, &mut owners, scenarios);
            }
        } else {
            let free = free_of(&owners, 0);
            let blocks = partition.cut(members, &free, scenarios, settings, shadow_price);
            give(&mut owners, blocks);
        }
        grow(
            members,
            &mut owners,
            scenarios,
            &self.settings,
            shadow_price,
        );
        if !self.settings.refuse {
            use_all(members, &mut owners, scenarios);
        }
        let (most, bounds) = (switches.crossing(), bounds(members, scenarios));
        uncross(switches, most, request.owners, &mut owners, &bounds);
        owners
    }

    /// These owners, or the same with fewer crossing trainers on crowded uplinks, where that is worth
    /// more; and the value.
    fn uncrowded(
        &self,
        members: &[Member<'_>],
        request: &Request<'_>,
        owners: Vec<Option<u32>>,
        shadow_price: f64,
    ) -> (Vec<Option<u32>>, f64) {
        let value = self.judge(members, request, &owners, shadow_price);
        let (bounds, switches) = (
            bounds(members, request.scenarios),
            request.scenarios.switches(),
        );
        let mut best = (owners.clone(), value);
        for fewer in lighter(switches, request.owners, &owners, &bounds) {
            let value = self.judge(members, request, &fewer, shadow_price);
            if value > best.1 {
                best = (fewer, value);
            }
        }
        best
    }

    /// The sum of V less all switching costs.
    fn judge(
        &self,
        members: &[Member<'_>],
        request: &Request<'_>,
        owners: &[Option<u32>],
        shadow_price: f64,
    ) -> f64 {
        let price = |_| shadow_price;
        judge(members, request.scenarios, owners, &self.settings, price)
    }

    /// For pinned trainers whose nodes are apart: the size at which all are below one switch, where
    /// that is worth more than keeping all.
    fn shrink_near(
        &self,
        members: &[Member<'_>],
        request: &Request<'_>,
        guide: &mut [Mix],
        shadow_price: f64,
    ) {
        let (scenarios, switches) = (request.scenarios, request.scenarios.switches());
        let worth =
            |member, set: &[usize]| net_value(member, scenarios, set, &self.settings, shadow_price);
        let owned = request.owners.iter().copied().enumerate();
        let crowds = switches.crowds(owned, members.len());
        for ((j, (member, guide)), crowd) in (0_u32..).zip(members.iter().zip(guide)).zip(crowds) {
            if member.is_flexible() {
                continue;
            }
            let held: Vec<usize> = places(request.owners, Some(j)).collect();
            let mut best = net_value_among(
                member,
                scenarios,
                &held,
                &self.settings,
                shadow_price,
                crowd,
            );
            for level in 0..switches.tier(held.iter().copied()) {
                for set in below(switches, held.iter().copied(), level).values() {
                    let nodes = set.len() as u32;
                    let worth = worth(member, set);
                    if nodes >= member.item.min && worth > best {
                        (best, *guide) = (worth, mix_of(scenarios, set));
                    }
                }
            }
        }
    }

    /// Lets shrinking trainers keep their nearest nodes, where those are worth more than the last
    /// ones. What is given up here is taken off `given_up`.
    fn give_up_far(
        &self,
        members: &[Member<'_>],
        request: &Request<'_>,
        given_up: &mut [Mix],
        owners: &mut [Option<u32>],
        shadow_price: f64,
    ) {
        let scenarios = request.scenarios;
        for (j, (member, given)) in (0_u32..).zip(members.iter().zip(given_up)) {
            let all: u32 = given.iter().sum();
            if member.is_flexible() || all == 0 {
                continue;
            }
            let held: Vec<usize> = places(request.owners, Some(j)).collect();
            let (mut last, mut near) = (Vec::new(), Vec::new());
            for kind in scenarios.kinds() {
                let of_kind = held.iter().copied();
                let of_kind = of_kind.filter(|&place| scenarios.kind(place) == kind);
                let of_kind: Vec<usize> = of_kind.collect();
                let stays = of_kind.len().saturating_sub(count(given, kind) as usize);
                last.extend(of_kind.iter().copied().skip(of_kind.len() - stays));
                near.extend(nearest(scenarios.switches(), &of_kind, &[], stays));
            }
            last.sort_unstable();
            near.sort_unstable();
            let worth = |set| net_value(member, scenarios, set, &self.settings, shadow_price);
            if worth(&near) <= worth(&last) {
                continue;
            }
            *given = NO_NODES;
            for place in held {
                if near.binary_search(&place).is_err()
                    && let Some(owner) = owners.get_mut(place)
                {
                    *owner = None;
                }
            }
        }
    }
}

/// The nodes of a set by kind.
fn mix_of(scenarios: &Scenarios, set: &[usize]) -> Mix {
    let all = set
        .iter()
        .map(|&node| (Some(0), scenarios.kind(node) as u8));
    mixes_of(1, all).first().copied().unwrap_or_default()
}

/// What the members may have.
pub(crate) fn bounds<'a>(members: &'a [Member<'_>], scenarios: &'a Scenarios) -> Bounds<'a> {
    let runs = |j: usize, set: &[usize]| {
        let member = members.get(j);
        member.is_some_and(|member| member.item.is_mix(mix_of(scenarios, set)))
    };
    Bounds {
        flexible: members.iter().map(Member::is_flexible).collect(),
        runs: Box::new(runs),
    }
}

/// Owners if nothing changes. Owners outside the request, and trainers with nodes on which they
/// cannot run, keep none.
fn kept(members: &[Member<'_>], request: &Request<'_>) -> Vec<Option<u32>> {
    let mut owners = request.owners.to_vec();
    lines::without_impossible(members, &mut owners, request.scenarios);
    owners
}

/// Gives idle nodes to running trainers with room, the largest first; none that puts its nodes
/// farther apart, and none of a kind that it cannot use beside the others.
pub(crate) fn use_all(members: &[Member<'_>], owners: &mut [Option<u32>], scenarios: &Scenarios) {
    let switches = scenarios.switches();
    let mut room = Vec::new();
    let mixes = scenarios.mixes(owners, members.len());
    for (j, (member, mix)) in (0_u32..).zip(members.iter().zip(mixes)) {
        let nodes: u32 = mix.iter().sum();
        // A pinned trainer that shrinks now cannot take other nodes too.
        let shrinks = less(member.item.present(), mix) != NO_NODES;
        if nodes > 0 && (member.is_flexible() || !shrinks) {
            room.push((nodes, j, member.item, mix));
        }
    }
    room.sort_by_key(|&(nodes, j, ..)| (std::cmp::Reverse(nodes), j));
    for (_, j, item, mut mix) in room {
        let own = places(owners, Some(j)).next().unwrap_or(0);
        let level = switches.tier(places(owners, Some(j)));
        let near = |place| switches.switch(place, level) == switches.switch(own, level);
        for (place, owner) in owners.iter_mut().enumerate().rev() {
            let kind = scenarios.kind(place);
            let more = with_count(mix, kind, count(&mix, kind) + 1);
            if owner.is_none() && near(place) && item.is_mix(more) {
                (*owner, mix) = (Some(j), more);
            }
        }
    }
}
