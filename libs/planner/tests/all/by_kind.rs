//! Plans by name where nodes are of kinds.

use std::collections::BTreeMap;

use lacuna_model::{
    Generation, KindName, KindRates, MixedPoint, NodeKinds, Outcome, Plan, Policy, ScalingCurve,
    Verdict,
};
use lacuna_planner::check::{Context, check};
use lacuna_planner::{Input, Planner, Settings};

use crate::forecast::{ends_at, nodes_of, with_forecasts};
use crate::language::{Case, case, node};

fn kind(name: &str) -> KindName {
    KindName::new(name).unwrap()
}

/// The first nodes of a case are of kind cpu, the others of kind gpu.
fn kinds(cpu: usize, nodes: usize) -> NodeKinds {
    let name = |n| kind(if n < cpu { "cpu" } else { "gpu" });
    NodeKinds::new((0..nodes).map(|n| (node(n), name(n))).collect())
}

/// 10 samples/s on each cpu node, 100 on each gpu node.
fn alone() -> BTreeMap<KindName, ScalingCurve> {
    [
        (kind("cpu"), ScalingCurve::linear(10.0, 8).unwrap()),
        (kind("gpu"), ScalingCurve::linear(100.0, 4).unwrap()),
    ]
    .into()
}

/// The same, and with 2 cpu nodes beside a gpu node 150.
fn rates(together: bool) -> KindRates {
    let point = MixedPoint {
        counts: [(kind("cpu"), 2), (kind("gpu"), 1)].into(),
        rate: 150.0,
    };
    KindRates::new(alone(), Vec::from_iter(together.then_some(point))).unwrap()
}

/// The last trainer has rates by kind.
fn by_kind(mut case: Case, together: bool) -> Case {
    let spec = &mut case.trainers.last_mut().unwrap().spec;
    spec.kinds = rates(together);
    spec.throughput = spec.kinds.fastest().unwrap().clone();
    spec.check().unwrap();
    case
}

/// A planner after its decision over two kinds with forecasts.
pub(crate) fn two_kinds(policy: Policy) -> Planner {
    let case = by_kind(case().hole(6, "20m").trainer("a"), true);
    let case = with_forecasts(case, &vec![ends_at(900.0); 6], Some(0.5));
    planned_by(&case, Some(&kinds(4, 6)), policy).0
}

/// A plan, which is sound.
fn planned(case: &Case, kinds: Option<&NodeKinds>, policy: Policy) -> Plan {
    planned_by(case, kinds, policy).1
}

/// A plan, which is sound, and its planner.
fn planned_by(case: &Case, kinds: Option<&NodeKinds>, policy: Policy) -> (Planner, Plan) {
    let mut planner = Planner::new(Settings {
        horizon: case.horizon,
        policy,
        ..Settings::default()
    });
    let plan = planner.plan_of(&Input {
        pool: &case.pool,
        trainers: &case.trainers,
        unusable: &case.unusable,
        generation: Generation(1),
        stale: false,
        topology: None,
        kinds,
        pilot_s: 0.0,
        followed: Generation(0),
    });
    let context = Context {
        kinds,
        ..case.context()
    };
    assert_eq!(check(&plan, &context), [], "{plan:#?}");
    (planner, plan)
}

fn verdict(plan: &Plan, name: &str) -> Verdict {
    let mut all = plan.report.trainers.iter();
    let of = all.find(|v| v.trainer.as_str() == name).unwrap();
    of.verdict.clone()
}

#[test]
fn trainers_without_kinds_have_the_plans_of_a_cluster_without_kinds() {
    let alike = || {
        let case = case().hole(5, "20m").trainer("a").nodes(1..=3);
        case.holds([0, 1]).trainer("b").nodes(2..=4)
    };
    let kinds = kinds(2, 5);
    for policy in [Policy::Auto, Policy::Dp, Policy::Milp, Policy::EqualShare] {
        let bytes = |kinds| {
            let plan = planned(&alike(), kinds, policy);
            serde_json::to_vec(&plan).unwrap()
        };
        assert_eq!(bytes(None), bytes(Some(&kinds)), "{policy:?}");
    }
    // Where all nodes are of one kind, a trainer by kind is one with the curve of that kind.
    let one = NodeKinds::new((0..5).map(|n| (node(n), kind("gpu"))).collect());
    let plain = case().hole(5, "20m").trainer("a");
    let plain = plain.curve(&[(1, 100.0), (4, 400.0)]);
    let mut plain = plain.trainer("b");
    plain.trainers[0].spec.max_nodes = 4;
    let mut told = plain.clone();
    told.trainers[0].spec.kinds = rates(true);
    told.trainers[0].spec.max_nodes = 8;
    for policy in [Policy::Auto, Policy::Dp] {
        let bytes = |case: &Case, kinds| serde_json::to_vec(&planned(case, kinds, policy)).unwrap();
        assert_eq!(bytes(&plain, None), bytes(&told, Some(&one)), "{policy:?}");
    }
}

#[test]
fn a_trainer_gets_either_kind_or_both_together() {
    let kinds = kinds(4, 6);
    let either = by_kind(case().hole(6, "20m").trainer("a"), false);
    let plan = planned(&either, Some(&kinds), Policy::Auto);
    assert_eq!(nodes_of(&plan, "a"), ["a04", "a05"]);
    assert_eq!(verdict(&plan, "a"), Verdict::Start);
    // One gpu node is left: with two cpu nodes it brings 150 instead of 100.
    let mut both = by_kind(case().hole(6, "20m").trainer("a"), true);
    both.unusable = vec![node(5)];
    let plan = planned(&both, Some(&kinds), Policy::Auto);
    assert_eq!(nodes_of(&plan, "a").len(), 3);
    assert!(nodes_of(&plan, "a").contains(&"a04".to_owned()));
    // A trainer without kinds has its curve on each kind, one kind at a time.
    let beside = either.trainer("b").nodes(1..=6);
    let plan = planned(&beside, Some(&kinds), Policy::Auto);
    assert_eq!(nodes_of(&plan, "a"), ["a04", "a05"]);
    assert_eq!(nodes_of(&plan, "b"), ["a00", "a01", "a02", "a03"]);
}

#[test]
fn a_change_of_kinds_is_no_migration_and_a_change_within_a_kind_is_one() {
    let kinds = kinds(4, 6);
    let held = by_kind(case().hole(6, "20m").trainer("a"), false).holds([0, 1]);
    let plan = planned(&held, Some(&kinds), Policy::Auto);
    assert_eq!(nodes_of(&plan, "a"), ["a04", "a05"]);
    assert!(matches!(verdict(&plan, "a"), Verdict::Grow { .. }));
    let numbers = |plan: &Plan, kinds: Option<&NodeKinds>| -> Vec<u32> {
        let context = Context {
            kinds,
            ..held.context()
        };
        check(plan, &context).iter().map(|v| v.number()).collect()
    };
    assert_eq!(numbers(&plan, None), [6], "the check knows kinds");
    // Nodes of both kinds, which it cannot use together.
    let mut mixed = plan.clone();
    mixed.allocations[0].nodes = vec![node(0), node(4)];
    assert!(numbers(&mixed, Some(&kinds)).contains(&17));
}

#[test]
fn three_kinds_are_planned_together() {
    let names = ["cpu", "cpu", "gpu", "big", "big", "big"];
    let kinds = (0..).zip(names).map(|(n, name)| (node(n), kind(name)));
    let kinds = NodeKinds::new(kinds.collect());
    let both = by_kind(case().hole(6, "20m").trainer("a"), true);
    let mut both = both.trainer("b").nodes(1..=2);
    let of_b = [("big", 30.0), ("cpu", 10.0)];
    let of_b = of_b.map(|(name, rate)| (kind(name), ScalingCurve::linear(rate, 2).unwrap()));
    let spec = &mut both.trainers.last_mut().unwrap().spec;
    spec.kinds = KindRates::new(of_b.into(), Vec::new()).unwrap();
    spec.throughput = spec.kinds.fastest().unwrap().clone();
    let plan = planned(&both, Some(&kinds), Policy::Auto);
    assert_eq!(nodes_of(&plan, "a"), ["a00", "a01", "a02"]);
    let of_b = nodes_of(&plan, "b");
    assert_eq!(of_b.len(), 2);
    assert!(of_b.iter().all(|name| name.as_str() >= "a03"), "{of_b:?}");
    assert_eq!(plan.report.solve.outcome, Outcome::Optimal);
}

#[test]
fn nodes_of_no_usable_kind_are_not_given() {
    let all = kinds(4, 6);
    // Of a third kind no trainer asks for a node, and one without kinds has nodes of one kind.
    let mut three: BTreeMap<_, _> = all.iter().map(|(n, k)| (n.clone(), k.clone())).collect();
    three.insert(node(5), kind("big"));
    let either = by_kind(case().hole(6, "20m").trainer("a"), false);
    let beside = either.clone().trainer("b").nodes(1..=6);
    let plan = planned(&beside, Some(&NodeKinds::new(three)), Policy::Auto);
    assert_eq!(nodes_of(&plan, "a"), ["a04"]);
    assert_eq!(nodes_of(&plan, "b").len(), 4);
    // Kinds are not known: the trainer by kind gets nothing, and says why; others go on.
    for none in [None, Some(&NodeKinds::default())] {
        let mut planner = Planner::new(Settings::default());
        let plan = planner.plan_of(&Input {
            pool: &beside.pool,
            trainers: &beside.trainers,
            unusable: &[],
            generation: Generation(1),
            stale: false,
            topology: None,
            kinds: none,
            pilot_s: 0.0,
            followed: Generation(0),
        });
        assert_eq!(check(&plan, &beside.context()), []);
        assert!(nodes_of(&plan, "a").is_empty());
        assert_eq!(
            verdict(&plan, "a"),
            Verdict::TooFewNodes { pool: 0, min: 1 }
        );
        assert_eq!(nodes_of(&plan, "b").len(), 6);
    }
    // Only cpu nodes are left of a kind, and one node has no kind.
    let kinds = NodeKinds::new((0..5).map(|n| (node(n), kind("cpu"))).collect());
    let plan = planned(&either, Some(&kinds), Policy::Auto);
    assert_eq!(nodes_of(&plan, "a").len(), 5, "{plan:#?}");
}

#[test]
fn a_trainer_that_does_not_fit_says_how_many_nodes_it_needs() {
    let mut case = by_kind(case().hole(6, "20m").trainer("a"), false);
    let none = |name, count| MixedPoint {
        counts: [(kind(name), count)].into(),
        rate: 0.0,
    };
    let spec = &mut case.trainers.last_mut().unwrap().spec;
    spec.kinds = KindRates::new(alone(), vec![none("cpu", 4), none("gpu", 2)]).unwrap();
    let plan = planned(&case, Some(&kinds(4, 6)), Policy::Auto);
    assert_eq!(
        verdict(&plan, "a"),
        Verdict::TooFewNodes { pool: 6, min: 3 }
    );
    // Three gpu nodes are enough.
    let plan = planned(&case, Some(&kinds(3, 6)), Policy::Auto);
    assert_eq!(nodes_of(&plan, "a").len(), 3);
}

#[test]
fn a_loss_in_one_kind_leaves_trainers_on_the_other_as_they_are() {
    let kinds = kinds(4, 6);
    let two = by_kind(case().hole(6, "20m").trainer("a"), false).holds([4, 5]);
    let two = two.trainer("b").nodes(1..=4).holds([0, 1, 2, 3]);
    let plan = planned(&two, Some(&kinds), Policy::Auto);
    assert_eq!(nodes_of(&plan, "a"), ["a04", "a05"]);
    assert_eq!(nodes_of(&plan, "b").len(), 4);
    // A fill-in takes a cpu node.
    let mut less = two.clone();
    less.pool.holes.remove(1);
    let plan = planned(&less, Some(&kinds), Policy::Auto);
    assert_eq!(nodes_of(&plan, "a"), ["a04", "a05"]);
    assert_eq!(verdict(&plan, "a"), Verdict::Keep);
    assert_eq!(nodes_of(&plan, "b"), ["a00", "a02", "a03"]);
}

#[test]
fn owners_have_their_shares_of_nodes_of_several_kinds() {
    let named = |owner: &str, case: &mut Case| {
        case.trainers.last_mut().unwrap().spec.owner = Some(owner.to_owned());
    };
    let one_label = |n: usize| NodeKinds::new([(node(n - 1), kind("gpu"))].into());
    for (nodes, kinds) in [
        (4, kinds(2, 4)),
        (6, kinds(4, 6)),
        (6, kinds(3, 6)),
        (5, one_label(5)),
    ] {
        // Ann's trainer is plain, and eve's trainers have kinds, a great value and all nodes.
        let mut case = case().hole(nodes, "1h").trainer("plain").nodes(1..=8);
        named("ann", &mut case);
        for n in 0..3 {
            case = by_kind(case.trainer(&format!("by-kind-{n}")), n % 2 == 0);
            named("eve", &mut case);
        }
        case.trainers[1].nodes = (0..nodes).map(node).collect();
        let plan = planned(&case, Some(&kinds), Policy::Auto);
        let ann = nodes_of(&plan, "plain").len();
        let usable = (0..nodes).filter(|n| kinds.of(&node(*n)).is_none_or(|k| k.as_str() == "cpu"));
        // A plain trainer takes nodes of one kind.
        let due = (nodes / 2).min(usable.count());
        assert!(ann >= due, "{ann} of {nodes}: {plan:#?}");
        let eve: usize = (0..3)
            .map(|n| nodes_of(&plan, &format!("by-kind-{n}")).len())
            .sum();
        let labelled = (0..nodes).filter(|n| kinds.of(&node(*n)).is_some()).count();
        assert!(eve >= due.min(2).min(labelled), "{eve} of {nodes}");
        let share = plan.report.trainers[0].share.as_ref().unwrap();
        assert!(share.nodes >= nodes as u32 / 2, "{plan:#?}");
        // Planned again from its answer, nothing changes.
        let again = planned(&case.after(&plan), Some(&kinds), Policy::Auto);
        assert_eq!(again.allocations, plan.allocations);
    }
}

#[test]
fn an_owner_that_uses_one_kind_at_a_time_has_its_share_of_it_whoever_came_first() {
    // Eve's trainers came first and hold three of four nodes, two of one kind; ann's holds the last.
    let mut case = case().hole(4, "1h");
    for n in 0..2 {
        case = by_kind(case.trainer(&format!("by-kind-{n}")), false);
        case.trainers.last_mut().unwrap().spec.owner = Some("eve".to_owned());
    }
    case.trainers[0].nodes = vec![node(0), node(1)];
    case.trainers[1].nodes = vec![node(3)];
    let mut case = case.trainer("plain").nodes(1..=4);
    case.trainers[2].spec.owner = Some("ann".to_owned());
    case.trainers[2].spec.rescale.start_s = Some(10.0);
    case.trainers[2].nodes = vec![node(2)];
    let plan = planned(&case, Some(&kinds(2, 4)), Policy::Auto);
    assert_eq!(nodes_of(&plan, "plain"), ["a02", "a03"], "{plan:#?}");
}
