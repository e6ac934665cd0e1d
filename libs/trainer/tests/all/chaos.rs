//! Messages are lost, repeated and delayed, and processes killed. Still each node has one owner,
//! samples count once, and all states agree in the end.

use lacuna_model::{Activity, Elastic, Launch, Phase, Program, Span, Work};
use lacuna_trainer::controller::{Input, Note};
use rand::RngExt;

use crate::common::{Chaos, World, config, node, regrouping, spec};

const NODES: usize = 10;

/// Checks that no sample counts twice. The world checks its other rules at every write.
fn counted_once(world: &World, seed: u64) {
    for record in world.controller.records(true) {
        let most: f64 = world
            .most
            .iter()
            .filter(|((id, _), _)| *id == record.spec.id)
            .map(|(_, most)| most)
            .sum();
        assert!(
            record.samples() <= most + 1e-6,
            "seed {seed}: {} has {} samples, its runs reported {most}",
            record.spec.id,
            record.samples()
        );
    }
}

fn agreed(world: &World, seed: u64) {
    for (id, (owner, epoch)) in &world.leases {
        let status = world.agents[id].status();
        match owner {
            None => assert_eq!(status.activity, Activity::Free, "seed {seed}: {id}"),
            Some(owner) => {
                let record = world.controller.record(owner).unwrap();
                assert!(world.pool.contains_key(id), "seed {seed}: {id} is no hole");
                let measured = record.measured.as_ref();
                if measured.is_some_and(|measured| measured.parked.contains(id)) {
                    let running = matches!(status.activity, Activity::Running { .. });
                    assert!(!running, "seed {seed}: {id} trains aside");
                    continue;
                }
                assert!(
                    record.nodes.contains(id),
                    "seed {seed}: {id} held for nothing: {record:?}, {status:?}"
                );
                assert_eq!(status.epoch, *epoch, "seed {seed}: {id}");
                assert_eq!(
                    status.activity,
                    Activity::Running {
                        trainer: owner.clone(),
                        run: record.run
                    },
                    "seed {seed}: {id}"
                );
            }
        }
    }
    for record in world.controller.records(true) {
        let (n, min) = (record.nodes.len(), record.spec.min_nodes as usize);
        assert!(
            n == 0 || n >= min,
            "seed {seed}: {} has {n} nodes",
            record.spec.id
        );
    }
    assert_eq!(world.controller.unacknowledged(), 0, "seed {seed}");
}

/// Plays one seed; a failing one prints it.
fn play(seed: u64) -> World {
    println!("seed {seed}");
    let mut config = config();
    config.control.max_parallel = 3;
    config.control.profile.share = 1.0;
    let mut world = World::new(seed, NODES, config);
    world.snapshot();
    let mut specs = vec![
        spec("a", 1, 4, Work::Samples(20_000.0)),
        spec("b", 2, 8, Work::UntilExit),
        spec("c", 1, 8, Work::Samples(2_000.0)),
        spec("d", 3, 5, Work::UntilExit),
    ];
    if seed % 2 == 1 {
        for spec in &mut specs[1..3] {
            spec.launch = regrouping();
        }
    }
    let tries = seed % 4 >= 2;
    if tries {
        for spec in &mut specs[1..4] {
            spec.launch = regrouping();
            if let Launch::Command(Program {
                profile, elastic, ..
            }) = &mut spec.launch
            {
                *profile = true;
                if seed % 4 == 2 {
                    *elastic = Elastic::Restart;
                }
            }
        }
    }
    world.submit("", specs);
    world.chaos = Chaos {
        lose: 15,
        repeat: 20,
        reorder: 30,
    };
    for _ in 0..300 {
        let n = world.rng.random_range(0..NODES);
        match world.rng.random_range(0..100) {
            0..20 => world.open(n),
            20..28 => world.close(n),
            28..45 => world.random_plan(),
            45..60 => {
                let seconds = world.rng.random_range(0..8);
                world.pass(Span::from_secs(seconds));
                world.renew();
                world.input(Input::Timer);
            }
            60..65 => world.report_all(),
            65..68 => world.statuses(),
            68..70 => world.crash_control(),
            70..72 => world.crash_agent(&node(n)),
            72 => world.exit(&node(n), 1),
            73 => {
                world.input(Input::Disconnected);
                world.pass(Span::from_secs(20));
                world.input(Input::Connected);
            }
            74 => world.snapshot(),
            _ => {
                let most = world.rng.random_range(1..10);
                world.deliver(most);
            }
        }
        if tries {
            // Measuring takes reports.
            world.pass(Span::from_secs(1));
            world.renew();
            world.report_all();
            world.deliver(4);
        }
        counted_once(&world, seed);
    }
    world.quiesce();
    counted_once(&world, seed);
    agreed(&world, seed);
    world
}

#[test]
fn one_owner_counted_once_and_all_converge() {
    let (mut preemptions, mut conflicts, mut done, mut replaced) = (0, 0, 0, 0);
    let mut tried = 0;
    for seed in 0..400 {
        let world = play(seed);
        let tally = world.controller.tally();
        preemptions += tally.preemptions;
        done += world
            .controller
            .records(true)
            .iter()
            .filter(|r| r.phase == Phase::Done)
            .count();
        replaced += world
            .notes
            .iter()
            .filter(|n| {
                matches!(
                    n,
                    lacuna_trainer::controller::Note::Run {
                        cause: "replaced",
                        ..
                    }
                )
            })
            .count();
        let probe = |note: &&Note| matches!(note, Note::Probe { nodes, of, .. } if nodes < of);
        tried += world.notes.iter().filter(probe).count();
        conflicts += world
            .notes
            .iter()
            .filter(|n| matches!(n, lacuna_trainer::controller::Note::LeaseConflict { .. }))
            .count();
    }
    println!(
        "400 seeds: {preemptions} preemptions, {conflicts} conflicts, {done} done, {replaced} \
         steps of trainers on other nodes"
    );
    // Without faults this test would prove nothing.
    println!("{preemptions} preemptions, {conflicts} conflicts, {done} done, {replaced} replaced");
    assert!(tried > 40, "{tried} sizes tried");
    assert!(preemptions > 400 && conflicts > 20 && done > 20 && replaced > 50);
}
