//! The invariants of trainers, by their public functions.

use lacuna_model::{
    NodeId, Phase, RescaleCost, ScalingCurve, Span, Timestamp, TrainerId, TrainerRecord,
    TrainerSpec,
};

use super::*;
use crate::account::Change;

fn now(second: i64) -> Now {
    let at = Timestamp::from_unix(second);
    Now {
        cluster: at,
        wall: at,
    }
}

fn id(name: &str) -> TrainerId {
    TrainerId::new(name).unwrap()
}

fn names(numbers: &[u32]) -> Vec<NodeId> {
    let name = |n: &u32| NodeId::new(format!("n{n}")).unwrap();
    numbers.iter().map(name).collect()
}

fn record(name: &str, priority: i32, order: u64, phase: Phase) -> TrainerRecord {
    let spec = TrainerSpec {
        priority,
        submit: Timestamp::from_unix(1000),
        min_nodes: 2,
        max_nodes: 8,
        rescale: RescaleCost::of(18.0, 12.0),
        ..TrainerSpec::simulated(id(name), ScalingCurve::linear(10.0, 8).unwrap())
    };
    TrainerRecord {
        phase,
        ..TrainerRecord::new(spec, order)
    }
}

fn training(nodes: &[u32]) -> Trainers {
    let mut trainers = Trainers::default();
    trainers.enter(record("a", 0, 1, Phase::Queued), now(1000));
    assert!(trainers.admit(&id("a")));
    let trainer = trainers.get_mut(&id("a")).unwrap();
    let _ = trainer.begin(
        names(nodes),
        Change::Grown,
        now(1000).cluster,
        Span::ZERO,
        None,
        now(1000),
    );
    trainers
}

fn nodes_of(trainers: &Trainers) -> Vec<NodeId> {
    trainers.get(&id("a")).unwrap().nodes().to_vec()
}

#[test]
fn admitted_are_the_active_ones_in_order_of_admission() {
    let mut trainers = Trainers::default();
    for (name, priority, order) in [("a", 0, 1), ("b", 5, 2), ("c", 0, 3)] {
        trainers.enter(record(name, priority, order, Phase::Queued), now(1000));
    }
    for name in ["c", "b"] {
        assert!(trainers.admit(&id(name)));
    }
    assert_eq!(trainers.admitted_where(|_| true), [id("c"), id("b")]);
    assert_eq!(
        trainers.end(&id("c"), Phase::Done, "done", now(1001)),
        Some(Phase::Active)
    );
    assert_eq!(trainers.admitted_where(|_| true), [id("b")]);
    assert!(!trainers.admit(&id("unknown")));
    assert_eq!(trainers.next_order(), 4);
}

#[test]
fn a_start_admits_again_by_priority_then_arrival() {
    let mut trainers = Trainers::default();
    for (name, priority, order) in [("a", 0, 2), ("b", 0, 1), ("c", 5, 3)] {
        trainers.enter(record(name, priority, order, Phase::Active), now(1000));
    }
    trainers.enter(record("d", 9, 4, Phase::Queued), now(1000));
    assert_eq!(trainers.readmit(), [id("c"), id("b"), id("a")]);
}

#[test]
fn losses_of_one_moment_are_one_incarnation_and_count_up_to_the_first() {
    let mut trainers = training(&[1, 2, 3, 4]);
    let before = trainers.record(&id("a")).unwrap().run;
    trainers.lose(&id("a"), &names(&[1])[0], now(1010).cluster, now(1010));
    trainers.lose(&id("a"), &names(&[3])[0], now(1012).cluster, now(1012));
    assert!(trainers.any_hit());
    let trainer = trainers.get(&id("a")).unwrap();
    assert_eq!(trainer.counts_until(), now(1010).cluster);
    assert_eq!(
        trainer.nodes().len(),
        4,
        "members until the next incarnation"
    );
    let [(lost, after)] = trainers.settle_losses().try_into().unwrap();
    assert_eq!((lost, after.nodes.clone()), (id("a"), names(&[2, 4])));
    assert_eq!(
        after.change,
        Change::Lost {
            at: now(1012).cluster
        }
    );
    assert_eq!(after.at, now(1010).cluster);
    assert!(!trainers.any_hit() && trainers.settle_losses().is_empty());
    let trainer = trainers.get_mut(&id("a")).unwrap();
    let begun = trainer.begin(
        after.nodes,
        after.change,
        after.at,
        Span::ZERO,
        None,
        now(1012),
    );
    assert_eq!(
        (begun.before, begun.after, begun.cause),
        (4, 2, "preempted")
    );
    assert!(trainer.record().run > before && trainer.is_hit());
    assert!(
        trainer.settle() && !trainer.settle(),
        "a plan settles it once"
    );
}

#[test]
fn too_few_nodes_are_none_unless_parked_ones_join() {
    let mut trainers = training(&[1, 2, 3, 4]);
    let trainer = trainers.get_mut(&id("a")).unwrap();
    let stay = trainer.nodes()[..2].to_vec();
    let leave = trainer.park(&stay);
    assert_eq!((stay.clone(), leave), (names(&[1, 2]), names(&[3, 4])));
    let at = now(1010).cluster;
    let _ = trainer.begin(stay, Change::Shrunk, at, Span::ZERO, None, now(1010));
    assert_eq!(trainer.parked(), names(&[3, 4]));
    assert!(names(&[1, 2, 3, 4]).iter().all(|node| trainer.needs(node)));
    assert_eq!(
        trainer.without(|node| *node == names(&[1])[0]),
        names(&[2, 3, 4])
    );
    trainer.unpark_all();
    assert!(!trainer.needs(&names(&[3])[0]));
    assert!(trainer.without(|node| *node == names(&[1])[0]).is_empty());
}

#[test]
fn a_parked_node_that_is_lost_hits_no_incarnation() {
    let mut trainers = training(&[1, 2, 3]);
    let trainer = trainers.get_mut(&id("a")).unwrap();
    let stay = trainer.nodes()[..2].to_vec();
    trainer.park(&stay);
    let at = now(1010).cluster;
    let _ = trainer.begin(stay, Change::Shrunk, at, Span::ZERO, None, now(1010));
    assert!(trainers.lose(&id("a"), &names(&[3])[0], at, now(1011)));
    assert!(!trainers.any_hit());
    assert_eq!(nodes_of(&trainers), names(&[1, 2]));
}

#[test]
fn an_incarnation_that_ends_gives_up_its_parked_nodes() {
    let mut trainers = training(&[1, 2, 3]);
    let trainer = trainers.get_mut(&id("a")).unwrap();
    let stay = trainer.nodes()[..2].to_vec();
    trainer.park(&stay);
    let at = now(1010).cluster;
    let _ = trainer.begin(stay, Change::Shrunk, at, Span::ZERO, None, now(1010));
    let _ = trainer.begin(Vec::new(), Change::Ended, at, Span::ZERO, None, now(1020));
    assert!(trainer.parked().is_empty() && trainer.nodes().is_empty());
}
