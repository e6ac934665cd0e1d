//! The checker passes sound plans and catches each way of breaking one.

use lacuna_model::{
    Allocation, Generation, HoleVerdict, NodeChoice, Plan, Policy, Timestamp, TrainerId,
};
use lacuna_planner::check::{Context, check, check_decision};
use lacuna_planner::objective::Objective;
use lacuna_planner::worth::{Costs, Worth};
use lacuna_planner::{Candidate, Decider, Decision, PoolForecast, Situation, Slot, Switches};

use crate::apart::{candidate, share};
use crate::common::on_leaves;
use crate::forecast::{ends_at, settings, with_forecasts};
use crate::language::{Case, case, node};

fn sound() -> (Case, Plan) {
    let case = case()
        .hole(4, "20m")
        .hole(3, "5m")
        .unusable([6])
        .trainer("a")
        .nodes(2..=3)
        .holds([0, 1])
        .trainer("b")
        .nodes(1..=2)
        .holds([2])
        .trainer("idle")
        .queued();
    let plan = case.plan(Policy::Dp, NodeChoice::Together);
    (case, plan)
}

/// The numbers of the invariants that a plan breaks after a mutation.
fn broken(mutate: impl FnOnce(&mut Plan)) -> Vec<u32> {
    let (case, mut plan) = sound();
    mutate(&mut plan);
    let found = check(&plan, &case.context());
    for violation in &found {
        assert!(
            violation
                .to_string()
                .starts_with(&format!("I{}: ", violation.number()))
        );
    }
    let mut numbers: Vec<u32> = found.iter().map(|v| v.number()).collect();
    numbers.dedup();
    numbers
}

fn trainer(name: &str) -> TrainerId {
    TrainerId::new(name).unwrap()
}

#[test]
fn a_sound_plan_passes() {
    assert!(broken(|_| {}).is_empty());
    let (_, plan) = sound();
    let sizes: Vec<usize> = plan.allocations.iter().map(|a| a.nodes.len()).collect();
    assert_eq!(sizes, [3, 2]);
}

#[test]
fn i1_a_node_with_two_owners() {
    let numbers = broken(|plan| {
        let stolen = plan.allocations[1].nodes[0].clone();
        plan.allocations[0].nodes[2] = stolen;
        plan.allocations[0].nodes.sort();
    });
    assert!(numbers.contains(&1), "{numbers:?}");
    let numbers = broken(|plan| {
        let twice = plan.allocations[1].nodes[0].clone();
        plan.allocations[1].nodes[1] = twice;
    });
    assert!(numbers.contains(&1), "{numbers:?}");
}

#[test]
fn i2_a_node_that_is_not_in_the_pool() {
    let numbers = broken(|plan| plan.allocations[0].nodes[2] = node(77));
    assert!(numbers.contains(&2), "{numbers:?}");
}

#[test]
fn i3_a_node_that_is_unusable() {
    let numbers = broken(|plan| plan.allocations[0].nodes[2] = node(6));
    assert!(numbers.contains(&3), "{numbers:?}");
}

#[test]
fn i4_a_trainer_that_is_not_active() {
    for name in ["idle", "stranger", "b"] {
        let numbers = broken(|plan| {
            let other = Allocation {
                trainer: trainer(name),
                nodes: vec![node(5)],
            };
            plan.allocations.push(other);
        });
        assert!(numbers.contains(&4), "{name}: {numbers:?}");
    }
}

#[test]
fn i5_a_size_outside_the_bounds() {
    let numbers = broken(|plan| plan.allocations[0].nodes.truncate(1));
    assert!(numbers.contains(&5), "{numbers:?}");
    let numbers = broken(|plan| plan.allocations[1].nodes.push(node(5)));
    assert!(numbers.contains(&5), "{numbers:?}");
}

#[test]
fn i6_a_migration() {
    let numbers = broken(|plan| {
        let freed = if plan.allocations[0].nodes.contains(&node(3)) {
            5
        } else {
            3
        };
        plan.allocations[0].nodes = vec![node(1), node(freed)];
        plan.allocations[0].nodes.sort();
    });
    assert!(numbers.contains(&6), "{numbers:?}");
}

#[test]
fn i7_a_generation_that_does_not_grow() {
    let (case, plan) = sound();
    for (newest, numbers) in [(0, vec![]), (1, vec![7]), (2, vec![7])] {
        let context = Context {
            newest: Some(Generation(newest)),
            ..case.context()
        };
        let found: Vec<u32> = check(&plan, &context).iter().map(|v| v.number()).collect();
        assert_eq!(found, numbers, "newest {newest}");
    }
}

#[test]
fn i8_a_plan_for_another_pool() {
    assert_eq!(broken(|plan| plan.seq += 1), [8]);
    assert_eq!(broken(|plan| plan.as_of = Timestamp::from_unix(1)), [8]);
}

#[test]
fn i9_a_report_that_is_wrong_about_a_trainer() {
    assert_eq!(broken(|plan| plan.report.trainers[0].after += 1), [9]);
    assert_eq!(broken(|plan| plan.report.trainers[1].before += 1), [9]);
    assert_eq!(broken(|plan| plan.report.trainers.swap(0, 1)), [9]);
    assert_eq!(broken(|plan| drop(plan.report.trainers.pop())), [9]);
    assert_eq!(
        broken(|plan| plan.report.trainers.push(plan.report.trainers[0].clone())),
        [9]
    );
}

#[test]
fn i10_a_report_that_is_wrong_about_a_hole() {
    assert_eq!(
        broken(|plan| plan.report.holes[0].1 = HoleVerdict::NoBidder),
        [10]
    );
    assert_eq!(
        broken(|plan| plan.report.holes[0].1 = HoleVerdict::Assigned {
            trainer: trainer("a")
        }),
        [10]
    );
    assert_eq!(broken(|plan| drop(plan.report.holes.pop())), [10]);
    assert_eq!(broken(|plan| plan.report.holes.swap(0, 1)), [10]);
}

#[test]
fn i11_an_allocation_that_is_empty_or_not_sorted() {
    assert_eq!(broken(|plan| plan.allocations[0].nodes.swap(0, 1)), [11]);
    let numbers = broken(|plan| plan.allocations[1].nodes.clear());
    assert!(numbers.contains(&11), "{numbers:?}");
}

#[test]
fn i12_other_nodes_for_a_trainer_that_nothing_has_hit() {
    assert_eq!(broken(|plan| plan.replaced.push(trainer("a"))), [12]);
    assert_eq!(broken(|plan| plan.replaced.push(trainer("stranger"))), [12]);
}

/// The numbers of the invariants that a decision breaks after a mutation, of it or of what it was
/// made for: two candidates of 2 to 3 and of 1 to 2 nodes have two and one of six slots.
fn unsound(mutate: impl FnOnce(&mut Vec<Candidate>, &mut Decision)) -> Vec<u32> {
    let case = sound().0;
    let candidate = |(record, held): (&lacuna_model::TrainerRecord, u32)| {
        let spec = &record.spec;
        let kind = Worth::new(spec, Costs::of(spec), &Objective::Throughput, 120.0).unwrap();
        kind.candidate(held, 0, false, None)
    };
    let candidates: Vec<_> = case.trainers.iter().zip([2, 1]).map(candidate).collect();
    let owners = [Some(0), Some(0), Some(1), None, None, None];
    let slots = owners.map(|owner| Slot { since_ms: 0, owner });
    let posed = Situation {
        candidates: &candidates,
        slots: &slots,
        switches: &Switches::default(),
        kinds: &[],
        users: None,
        pool_forecast: None,
        history: None,
        doubt: None,
    };
    let mut decision = Decider::default().decide(&posed);
    assert_eq!(decision.sizes.counts, [3, 2]);
    let mut changed = candidates.clone();
    mutate(&mut changed, &mut decision);
    let situation = Situation {
        candidates: &changed,
        ..posed
    };
    let found = check_decision(&situation, &decision);
    found.iter().map(|violation| violation.number()).collect()
}

/// Swaps the first slots of two owners.
fn swap(decision: &mut Decision, a: Option<u32>, b: Option<u32>) {
    let at = |owner| decision.owners.iter().position(|o| *o == owner).unwrap();
    let (a, b) = (at(a), at(b));
    decision.owners.swap(a, b);
}

#[test]
fn a_sound_decision_passes_and_a_broken_one_does_not() {
    let found = unsound(|_, _| {});
    assert!(found.is_empty(), "{found:?}");
    // A slot changes hands that its trainer could have kept.
    assert_eq!(unsound(|_, d| swap(d, Some(0), Some(1))), [6, 6]);
    assert_eq!(unsound(|_, d| swap(d, Some(0), None)), [6]);
    // A size outside the bounds, reported correctly.
    let shrunk = unsound(|_, d| {
        d.owners
            .iter_mut()
            .filter(|o| **o == Some(0))
            .skip(1)
            .for_each(|o| *o = None);
        d.sizes.counts[0] = 1;
    });
    assert_eq!(shrunk, [5]);
    // The sizes differ from those of the slots, after and before.
    assert_eq!(unsound(|_, d| d.sizes.counts[1] = 1), [9]);
    assert_eq!(unsound(|candidates, _| candidates[0].item.current = 3), [9]);
    // Owners and sizes of another situation.
    assert_eq!(unsound(|_, d| d.owners[5] = Some(2)), [14, 9]);
    assert_eq!(unsound(|_, d| d.owners.truncate(5)), [15]);
    assert_eq!(unsound(|_, d| d.sizes.counts.push(0)), [15]);
}

#[test]
fn i18_a_value_without_the_trainers_that_share_an_uplink() {
    // Two trainers cross two leaves, whose uplinks carry one of them.
    let pool = with_forecasts(case().hole(4, "20m"), &vec![ends_at(900.0); 4], Some(0.0)).pool;
    let candidates = [0, 1].map(|_| candidate(2, 2, 1, share(2, 0.9)));
    let slots = [0, 1, 0, 1].map(|j| Slot {
        since_ms: 0,
        owner: Some(j),
    });
    let switches = on_leaves(&[0, 0, 1, 1]);
    let shared = switches.clone().sharing(Some(1));
    let situation = |switches| Situation {
        candidates: &candidates,
        slots: &slots,
        switches,
        kinds: &[],
        users: None,
        pool_forecast: Some(PoolForecast {
            pool: &pool,
            holes: &[0, 1, 2, 3],
            known: &[],
            complete_s: 0.0,
        }),
        history: None,
        doubt: None,
    };
    let decide = |switches| Decider::new(settings(true)).decide(&situation(switches));
    let (mut sound, alone) = (decide(&shared), decide(&switches));
    assert_eq!(sound.owners, slots.map(|slot| slot.owner));
    let numbers = |decision: &Decision| -> Vec<u32> {
        let found = check_decision(&situation(&shared), decision);
        found.iter().map(|violation| violation.number()).collect()
    };
    assert!(numbers(&sound).is_empty());
    // Each of two trainers at 20 x .9 samples/s alone, at 20 / (1 + 2/9) beside the other.
    assert!(
        (alone.sizes.objective / 60.0 - 36.0).abs() < 1e-6,
        "{alone:?}"
    );
    assert!((sound.sizes.objective / 60.0 - 40.0 / (1.0 + 2.0 / 9.0)).abs() < 1e-6);
    sound.sizes.objective = alone.sizes.objective;
    assert_eq!(numbers(&sound), [18]);
}
