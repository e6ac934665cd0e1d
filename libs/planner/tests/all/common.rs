//! Random problems for property tests.

use std::sync::Arc;

use lacuna_planner::{Far, Item, Lost, Problem, Switches};
use proptest::prelude::*;
use rand::{Rng, RngExt};

/// A trainer with an arbitrary (not concave, not even monotone) curve, a minimum that may
/// exceed one, and rescale costs that make a notch at its present size.
pub(crate) fn item(most: u32) -> impl Strategy<Value = Item> {
    (1..=most, any::<prop::sample::Index>(), 0..=most, 0..3_u32).prop_flat_map(
        move |(max, min, current, roughness)| {
            let min = 1 + min.index(max as usize) as u32;
            let current = current.min(max);
            let steps = proptest::collection::vec(0.0_f64..10.0, max as usize);
            (steps, 0.0_f64..20.0, 0.0_f64..20.0, 0..4_u32).prop_map(
                move |(steps, up_s, down_s, free)| {
                    let mut value = vec![0.0];
                    let mut sum = 0.0;
                    for (n, step) in steps.iter().enumerate() {
                        sum += step;
                        value.push(match roughness {
                            0 => sum,
                            // Whole numbers make ties.
                            1 => sum.round(),
                            _ => step * (n + 1) as f64,
                        });
                    }
                    let rate_now = if current >= min {
                        value[current as usize]
                    } else {
                        0.0
                    };
                    let scale = if free == 0 { 0.0 } else { 1.0 };
                    Item {
                        current,
                        min,
                        max,
                        value: value.into(),
                        rate_now,
                        up_s: up_s * scale,
                        // Half of the trainers wait for pilots of their owner.
                        pilot_s: (up_s - 10.0).max(0.0),
                        far: Far::default(),
                        kinds: None,
                        down_s: down_s * scale,
                        // Half of them throw work away by a change, and half by a stop.
                        lost: Lost {
                            change_s: (down_s - 10.0).max(0.0),
                            stop_s: (10.0 - up_s).max(0.0),
                        },
                    }
                },
            )
        },
    )
}

/// A problem whose trainers hold no more than the pool; scarce or plentiful.
pub(crate) fn problem(trainers: usize, most: u32) -> impl Strategy<Value = Problem> {
    (
        proptest::collection::vec(item(most), 0..=trainers),
        0..=2 * most * trainers as u32 / 2,
        0.5_f64..40.0,
        any::<bool>(),
    )
        .prop_map(|(mut trainers, extra, horizon_s, equal)| {
            if equal {
                // Some trainers are interchangeable, as in a stream of equal jobs.
                if let Some(first) = trainers.first().cloned() {
                    for item in trainers.iter_mut().skip(1).step_by(2) {
                        let current = item.current.min(first.max);
                        let stalls = current >= first.min;
                        *item = first.clone();
                        item.current = current;
                        item.rate_now = if stalls {
                            first.value[current as usize]
                        } else {
                            0.0
                        };
                    }
                }
            }
            let held: u32 = trainers.iter().map(|t| t.current).sum();
            let room: u32 = trainers.iter().map(|t| t.max).sum();
            let nodes = held + extra % (room - held.min(room) + 2);
            Problem {
                nodes,
                horizon_s,
                trainers,
            }
        })
}

/// The ShuffleNet curve of the paper's trainers (points of `hpo-1000`), up to 64 nodes.
pub(crate) fn shufflenet() -> Arc<[f64]> {
    let points = [
        (1, 2831.0),
        (2, 5259.0),
        (4, 9988.0),
        (8, 20379.2),
        (16, 38895.3),
        (32, 74125.1),
        (64, 145_081.5),
    ];
    lacuna_model::ScalingCurve::new(points)
        .expect("the points are sound")
        .table(64)
        .into()
}

/// A trainer of `hpo-1000` that holds `current` nodes.
pub(crate) fn hpo(value: &Arc<[f64]>, current: u32) -> Item {
    Item {
        current,
        min: 1,
        max: 64,
        value: value.clone(),
        rate_now: value[current as usize],
        up_s: 18.0,
        pilot_s: 0.0,
        far: Far::default(),
        kinds: None,
        down_s: 12.0,
        lost: Lost::default(),
    }
}

/// Whether two objectives agree to `relative` of the larger.
pub(crate) fn agree(a: f64, b: f64, relative: f64) -> bool {
    (a - b).abs() <= relative * a.abs().max(b.abs()).max(1e-6)
}

/// Switches above nodes on these leaves; three leaves share a pod.
pub(crate) fn on_leaves(leaves: &[u32]) -> Switches {
    let path = |leaf: &u32| vec![format!("leaf{leaf}"), format!("pod{}", leaf / 3)];
    let paths: Vec<Vec<String>> = leaves.iter().map(path).collect();
    Switches::below(2, paths.iter().map(|path| Some(path.as_slice())))
}

/// A random loss by distance at two tiers, on up to `max` nodes.
pub(crate) fn far(rng: &mut impl Rng, max: u32) -> Far {
    let mut share = 1.0;
    let mut tier = || {
        share *= rng.random_range(0.3..1.0);
        (0..=max).map(|n| if n < 2 { 1.0 } else { share }).collect()
    };
    Far::new([tier(), tier()])
}

/// Whether no more trainers cross a leaf than may, or than did before.
pub(crate) fn uplinks_hold(
    switches: &Switches,
    before: &[Option<u32>],
    after: &[Option<u32>],
) -> bool {
    let Some(most) = switches.crossing() else {
        return true;
    };
    let set = |owners: &[Option<u32>], j| -> Vec<usize> {
        let places = 0..owners.len();
        places.filter(|&place| owners[place] == Some(j)).collect()
    };
    let crossing = |owners: &[Option<u32>], leaf: u32| {
        let mut trainers: Vec<u32> = owners.iter().flatten().copied().collect();
        trainers.sort_unstable();
        trainers.dedup();
        let crosses = |&&j: &&u32| {
            let set = set(owners, j);
            let is_there = set.iter().any(|&place| switches.switch(place, 0) == leaf);
            is_there && switches.tier(set) > 0
        };
        trainers.iter().filter(crosses).count()
    };
    (0..after.len()).all(|place| {
        let leaf = switches.switch(place, 0);
        crossing(after, leaf) <= crossing(before, leaf).max(most as usize)
    })
}
