//! The whole decision: proposals are carried out, and the best is taken.

use std::iter::repeat;

use lacuna_model::ForesightSettings;
use serde::{Deserialize, Serialize};

use crate::{Item, Problem, dp};

use super::Scenarios;
use super::growth::{grow, places};
use super::segments::Segments;
use super::worth::{Member, worth};

/// How the joint allocation weighs things.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// How far it looks ahead at most, H, seconds; see [`Settings::reach`].
    pub horizon_s: f64,
    /// A change must be worth so many times its cost.
    pub hysteresis: f64,
    /// Whether a trainer that was hit may take any nodes at no further charge.
    pub repool: bool,
    /// Whether nodes may be left idle because they do not pay. If not, what is left is given to
    /// whoever has room, the largest first.
    pub refuse: bool,
}

impl From<&ForesightSettings> for Settings {
    fn from(settings: &ForesightSettings) -> Self {
        Self {
            horizon_s: settings.horizon.as_secs_f64(),
            hysteresis: settings.hysteresis,
            repool: settings.repool,
            refuse: settings.refuse,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        (&ForesightSettings::default()).into()
    }
}

/// A look ahead of so many times what growing and shrinking again costs: BFTrainer's T of 120 s
/// for trainers that lose 18 s and 12 s.
const CHANGES: f64 = 4.0;

/// How long holes are taken to last while that is not known, seconds.
const UNKNOWN_S: f64 = 600.0;

/// The shortest look ahead, seconds: about what pollers of schedulers see.
const SHORTEST_S: f64 = 60.0;

impl Settings {
    /// The same for these trainers on a machine whose holes typically last `typical_s`: it looks
    /// no further ahead than the horizon, than four times what growing and shrinking cost these
    /// trainers on average (a change that pays has paid by then, and will be thought over before),
    /// and than half of the holes last (beyond, the pool is another).
    ///
    /// But never less far than four times the dearest start that a trainer without nodes waits for,
    /// whatever else holds: a start pays in the holes that last, and what is not looked at cannot
    /// pay. With each trainer comes what a start stalls it, seconds, as in [`Request::start_s`].
    #[must_use]
    pub fn reach<'a>(
        &self,
        trainers: impl Iterator<Item = (&'a Item, f64)> + Clone,
        typical_s: Option<f64>,
    ) -> Self {
        let costs: f64 = trainers
            .clone()
            .map(|(item, _)| item.up_s + item.down_s)
            .sum();
        let cost = costs / trainers.clone().count().max(1) as f64;
        let reach = (CHANGES * cost).min(typical_s.unwrap_or(UNKNOWN_S));
        let starts = trainers.filter(|(item, _)| item.current == 0);
        let dearest = starts.fold(0.0, |most: f64, (_, start_s)| most.max(start_s));
        Self {
            horizon_s: self
                .horizon_s
                .min(reach.max(SHORTEST_S))
                .max(CHANGES * dearest),
            ..*self
        }
    }
}

/// What is to be decided. Nodes come in the order in which they are expected to leave.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The trainers; the horizon of the problem is not used.
    pub trainers: &'a [Item],
    /// Whether each was hit at this event; none if shorter.
    pub hit: &'a [bool],
    /// Seconds at the rate after it that a start stalls each; 0 if shorter.
    pub start_s: &'a [f64],
    /// Whose each node is.
    pub owners: &'a [Option<u32>],
    /// When nodes leave.
    pub scenarios: &'a Scenarios,
}

impl<'a> Request<'a> {
    /// The trainers as members; with `repool`, those that were hit restart anyway.
    pub fn members(&self, repool: bool) -> impl Iterator<Item = Member<'a>> {
        let hit = self.hit.iter().map(move |&hit| repool && hit);
        let hit = hit.chain(repeat(false));
        let start_s = self.start_s.iter().copied().chain(repeat(0.0));
        let trainers = self.trainers.iter().zip(hit.zip(start_s));
        trainers.map(|(item, (hit, start_s))| Member { item, hit, start_s })
    }
}

/// Which sizes of bound trainers were tried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Proposal {
    /// As they are, grown where that pays.
    Present,
    /// Optimal without a forecast over a fifth of the horizon.
    Short,
    /// Optimal without a forecast over half of the horizon.
    Long,
    /// Every trainer keeps exactly what it has: the floor.
    #[default]
    Keep,
}

impl Proposal {
    const ALL: [Self; 3] = [Self::Present, Self::Short, Self::Long];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Present => "present",
            Self::Short => "short",
            Self::Long => "long",
            Self::Keep => "keep",
        }
    }

    fn share(self) -> Option<f64> {
        match self {
            Self::Present | Self::Keep => None,
            Self::Short => Some(0.2),
            Self::Long => Some(0.5),
        }
    }
}

/// Who gets which node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Assignment {
    /// Whose each node is from now on.
    pub owners: Vec<Option<u32>>,
    /// The sum of V over the trainers less all charges, objective units.
    pub worth: f64,
    /// Which proposal it was.
    pub proposal: Proposal,
    /// What a free node-second was taken to be worth, objective units.
    pub salvage: f64,
}

/// Allocates nodes to trainers by scenarios. What it keeps between decisions is room; the answer
/// follows from the request alone.
#[derive(Debug, Clone, Default)]
pub struct Joint {
    settings: Settings,
    sizes: dp::Solver,
    segments: Segments,
}

impl Joint {
    /// Weighs things like this.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            ..Self::default()
        }
    }

    /// Weighs things like this from now on.
    pub fn weigh(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// The highest shadow price of a node-second, objective units: what the best trainer makes of
    /// one at its largest size.
    #[must_use]
    pub fn highest_price(trainers: &[Item]) -> f64 {
        let at_best = |item: &Item| item.value_at(item.max) / f64::from(item.max.max(1));
        trainers.iter().map(at_best).fold(0.0, f64::max)
    }

    /// The shadow price of a node-second that a decision implies, objective units: its value over
    /// the node-seconds that it gives out. The highest price if it gives out none.
    fn price(&self, request: &Request<'_>, plan: &Assignment) -> f64 {
        let horizon = self.settings.horizon_s;
        let held = plan.owners.iter().enumerate().filter(|(_, o)| o.is_some());
        let stay = |(node, _)| request.scenarios.stay_s(node, horizon);
        let node_s: f64 = held.map(stay).sum();
        if node_s > 0.0 {
            (plan.worth / node_s).max(0.0)
        } else {
            Self::highest_price(request.trainers)
        }
    }

    /// Decides twice: at the highest shadow price, and at the price that this decision implies.
    /// Owners that are no trainer of the request count as none, and so do those of nodes beyond
    /// the scenarios.
    pub fn decide(&mut self, request: &Request<'_>) -> Assignment {
        let first = self.decide_at(request, Self::highest_price(request.trainers));
        let price = self.price(request, &first);
        self.decide_at(request, price)
    }

    fn decide_at(&mut self, request: &Request<'_>, salvage: f64) -> Assignment {
        let members: Vec<Member<'_>> = request.members(self.settings.repool).collect();
        let mut best = Assignment {
            owners: kept(&members, request.owners),
            worth: 0.0,
            proposal: Proposal::Keep,
            salvage,
        };
        best.worth = self.judge(&members, request, &best.owners, salvage);
        let mut tried: Vec<Vec<u32>> = Vec::new();
        for proposal in Proposal::ALL {
            let mut sizes = self.guide(proposal, &members, request.owners.len());
            // Loose trainers take what segments give them, whatever was proposed.
            let loose = sizes.iter_mut().zip(&members).filter(|(_, m)| m.is_loose());
            loose.for_each(|(size, _)| *size = 0);
            if tried.contains(&sizes) {
                continue;
            }
            let owners = self.carry_out(&members, request, &sizes, salvage);
            let worth = self.judge(&members, request, &owners, salvage);
            tried.push(sizes);
            if worth > best.worth {
                best = Assignment {
                    owners,
                    worth,
                    proposal,
                    salvage,
                };
            }
        }
        best
    }

    /// The sizes that bound trainers are to have: what they have, or what would be best if
    /// nobody left for a time.
    fn guide(&mut self, proposal: Proposal, members: &[Member<'_>], nodes: usize) -> Vec<u32> {
        let Some(share) = proposal.share() else {
            return members.iter().map(|member| member.item.current).collect();
        };
        let trainers = members.iter().map(|member| {
            let mut item = member.item.clone();
            if member.is_loose() {
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

    /// Bound trainers go to the sizes given: they shrink from the front, and grow from the back,
    /// the largest first. Then the loose ones get the best segments, and then others grow.
    fn carry_out(
        &mut self,
        members: &[Member<'_>],
        request: &Request<'_>,
        sizes: &[u32],
        salvage: f64,
    ) -> Vec<Option<u32>> {
        let (mut growing, mut given_up) = (Vec::new(), Vec::with_capacity(members.len()));
        for (j, (member, &size)) in (0_u32..).zip(members.iter().zip(sizes)) {
            let current = member.item.current;
            given_up.push(current.saturating_sub(size));
            if !member.is_loose() && size > current {
                growing.push((j, size, (size - current) as usize));
            }
        }
        let mut owners: Vec<Option<u32>> = request.owners.to_vec();
        for owner in &mut owners {
            let Some(j) = owner.map(|j| j as usize) else {
                continue;
            };
            match members.get(j).zip(given_up.get_mut(j)) {
                Some((member, _)) if member.is_loose() => *owner = None,
                Some((_, left)) if *left > 0 => {
                    *left -= 1;
                    *owner = None;
                }
                Some(_) => {}
                // A stranger.
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
        let segments = self
            .segments
            .cut(members, &free, scenarios, settings, salvage);
        for (j, nodes) in segments {
            for &node in nodes {
                if let Some(owner) = owners.get_mut(node) {
                    *owner = u32::try_from(j).ok();
                }
            }
        }
        grow(members, &mut owners, scenarios, settings, salvage);
        if !self.settings.refuse {
            use_all(members, &mut owners);
        }
        owners
    }

    /// The sum of V less all charges.
    fn judge(
        &self,
        members: &[Member<'_>],
        request: &Request<'_>,
        owners: &[Option<u32>],
        salvage: f64,
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
                let gained = worth(member, request.scenarios, places, horizon_s, salvage);
                gained - member.charge(nodes.len() as u32, hysteresis)
            })
            .sum()
    }
}

/// Whose each node stays if nobody changes anything: strangers, and trainers that have fewer or
/// more nodes than they can run on, keep none.
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

/// Gives what nobody has to trainers that run and have room, the largest first.
pub(crate) fn use_all(members: &[Member<'_>], owners: &mut [Option<u32>]) {
    let mut room = Vec::new();
    for (j, member) in (0_u32..).zip(members) {
        let nodes = places(owners, Some(j)).count();
        let item = member.item;
        // A bound trainer that shrinks now cannot take other nodes as well.
        if nodes > 0 && (member.is_loose() || nodes >= item.current as usize) {
            room.push((nodes, j, (item.max as usize).saturating_sub(nodes)));
        }
    }
    room.sort_by_key(|&(nodes, j, _)| (std::cmp::Reverse(nodes), j));
    for (_, j, more) in room {
        let free = owners.iter_mut().rev().filter(|owner| owner.is_none());
        free.take(more).for_each(|owner| *owner = Some(j));
    }
}
