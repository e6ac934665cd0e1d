//! What centres run today, calculated by hand.

use lacuna_model::{Policy, Span, Timestamp, TrainerSpec};
use lacuna_sim::{Beside, Practice, PracticeFigures, Settings};
use proptest::prelude::*;

use crate::common::{self, hole, machine, run};

/// A trainer of 10 samples/s on each node, 3 s up and 2 s down.
fn trainer(name: u32, min: u32, max: u32, samples: f64) -> TrainerSpec {
    TrainerSpec {
        submit: Timestamp::from_unix(0),
        min_nodes: min,
        ..common::trainer(name, max, samples)
    }
}

/// Settings with a checkpoint each ten seconds.
fn with(practices: &[Practice]) -> Settings {
    Settings {
        beside: Beside {
            practices: practices.to_vec(),
            checkpoint_every: Span::from_secs(10),
        },
        ..Settings::published()
    }
}

#[test]
fn a_requeued_job_waits_two_minutes_and_goes_on_from_its_checkpoint() {
    // One job of two nodes, 20/s. Node 1 goes at 25: 500 done, 400 of them saved at 20. Both nodes
    // are there from 30 on, and the job may start at 145. It pays 2 s x 20/s, and has 600 left: 32 s.
    let holes = [hole(0, 0, 400), hole(1, 0, 25), hole(1, 30, 400)];
    let summary = run(
        &holes,
        &[trainer(0, 2, 2, 1000.0)],
        &with(&[Practice::Requeue]),
    );
    let figures = summary.unwrap().summary.beside.remove(0);
    assert_eq!(figures.nodes, Some(2));
    assert!((figures.hours * 3600.0 - 177.0).abs() < 1e-6, "{figures:?}");
    assert!((figures.samples - 1000.0).abs() < 1e-6);
    assert!((figures.redone_fraction - 0.1).abs() < 1e-9);
    assert_eq!((figures.preemptions, figures.restarts), (1, 1));
    // 2 nodes for 25 s and for 32 s, of 177 s and of 25 s and 147 s.
    let used = 114.0 / (177.0 + 25.0 + 147.0);
    assert!((figures.idle_share_used - used).abs() < 1e-9, "{figures:?}");
    assert!((figures.harvested_node_hours * 3600.0 - 114.0).abs() < 1e-6);
}

#[test]
fn the_best_fixed_size_is_taken() {
    // Three nodes; t1 can use one. Jobs of one node leave one idle and take 40 s, of three nodes t1
    // waits. Of two nodes: 20/s and 10/s, done at 20.
    let holes = [0, 1, 2].map(|node| hole(node, 0, 1000));
    let trainers = [trainer(0, 1, 4, 400.0), trainer(1, 1, 1, 200.0)];
    let summary = run(&holes, &trainers, &with(&[Practice::Requeue])).unwrap();
    let figures = &summary.summary.beside[0];
    assert_eq!(figures.nodes, Some(2));
    assert!((figures.hours * 3600.0 - 20.0).abs() < 1e-6, "{figures:?}");
}

#[test]
fn an_elastic_trainer_starts_again_when_nodes_come_and_when_they_go() {
    // One node from 0, 10/s. At 25 a second one comes: 250 done, 200 saved, and 3 s x 10/s. Until
    // 41 it does 20 x 16 - 30 = 290, of which 170 are saved at 35. At 41 a node goes: 370 left, and
    // it pays 2 s x 20/s: from 41 on it needs 4 s + 63 s for 1000.
    let holes = [hole(0, 0, 400), hole(1, 25, 41)];
    let practices = with(&[Practice::TorchrunElastic]);
    let summary = run(&holes, &[trainer(0, 1, 2, 1000.0)], &practices);
    let figures = summary.unwrap().summary.beside.remove(0);
    assert!((figures.hours * 3600.0 - 108.0).abs() < 1e-6, "{figures:?}");
    assert!((figures.redone_fraction - 0.17).abs() < 1e-9);
    assert_eq!((figures.preemptions, figures.restarts), (1, 2));
    assert_eq!(figures.nodes, None);
}

#[test]
fn free_nodes_join_the_trainer_with_the_fewest() {
    // Five nodes, two trainers: three and two nodes.
    let holes = [0, 1, 2, 3, 4].map(|node| hole(node, 0, 100));
    let trainers = [trainer(0, 1, 4, 300.0), trainer(1, 1, 4, 200.0)];
    let summary = run(&holes, &trainers, &with(&[Practice::TorchrunElastic])).unwrap();
    let figures = &summary.summary.beside[0];
    assert!((figures.hours * 3600.0 - 10.0).abs() < 1e-6, "{figures:?}");
}

#[test]
fn milestones_have_samples_and_shares_of_the_bound_until_then() {
    // 10/s; at 30 the only node goes for 10 s. Between events milestones count, too.
    let holes = [hole(0, 0, 30), hole(0, 40, 60)];
    let settings = Settings {
        endless: true,
        max_parallel: 1,
        milestones: vec![15.0, 35.0, 45.0, 900.0],
        ..with(&[Practice::Requeue, Practice::TorchrunElastic])
    };
    let summary = run(&holes, &[trainer(0, 1, 1, 1e6)], &settings)
        .unwrap()
        .summary;
    let samples = |of: &[lacuna_sim::Milestone]| of.iter().map(|m| m.samples).collect::<Vec<_>>();
    // Lost: 2 s x 10/s at 30, paid from 40 on. The bound pays nothing.
    assert_eq!(samples(&summary.milestones), [150.0, 300.0, 330.0]);
    let shares = summary
        .milestones
        .iter()
        .map(|m| m.zero_cost_fraction.unwrap());
    let expected = [1.0, 1.0, 330.0 / 350.0];
    assert!(
        shares
            .zip(expected)
            .all(|(found, share)| (found - share).abs() < 1e-12)
    );
    let [requeue, elastic] = summary.beside.as_slice() else {
        panic!("{summary:?}")
    };
    // Both save at 30, lose nothing, and the elastic one pays 2 s x 10/s for its start at 40.
    assert_eq!(samples(&requeue.milestones), [150.0, 300.0, 300.0]);
    assert_eq!(samples(&elastic.milestones), [150.0, 300.0, 330.0]);
}

#[test]
fn the_first_hour_has_the_job_size_that_is_best_until_then() {
    // One node for 100 s, then four for 1000 s. Jobs of four nodes do nothing at first, and most in all.
    let later = [1, 2, 3].map(|node| hole(node, 100, 1100));
    let holes = [&[hole(0, 0, 1100)][..], &later].concat();
    let settings = Settings {
        endless: true,
        max_parallel: 1,
        milestones: vec![100.0, 1000.0],
        ..with(&[Practice::Requeue])
    };
    let summary = run(&holes, &[trainer(0, 1, 4, 1e9)], &settings);
    let figures = summary.unwrap().summary.beside.remove(0);
    let samples: Vec<f64> = figures.milestones.iter().map(|m| m.samples).collect();
    assert_eq!((figures.nodes, samples), (Some(4), vec![1000.0, 36_000.0]));
    assert!((figures.samples - 40_000.0).abs() < 1e-6, "{figures:?}");
}

#[test]
fn a_rule_beside_the_policy_does_what_it_does_as_the_policy() {
    let holes = [
        hole(0, 0, 400),
        hole(1, 0, 25),
        hole(1, 30, 400),
        hole(2, 50, 90),
    ];
    let trainers = [trainer(0, 1, 3, 1e6), trainer(1, 1, 2, 1e6)];
    let settings = |policy| Settings {
        policy,
        endless: true,
        max_parallel: 2,
        ..with(&[Practice::Dp, Practice::EqualShare])
    };
    let summary = |policy| run(&holes, &trainers, &settings(policy)).unwrap().summary;
    let (dp, equal) = (summary(Policy::Dp), summary(Policy::EqualShare));
    assert_eq!(dp.beside[0].ratio, Some(1.0));
    assert_eq!(equal.beside[1].ratio, Some(1.0));
    let found = |at: usize| (dp.beside[at].samples, dp.beside[at].preemptions);
    assert_eq!(found(0), (dp.samples, dp.preemptions));
    assert_eq!(found(1), (equal.samples, equal.preemptions));
    let changes = dp.preemptions + dp.rescales - dp.rescales_at_hits;
    assert_eq!(dp.beside[0].restarts, changes);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn rules_stay_below_the_bound_and_repeat_exactly(holes in machine(), min in 1_u32..4) {
        let trainers = [trainer(0, min, 2 * min, 1e9)];
        let settings = Settings { endless: true, max_parallel: 2, ..with(&Practice::ALL) };
        let figures = || -> Vec<PracticeFigures> {
            run(&holes, &trainers, &settings).unwrap().summary.beside
        };
        let found = figures();
        prop_assert_eq!(&found, &figures());
        for practice in found {
            prop_assert!(practice.samples >= 0.0 && practice.idle_share_used <= 1.0 + 1e-9, "{:?}", practice);
            prop_assert!(practice.zero_cost_fraction.unwrap() <= 1.0 + 1e-9, "{:?}", practice);
        }
    }
}
