//! The placement by blocks: several proposals of sizes are applied, and the best answer is taken.

use std::borrow::Cow;

use crate::placement::{
    Assignment, LeafByLeaf, Member, Proposal, Request, Settings, attainable, below, judge, lighter,
    nearest, net_value, net_value_among, places, uncross,
};
use crate::problem::Switches;
use crate::{Item, Lost, Problem, dp};

use super::growth::grow;
use super::partition::Partition;

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
        let at_best = |item: &Item| item.value_at(item.max) / f64::from(item.max.max(1));
        trainers.iter().map(at_best).fold(0.0, f64::max)
    }

    /// The shadow price of a node-second that a decision implies, objective units: its value per
    /// allocated node-second. Without allocated node-seconds it is the highest price.
    fn price(&self, request: &Request<'_>, plan: &Assignment) -> f64 {
        let horizon = self.settings.horizon_s;
        let held = plan.owners.iter().enumerate().filter(|(_, o)| o.is_some());
        let stay = |(node, _)| request.scenarios.stay_s(node, horizon);
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
        let members: Vec<Member<'_>> = request.members(self.settings.repool).collect();
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
        sizes: &[Vec<u32>],
        shadow_price: f64,
    ) -> Assignment {
        let mut best = Assignment {
            owners: kept(members, request.owners),
            value: 0.0,
            proposal: Proposal::Keep,
            shadow_price,
        };
        best.value = self.judge(members, request, &best.owners, shadow_price);
        let mut tried: Vec<Cow<'_, [u32]>> = Vec::new();
        for (proposal, sizes) in Proposal::ALL.into_iter().zip(sizes) {
            let mut sizes = Cow::from(sizes);
            if proposal == Proposal::Near {
                if request.scenarios.switches().is_flat() {
                    continue;
                }
                self.shrink_near(members, request, sizes.to_mut(), shadow_price);
            }
            if tried.contains(&sizes) {
                continue;
            }
            let owners = self.apply(members, request, &sizes, shadow_price);
            let (owners, value) = self.uncrowded(members, request, owners, shadow_price);
            tried.push(sizes);
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
    /// no node left for a time. Those of flexible trainers are 0, since they come from their blocks.
    fn guides(&mut self, members: &[Member<'_>], request: &Request<'_>) -> Vec<Vec<u32>> {
        let trainers = members.iter().map(|member| {
            let mut item = member.item.clone();
            if member.is_flexible() {
                (item.up_s, item.pilot_s, item.down_s) = (0.0, 0.0, 0.0);
                item.lost = Lost::default();
            }
            item
        });
        let mut problem = Problem {
            nodes: request.owners.len() as u32,
            trainers: trainers.collect(),
            ..Problem::default()
        };
        let switches = request.scenarios.switches();
        if !switches.is_flat() {
            attainable::lower(&mut problem.trainers, request.owners, switches);
        }
        let guide = |(proposal, solver): (Proposal, &mut dp::Solver)| {
            let mut sizes = match proposal.share() {
                Some(share) => {
                    problem.horizon_s = self.settings.horizon_s * share;
                    solver.solve(&problem).counts
                }
                None => members.iter().map(|member| member.item.current).collect(),
            };
            for (size, member) in sizes.iter_mut().zip(members) {
                if member.is_flexible() {
                    *size = 0;
                }
            }
            sizes
        };
        Proposal::ALL
            .into_iter()
            .zip(&mut self.sizes)
            .map(guide)
            .collect()
    }

    /// Brings pinned trainers to the given sizes: they shrink from the front and grow from the
    /// back, the largest first. Then flexible trainers get the best blocks, and pinned ones grow.
    fn apply(
        &mut self,
        members: &[Member<'_>],
        request: &Request<'_>,
        sizes: &[u32],
        shadow_price: f64,
    ) -> Vec<Option<u32>> {
        let (mut growing, mut given_up) = (Vec::new(), Vec::with_capacity(members.len()));
        for (j, (member, &size)) in (0_u32..).zip(members.iter().zip(sizes)) {
            let current = member.item.current;
            given_up.push(current.saturating_sub(size));
            if !member.is_flexible() && size > current {
                growing.push((j, size, (size - current) as usize));
            }
        }
        let mut owners: Vec<Option<u32>> = request.owners.to_vec();
        if !request.scenarios.switches().is_flat() {
            self.give_up_far(members, request, &mut given_up, &mut owners, shadow_price);
        }
        for owner in &mut owners {
            let Some(j) = owner.map(|j| j as usize) else {
                continue;
            };
            match members.get(j).zip(given_up.get_mut(j)) {
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
        growing.sort_by_key(|&(j, size, _)| (std::cmp::Reverse(size), j));
        let switches = request.scenarios.switches();
        let mut free: Vec<usize> = places(&owners, None).collect();
        for (j, _, more) in growing {
            let own = match switches.is_flat() {
                true => Vec::new(),
                false => places(&owners, Some(j)).collect(),
            };
            for place in nearest(switches, &free, &own, more) {
                if let Some(owner) = owners.get_mut(place) {
                    *owner = Some(j);
                }
            }
            free.retain(|&place| owners.get(place).is_some_and(Option::is_none));
        }
        let (scenarios, settings) = (request.scenarios, &self.settings);
        let blocks = self
            .partition
            .cut(members, &free, scenarios, settings, shadow_price);
        for (j, nodes) in blocks {
            for node in nodes {
                if let Some(owner) = owners.get_mut(node) {
                    *owner = u32::try_from(j).ok();
                }
            }
        }
        grow(members, &mut owners, scenarios, settings, shadow_price);
        if !self.settings.refuse {
            use_all(members, &mut owners, scenarios.switches());
        }
        let switches = scenarios.switches();
        let (most, least) = (switches.crossing(), least(members));
        uncross(switches, most, request.owners, &mut owners, &least);
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
        let least = least(members);
        let mut best = (owners.clone(), value);
        for fewer in lighter(
            request.scenarios.switches(),
            request.owners,
            &owners,
            &least,
        ) {
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
        sizes: &mut [u32],
        shadow_price: f64,
    ) {
        let (scenarios, switches) = (request.scenarios, request.scenarios.switches());
        let worth =
            |member, set: &[usize]| net_value(member, scenarios, set, &self.settings, shadow_price);
        let owned = request.owners.iter().copied().enumerate();
        let crowds = switches.crowds(owned, members.len());
        for ((j, (member, size)), crowd) in (0_u32..).zip(members.iter().zip(sizes)).zip(crowds) {
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
                        (best, *size) = (worth, nodes);
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
        given_up: &mut [u32],
        owners: &mut [Option<u32>],
        shadow_price: f64,
    ) {
        let scenarios = request.scenarios;
        for (j, (member, given)) in (0_u32..).zip(members.iter().zip(given_up)) {
            if member.is_flexible() || *given == 0 {
                continue;
            }
            let held: Vec<usize> = places(request.owners, Some(j)).collect();
            let last = held.get(*given as usize..).unwrap_or(&[]);
            let near = nearest(scenarios.switches(), &held, &[], last.len());
            let worth = |set| net_value(member, scenarios, set, &self.settings, shadow_price);
            if worth(&near) <= worth(last) {
                continue;
            }
            *given = 0;
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

/// The minimum of each flexible trainer, and nothing for a pinned one.
pub(crate) fn least(members: &[Member<'_>]) -> Vec<Option<u32>> {
    let least = members
        .iter()
        .map(|m| m.is_flexible().then_some(m.item.min));
    least.collect()
}

/// Owners if nothing changes. Owners outside the request, and trainers with a number of nodes on
/// which they cannot run, keep none.
fn kept(members: &[Member<'_>], owners: &[Option<u32>]) -> Vec<Option<u32>> {
    let mut held = vec![0_u32; members.len()];
    for j in owners.iter().flatten() {
        if let Some(count) = held.get_mut(*j as usize) {
            *count += 1;
        }
    }
    let stays = members.iter().zip(held);
    let stays: Vec<bool> = stays
        .map(|(member, held)| member.item.is_size(held))
        .collect();
    let stays = |j: u32| stays.get(j as usize) == Some(&true);
    owners
        .iter()
        .map(|owner| owner.filter(|&j| stays(j)))
        .collect()
}

/// Gives idle nodes to running trainers with room, the largest first; none that puts its nodes
/// farther apart.
pub(crate) fn use_all(members: &[Member<'_>], owners: &mut [Option<u32>], switches: &Switches) {
    let mut room = Vec::new();
    for (j, member) in (0_u32..).zip(members) {
        let nodes = places(owners, Some(j)).count();
        let item = member.item;
        // A pinned trainer that shrinks now cannot take other nodes too.
        if nodes > 0 && (member.is_flexible() || nodes >= item.current as usize) {
            room.push((nodes, j, (item.max as usize).saturating_sub(nodes)));
        }
    }
    room.sort_by_key(|&(nodes, j, _)| (std::cmp::Reverse(nodes), j));
    for (_, j, more) in room {
        let own = places(owners, Some(j)).next().unwrap_or(0);
        let level = switches.tier(places(owners, Some(j)));
        let near = |place| switches.switch(place, level) == switches.switch(own, level);
        let free = owners.iter_mut().enumerate().rev();
        let free = free.filter(|(place, owner)| owner.is_none() && near(*place));
        free.take(more).for_each(|(_, owner)| *owner = Some(j));
    }
}
