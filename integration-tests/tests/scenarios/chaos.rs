//! `kill -9` of each service in turn, and of nats-server: the run goes on, no node has two
//! owners, no sample is counted twice.

use std::time::Duration;

use lacuna_cli::Config;
use lacuna_model::{
    Distance, HoleRecord, NodeId, RescaleCost, ScalingCurve, Span, Timestamp, TrainerId,
};
use lacuna_model::{Launch, TrainerSpec, Work};
use lacuna_scheduler::ingest::{Recording, RecordingPace};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::cluster::{Cluster, SERVICES};
use super::monitor::Monitor;

const SEED: u64 = 7;
const NODES: usize = 64;
/// Recorded seconds a second.
const RATE: f64 = 120.0;

/// Holes that come and go at random on a small machine for three hours.
fn holes(rng: &mut ChaCha8Rng) -> Vec<HoleRecord> {
    let mut records = Vec::new();
    for n in 0..NODES {
        let node = NodeId::new(format!("n{n:03}")).unwrap();
        let mut at = rng.random_range(0..600);
        while at < 3 * 3600 {
            let until = at + rng.random_range(120..1800);
            records.push(HoleRecord {
                node: node.clone(),
                from: Timestamp::from_unix(1_700_000_000 + at),
                until: Timestamp::from_unix(1_700_000_000 + until),
                censored: false,
            });
            at = until + rng.random_range(60..900);
        }
    }
    records
}

fn trainer(n: u32) -> TrainerSpec {
    TrainerSpec {
        id: TrainerId::new(format!("t{n}")).unwrap(),
        owner: None,
        weight: None,
        deadline: None,
        priority: 0,
        submit: Timestamp::from_unix(1_700_000_000),
        min_nodes: 1,
        max_nodes: 16,
        distance: Distance::default(),
        kinds: lacuna_model::KindRates::default(),
        throughput: ScalingCurve::new([(1, 100.0), (4, 370.0), (16, 1300.0)]).unwrap(),
        objective: None,
        rescale: RescaleCost {
            up_s: 18.0,
            down_s: 12.0,
            start_s: None,
        },
        work: Work::Samples(1e9),
        launch: Launch::Simulated,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_9_of_each_service_in_turn_and_of_nats() {
    println!("seed {SEED}");
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("holes.csv");
    let mut text = "node,idle_from,idle_until,censored\n".to_owned();
    let mut records = holes(&mut rng);
    records.sort_by_key(|r| (r.from, r.node.clone()));
    for r in &records {
        let (from, until) = (r.from.unix_ms() / 1000, r.until.unix_ms() / 1000);
        text.push_str(&format!("{},{from},{until},0\n", r.node));
    }
    std::fs::write(&path, text).unwrap();

    let mut config = Config::default();
    config.ingest.recording = Some(Recording {
        path,
        planned_file: None,
        nodes_file: None,
        first_nodes: None,
        pace: RecordingPace::Scaled,
        rate: RATE,
        start: None,
        end: None,
    });
    config.ingest.snapshot_every = Span::from_secs(1);
    config.control.renew_every = Span::from_secs(1);
    config.control.reconcile_every = Span::from_secs(1);
    config.control.silent_after = Span::from_secs(5);
    config.agent.dead_man = Span::from_secs(30);
    config.agent.report_every = Span::from_secs(1);
    let mut cluster = Cluster::new(config).await;
    let monitor = Monitor::start(&cluster.bus).await;
    for service in SERVICES {
        if service == "ingest" {
            cluster.submit((0..5).map(trainer).collect()).await;
        }
        cluster.start(service);
    }
    work_goes_on(&mut cluster, 0.0, "at the start").await;
    for service in SERVICES {
        let before = cluster.totals().await;
        cluster.kill(service);
        tokio::time::sleep(Duration::from_millis(1500)).await;
        cluster.start(service);
        println!("killed {service} at {:.0} samples", before.samples);
        work_goes_on(&mut cluster, before.samples, service).await;
    }
    let before = cluster.totals().await;
    cluster.nats.kill();
    tokio::time::sleep(Duration::from_secs(2)).await;
    cluster.nats.restart();
    println!("killed nats-server at {:.0} samples", before.samples);
    work_goes_on(&mut cluster, before.samples, "nats-server").await;

    // Few reports may be missing, and of each incarnation at most the last: see `Bounds::least`.
    // The records come after the reports, and a busy machine may take a while to count these.
    let all_bounds: Vec<_> = (0..5).map(|n| monitor.bounds(&trainer(n).id)).collect();
    let due: f64 = all_bounds.iter().map(|bounds| bounds.due).sum();
    let mut records = cluster.trainers().await;
    for _ in 0..60 {
        if records.iter().map(|record| record.samples()).sum::<f64>() > 0.95 * due {
            break;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        records = cluster.trainers().await;
    }
    let seen = monitor.check(&records);
    println!("{} plans, {} commands", seen.plans, seen.commands);
    let counted = |n: u32| {
        let id = trainer(n).id;
        let record = records.iter().find(|r| r.spec.id == id);
        record.map_or(0.0, |r| r.samples())
    };
    let pairs: Vec<_> = (0..).map(counted).zip(all_bounds).collect();
    for (counted, bounds) in &pairs {
        println!("{counted:.0} samples counted, {bounds:.0?} by the reports");
    }
    assert_eq!(seen.violations, Vec::<String>::new(), "{}", cluster.logs());
    assert!(
        seen.commands > 100,
        "only {} commands: nothing was tested",
        seen.commands
    );
    let counted: f64 = pairs.iter().map(|(counted, _)| counted).sum();
    assert!(
        counted > 0.95 * due,
        "{counted} samples counted, {due} by the reports\n{}",
        cluster.logs()
    );
    for (counted, bounds) in pairs {
        assert!(
            counted >= bounds.least * (1.0 - 1e-9),
            "{counted} samples counted, {bounds:?} by the reports\n{}",
            cluster.logs()
        );
    }
}

/// Waits until control counts more work than before: two steps of new reports after the fault.
async fn work_goes_on(cluster: &mut Cluster, before: f64, after_what: &str) {
    let mut best = before;
    for round in 0..2 {
        let mut moved = false;
        for _ in 0..60 {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let now = cluster.totals().await.samples;
            assert!(
                now >= best * (1.0 - 1e-9),
                "samples went back from {best} to {now} after {after_what}"
            );
            if now > best + 100.0 {
                best = now;
                moved = true;
                break;
            }
        }
        assert!(
            moved,
            "round {round}: no work after {after_what}\n{}",
            cluster.logs()
        );
    }
}
