//! Explanations of verdicts: golden texts.

use lacuna_model::{
    Followed, NodeChoice, Outcome, Policy, Rule, RuleGain, Span, TrainerId, Verdict,
};
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
plan 1: 8 of 8 holes in use; proven optimal (dp, short cut certificate)
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
        "hole a04: stays idle: for each trainer the rescale costs more than the free \
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
fn growth_shrinkage_and_outbidding_name_their_price() {
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
        "hole a07: unusable: it is quarantined or its agent is silent"
    );
    let given = explain::node(&plan, &node(0)).unwrap();
    assert_eq!(given, "hole a00: given to b, which starts on 5 nodes");
    plan.report.solve.outcome = Outcome::NoIncumbent;
    plan.report.solve.shortcut = None;
    plan.report.solve.solver = "highs".to_owned();
    assert!(explain::plan(&plan).starts_with(
        "plan 1: 7 of 8 holes in use; no answer in time (highs): the last allocation is kept\n"
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

#[test]
fn a_newcomer_that_would_bring_more_names_the_cost_of_displacing() {
    for policy in [Policy::Milp, Policy::Dp] {
        let case = case()
            .horizon("100s")
            .hole(10, "20m")
            .trainer("x")
            .nodes(1..=10)
            .curve(&[(2, 0.08), (10, 1.06)])
            .costs(10.0, 100.0)
            .holds(0..10)
            .trainer("new")
            .curve(&[(1, 0.15), (8, 1.2)]);
        let plan = case.plan(policy, NodeChoice::Together);
        // 120 for 98 + 106 is a bad bargain, although 120 is more than 98.
        let verdict = &plan.report.trainers[1].verdict;
        let Verdict::DisplacingCosts {
            nodes,
            from,
            gain,
            loss,
            cost,
        } = verdict
        else {
            panic!("{policy:?}: {verdict:?}");
        };
        assert_eq!((*nodes, from.len(), from[0].as_str()), (8, 1, "x"));
        let figures = [gain - 120.0, loss - 98.0, cost - 106.0];
        assert!(figures.iter().all(|d| d.abs() < 1e-9), "{verdict:?}");
        assert_eq!(
            of(&plan, "new"),
            "new: no nodes: would bring 120, but taking 8 nodes from x loses 98 and costs 106 \
             to shrink it"
        );
        // Were the change free, the newcomer would have its nodes.
        let mut free = case;
        free.trainers[0].spec.rescale.down_s = 0.0;
        free.expect(8).check();
    }
}

#[test]
fn a_newcomer_too_large_for_one_giver_is_weighed_against_several() {
    let plan = case()
        .hole(8, "20m")
        .trainer("a")
        .nodes(1..=2)
        .costs(10.0, 100.0)
        .holds([0, 1])
        .trainer("b")
        .nodes(1..=2)
        .costs(10.0, 80.0)
        .holds([2, 3])
        .trainer("c")
        .nodes(1..=4)
        .costs(10.0, 90.0)
        .holds(4..8)
        .trainer("new")
        .nodes(8..=8)
        .curve(&[(8, 88.0)])
        .plan(Policy::Dp, NodeChoice::Together);
    // All 8 nodes: 120 s x 88 against 120 s x 80; the changes cost 2000 + 1600 + 3600.
    assert_eq!(
        of(&plan, "new"),
        "new: no nodes: would bring 10.6k, but taking 8 nodes from 3 trainers loses 9600 and \
         costs 7200 to shrink them"
    );
}

#[test]
fn a_newcomer_that_brings_less_is_outbid_at_any_cost_of_change() {
    let plan = case()
        .hole(4, "20m")
        .trainer("a")
        .costs(10.0, 100.0)
        .holds(0..4)
        .trainer("new")
        .curve(&[(1, 9.0), (8, 72.0)])
        .plan(Policy::Milp, NodeChoice::Together);
    assert_eq!(plan.report.trainers[1].verdict, Verdict::Outbid);
}

#[test]
fn the_followed_rule_is_named_with_what_each_brought() {
    let mut plan = case()
        .hole(2, "20m")
        .trainer("a")
        .nodes(1..=2)
        .plan(Policy::Dp, NodeChoice::Together);
    assert_eq!(explain::rule(&plan), None);
    let gain = |rule, share| RuleGain { rule, share };
    plan.report.followed = Some(Followed {
        rule: Rule::Dp,
        since: plan.as_of - Span::from_secs(7200),
        brought: vec![gain(Rule::Forecasts, 0.7), gain(Rule::Dp, 0.8125)],
    });
    assert_eq!(
        explain::rule(&plan).unwrap(),
        "auto has followed dp for 2h00m, since no other rule has brought clearly more; share of the idle node-time that \
         each brought in the last hours, or would have brought: forecasts 0.700, dp 0.812"
    );
}
