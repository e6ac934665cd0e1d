//! Equal to brute force.

use lacuna_layers::{Answer, Error, LayerProfile, Options, fastest, place};

use crate::brute_force::{highest_rate, least_cost};
use crate::common::Draw;

const INSTANCES: u64 = 1000;

#[derive(Debug, Default)]
struct Tally {
    met: usize,
    short: usize,
    nowhere: usize,
    limits_bind: usize,
    over_stages: usize,
    memory_binds: usize,
    worst: f64,
}

/// Two to four kinds; most of up to three have limits, a third has bandwidth by sender.
#[test]
fn placements_equal_brute_force_on_a_thousand_instances() {
    let mut tally = Tally::default();
    let options = Options::default();
    for seed in 0..INSTANCES {
        let mut draw = Draw::new(seed);
        let kinds = 2 + draw.below(3);
        let layers = match kinds {
            2 => 4 + draw.below(5),
            3 => 4 + draw.below(3),
            _ => 4,
        };
        let mut raw = draw.profile(layers, kinds);
        if draw.chance(0.33) {
            draw.bandwidth(&mut raw);
        }
        let Ok(profile) = LayerProfile::new(raw.clone()) else {
            tally.nowhere += 1;
            continue;
        };
        let limited = seed % 4 > 0 && kinds <= 3;
        if limited {
            if matches!(fastest(&profile), Err(Error::TooFew { .. })) {
                tally.nowhere += 1;
                continue;
            }
            draw.limits(&mut raw);
        }
        let profile = match LayerProfile::new(raw.clone()) {
            Ok(profile) => profile,
            Err(Error::FitsNowhere { .. }) => {
                tally.nowhere += 1;
                assert_eq!(highest_rate(&raw), 0.0, "seed {seed}");
                continue;
            }
            Err(other) => panic!("seed {seed}: {other}"),
        };
        let least = least_cost(&raw);
        match place(&profile, &options) {
            Ok(Answer::Met(placement)) => {
                tally.met += 1;
                let over = placement.cost / least - 1.0;
                assert!(over.abs() <= 1e-4, "seed {seed}: {over} {placement:?}");
                assert!(
                    placement.gap() <= 1e-4 + 1e-9,
                    "seed {seed}: {}",
                    placement.gap()
                );
                assert!(
                    placement.cost_at_least <= least * (1.0 + 1e-9),
                    "seed {seed}"
                );
                assert!(placement.rate >= raw.min_rate * (1.0 - 1e-9), "seed {seed}");
                tally.worst = tally.worst.max(over);
                let mut free = raw.clone();
                free.kinds.iter_mut().for_each(|kind| kind.limit = None);
                if limited && least_cost(&free) < least * (1.0 - 1e-9) {
                    tally.limits_bind += 1;
                    let twice = |t| placement.stages.iter().filter(|s| s.kind == t).count() > 1;
                    if (0..kinds).any(|t| raw.kinds[t].limit.is_some() && twice(t)) {
                        tally.over_stages += 1;
                    }
                }
                let by_memory =
                    |s: &lacuna_layers::LayerStage| s.bound == lacuna_layers::Bound::Memory;
                tally.memory_binds += usize::from(placement.stages.iter().any(by_memory));
            }
            Ok(Answer::Short { nearest, why }) => {
                tally.short += 1;
                assert_eq!(least, f64::INFINITY, "seed {seed}: {nearest:?}");
                assert!(!why.is_empty(), "seed {seed}");
                let highest = highest_rate(&raw);
                let off = nearest.rate / highest - 1.0;
                assert!(off.abs() < 1e-6, "seed {seed}: {} {highest}", nearest.rate);
            }
            Err(Error::TooFew { .. }) => {
                tally.nowhere += 1;
                assert_eq!(highest_rate(&raw), 0.0, "seed {seed}");
            }
            Err(other) => panic!("seed {seed}: {other}"),
        }
    }
    println!("{tally:?}");
    assert!(tally.met > 600 && tally.short > 20, "{tally:?}");
    assert!(
        tally.limits_bind > 100 && tally.over_stages > 20,
        "{tally:?}"
    );
    assert!(tally.memory_binds > 50, "{tally:?}");
}
