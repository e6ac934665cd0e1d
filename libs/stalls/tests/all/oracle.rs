//! The replay against the simulation: the same step, and the same step without a cause.

use lacuna_model::Cause;
use lacuna_stalls::{Change, Steps};
use proptest::prelude::*;

use crate::world::World;

const MS: u64 = 1_000_000;

fn steps(world: &World) -> Steps {
    Steps::read(&world.run().0).unwrap()
}

/// Replayed and simulated step differ by at most a part of the latter.
fn agrees(world: &World, tolerance: f64) {
    let (trace, step) = world.run();
    let steps = Steps::read(&trace).unwrap();
    let near = |found: f64, truth: f64, what: &str| {
        let off = (found - truth).abs() / step;
        assert!(
            off <= tolerance,
            "{what}: {found} for {truth} of {step}; {} members, {} workers, depth {}, {:?}",
            world.prep.len(),
            world.workers,
            world.depth,
            world.slowness
        );
    };
    near(steps.measured(), step, "measured");
    near(steps.replay(&Change::none()).unwrap(), step, "replayed");
    for cause in Cause::ALL {
        let found = steps.replay(&Change::none().without(cause)).unwrap();
        near(found, world.without(cause).run().1, &format!("{cause:?}"));
    }
}

fn training(members: usize) -> World {
    World::even(members, 145, &[45 * MS, 49 * MS, 53 * MS, 57 * MS, 60 * MS])
}

#[test]
fn computing_alone_is_replayed_to_the_nanosecond() {
    let world = training(2);
    let found = steps(&world).replay(&Change::none()).unwrap();
    assert!((found - 0.0625).abs() < 1e-9, "{found}");
}

#[test]
fn preparation_behind_computing_costs_nothing() {
    let mut world = training(2);
    world.prep = vec![vec![30 * MS; 145]; 2];
    let answer = lacuna_stalls::answer(&steps(&world)).unwrap();
    assert!(answer.cost(Cause::Preparation).abs() < 1e-9);
    world.prep = vec![vec![120 * MS; 145]; 2];
    let answer = lacuna_stalls::answer(&steps(&world)).unwrap();
    assert!(
        (answer.cost(Cause::Preparation) - 0.0575).abs() < 1e-6,
        "{answer:?}"
    );
}

#[test]
fn a_link_behind_a_loader_costs_nothing() {
    let mut world = training(2);
    world.services = vec![12 * MS; 5];
    world.prep = vec![vec![180 * MS; 145]; 2];
    let answer = lacuna_stalls::answer(&steps(&world)).unwrap();
    assert!(answer.cost(Cause::Link).abs() < 1e-9, "{answer:?}");
    agrees(&world, 1e-6);
}

#[test]
fn waiting_for_a_straggler_is_no_transfer() {
    let mut world = training(3);
    world.slowness[1] = 1.6;
    let answer = lacuna_stalls::answer(&steps(&world)).unwrap();
    assert!(answer.cost(Cause::Link).abs() < 1e-9);
    assert!(
        (answer.cost(Cause::Straggler) - 0.036).abs() < 1e-9,
        "{answer:?}"
    );
    assert_eq!(answer.slow.unwrap().rank, 1);
}

#[test]
fn a_slow_member_is_named_from_a_tenth_on() {
    for (slowness, named) in [(1.05, false), (1.15, true), (2.0, true)] {
        let mut world = training(4);
        world.slowness[2] = slowness;
        let slow = lacuna_stalls::answer(&steps(&world)).unwrap().slow;
        assert_eq!(slow.map(|slow| slow.rank), named.then_some(2), "{slowness}");
    }
}

#[test]
fn a_late_optimiser_of_one_member_is_a_straggler_too() {
    let mut world = training(2);
    world.after[1] += 20 * MS;
    let answer = lacuna_stalls::answer(&steps(&world)).unwrap();
    assert!(
        (answer.cost(Cause::Straggler) - 0.020).abs() < 1e-9,
        "{answer:?}"
    );
    assert!(answer.cost(Cause::Link).abs() < 1e-9);
}

#[test]
fn a_hidden_sum_that_was_seen_late_slows_nothing() {
    let mut world = training(2);
    world.services = vec![2 * MS; 5];
    let found = steps(&world);
    assert!((found.replay(&Change::none()).unwrap() - 0.0645).abs() < 1e-9);
    agrees(&world, 1e-6);
}

#[test]
fn other_sizes_and_links_follow_the_ring() {
    let mut world = training(2);
    // A round of 1 ms, and 100 MB/s.
    let bytes = [4_000_000_u64, 4_000_000, 4_000_000, 2_000_000, 1_000];
    world.bytes = bytes.to_vec();
    let at = |n: f64, factor: f64| -> Vec<u64> {
        let of = |&b: &u64| 1e6 * (n - 1.0) + 2.0 * (n - 1.0) / n * b as f64 * 10.0 / factor;
        bytes.iter().map(|b| of(b).round() as u64).collect()
    };
    world.services = at(2.0, 1.0);
    let steps = steps(&world);
    for (members, factor) in [(4, 1.0), (8, 1.0), (2, 0.5), (2, 4.0), (4, 2.0), (1, 1.0)] {
        let mut other = training(members);
        other.services = at(members as f64, factor);
        let truth = other.run().1;
        let change = Change::none()
            .members(u32::try_from(members).unwrap())
            .unwrap();
        let found = steps.replay(&change.link(factor).unwrap()).unwrap();
        assert!(
            (found / truth - 1.0).abs() < 0.01,
            "{members} {factor}: {found} {truth}"
        );
    }
}

#[test]
fn other_loaders_are_those_of_the_simulation() {
    let mut world = training(2);
    world.prep = vec![vec![150 * MS; 145]; 2];
    let found = steps(&world);
    for workers in [0, 1, 2, 3, 5] {
        let mut other = world.clone();
        other.workers = workers;
        let truth = other.run().1;
        let replayed = found
            .replay(&Change::none().workers(workers as u32).unwrap())
            .unwrap();
        assert!(
            (replayed / truth - 1.0).abs() < 0.02,
            "{workers}: {replayed} {truth}"
        );
    }
}

/// A world with scattered times, of any loader.
fn worlds() -> impl Strategy<Value = World> {
    let times = |most: u64| move |scatter: u64| most * (500 + scatter) / 1000;
    (
        (1_usize..4, 0_usize..4, 1_usize..4, 1_usize..4),
        (0..120 * MS, 0..120 * MS, 0..30 * MS, 1.0..1.8_f64),
        prop::collection::vec(0_u64..1000, 4 * 211),
    )
        .prop_map(
            move |((members, workers, depth, sums), (prep, fetch, service, slow), scatter)| {
                let count = 211;
                let at = |member: usize, step: usize, k: usize| {
                    scatter[(member * 131 + step * 17 + k * 61) % scatter.len()]
                };
                let rows = |most: u64, k: usize| -> Vec<Vec<u64>> {
                    let row = |m: usize| (0..count).map(|s| times(most)(at(m, s, k))).collect();
                    (0..members).map(row).collect()
                };
                let ready = |member: usize, step: usize| -> Vec<u64> {
                    let end = 40 * MS + 20 * MS * at(member, step, 3) / 1000;
                    (1..=sums as u64)
                        .map(|b| end * (sums as u64 + b) / (2 * sums as u64))
                        .collect()
                };
                World {
                    workers,
                    depth,
                    prep: rows(prep, 1),
                    fetch: rows(fetch, 2),
                    hand: MS,
                    ready: (0..members)
                        .map(|member| (0..count).map(|step| ready(member, step)).collect())
                        .collect(),
                    slowness: (0..members)
                        .map(|m| if m == 1 { slow } else { 1.0 })
                        .collect(),
                    services: vec![if members == 1 { 0 } else { service }; sums],
                    bytes: vec![1_000_000; sums],
                    after: vec![3 * MS; members],
                    ends_known: false,
                }
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// The window has no beginning in a replay, so a few per cent of its mean differ; moving a slow
    /// member's times leaves its greater scatter.
    #[test]
    fn any_world_is_replayed(world in worlds()) {
        agrees(&world, 0.05);
    }

    #[test]
    fn units_and_order_of_members_do_not_matter(world in worlds(), scale in 1e-3..1e3_f64) {
        let trace = world.run().0;
        let step = lacuna_stalls::answer(&Steps::read(&trace).unwrap()).unwrap();
        let mut other = trace;
        other.ranks.reverse();
        for times in &mut other.ranks {
            let single = [
                &mut times.wait, &mut times.hand, &mut times.prep,
                &mut times.fetch, &mut times.update, &mut times.rest,
            ];
            let sums = times.ready.iter_mut().chain(&mut times.done);
            single.into_iter().chain(sums).flatten().for_each(|time| *time *= scale);
        }
        let scaled = lacuna_stalls::answer(&Steps::read(&other).unwrap()).unwrap();
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * (a.abs() + b.abs() + scale);
        prop_assert!(near(scaled.replayed, step.replayed * scale));
        prop_assert!(near(scaled.computes, step.computes * scale));
        for cause in Cause::ALL {
            prop_assert!(near(scaled.cost(cause), step.cost(cause) * scale), "{cause:?}");
        }
        prop_assert_eq!(scaled.slow.map(|s| s.rank), step.slow.map(|s| s.rank));
    }

    /// The model has only sums and maxima, so less work never ends later. The mean is that of one
    /// round, though, and a change may move its two ends apart: by less than a step of the round.
    #[test]
    fn removal_never_costs(world in worlds()) {
        let steps = steps(&world);
        let answer = lacuna_stalls::answer(&steps).unwrap();
        let slack = answer.replayed / steps.count() as f64;
        for cause in [Cause::Preparation, Cause::Fetch, Cause::Link] {
            prop_assert!(answer.cost(cause) >= -slack, "{cause:?}");
        }
        prop_assert!(answer.computes <= answer.replayed + slack);
        let mut before = f64::INFINITY;
        for factor in [0.5, 1.0, 2.0, 4.0] {
            if steps.members() == 1 {
                break;
            }
            let step = steps.replay(&Change::none().link(factor).unwrap()).unwrap();
            prop_assert!(step <= before + slack, "{factor}: {step} after {before}");
            before = step;
        }
    }
}
