//! Loaders of a trainer: their worth by the measured stall, their life, refusals.

use lacuna_model::{
    Action, Basis, Elastic, KindName, KindRates, Launch, Loaders, Loading, NodeKinds, Phase,
    Program, ScalingCurve, Span, StepCosts, StepWithWorkers, TrainerSpec, Work,
};
use lacuna_rates::{Rates, Shape};
use lacuna_trainer::controller::{ControllerConfig, Input, OnDemand};

use crate::common::{World, config, node, regrouping, spec, step_costs, trainer};
use crate::controller::apply as follow;

fn kind(name: &str) -> KindName {
    KindName::new(name).unwrap()
}

/// A trainer of 100 samples/s on each gpu node, which may have up to three cpu nodes as loaders.
fn with_loaders(name: &str, change: &dyn Fn(&mut Launch)) -> TrainerSpec {
    let curve = ScalingCurve::linear(100.0, 2).unwrap();
    let kinds = KindRates::new([(kind("gpu"), curve.clone())].into(), Vec::new()).unwrap();
    let loaders = Loaders {
        kind: kind("cpu"),
        nodes: 3,
        processes: 1,
    };
    let mut launch = regrouping();
    if let Launch::Command(Program { checkpoint_dir, .. }) = &mut launch {
        *checkpoint_dir = Some("/scratch".to_owned());
    }
    change(&mut launch);
    TrainerSpec {
        objective: Some(curve.speedup()),
        throughput: curve,
        kinds: kinds.with_loading(Loading::By(loaders)).unwrap(),
        launch,
        ..spec(name, 1, 2, Work::UntilExit)
    }
}

fn world(config: ControllerConfig) -> World {
    let mut world = World::new(1, 8, config);
    world.snapshot();
    let of = |n| kind(if n < 4 { "cpu" } else { "gpu" });
    let kinds = (0..8).map(|n| (node(n), of(n))).collect();
    world.input(Input::Kinds(NodeKinds::new(kinds)));
    (0..6).for_each(|n| world.open(n));
    world
}

fn submit(world: &mut World, spec: TrainerSpec) -> Result<(), String> {
    world.submit("ann", vec![spec]);
    world.deliver(usize::MAX);
    world.replies.pop().unwrap().map(|_| ())
}

/// One member with one worker of its own. A batch takes a worker 160 ms, and the device 50 ms.
fn waiting(remote: u32) -> StepCosts {
    let step = |workers: u32| (0.160 / f64::from(workers.max(1))).max(0.050);
    let one = |workers| StepWithWorkers {
        workers,
        step: step(workers),
    };
    StepCosts {
        members: 1,
        workers: 1 + remote,
        remote,
        replayed: step(1 + remote),
        loaders: (0..8).map(one).collect(),
        ..step_costs(None)
    }
}

/// A plan is followed, and programs on new nodes become ready.
fn apply(w: &mut World, sizes: &[(&str, &[usize])]) {
    follow(w, sizes);
    w.all_ready();
    w.deliver(usize::MAX);
}

fn reports(w: &mut World, costs: StepCosts) {
    w.pass(Span::from_secs(1));
    let samples = w.record("a").samples_run + 1.0;
    w.progress("a", samples, |report| {
        report.step_costs = Some(Box::new(costs));
    });
    w.deliver(usize::MAX);
    w.input(Input::Timer);
}

/// The rates of the loaders that are in plans.
fn worths(w: &World) -> Vec<(String, f64)> {
    let view = w.view.as_ref().unwrap();
    let loaders = view
        .trainers
        .iter()
        .filter(|r| r.spec.kinds.loads_for().is_some());
    let rate = |r: &lacuna_model::TrainerRecord| {
        let (rates, cpu) = (Rates::of(r), [kind("cpu")]);
        let rate = rates.at(&Shape::of(1, 0), &cpu);
        assert_eq!(
            (rate.value, rate.basis),
            (rates.curve().at(1), Basis::Brings)
        );
        (r.spec.id.to_string(), rate.value.round())
    };
    loaders.map(rate).collect()
}

fn of(name: &str, rate: f64) -> (String, f64) {
    (format!("a.loader-{name}"), rate)
}

#[test]
fn a_loader_is_worth_what_the_measured_stall_says() {
    let mut w = world(config());
    submit(&mut w, with_loaders("a", &|_| ())).unwrap();
    apply(&mut w, &[("a", &[4])]);
    assert_eq!(worths(&w), [], "nothing was measured");
    reports(&mut w, waiting(0));
    // Of 160 ms: 80, 53, 50 ms.
    assert_eq!(worths(&w), [of("1", 100.0), of("2", 100.0), of("3", 20.0)]);
    apply(&mut w, &[("a", &[4]), ("a.loader-2", &[0])]);
    assert_eq!(w.nodes_of("a.loader-2"), 1);
    // The one with a node is the first, and the trainer is left alone.
    reports(&mut w, waiting(1));
    assert_eq!(worths(&w), [of("1", 100.0), of("2", 100.0), of("3", 20.0)]);
    apply(
        &mut w,
        &[("a", &[4]), ("a.loader-2", &[0]), ("a.loader-3", &[1])],
    );
    reports(&mut w, waiting(2));
    assert_eq!(worths(&w), [of("1", 20.0), of("2", 100.0), of("3", 100.0)]);
    let run = w.record("a").run;
    assert_eq!(run.0, 1, "its members do not change with its loaders");
    // It waits for nothing any more: no node is held.
    reports(
        &mut w,
        StepCosts {
            loaders: Vec::new(),
            ..waiting(2)
        },
    );
    assert_eq!((w.nodes_of("a.loader-2"), w.nodes_of("a.loader-3")), (0, 0));
    assert_eq!(worths(&w), []);
    assert_eq!(w.nodes_of("a"), 1);
}

#[test]
fn no_loader_is_worth_more_than_one_before_it() {
    // As measured: 1, 1.12 and 1 times the rate without loaders, then nothing.
    let step = |(workers, speed)| StepWithWorkers {
        workers,
        step: 0.320 / speed,
    };
    let speeds = [(1, 1.0), (2, 2.0), (3, 3.12), (4, 4.12)];
    let rising = |remote| StepCosts {
        loaders: speeds.map(step).to_vec(),
        replayed: 0.320 / speeds[remote as usize].1,
        ..waiting(remote)
    };
    let mut w = world(config());
    submit(&mut w, with_loaders("a", &|_| ())).unwrap();
    apply(&mut w, &[("a", &[4])]);
    reports(&mut w, rising(0));
    let all = [of("1", 106.0), of("2", 106.0), of("3", 100.0)];
    assert_eq!(worths(&w), all);
    apply(&mut w, &[("a", &[4]), ("a.loader-3", &[0])]);
    w.input(Input::Timer);
    // The one that has a node is the first, so that no plan hands its node on to another one.
    let first = [of("1", 106.0), of("2", 100.0), of("3", 106.0)];
    assert_eq!((w.nodes_of("a.loader-3"), worths(&w)), (1, first.to_vec()));
    reports(&mut w, rising(1));
    assert_eq!(worths(&w), first);
}

#[test]
fn a_reading_that_is_not_trusted_takes_no_loader_for_a_while() {
    let off = || StepCosts {
        trusted: false,
        ..waiting(1)
    };
    let mut w = world(config());
    submit(&mut w, with_loaders("a", &|_| ())).unwrap();
    apply(&mut w, &[("a", &[4])]);
    reports(&mut w, off());
    assert_eq!(worths(&w), [], "nothing is known yet");
    reports(&mut w, waiting(0));
    apply(&mut w, &[("a", &[4]), ("a.loader-1", &[0])]);
    let before = worths(&w);
    reports(&mut w, off());
    assert_eq!((w.nodes_of("a.loader-1"), worths(&w)), (1, before));
}

#[test]
fn loaders_live_with_their_trainer_and_through_a_start_of_control() {
    let mut w = world(config());
    submit(&mut w, with_loaders("a", &|_| ())).unwrap();
    let record = w.controller.record(&trainer("a.loader-1")).unwrap();
    let Launch::Command(Program {
        program,
        args,
        elastic,
        ..
    }) = &record.spec.launch
    else {
        panic!("a loader runs a program");
    };
    let file = "/scratch/a.loaders.json";
    assert_eq!((program.as_str(), elastic), ("python3", &Elastic::Restart));
    assert_eq!(args[..4], ["-m", "lacuna.loader", "--join", file]);
    assert_eq!(args[args.len() - 2..], ["--", "train"]);
    apply(&mut w, &[("a", &[4])]);
    let Action::Run(assignment) = &w.commands[&node(4)].action else {
        panic!("it runs");
    };
    let Launch::Command(Program { env, .. }) = &*assignment.launch else {
        panic!("it has a program");
    };
    assert_eq!(env.get("LACUNA_LOADERS").map(String::as_str), Some(file));
    reports(&mut w, waiting(0));
    apply(&mut w, &[("a", &[4]), ("a.loader-1", &[0])]);
    w.restart_control();
    w.snapshot();
    w.deliver(usize::MAX);
    assert_eq!(w.nodes_of("a.loader-1"), 1);
    // Its program is killed, and starts again elsewhere.
    w.exit(&node(0), 137);
    w.deliver(usize::MAX);
    w.pass(Span::from_secs(5));
    w.input(Input::Timer);
    w.deliver(usize::MAX);
    assert_eq!(w.nodes_of("a.loader-1"), 0);
    apply(&mut w, &[("a", &[4]), ("a.loader-1", &[0])]);
    let loader = w.controller.record(&trainer("a.loader-1")).unwrap();
    assert_eq!((loader.nodes.len(), loader.run.0), (1, 3));
    assert_ne!(loader.nodes, [node(0)]);
    // The trainer loses its node: nothing is loaded for it.
    w.close(4);
    w.deliver(usize::MAX);
    w.input(Input::Timer);
    assert_eq!(w.nodes_of("a.loader-1"), 0);
    w.input(Input::Cancel(trainer("a")));
    w.deliver(usize::MAX);
    for n in 1..=3 {
        let record = w
            .controller
            .record(&trainer(&format!("a.loader-{n}")))
            .unwrap();
        assert_eq!(record.phase, Phase::Cancelled);
    }
    assert!(w.leases.values().all(|(owner, _)| owner.is_none()));
}

#[test]
fn loaders_take_no_place_of_trainers() {
    let mut config = config();
    config.control.max_parallel = 2;
    let mut w = world(config);
    submit(&mut w, with_loaders("a", &|_| ())).unwrap();
    submit(&mut w, spec("b", 1, 2, Work::UntilExit)).unwrap();
    let phase = w.record("b").phase;
    assert_eq!(phase, Phase::Active);
}

#[test]
fn loaders_that_could_not_serve_are_refused_with_a_remedy() {
    let refused = |change: &dyn Fn(&mut Launch)| {
        submit(&mut world(config()), with_loaders("a", change)).unwrap_err()
    };
    assert!(refused(&|launch| *launch = Launch::Simulated).contains("is not regroup"));
    let error = refused(&|launch| *launch = regrouping());
    assert!(error.contains("set it, or LACUNA_LOADERS"), "{error}");
    // The helper's pilots serve the trainer that its owner has signed. One without loaders is admitted.
    let by_helper = || {
        let mut config = config();
        config.on_demand = Some(OnDemand {
            agent_wait: Span::from_secs(60),
            rest: Span::from_secs(60),
            start: Span::from_secs(10),
        });
        world(config)
    };
    let error = submit(&mut by_helper(), with_loaders("a", &|_| ())).unwrap_err();
    assert!(error.contains("start loaders by hand"), "{error}");
    submit(&mut by_helper(), spec("a", 1, 2, Work::UntilExit)).unwrap();
    let mut w = world(config());
    w.input(Input::Kinds(NodeKinds::new(
        [(node(4), kind("gpu"))].into(),
    )));
    let error = submit(&mut w, with_loaders("a", &|_| ())).unwrap_err();
    assert!(error.contains("no node is of kind cpu"), "{error}");
    let mut foreign = with_loaders("b", &|_| ());
    foreign.kinds = foreign
        .kinds
        .with_loading(Loading::For(trainer("a")))
        .unwrap();
    let error = submit(&mut world(config()), foreign).unwrap_err();
    assert!(error.contains("control itself"), "{error}");
    let long = "x".repeat(60);
    let error = submit(&mut world(config()), with_loaders(&long, &|_| ())).unwrap_err();
    assert!(error.contains("choose a shorter one"), "{error}");
}

#[test]
fn between_replayed_numbers_readers_share_the_time_of_a_batch() {
    let one = |(workers, step)| StepWithWorkers { workers, step };
    let costs = StepCosts {
        members: 2,
        workers: 1,
        replayed: 0.160,
        loaders: [(1, 0.160), (2, 0.080), (4, 0.040)].map(one).to_vec(),
        ..step_costs(None)
    };
    let at = |workers| costs.step_with(workers).unwrap();
    assert!((at(3.0) - 0.160 / 3.0).abs() < 1e-9 && at(9.0) == 0.040);
    // Two processes serve two members in turn: one more reader for each.
    let gains = costs.loader_gains(2, 2);
    assert!(
        gains.len() == 2 && gains.iter().all(|gain| (gain - 1.0).abs() < 1e-9),
        "{gains:?}"
    );
    let untrusted = StepCosts {
        trusted: false,
        ..costs
    };
    assert!(untrusted.loader_gains(2, 2).is_empty());
}
