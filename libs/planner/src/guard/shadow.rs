//! Shadows: what a rule would hold now, had it decided all along.

use std::collections::HashMap;

use lacuna_model::{Hole, Timestamp};

use crate::decision::Decision;
use crate::problem::{Candidate, Item, Mix, NO_NODES, Shape, Situation, Slot};

/// The slots and trainers of a situation, by names that last.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    /// The moment, in the cluster's time.
    pub(super) as_of: Timestamp,
    /// The number of the decision.
    pub(super) number: u64,
    /// The holes of the slots in order of nodes, each with its slot.
    holes: Vec<(Hole, u32)>,
    /// The number of each candidate.
    lives: Vec<u64>,
}

/// The places of slots and candidates in a later situation.
#[derive(Debug)]
pub(super) struct Moved {
    slots: Vec<Option<u32>>,
    candidates: Vec<Option<u32>>,
}

impl Seen {
    /// Nothing where nodes or trainers have no lasting names.
    pub(super) fn of(situation: &Situation<'_>) -> Option<Self> {
        let (forecast, history) = situation.pool_forecast.zip(situation.history)?;
        let pooled = &forecast.pool.holes;
        let mut slots = vec![None; pooled.len()];
        for (slot, &hole) in (0..).zip(forecast.holes) {
            *slots.get_mut(hole as usize)? = Some(slot);
        }
        let holes = pooled.iter().zip(slots);
        let holes = holes.filter_map(|(pooled, slot)| Some((pooled.hole.clone(), slot?)));
        Some(Self {
            as_of: forecast.pool.as_of,
            holes: holes.collect(),
            lives: history.lives.to_vec(),
            number: history.number,
        })
    }

    /// Number of nodes.
    pub(super) const fn nodes(&self) -> usize {
        self.holes.len()
    }

    /// Where these are in a later situation. Both lists of holes are sorted.
    pub(super) fn moved(&self, later: &Self) -> Moved {
        let mut slots = vec![None; self.holes.len()];
        let mut others = later.holes.iter().peekable();
        for (hole, slot) in &self.holes {
            while others.next_if(|(other, _)| other < hole).is_some() {}
            let found = others.next_if(|(other, _)| other == hole);
            if let Some(slot) = slots.get_mut(*slot as usize) {
                *slot = found.map(|(_, at)| *at);
            }
        }
        let places: HashMap<u64, u32> = later.lives.iter().copied().zip(0..).collect();
        let candidates = self.lives.iter().map(|life| places.get(life).copied());
        Moved {
            slots,
            candidates: candidates.collect(),
        }
    }
}

/// What an objective unit of each candidate is worth: 1 over the best value per node of its owner's
/// candidates.
pub(super) fn worth(situation: &Situation<'_>) -> Vec<f64> {
    let of = |j: usize| situation.users.and_then(|users| users.of.get(j).copied());
    let mut best: HashMap<Option<u32>, f64> = HashMap::new();
    for (j, candidate) in situation.candidates.iter().enumerate() {
        let best = best.entry(of(j)).or_default();
        *best = best.max(per_node(&candidate.item));
    }
    let price = |j| best.get(&of(j)).copied().filter(|price| *price > 0.0);
    let candidates = 0..situation.candidates.len();
    candidates
        .map(|j| price(j).map_or(0.0, f64::recip))
        .collect()
}

/// The best value per node, at the fewest or the most nodes, objective units per second.
fn per_node(item: &Item) -> f64 {
    let least = item.value_at(item.min) / f64::from(item.min.max(1));
    least.max(item.largest_per_node())
}

/// The situation in which a rule decides.
#[derive(Debug)]
pub(crate) struct Posed {
    candidates: Vec<Candidate>,
    slots: Vec<Slot>,
}

impl Posed {
    /// The situation with these candidates and owners of slots.
    pub(crate) fn within<'a>(&'a self, situation: &Situation<'a>) -> Situation<'a> {
        Situation {
            candidates: &self.candidates,
            slots: &self.slots,
            ..situation.clone()
        }
    }
}

/// What each trainer holds, or would hold, since the newest decision.
#[derive(Debug, Clone, Default)]
pub(super) struct Shadow {
    /// The owner of each slot.
    owners: Vec<Option<u32>>,
    /// What each candidate gains per second.
    rates: Vec<f64>,
    /// Nodes of each candidate.
    nodes: Vec<Mix>,
    /// Whether a departure hit each candidate since the newest decision.
    hit: Vec<bool>,
}

impl Shadow {
    /// Number of candidates with nodes.
    pub(super) fn running(&self) -> usize {
        self.nodes.iter().filter(|mix| **mix != NO_NODES).count()
    }

    /// What all candidates gain per second.
    pub(super) fn rate(&self) -> f64 {
        self.rates.iter().sum()
    }

    /// The shadow in a later situation, with the departures since. A trainer below its minimum gives
    /// its other nodes back.
    pub(super) fn next(&self, moved: &Moved, situation: &Situation<'_>) -> Self {
        let count = situation.candidates.len();
        let mut later = Self {
            owners: vec![None; situation.slots.len()],
            rates: vec![0.0; count],
            nodes: Vec::new(),
            hit: vec![false; count],
        };
        for (rate, at) in self.rates.iter().zip(&moved.candidates) {
            if let Some(later) = at.and_then(|at| later.rates.get_mut(at as usize)) {
                *later = *rate;
            }
        }
        for (owner, slot) in self.owners.iter().zip(&moved.slots) {
            let Some(j) = owner.and_then(|j| *moved.candidates.get(j as usize)?) else {
                continue;
            };
            match slot.and_then(|slot| later.owners.get_mut(slot as usize)) {
                Some(owner) => *owner = Some(j),
                None => {
                    if let Some(hit) = later.hit.get_mut(j as usize) {
                        *hit = true;
                    }
                }
            }
        }
        later.nodes = situation.mixes(later.owners.iter().copied());
        let runs = later.nodes.iter().zip(situation.candidates);
        let runs: Vec<bool> = runs.map(|(mix, c)| c.item.runs_on(*mix)).collect();
        for owner in &mut later.owners {
            *owner = owner.filter(|j| runs.get(*j as usize) == Some(&true));
        }
        let short = later.nodes.iter_mut().zip(runs).filter(|(_, runs)| !runs);
        short.for_each(|(mix, _)| *mix = NO_NODES);
        later
    }

    /// The cost of the departures since the newest decision: one for each trainer that they hit.
    pub(super) fn cost_of_departures(&self, situation: &Situation<'_>) -> f64 {
        let each = self.hit.iter().zip(&self.rates).zip(situation.candidates);
        let hit = each.filter(|((hit, _), _)| **hit);
        hit.map(|((_, rate), candidate)| candidate.item.down_s * rate)
            .sum()
    }

    /// Number of running candidates that departures hit, or whose nodes a decision changes.
    pub(super) fn changes(&self, posed: &Situation<'_>, decision: &Decision) -> usize {
        let next = posed.mixes(decision.owners.iter().copied());
        let each = self.nodes.iter().zip(&self.hit).zip(next);
        each.filter(|((now, hit), next)| **hit || (**now != NO_NODES && *now != next))
            .count()
    }

    /// The situation in which its rule decides.
    pub(super) fn pose(&self, situation: &Situation<'_>) -> Posed {
        let slots = situation.slots.iter().zip(&self.owners);
        let slots = slots.map(|(slot, &owner)| Slot { owner, ..*slot });
        let owned = self.owners.iter().copied().enumerate();
        let tiers = situation.switches.tiers(owned, situation.candidates.len());
        let of = self.nodes.iter().zip(&self.hit).zip(tiers);
        let candidates = situation.candidates.iter().zip(of);
        let candidates = candidates.map(|(candidate, ((&mix, &hit), tier))| Candidate {
            item: candidate.item.clone().on(mix, tier),
            hit,
            ..candidate.clone()
        });
        Posed {
            candidates: candidates.collect(),
            slots: slots.collect(),
        }
    }

    /// Takes the decision of its rule. Gives the cost of the changes, as the accounting of trainers
    /// counts it.
    pub(super) fn take(
        &mut self,
        decision: &Decision,
        posed: &Situation<'_>,
        worth: &[f64],
    ) -> f64 {
        let owned = || decision.owners.iter().copied().enumerate();
        let tiers = posed.switches.tiers(owned(), posed.candidates.len());
        let crowds = posed.switches.crowds(owned(), posed.candidates.len());
        let evaluation = decision.evaluation.as_ref();
        let replaced = evaluation.map_or(&[][..], |evaluation| &evaluation.replaced);
        let mut cost = 0.0;
        self.rates.clear();
        let mixes = posed.mixes(decision.owners.iter().copied());
        let after = mixes.iter().zip(tiers.into_iter().zip(crowds));
        let candidates = (0_u32..).zip(posed.candidates).zip(worth);
        for (((j, candidate), worth), (&mix, (tier, crowd))) in candidates.zip(after) {
            let item = &candidate.item;
            let rate = item.rate_on(&Shape { mix, tier, crowd });
            self.rates.push(rate * worth);
            cost += worth
                * if mix == item.present() {
                    0.0
                } else if candidate.hit && replaced.contains(&j) {
                    item.pilot_wait(rate)
                } else if !item.runs() {
                    candidate.start_s * rate
                } else {
                    item.cost_of(mix)
                };
        }
        self.owners.clone_from(&decision.owners);
        self.nodes = mixes;
        cost
    }
}
