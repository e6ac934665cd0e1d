//! Verdicts in words: golden texts.

use lacuna_model::{NodeChoice, Outcome, Policy, TrainerId};
use lacuna_planner::explain;

use crate::language::{case, node};

fn of(plan: &lacuna_model::Plan, name: &str) -> String {
    explain::trainer(plan, &TrainerId::new(name).unwrap()).unwrap()
}

#[test]
fn each_verdict_reads_as_a_sentence() {
    let plan = case()
        .hole(8, "20m")
        .trainer("full")
        .nodes(1..=2)
        .holds([0, 1])
        .trainer("waits")
        .nodes(1..=7)
        .costs(60.0, 5.0)
        .holds([2, 3, 4])
        .trainer("starts")
        .nodes(1..=2)
        .trainer("grows")
        .nodes(1..=1)
        .trainer("large")
        .nodes(30..=40)
        .plan(Policy::Dp, NodeChoice::Together);
    assert_eq!(
        explain::plan(&plan),
        "\
plan 1: 8 of 8 holes in use; proven optimal (dp)
full: keeps 2 nodes: it is at its maximum, or no node is free for it
waits: keeps 3 nodes: it is at its maximum, or no node is free for it
starts: starts on 2 nodes
grows: starts on 1 node
large: no nodes: it needs at least 30 and the pool has 8
"
    );
}

#[test]
fn a_rescale_that_is_not_worth_it_says_what_it_would_bring_and_cost() {
    let plan = case()
        .hole(5, "20m")
        .trainer("a")
        .costs(40.0, 5.0)
        .holds(0..4)
        .plan(Policy::Dp, NodeChoice::Together);
    assert_eq!(
        of(&plan, "a"),
        "a: keeps 4 nodes although 1 is free: growing would bring 1200 and cost 1600"
    );
    assert_eq!(
        explain::node(&plan, &node(4)).unwrap(),
        "hole a04: nobody takes it: for each trainer the rescale costs more than the free \
         nodes bring"
    );
    assert_eq!(
        explain::node(&plan, &node(0)).unwrap(),
        "hole a00: stays with a"
    );
    assert_eq!(explain::node(&plan, &node(9)), None);
    assert_eq!(explain::trainer(&plan, &TrainerId::new("x").unwrap()), None);
}

#[test]
fn growth_shrinkage_and_being_outbid_are_told_with_their_price() {
    let mut plan = case()
        .hole(8, "5m")
        .unusable([7])
        .trainer("a")
        .nodes(2..=8)
        .holds(0..7)
        .trainer("b")
        .curve(&[(1, 100.0), (8, 800.0)])
        .nodes(1..=5)
        .curve(&[(1, 100.0), (5, 500.0)])
        .trainer("c")
        .plan(Policy::Milp, NodeChoice::Together);
    assert_eq!(
        of(&plan, "a"),
        "a: shrinks from 7 to 2 nodes: others gain more than the 6000 that it gives up and \
         the 350 that the change costs"
    );
    assert_eq!(of(&plan, "b"), "b: starts on 5 nodes");
    assert_eq!(
        of(&plan, "c"),
        "c: no nodes: others bring more with those that there are"
    );
    assert_eq!(
        explain::node(&plan, &node(7)).unwrap(),
        "hole a07: nobody may have it: it is quarantined or its agent is silent"
    );
    let given = explain::node(&plan, &node(0)).unwrap();
    assert_eq!(given, "hole a00: given to b, which starts on 5 nodes");
    plan.report.solve.outcome = Outcome::NoIncumbent;
    plan.report.solve.shortcut = None;
    plan.report.solve.solver = "highs".to_owned();
    assert!(explain::plan(&plan).starts_with(
        "plan 1: 7 of 8 holes in use; no answer in time (highs): the last allocation stands\n"
    ));
}

#[test]
fn a_growing_trainer_says_what_that_brings() {
    let plan = case()
        .hole(8, "5m")
        .trainer("a")
        .curve(&[(1, 1_000.0), (8, 8_000.0)])
        .holds(0..4)
        .plan(Policy::Dp, NodeChoice::Together);
    assert_eq!(
        of(&plan, "a"),
        "a: grows from 4 to 8 nodes: brings 480.0k and costs 40.0k"
    );
}
