//! Each pair of capabilities plans together, and each still has its effect.

use lacuna_model::{
    Distance, Elastic, Generation, KindName, KindRates, Launch, Loading, MixedPoint, NodeId,
    NodeKinds, Plan, Policy, Program, ScalingCurve, Topology, TrainerId,
};
use lacuna_planner::check::{Context, check};
use lacuna_planner::objective::Objective;
use lacuna_planner::{Input, Planner, Settings};

use crate::forecast::{ends_at, nodes_of, points, with_forecasts};
use crate::language::{Case, case, node};

const NODES: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Can {
    Forecasts,
    Fair,
    Distance,
    Kinds,
    Loaders,
    Goodput,
    Profiling,
    Pilots,
}

const ALL: [Can; 8] = [
    Can::Forecasts,
    Can::Fair,
    Can::Distance,
    Can::Kinds,
    Can::Loaders,
    Can::Goodput,
    Can::Profiling,
    Can::Pilots,
];

fn kind(name: &str) -> KindName {
    KindName::new(name).unwrap()
}

/// The first half of the nodes has one kind and one leaf, the second half another.
fn is_first(n: usize) -> bool {
    n < NODES / 2
}

fn kinds() -> NodeKinds {
    let name = |n| kind(if is_first(n) { "cpu" } else { "gpu" });
    NodeKinds::new((0..NODES).map(|n| (node(n), name(n))).collect())
}

fn topology() -> Topology {
    let leaf = |n| vec![if is_first(n) { "l1" } else { "l2" }.to_owned()];
    let rows = (0..NODES).map(|n| (node(n), leaf(n)));
    Topology::new(rows.collect()).unwrap()
}

fn curve(rate: f64, most: u32) -> ScalingCurve {
    ScalingCurve::linear(rate, most).unwrap()
}

/// Trainers `a` (3 nodes at most) and `b`, and for loaders `l`.
fn posed(can: &[Can]) -> Case {
    let has = |one| can.contains(&one);
    let mut case = case().hole(NODES, "20m");
    // The first node leaves at once, the others stay for an hour or more.
    let stays = points(&[(3600.0, 1.0), (7200.0, 0.0)]);
    let mut forecasts = vec![stays; NODES];
    forecasts[0] = ends_at(1.0);
    let links = has(Can::Forecasts).then_some(0.0);
    case = with_forecasts(case, &forecasts, links);
    case = case.trainer("a").nodes(1..=3).trainer("b").nodes(1..=2);
    let [a, b] = &mut case.trainers[..] else {
        unreachable!()
    };
    if has(Can::Fair) {
        a.spec.owner = Some("ann".to_owned());
        b.spec.owner = Some("bob".to_owned());
    }
    if has(Can::Distance) {
        a.spec.distance = Distance::Shares(vec![0.2]);
        b.spec.distance = Distance::Shares(vec![0.2]);
    }
    if has(Can::Kinds) || has(Can::Loaders) {
        let rates = [(kind("cpu"), curve(1.0, 3)), (kind("gpu"), curve(10.0, 3))];
        a.spec.kinds = KindRates::new(rates.into(), Vec::new()).unwrap();
        a.spec.throughput = curve(10.0, 3);
    }
    if has(Can::Profiling) || has(Can::Pilots) {
        case = case.program(Elastic::Restart, "0s", None);
        let b = &mut case.trainers[1].spec;
        if let Launch::Command(Program { profile, .. }) = &mut b.launch {
            *profile = has(Can::Profiling);
        }
    }
    if has(Can::Loaders) {
        let owner = case.trainers[0].spec.owner.clone();
        case = case.trainer("l").nodes(1..=1);
        let loader = &mut case.trainers[2].spec;
        let rates = KindRates::new([(kind("cpu"), curve(5.0, 1))].into(), Vec::new()).unwrap();
        let serves = Loading::For(TrainerId::new("a").unwrap());
        loader.kinds = rates.with_loading(serves).unwrap();
        loader.throughput = curve(5.0, 1);
        loader.owner = owner;
    }
    for record in &case.trainers {
        record.spec.check().unwrap();
    }
    case
}

fn planned(case: &Case, can: &[Can]) -> Plan {
    let mut settings = Settings::default();
    settings.forecasting.joint.uplink = Some(1);
    let objective = match can.contains(&Can::Goodput) {
        true => Objective::Goodput,
        false => Objective::Fair,
    };
    planned_by(case, can, settings, objective)
}

fn planned_by(case: &Case, can: &[Can], settings: Settings, objective: Objective) -> Plan {
    let has = |one| can.contains(&one);
    let (kinds, topology) = (kinds(), topology());
    let mut planner = Planner::new(settings).maximising(objective);
    let by_kind = has(Can::Kinds) || has(Can::Loaders);
    let kinds = by_kind.then_some(&kinds);
    let plan = planner.plan_of(&Input {
        pool: &case.pool,
        trainers: &case.trainers,
        unusable: &[],
        generation: Generation(1),
        stale: false,
        topology: has(Can::Distance).then_some(&topology),
        kinds,
        pilot_s: if has(Can::Pilots) { 20.0 } else { 0.0 },
        followed: Generation(0),
    });
    let context = Context {
        kinds,
        ..case.context()
    };
    assert_eq!(check(&plan, &context), [], "{can:?}: {plan:#?}");
    assert_eq!(planner.refused(), [], "{can:?}");
    plan
}

/// Whether a capability had its effect on a plan.
fn shows(one: Can, can: &[Can], plan: &Plan) -> bool {
    let of = |name| nodes_of(plan, name);
    let firsts = |name| {
        let nodes = of(name);
        let named = |n: &String| (0..NODES).find(|at| node(*at) == NodeId::new(n).unwrap());
        let firsts = nodes.iter().filter(|n| named(n).is_some_and(is_first));
        (firsts.count(), nodes.len())
    };
    let verdict = |name: &str| {
        let mut verdicts = plan.report.trainers.iter();
        verdicts.find(|v| v.trainer.as_str() == name)
    };
    match one {
        // No trainer takes the node that leaves at once.
        Can::Forecasts => ["a", "b", "l"]
            .iter()
            .all(|name| !of(name).contains(&"a00".to_owned())),
        Can::Fair if can.contains(&Can::Goodput) => true,
        Can::Fair => verdict("b").is_some_and(|v| v.share.is_some()),
        Can::Distance => ["a", "b"].into_iter().all(|name| {
            let (firsts, all) = firsts(name);
            firsts == 0 || firsts == all
        }),
        Can::Kinds | Can::Loaders if one == Can::Kinds => firsts("a") == (0, of("a").len()),
        Can::Kinds | Can::Loaders => firsts("l") == (1, 1),
        Can::Profiling => verdict("b").is_some_and(|v| v.basis.is_some()),
        Can::Goodput | Can::Pilots => !of("b").is_empty(),
    }
}

#[test]
fn each_pair_of_capabilities_plans_together() {
    for (at, first) in ALL.into_iter().enumerate() {
        for second in ALL.into_iter().skip(at) {
            let can = [first, second];
            let case = posed(&can);
            let plan = planned(&case, &can);
            for one in can {
                assert!(shows(one, &can, &plan), "{one:?} of {can:?}: {plan:#?}");
            }
            // An owner's share of the kind of `a` is two nodes. Its loader takes a node of the other
            // kind, and the other owner's trainer, for which both kinds are alike, keeps its share.
            let most = if can == [Can::Fair, Can::Loaders] {
                2
            } else {
                3
            };
            assert_eq!(nodes_of(&plan, "a").len(), most, "{can:?}: {plan:#?}");
            assert_eq!(nodes_of(&plan, "b").len(), 2, "{can:?}: {plan:#?}");
        }
    }
    let plan = planned(&posed(&ALL), &ALL);
    assert!(
        ALL.into_iter().all(|one| shows(one, &ALL, &plan)),
        "{plan:#?}"
    );
}

/// Rates on both kinds together alone: 30 samples/s on one node of each.
fn together_alone() -> KindRates {
    let point = |cpu, gpu, rate| MixedPoint {
        counts: [(kind("cpu"), cpu), (kind("gpu"), gpu)].into(),
        rate,
    };
    let alone = [(kind("cpu"), curve(1.0, 3)), (kind("gpu"), curve(10.0, 3))];
    let points = vec![point(3, 0, 0.0), point(0, 3, 0.0), point(1, 1, 30.0)];
    KindRates::new(alone.into(), points).unwrap()
}

#[test]
fn a_mix_that_may_cross_no_leaf_is_given_up_whole() {
    // Each kind has a leaf of its own. What is left of the mix on either is nothing to run on.
    for (policy, owners) in [
        (Policy::Dp, false),
        (Policy::Auto, false),
        (Policy::Auto, true),
    ] {
        let mut can = vec![Can::Forecasts, Can::Distance, Can::Kinds];
        can.extend(owners.then_some(Can::Fair));
        let mut case = posed(&can);
        case.trainers[0].spec.kinds = together_alone();
        case.trainers[0].spec.distance = Distance::Shares(vec![0.9]);
        let mut settings = Settings {
            policy,
            ..Settings::default()
        };
        let free = planned_by(&case, &can, settings.clone(), Objective::Fair);
        assert_eq!(nodes_of(&free, "a").len(), 2, "{free:#?}");
        settings.forecasting.joint.crossing = Some(0);
        let plan = planned_by(&case, &can, settings, Objective::Fair);
        assert!(nodes_of(&plan, "a").is_empty(), "{plan:#?}");
    }
}

#[test]
fn a_loader_is_worth_the_rate_that_it_brings_under_every_objective() {
    // One cpu node is left for the loader, and for a trainer that makes as much of it as `a` of a gpu
    // node: of 10 samples/s. So the loader gets it if it brings more than that.
    let can = [Can::Loaders];
    for objective in [
        "as-given",
        "throughput",
        "scaling-efficiency",
        "goodput",
        "weighted",
        "deadline",
        "least-attained",
        "fair",
        "speedup * weight",
    ] {
        for (brings, wins) in [(8.0, false), (13.0, true)] {
            let mut case = posed(&can);
            case.pool.holes.drain(1..4);
            case.pool.joint = None;
            for record in &mut case.trainers {
                let spec = &mut record.spec;
                let alone = |name, rate| {
                    let rates = [(kind(name), curve(rate, 1))].into();
                    KindRates::new(rates, Vec::new()).unwrap()
                };
                match spec.id.as_str() {
                    "b" => (spec.kinds, spec.throughput) = (alone("cpu", 10.0), curve(10.0, 1)),
                    "l" => {
                        let serves = Loading::For(TrainerId::new("a").unwrap());
                        spec.kinds = alone("cpu", brings).with_loading(serves).unwrap();
                        spec.throughput = curve(brings, 1);
                        continue;
                    }
                    _ => {}
                }
                spec.max_nodes = spec.max_nodes.min(spec.throughput.last_nodes());
            }
            let objective = objective.parse().unwrap();
            let plan = planned_by(&case, &can, Settings::default(), objective);
            let text = format!("{brings} samples/s: {plan:#?}");
            assert_eq!(nodes_of(&plan, "l").len(), usize::from(wins), "{text}");
            assert_eq!(nodes_of(&plan, "b").len(), usize::from(!wins), "{text}");
        }
    }
}
