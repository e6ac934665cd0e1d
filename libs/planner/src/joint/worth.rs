//! What a node set is worth to a trainer.

use std::sync::Arc;

use crate::Item;

use super::Scenarios;

/// A trainer of the problem, as the joint allocation sees it.
#[derive(Debug, Clone, Copy)]
pub struct Member<'a> {
    /// Its sizes, rates and costs; `current` nodes are its own.
    pub item: &'a Item,
    /// Whether a departure hit it at this event, so that it restarts anyway.
    pub hit: bool,
    /// Seconds at the rate after it that a start from nothing stalls; 0 if starts are free.
    pub start_s: f64,
}

impl Member<'_> {
    /// Whether it may take any node set for no further charge.
    #[must_use]
    pub fn is_loose(&self) -> bool {
        self.hit || self.item.current < self.item.min
    }

    /// Whether another loose trainer gains the same by everything.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let (a, b) = (self.item, other.item);
        (self.hit, a.min, a.max) == (other.hit, b.min, b.max)
            && (a.down_s, self.start_s) == (b.down_s, other.start_s)
            && (Arc::ptr_eq(&a.value, &b.value) || a.value == b.value)
    }

    /// Rate on so many nodes, objective units per second; see [`Item::value_at`].
    pub(crate) fn rate(&self, nodes: u32) -> f64 {
        self.item.value_at(nodes)
    }

    /// Charge for holding `nodes` from now on, if a change must be worth `hysteresis` times its
    /// cost.
    pub(crate) fn charge(&self, nodes: u32, hysteresis: f64) -> f64 {
        if self.is_loose() {
            // A hit has been paid for already, a start has not.
            let starts = !self.hit && nodes > 0;
            return if starts {
                self.start_s * self.rate(nodes)
            } else {
                0.0
            };
        }
        hysteresis * self.item.change_cost(nodes)
    }
}

/// What a set is worth by its three means over the scenarios: V of [`crate::joint`] without the
/// charge for taking it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Means {
    /// Seconds until the first hit, within the horizon.
    pub(crate) until: f64,
    /// Probability of a hit within the horizon.
    pub(crate) hit: f64,
    /// Sum over the nodes of the seconds that they stay, within the horizon.
    pub(crate) stay: f64,
}

impl Means {
    pub(crate) fn worth(&self, member: &Member<'_>, nodes: u32, salvage: f64) -> f64 {
        let rate = member.rate(nodes);
        rate * (self.until - member.item.down_s * self.hit)
            + salvage * (self.stay - f64::from(nodes) * self.until)
    }
}

/// The first hit of a growing node set, by scenario.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Set {
    until: Vec<f64>,
    stay: f64,
    horizon_s: f64,
}

impl Set {
    pub(crate) fn empty(scenarios: usize, horizon_s: f64) -> Self {
        Self {
            until: vec![horizon_s; scenarios],
            stay: 0.0,
            horizon_s,
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
        self.stay += scenarios.stay_s(node, self.horizon_s);
    }

    pub(crate) fn means(&self) -> Means {
        let count = self.until.len().max(1) as f64;
        let hits = self.until.iter().filter(|&&t| t < self.horizon_s).count();
        Means {
            until: self.until.iter().sum::<f64>() / count,
            hit: hits as f64 / count,
            stay: self.stay,
        }
    }
}

/// V of [`crate::joint`] of a node set, by definition, the charge for taking it not taken off:
/// objective units. `nodes` are places in the scenarios.
#[must_use]
pub fn worth(
    member: &Member<'_>,
    scenarios: &Scenarios,
    nodes: impl IntoIterator<Item = usize>,
    horizon_s: f64,
    salvage: f64,
) -> f64 {
    let mut set = Set::empty(scenarios.count(), horizon_s);
    let mut count = 0;
    for node in nodes {
        set.add(scenarios, node);
        count += 1;
    }
    if count == 0 {
        return 0.0;
    }
    set.means().worth(member, count, salvage)
}
