//! Nodes that were released together stay together, so that one departure hits few trainers.

use lacuna_model::NodeChoice;
use lacuna_planner::{Slot, choose::assign};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Trainers hit per departure in a pool whose nodes come and go in whole release groups,
/// while eight trainers share the pool about equally.
fn trainers_hit(choice: NodeChoice, seed: u64) -> f64 {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut slots: Vec<Slot> = Vec::new();
    let (mut hits, mut departures) = (0, 0);
    for now in 0..2_000 {
        let arrives = rng.random_range(1..=12);
        slots.extend((0..arrives).map(|_| Slot {
            since_ms: now,
            owner: None,
        }));
        if slots.len() > 100 {
            let group = slots[rng.random_range(0..slots.len())].since_ms;
            let mut hit: Vec<u32> = slots
                .iter()
                .filter(|slot| slot.since_ms == group)
                .filter_map(|slot| slot.owner)
                .collect();
            hit.sort_unstable();
            hit.dedup();
            hits += hit.len();
            departures += 1;
            slots.retain(|slot| slot.since_ms != group);
        }
        let share = slots.len() as u32 / 8;
        let counts: Vec<u32> = (0..8).map(|_| share + rng.random_range(0..=1)).collect();
        let total: u32 = counts.iter().sum();
        if total as usize > slots.len() {
            continue;
        }
        let owners = assign(choice, &slots, None, &counts, || &mut rng);
        for (slot, owner) in slots.iter_mut().zip(owners) {
            slot.owner = owner;
        }
    }
    hits as f64 / f64::from(departures)
}

#[test]
fn one_departure_hits_fewer_trainers_when_groups_stay_together() {
    for seed in [81, 82, 83] {
        let random = trainers_hit(NodeChoice::Random, seed);
        let together = trainers_hit(NodeChoice::Together, seed);
        println!(
            "seed {seed}: trainers hit per departure: random {random:.2}, together {together:.2}"
        );
        assert!(
            together < 0.8 * random,
            "seed {seed}: {together} against {random}"
        );
    }
}
