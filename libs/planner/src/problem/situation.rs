//! The situation in which a policy decides: candidates, slots and forecasts, by ordinals.

use std::sync::Arc;

use lacuna_model::{Doubt, Pool};

use super::allocation::Item;
use super::mixes::{Mix, mixes_of};
use super::switches::Switches;

/// One usable hole of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// Start of the idle time, milliseconds. Nodes with the same start were released together and
    /// tend to leave together.
    pub since_ms: i64,
    /// The trainer that holds the node now, as an index into the candidates.
    pub owner: Option<u32>,
}

/// A trainer that may get nodes. [`crate::worth::Worth::candidate`] makes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Its sizes, values and costs; `current` is the number of nodes that it holds.
    pub item: Item,
    /// Values of 0..=max nodes for a start from no nodes, in decisions without forecasts.
    pub starting: Arc<[f64]>,
    /// Stall of a start from no nodes, seconds at the rate after it.
    pub start_s: f64,
    /// Whether a departure hit the trainer at this event, so that it restarts anyway.
    pub hit: bool,
}

impl Candidate {
    /// The trainer in an allocation problem over sizes.
    pub(crate) fn sized(&self) -> Item {
        if self.item.runs() {
            return self.item.clone();
        }
        // The cost of a start has the wait for its pilots.
        let mut item = Item {
            value: self.starting.clone(),
            pilot_s: 0.0,
            ..self.item.clone()
        };
        if let Some(kinds) = &mut item.kinds {
            let at_least = |list: &[f64]| list.get(item.min as usize).copied().unwrap_or(0.0);
            let part = at_least(&self.starting) / at_least(&self.item.value);
            kinds.value = kinds.value.times(if part.is_finite() { part } else { 1.0 });
        }
        item
    }

    /// The candidate with all values times a factor.
    pub(crate) fn times(&self, factor: f64) -> Self {
        let times = |list: &[f64]| list.iter().map(|value| value * factor).collect();
        let mut item = Item {
            value: times(&self.item.value),
            rate_now: self.item.rate_now * factor,
            ..self.item.clone()
        };
        if let Some(kinds) = &mut item.kinds {
            kinds.value = kinds.value.times(factor);
        }
        Self {
            item,
            starting: times(&self.starting),
            ..self.clone()
        }
    }

    /// The candidate on other nodes.
    #[must_use]
    pub fn holding(self, mix: Mix, tier: usize) -> Self {
        Self {
            item: self.item.on(mix, tier),
            ..self
        }
    }
}

/// The users of the trainers of a decision.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Users {
    /// The user of each trainer.
    pub of: Vec<u32>,
    /// Weight of each user's share, by the user's number; 1 where it is missing.
    pub parts: Vec<f64>,
}

/// Forecasts of when the slots leave.
#[derive(Debug, Clone, Copy)]
pub struct PoolForecast<'a> {
    /// The pool with its forecasts.
    pub pool: &'a Pool,
    /// Place of each slot in the pool's list of holes.
    pub holes: &'a [u32],
    /// Seconds until the end of each hole by an oracle, infinite without an end. Empty without an
    /// oracle.
    pub known: &'a [f64],
    /// The oracle knows every end within this many seconds; 0 without an oracle.
    pub complete_s: f64,
}

/// What ties a decision to those before it.
#[derive(Debug, Clone, Copy)]
pub struct History<'a> {
    /// A number of each candidate that stays the same from decision to decision.
    pub lives: &'a [u64],
    /// The number of this decision.
    pub number: u64,
    /// The number of the newest decision that was carried out, if not each one is.
    pub carried_out: Option<u64>,
}

/// The input of a decision.
#[derive(Debug, Clone)]
pub struct Situation<'a> {
    /// The trainers, in order of admission.
    pub candidates: &'a [Candidate],
    /// The usable nodes of the pool.
    pub slots: &'a [Slot],
    /// Where the slots are.
    pub switches: &'a Switches,
    /// The kind of each slot, from 0 on and below [`lacuna_model::MOST_KINDS`]; empty where all are
    /// of one kind.
    pub kinds: &'a [u8],
    /// The users, if nodes are shared out fairly between them.
    pub users: Option<&'a Users>,
    /// Forecasts of when slots leave; absent where holes are not forecast.
    pub pool_forecast: Option<PoolForecast<'a>>,
    /// What ties the decision to those before it. Without it [`lacuna_model::Policy::Auto`] compares
    /// no rules.
    pub history: Option<History<'a>>,
    /// A doubt, known beforehand, that forbids any growth.
    pub doubt: Option<Doubt>,
}

impl<'a> Situation<'a> {
    /// Where the slots are, if distance costs a candidate anything.
    pub(crate) fn apart(&self) -> Option<&'a Switches> {
        let costs = || self.candidates.iter().any(|c| !c.item.far.is_free());
        (!self.switches.is_flat() && costs()).then_some(self.switches)
    }

    /// The kind of a slot.
    pub(crate) fn kind(&self, slot: usize) -> u8 {
        self.kinds.get(slot).copied().unwrap_or_default()
    }

    /// The slots of each kind.
    pub(crate) fn nodes(&self) -> Mix {
        let all = (0..self.slots.len()).map(|slot| (Some(0), self.kind(slot)));
        mixes_of(1, all).first().copied().unwrap_or_default()
    }

    /// The nodes of each candidate by owners of the slots.
    pub(crate) fn mixes(&self, owners: impl IntoIterator<Item = Option<u32>>) -> Vec<Mix> {
        let owned = (0..)
            .zip(owners)
            .map(|(slot, owner)| (owner, self.kind(slot)));
        mixes_of(self.candidates.len(), owned)
    }

    /// The slots that each candidate holds.
    pub(crate) fn held(&self) -> Vec<Vec<u32>> {
        let mut held = vec![Vec::new(); self.candidates.len()];
        for (at, slot) in (0..).zip(self.slots) {
            if let Some(held) = slot.owner.and_then(|j| held.get_mut(j as usize)) {
                held.push(at);
            }
        }
        held
    }

    /// The candidates of each owner with its weight, if nodes are shared out over several owners.
    pub(crate) fn owners(&self) -> Vec<(f64, Vec<u32>)> {
        let Some(users) = self.users else {
            return Vec::new();
        };
        let owners = owners(self.candidates.len(), &users.of, &users.parts);
        if owners.len() > 1 { owners } else { Vec::new() }
    }
}

/// The trainers of each owner with its weight, in order of the owners' first trainers. `of` names
/// the owner of each trainer; trainers beyond its end share one owner.
fn owners(trainers: usize, of: &[u32], parts: &[f64]) -> Vec<(f64, Vec<u32>)> {
    let mut owners: Vec<(u32, Vec<u32>)> = Vec::new();
    for j in 0..trainers {
        let owner = of.get(j).copied().unwrap_or(u32::MAX);
        match owners.iter_mut().find(|(known, _)| *known == owner) {
            Some((_, list)) => list.push(j as u32),
            None => owners.push((owner, vec![j as u32])),
        }
    }
    let part = |owner: u32| parts.get(owner as usize).copied().unwrap_or(1.0);
    let owners = owners.into_iter();
    owners.map(|(owner, list)| (part(owner), list)).collect()
}
