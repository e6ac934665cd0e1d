//! The value of a node set to a trainer, V.

use std::sync::Arc;

use crate::Item;
use crate::problem::{Mix, NO_NODES, Shape};

use super::{Scenarios, Sets, Settings};

/// A trainer in a request of placement.
#[derive(Debug, Clone, Copy)]
pub struct Member<'a> {
    /// Its sizes, rates and costs; `current` nodes are its own.
    pub item: &'a Item,
    /// Whether a departure hit it at this event, so that it restarts anyway.
    pub hit: bool,
    /// Stall of a start from no nodes, seconds at the rate after it; 0 if starts are free.
    pub start_s: f64,
}

impl Member<'_> {
    /// Whether the trainer may take any node set without a further switching cost.
    #[must_use]
    pub fn is_flexible(&self) -> bool {
        self.hit || !self.item.runs()
    }

    /// Whether another flexible trainer has the same value for every node set.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let (a, b) = (self.item, other.item);
        (self.hit, a.min, a.max) == (other.hit, b.min, b.max)
            && (a.down_s, self.start_s) == (b.down_s, other.start_s)
            && (a.pilot_s == b.pilot_s)
            && (a.pilot_s == 0.0 || (a.current, a.rate_now) == (b.current, b.rate_now))
            && (Arc::ptr_eq(&a.value, &b.value) || a.value == b.value)
            && a.far == b.far
    }

    /// Rate on `nodes` nodes at a tier, objective units per second; see [`Item::value_on`].
    pub(crate) fn rate(&self, nodes: u32, tier: usize) -> f64 {
        self.item.value_on(nodes, tier)
    }

    /// Switching cost of holding a shape from now on, whose uplinks are free, objective units. A
    /// change must gain `hysteresis` times its cost.
    pub(crate) fn switching_cost(&self, shape: &Shape, hysteresis: f64) -> f64 {
        if self.is_flexible() {
            // The stall of a hit is already paid, that of a start and its pilots is not.
            let nodes = shape.nodes();
            return match (self.hit, nodes > self.item.current) {
                (false, _) if nodes > 0 => self.start_s * self.item.rate_on(shape),
                (true, true) => self.item.pilot_wait(self.item.rate_on(shape)),
                _ => 0.0,
            };
        }
        hysteresis * self.item.cost_of(shape.mix)
    }
}

/// Three means of a node set over the scenarios, and its shape. They determine V of
/// [`crate::placement`] without the switching cost.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Means {
    /// Seconds until the first hit, within the horizon.
    pub(crate) until: f64,
    /// Probability of a hit within the horizon.
    pub(crate) hit: f64,
    /// Sum of the nodes' stays within the horizon, seconds, and number of nodes: each by its worth
    /// beside a node of the best kind.
    pub(crate) stay: f64,
    pub(crate) worth: f64,
    pub(crate) shape: Shape,
    /// See [`Settings::limited`].
    pub(crate) limited: bool,
}

impl Means {
    /// Minus infinity where the trainer cannot have the nodes.
    pub(crate) fn value(&self, member: &Member<'_>, shadow_price: f64) -> f64 {
        let rate = member.item.rate_on(&self.shape);
        if rate == f64::NEG_INFINITY {
            return rate;
        }
        let price = afterwards(self.limited, shadow_price, rate, self.worth);
        rate * (self.until - member.item.down_s * self.hit)
            + price * (self.stay - self.worth * self.until)
    }
}

/// The worth of a node-second after the first hit of a trainer with this rate on these nodes.
pub(crate) fn afterwards(limited: bool, shadow_price: f64, rate: f64, nodes: f64) -> f64 {
    if limited && nodes > 0.0 {
        shadow_price.min(rate / nodes)
    } else {
        shadow_price
    }
}

/// The first hit of a growing node set, by scenario.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct FirstHits {
    until: Vec<f64>,
    stay: f64,
    worth: f64,
    horizon_s: f64,
    tier: usize,
    mix: Mix,
    nodes: u32,
    /// The node that was added last.
    last: Option<usize>,
    limited: bool,
}

impl FirstHits {
    pub(crate) fn empty(scenarios: usize, horizon_s: f64) -> Self {
        Self {
            until: vec![horizon_s; scenarios],
            stay: 0.0,
            worth: 0.0,
            horizon_s,
            tier: 0,
            mix: NO_NODES,
            nodes: 0,
            last: None,
            limited: false,
        }
    }

    /// No nodes, to be valued by these settings.
    pub(crate) fn valued(scenarios: &Scenarios, settings: &Settings) -> Self {
        Self {
            limited: settings.limited,
            ..Self::empty(scenarios.count(), settings.horizon_s)
        }
    }

    /// Takes all nodes out.
    fn clear(&mut self) {
        self.until.fill(self.horizon_s);
        (self.stay, self.worth, self.tier) = (0.0, 0.0, 0);
        (self.mix, self.nodes, self.last) = (NO_NODES, 0, None);
    }

    pub(crate) fn extend(&mut self, scenarios: &Scenarios, nodes: impl IntoIterator<Item = usize>) {
        for node in nodes {
            self.add(scenarios, node);
        }
    }

    pub(crate) fn add(&mut self, scenarios: &Scenarios, node: usize) {
        let leave = scenarios.of(node);
        if leave.is_empty() {
            self.until.fill(0.0);
        }
        for (until, &leave) in self.until.iter_mut().zip(leave) {
            *until = until.min(leave);
        }
        let worth = scenarios.worth(node);
        self.worth += worth;
        self.stay += worth * scenarios.stay_s(node, self.horizon_s);
        let last = self.last.replace(node).unwrap_or(node);
        self.tier = self.tier.max(scenarios.switches().between(last, node));
        self.nodes += 1;
        if let Some(count) = self.mix.get_mut(scenarios.kind(node)) {
            *count += 1;
        }
    }

    /// V of [`crate::placement`] without the switching cost, objective units; see
    /// [`crate::Switches::crowds`].
    fn value(&self, member: &Member<'_>, shadow_price: f64, crowd: f64) -> f64 {
        if self.nodes == 0 {
            return 0.0;
        }
        let mut means = self.means();
        means.shape.crowd = crowd;
        means.value(member, shadow_price)
    }

    /// [`FirstHits::value`] less the switching cost.
    fn net_value(
        &self,
        member: &Member<'_>,
        hysteresis: f64,
        shadow_price: f64,
        crowd: f64,
    ) -> f64 {
        self.value(member, shadow_price, crowd) - member.switching_cost(&self.shape(), hysteresis)
    }

    /// How far apart the nodes are.
    pub(crate) const fn tier(&self) -> usize {
        self.tier
    }

    /// Its shape, as if uplinks were free.
    pub(crate) const fn shape(&self) -> Shape {
        Shape::new(self.mix, self.tier)
    }

    /// The node that was added last.
    pub(crate) const fn last(&self) -> Option<usize> {
        self.last
    }

    /// Seconds until the first hit within the horizon, by scenario.
    pub(crate) fn until(&self) -> &[f64] {
        &self.until
    }

    pub(crate) fn means(&self) -> Means {
        let count = self.until.len().max(1) as f64;
        let hits = self.until.iter().filter(|&&t| t < self.horizon_s).count();
        Means {
            until: self.until.iter().sum::<f64>() / count,
            hit: hits as f64 / count,
            stay: self.stay,
            worth: self.worth,
            shape: self.shape(),
            limited: self.limited,
        }
    }
}

/// V of [`crate::placement`] of a node set less its switching cost, objective units. `nodes` are
/// places in the scenarios.
pub(crate) fn net_value(
    member: &Member<'_>,
    scenarios: &Scenarios,
    nodes: &[usize],
    settings: &Settings,
    shadow_price: f64,
) -> f64 {
    net_value_among(member, scenarios, nodes, settings, shadow_price, 1.0)
}

/// [`net_value`] of nodes whose uplinks are so crowded; see [`crate::Switches::crowds`].
pub(crate) fn net_value_among(
    member: &Member<'_>,
    scenarios: &Scenarios,
    nodes: &[usize],
    settings: &Settings,
    shadow_price: f64,
    crowd: f64,
) -> f64 {
    let mut set = FirstHits::valued(scenarios, settings);
    set.extend(scenarios, nodes.iter().copied());
    set.net_value(member, settings.hysteresis, shadow_price, crowd)
}

/// The sum of V of [`crate::placement`] over the members less all switching costs, objective units.
/// `owners` has the member of each place, and `shadow_price` is that of a node-second by member.
pub(crate) fn judge(
    members: &[Member<'_>],
    scenarios: &Scenarios,
    owners: &[Option<u32>],
    settings: &Settings,
    shadow_price: impl Fn(usize) -> f64,
) -> f64 {
    let nodes = Sets::new(owners, members.len());
    let owned = owners.iter().copied().enumerate();
    let crowds = scenarios.switches().crowds(owned, members.len());
    let sets = members.iter().zip(nodes.iter()).zip(crowds).enumerate();
    let mut set = FirstHits::valued(scenarios, settings);
    let value = |(j, ((member, nodes), crowd)): (usize, ((&Member<'_>, &[usize]), f64))| {
        set.clear();
        set.extend(scenarios, nodes.iter().copied());
        set.net_value(member, settings.hysteresis, shadow_price(j), crowd)
    };
    sets.map(value).sum()
}

/// V of [`crate::placement`] of a node set by its definition, without the switching cost, objective
/// units. `nodes` are places in the scenarios.
#[must_use]
pub fn set_value(
    member: &Member<'_>,
    scenarios: &Scenarios,
    nodes: impl IntoIterator<Item = usize>,
    horizon_s: f64,
    shadow_price: f64,
) -> f64 {
    value_among(member, scenarios, nodes, horizon_s, shadow_price, 1.0)
}

/// [`set_value`] of nodes whose uplinks are so crowded; see [`crate::Switches::crowds`].
#[must_use]
pub fn value_among(
    member: &Member<'_>,
    scenarios: &Scenarios,
    nodes: impl IntoIterator<Item = usize>,
    horizon_s: f64,
    shadow_price: f64,
    crowd: f64,
) -> f64 {
    let mut set = FirstHits::empty(scenarios.count(), horizon_s);
    set.extend(scenarios, nodes);
    set.value(member, shadow_price, crowd)
}
