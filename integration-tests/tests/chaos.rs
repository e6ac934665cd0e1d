//! Fault injection: every fault for every service while the main scheduler goes on, with a checker
//! over the recorded history. `make chaos` is the long form.

mod bad_histories;
mod check;
mod cluster;
mod faults;
mod frames;
mod history;
mod jump;
mod leads;
mod numbers;
mod place;
mod proxy;
mod table;
mod takeover;
mod virtual_world;
mod workload;
mod world;

use lacuna_runtime::Stopwatch;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use check::Checker;
use cluster::{Cluster, converge, record_counts};
use faults::{Fault, Target, inject, matrix};
use table::{Outcome, Table};
use world::World;

/// After a fault everything agrees again within this time, seconds.
const LIMIT_S: f64 = 45.0;

fn number(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.and_then(|t| t.parse().ok()).unwrap_or(default)
}

/// Injects the faults one after the other, and checks the history after each.
async fn run(
    nodes: usize,
    seed: u64,
    choose: impl Fn(Vec<(Fault, Target)>) -> Vec<(Fault, Target)>,
) -> Table {
    println!("seed {seed}");
    let whole = Stopwatch::start();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut world = World::start(nodes, seed).await;
    println!("{nodes} nodes, all in order after {:.1} s", whole.seconds());
    let mut all = matrix(&world);
    all.shuffle(&mut rng);
    let mut table = Table::new(seed);
    let list = choose(all);
    let count = list.len();
    let mut checker = Checker::default();
    for (n, (fault, target)) in list.into_iter().enumerate() {
        let since = Stopwatch::start();
        inject(&mut world, fault, target, &mut rng).await;
        let lasted = since.seconds();
        // Only this fault loses acknowledged messages.
        let forgetful = matches!(fault, Fault::Emptied);
        let settled = converge(&mut world, LIMIT_S, forgetful).await;
        checker.read(&world.recorder.writer.since(checker.read));
        let mut wrong = checker.found();
        if let Err(why) = &settled {
            wrong.push(format!("not in order after {LIMIT_S} s: {why}"));
        }
        let took = settled.as_ref().map_or(LIMIT_S, |s| *s);
        println!(
            "seed {seed} {:>3}/{count}  {:<18} {target:<9} {lasted:>5.1} s, in order after {took:>5.1} s{}",
            n + 1,
            table::name(fault),
            if wrong.is_empty() { "" } else { "  VIOLATED" }
        );
        for text in &wrong {
            println!("         {text}");
        }
        let failed = settled.is_err();
        table.add(Outcome {
            seed,
            fault,
            target,
            converged_s: took,
            violations: wrong,
        });
        if failed {
            println!("{}", world.logs());
        }
    }
    record_counts(world.view()).await;
    checker.read(&world.recorder.writer.since(checker.read));
    table.history = checker.read;
    table.late = checker.end();
    table.late.extend(world.panics());
    for process in &world.processes {
        println!("{} ended: {:?}", process.name, process.ends);
    }
    let (said, repeated) = world.workload.said();
    table.events = said;
    table.seconds = whole.seconds();
    println!("{said} changes by the workload, all nodes published again {repeated} times");
    if !table.sound() {
        println!("{}", world.logs());
    }
    table
}

/// A few of the faults: those that hit each service once, and the server.
#[tokio::test(flavor = "multi_thread")]
async fn invariants_hold_after_a_few_faults() {
    let seed = number("LACUNA_CHAOS_SEED", 6);
    let table = run(16, seed, |_| {
        vec![
            (Fault::Kill, "control"),
            (Fault::Stop, "planner"),
            (Fault::Cut, "ingest"),
            (Fault::Lost, "forecast"),
            (Fault::TwoAtOnce, "control"),
            (Fault::Swapped, "agent"),
            (Fault::Kill, "nats"),
            // A new agent, a server that counts from 0 again, and a control that knows only what
            // that server keeps.
            (Fault::Kill, "agent"),
            (Fault::Emptied, "nats"),
            (Fault::Kill, "control"),
        ]
    })
    .await;
    println!("{}", table.text());
    assert!(table.sound(), "{}", table.text());
}

/// The long form: `make chaos`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes some eight minutes: make chaos"]
async fn invariants_hold_after_every_fault() {
    let seeds = std::env::var("LACUNA_CHAOS_SEED").unwrap_or("1".to_owned());
    let count = usize::try_from(number("LACUNA_CHAOS_FAULTS", 70)).unwrap();
    let worlds = seeds.split(',').map(|seed| {
        let seed = seed
            .trim()
            .parse()
            .expect("SEED is a number, or several: 1,2,3");
        let choose = move |all: Vec<_>| all.iter().copied().cycle().take(count).collect();
        tokio::spawn(run(30, seed, choose))
    });
    let worlds: Vec<_> = worlds.collect();
    let mut tables = Vec::new();
    for world in worlds {
        tables.push(world.await.unwrap());
    }
    let table = Table::joined(tables);
    println!("{}", table.text());
    if let Some(path) = std::env::var_os("LACUNA_CHAOS_JSON").filter(|p| !p.is_empty()) {
        std::fs::write(path, table.json()).unwrap();
    }
    assert!(table.sound(), "{}", table.text());
}
