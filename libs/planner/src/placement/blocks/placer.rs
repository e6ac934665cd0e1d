//! The placement by blocks: several proposals of sizes are applied, and the best answer is taken.

use crate::placement::{Assignment, Member, Proposal, Request, Settings, set_value};
use crate::{Item, Problem, dp};

use super::growth::{grow, places};
use super::partition::Partition;

/// Allocates nodes to trainers by scenarios. Its memory between decisions is room only; the answer
/// depends on the request alone.
#[derive(Debug, Clone, Default)]
pub struct BlockPlacer {
    settings: Settings,
    sizes: dp::Solver,
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
    /// scenarios.
    pub fn decide(&mut self, request: &Request<'_>) -> Assignment {
        let first = self.decide_at(request, Self::highest_price(request.trainers));
        let price = self.price(request, &first);
        self.decide_at(request, price)
    }

    fn decide_at(&mut self, request: &Request<'_>, shadow_price: f64) -> Assignment {
        let members: Vec<Member<'_>> = request.members(self.settings.repool).collect();
        let mut best = Assignment {
            owners: kept(&members, request.owners),
            value: 0.0,
            proposal: Proposal::Keep,
            shadow_price,
        };
        best.value = self.judge(&members, request, &best.owners, shadow_price);
        let mut tried: Vec<Vec<u32>> = Vec::new();
        for proposal in Proposal::ALL {
            let mut sizes = self.guide(proposal, &members, request.owners.len());
            // The sizes of flexible trainers come from their blocks, whatever the proposal.
            let flexible = sizes
                .iter_mut()
                .zip(&members)
                .filter(|(_, m)| m.is_flexible());
            flexible.for_each(|(size, _)| *size = 0);
            if tried.contains(&sizes) {
                continue;
            }
            let owners = self.apply(&members, request, &sizes, shadow_price);
            let value = self.judge(&members, request, &owners, shadow_price);
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

    /// The guiding sizes of pinned trainers: the present ones, or the best ones if no node left for
    /// a time.
    fn guide(&mut self, proposal: Proposal, members: &[Member<'_>], nodes: usize) -> Vec<u32> {
        let Some(share) = proposal.share() else {
            return members.iter().map(|member| member.item.current).collect();
        };
        let trainers = members.iter().map(|member| {
            let mut item = member.item.clone();
            if member.is_flexible() {
                (item.up_s, item.down_s) = (0.0, 0.0);
            }
            item
        });
        self.sizes
            .solve(&Problem {
                nodes: nodes as u32,
                horizon_s: self.settings.horizon_s * share,
                trainers: trainers.collect(),
                max_change: None,
            })
            .counts
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
        let mut back = owners.iter_mut().rev().filter(|owner| owner.is_none());
        for (j, _, more) in growing {
            for owner in back.by_ref().take(more) {
                *owner = Some(j);
            }
        }
        let free: Vec<usize> = places(&owners, None).collect();
        let (scenarios, settings) = (request.scenarios, &self.settings);
        let blocks = self
            .partition
            .cut(members, &free, scenarios, settings, shadow_price);
        for (j, nodes) in blocks {
            for &node in nodes {
                if let Some(owner) = owners.get_mut(node) {
                    *owner = u32::try_from(j).ok();
                }
            }
        }
        grow(members, &mut owners, scenarios, settings, shadow_price);
        if !self.settings.refuse {
            use_all(members, &mut owners);
        }
        owners
    }

    /// The sum of V less all switching costs.
    fn judge(
        &self,
        members: &[Member<'_>],
        request: &Request<'_>,
        owners: &[Option<u32>],
        shadow_price: f64,
    ) -> f64 {
        let mut nodes: Vec<Vec<usize>> = vec![Vec::new(); members.len()];
        for (place, owner) in owners.iter().enumerate() {
            if let Some(mine) = owner.and_then(|j| nodes.get_mut(j as usize)) {
                mine.push(place);
            }
        }
        members
            .iter()
            .zip(&nodes)
            .map(|(member, nodes)| {
                let Settings {
                    horizon_s,
                    hysteresis,
                    ..
                } = self.settings;
                let places = nodes.iter().copied();
                let gained = set_value(member, request.scenarios, places, horizon_s, shadow_price);
                gained - member.switching_cost(nodes.len() as u32, hysteresis)
            })
            .sum()
    }
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

/// Gives idle nodes to running trainers with room, the largest first.
pub(crate) fn use_all(members: &[Member<'_>], owners: &mut [Option<u32>]) {
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
        let free = owners.iter_mut().rev().filter(|owner| owner.is_none());
        free.take(more).for_each(|owner| *owner = Some(j));
    }
}
