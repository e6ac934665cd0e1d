//! Cases with expected sizes worked out by hand.

use lacuna_model::{Elastic, Forecast, ForecastPoint, NodeChoice, Policy, TrainerId};

use crate::language::{case, count};

#[test]
fn a_trainer_takes_what_is_free() {
    case()
        .hole(4, "20m")
        .trainer("a")
        .nodes(1..=8)
        .expect(4)
        .check();
}

#[test]
fn no_trainer_gets_more_than_its_maximum() {
    case()
        .hole(9, "20m")
        .trainer("a")
        .nodes(1..=8)
        .expect(8)
        .check();
}

#[test]
fn too_few_nodes_for_the_minimum_start_nothing() {
    case()
        .hole(3, "20m")
        .trainer("a")
        .nodes(4..=8)
        .expect(0)
        .check();
}

#[test]
fn a_pool_without_trainers_and_trainers_without_a_pool_are_fine() {
    case().hole(3, "1m").check();
    case().trainer("a").expect(0).check();
    case().check();
}

#[test]
fn the_better_curve_gets_the_nodes() {
    case()
        .hole(4, "5m")
        .trainer("slow")
        .curve(&[(1, 5.0), (8, 40.0)])
        .expect(0)
        .trainer("fast")
        .curve(&[(1, 50.0), (8, 400.0)])
        .expect(4)
        .check();
}

#[test]
fn growing_waits_when_it_costs_more_than_it_brings() {
    // One more node brings 10 x 120 = 1,200; stalling 4 nodes for 40 s costs 1,600.
    case()
        .hole(5, "5m")
        .trainer("a")
        .costs(40.0, 5.0)
        .holds(0..4)
        .expect(4)
        .check();
    // Two more bring 2,400.
    case()
        .hole(6, "5m")
        .trainer("a")
        .costs(40.0, 5.0)
        .holds(0..4)
        .expect(6)
        .check();
    // Over a longer horizon one is worth it.
    case()
        .horizon("5m")
        .hole(5, "5m")
        .trainer("a")
        .costs(40.0, 5.0)
        .holds(0..4)
        .expect(5)
        .check();
}

#[test]
fn a_trainer_that_lost_nodes_goes_on_with_the_rest() {
    case()
        .hole(3, "5m")
        .trainer("a")
        .holds([0, 1, 2, 30, 31])
        .expect(3)
        .check();
}

#[test]
fn a_trainer_that_fell_below_its_minimum_ends_or_is_filled_up_free_of_charge() {
    case()
        .hole(2, "5m")
        .trainer("a")
        .nodes(3..=8)
        .holds([0, 1, 30])
        .expect(0)
        .check();
    case()
        .hole(3, "5m")
        .trainer("a")
        .nodes(3..=8)
        .costs(1e6, 1e6)
        .holds([0, 1, 30])
        .expect(3)
        .check();
}

#[test]
fn an_unusable_node_is_left_alone_and_taken_from_its_trainer() {
    case()
        .hole(4, "5m")
        .unusable([1])
        .trainer("a")
        .holds([0, 1])
        .expect(3)
        .check();
}

#[test]
fn a_queued_trainer_gets_no_nodes() {
    case()
        .hole(4, "5m")
        .trainer("a")
        .queued()
        .trainer("b")
        .nodes(1..=2)
        .expect(2)
        .check();
}

#[test]
fn a_small_trainer_shrinks_for_one_that_gains_more() {
    case()
        .hole(8, "5m")
        .trainer("a")
        .nodes(2..=8)
        .holds(0..8)
        .expect(2)
        .trainer("b")
        .curve(&[(1, 100.0), (6, 600.0)])
        .nodes(1..=6)
        .curve(&[(1, 100.0), (6, 600.0)])
        .expect(6)
        .check();
}

#[test]
fn a_stop_counts_the_work_that_it_throws_away() {
    // The other one does 5 samples/s more, or 600 in the horizon. A stop costs 5 s for shrinking and
    // 10 s for the next start, at 20 samples/s, and the work that no checkpoint has.
    let displaced = |age: &str, saved, elastic| {
        let case = case()
            .hole(2, "20m")
            .trainer("old")
            .nodes(2..=2)
            .costs(10.0, 5.0)
            .holds(0..2)
            .program(elastic, age, saved)
            .trainer("new")
            .nodes(2..=2)
            .curve(&[(2, 25.0)]);
        case.plan(Policy::Dp, NodeChoice::Together)
            .allocations
            .iter()
            .all(|given| given.trainer.as_str() == "new")
    };
    for elastic in [Elastic::REGROUP, Elastic::Restart] {
        assert!(
            displaced("10s", None, elastic),
            "{elastic:?}: 600 - 300 - 200"
        );
        assert!(
            !displaced("20s", None, elastic),
            "{elastic:?}: 600 - 300 - 400"
        );
    }
    // What regroups saves when it leaves; any other program goes on from its newest checkpoint.
    assert!(displaced("20m", Some(0.0), Elastic::REGROUP));
    assert!(!displaced("20m", Some(0.0), Elastic::Restart));
    assert!(displaced("20m", Some(100.0), Elastic::Restart));
}

#[test]
fn growth_of_a_program_that_starts_again_counts_the_steps_since_its_checkpoint() {
    // One more node brings 10 x 120 = 1,200; growing costs 10 s at 10 samples/s.
    for (elastic, saved, nodes) in [
        (Elastic::Restart, Some(100.0), 2),
        (Elastic::Restart, Some(0.0), 1),
        (
            Elastic::Torchrun {
                workers_per_node: 1,
            },
            None,
            1,
        ),
        (Elastic::REGROUP, None, 2),
    ] {
        case()
            .hole(2, "20m")
            .trainer("a")
            .nodes(1..=2)
            .holds(0..1)
            .program(elastic, "2m", saved)
            .expect(nodes)
            .check();
    }
}

#[test]
fn of_equal_trainers_the_first_one_runs() {
    let mut equal = case().hole(2, "20m");
    for name in ["c", "a", "b"] {
        equal = equal.trainer(name).nodes(2..=2);
    }
    // Forecasts decide over holes that are likely to last.
    equal.pool.forecasts = vec![Forecast {
        points: [(600.0, 1.0), (601.0, 0.0)]
            .map(|(after_s, open)| ForecastPoint { after_s, open })
            .to_vec(),
    }];
    for policy in Policy::ALL {
        let plan = equal.plan(policy, NodeChoice::Together);
        let first = TrainerId::new("c").unwrap();
        assert_eq!(count(&plan, &first), 2, "{policy:?}: {plan:#?}");
        // It stays, however often it is asked.
        let again = equal
            .clone()
            .after(&plan)
            .plan(policy, NodeChoice::Together);
        assert_eq!(count(&again, &first), 2, "{policy:?}: {again:#?}");
    }
}

#[test]
fn an_unknown_program_that_would_start_over_is_left_alone() {
    let torchrun = Elastic::Torchrun {
        workers_per_node: 1,
    };
    for elastic in [torchrun, Elastic::Restart] {
        // It would have three times as many nodes, or others would have them: it has just begun.
        for age in ["1s", "30s"] {
            let grows = case().hole(3, "20m").trainer("a").nodes(1..=3);
            let grows = grows.holds(0..1).program(elastic, age, None).unknown();
            grows.expect(1).check();
        }
        // With a checkpoint it grows.
        let saves = case().hole(3, "20m").trainer("a").nodes(1..=3);
        let saves = saves.holds(0..1).program(elastic, "2m", Some(100.0));
        saves.unknown().expect(3).check();
    }
    for elastic in [torchrun, Elastic::Restart, Elastic::REGROUP] {
        let stops = case().hole(3, "20m").trainer("a").nodes(1..=1);
        let stops = stops.holds(0..1).program(elastic, "1s", None).unknown();
        let stops = stops.expect(1).trainer("b").nodes(3..=3);
        stops.expect(0).check();
    }
}
