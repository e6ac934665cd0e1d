//! Soundness where trainers cross leaves: I16 and I18. Both rest on one row for each leaf, the
//! trainers that cross its uplink.

use std::collections::BTreeMap;

use crate::decision::Decision;
use crate::placement::{Request, Settings};
use crate::problem::{Situation, Switches, mixes_of};

use super::Violation;

/// Largest relative difference of a value from the stated one.
const AGREEMENT: f64 = 1e-6;

/// A node on each leaf that a trainer crosses, by trainer and leaf.
type Crossed = BTreeMap<u32, BTreeMap<u32, u32>>;

fn crossed(switches: &Switches, owners: impl Iterator<Item = Option<u32>>) -> Crossed {
    let mut of = Crossed::new();
    for (at, owner) in (0_u32..).zip(owners) {
        if let Some(j) = owner {
            let leaf = switches.switch(at as usize, 0);
            of.entry(j).or_default().insert(leaf, at);
        }
    }
    of.retain(|_, leaves| leaves.len() > 1);
    of
}

/// The trainers that cross a leaf.
fn crossing(of: &Crossed, leaf: u32) -> u32 {
    let crosses = |leaves: &&BTreeMap<u32, u32>| leaves.contains_key(&leaf);
    of.values().filter(crosses).count() as u32
}

/// I16 and I18.
pub(super) fn uplinks(
    situation: &Situation<'_>,
    decision: &Decision,
    found: &mut Vec<Violation<u32, u32>>,
) {
    if situation.candidates.iter().any(|c| !c.item.far.is_free()) {
        limited(situation, decision, found);
        shared(decision, found);
    }
}

/// I16.
fn limited(situation: &Situation<'_>, decision: &Decision, found: &mut Vec<Violation<u32, u32>>) {
    let switches = situation.switches;
    let Some(most) = switches.crossing() else {
        return;
    };
    let before = crossed(switches, situation.slots.iter().map(|slot| slot.owner));
    let after = crossed(switches, decision.owners.iter().copied());
    for (&trainer, leaves) in &after {
        for (&leaf, &node) in leaves {
            let crossing_now = crossing(&after, leaf);
            let most = most.max(crossing(&before, leaf));
            let is_new = before
                .get(&trainer)
                .is_none_or(|of| !of.contains_key(&leaf));
            if crossing_now > most && is_new {
                found.push(Violation::Crossing {
                    trainer,
                    node,
                    crossing: crossing_now,
                    most,
                });
            }
        }
    }
}

/// I18.
fn shared(decision: &Decision, found: &mut Vec<Violation<u32, u32>>) {
    let Some(evaluation) = &decision.evaluation else {
        return;
    };
    let request = evaluation.request();
    if request.scenarios.switches().uplink().is_none() {
        return;
    }
    let prices = evaluation.prices();
    let price = |j: usize| prices.get(j).copied().unwrap_or(0.0);
    let owners = &evaluation.assignment.owners;
    let value = value(&request, &evaluation.settings, price, owners);
    let stated = decision.sizes.objective;
    if (value - stated).abs() > AGREEMENT * value.abs().max(stated.abs()).max(1.0) {
        found.push(Violation::Value { stated, value });
    }
}

/// Value of a sound answer less all switching costs, objective units, by the definition of
/// [`crate::placement`]: with its own count of the trainers that share each uplink. `node_price` is
/// the shadow price of a node-second by trainer.
#[must_use]
pub fn value(
    request: &Request<'_>,
    settings: &Settings,
    node_price: impl Fn(usize) -> f64,
    owners: &[Option<u32>],
) -> f64 {
    let (scenarios, horizon) = (request.scenarios, settings.horizon_s);
    let switches = scenarios.switches();
    let crossed = crossed(switches, owners.iter().copied());
    let crowd = |j: usize| {
        let carries = switches.uplink().map(|carries| f64::from(carries.max(1)));
        let leaves = crossed.get(&(j as u32)).into_iter().flatten();
        let rows = leaves.map(|(&leaf, _)| f64::from(crossing(&crossed, leaf)));
        carries.map_or(1.0, |carries| rows.fold(carries, f64::max) / carries)
    };
    let mut sum = 0.0;
    for (j, member) in request.members(settings.replace).enumerate() {
        let item = member.item;
        let places = owners.iter().enumerate();
        let new: Vec<usize> = places
            .filter(|(_, owner)| **owner == Some(j as u32))
            .map(|(place, _)| place)
            .collect();
        let nodes = new.len() as u32;
        let tier = switches.tier(new.iter().copied());
        let kinds = new
            .iter()
            .map(|&place| (Some(0), scenarios.kind(place) as u8));
        let mix = mixes_of(1, kinds).first().copied().unwrap_or_default();
        let near = item.value_of(mix);
        let rate = near * item.far.share(nodes, tier);
        sum -= match (member.hit, !item.runs()) {
            (true, _) if nodes > item.current => item.pilot_wait(rate),
            (true, _) => 0.0,
            (false, true) => member.start_s * rate,
            (false, false) => settings.hysteresis * item.cost_of(mix),
        };
        if nodes == 0 {
            continue;
        }
        // What crossing adds to the time of a sample grows with the trainers that share it.
        let share = item.far.share(nodes, tier);
        let rate = near * share / (share + crowd(j) * (1.0 - share));
        // By scenario: the first hit, and the seconds that the nodes stay.
        let mut futures = vec![(horizon, 0.0); scenarios.count()];
        for &place in &new {
            for ((first, stay), leave) in futures.iter_mut().zip(scenarios.of(place)) {
                *first = leave.min(*first);
                *stay += scenarios.worth(place) * leave.min(horizon);
            }
        }
        let worth: f64 = new.iter().map(|&place| scenarios.worth(place)).sum();
        let price = node_price(j).min(if settings.limited && worth > 0.0 {
            rate / worth
        } else {
            f64::INFINITY
        });
        let gained = futures.iter().map(|&(first, stay)| {
            let hits = f64::from(u8::from(first < horizon));
            let left = stay - worth * first;
            rate * (first - item.down_s * hits) + price * left
        });
        let gained: f64 = gained.sum();
        sum += gained / scenarios.count().max(1) as f64;
    }
    sum
}
