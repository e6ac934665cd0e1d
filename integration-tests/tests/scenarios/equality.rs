//! Two ways to the same figure: the services over NATS, and the replay in virtual time.

use std::time::Duration;

use lacuna_model::{NodeChoice, Policy, Timestamp};
use lacuna_runtime::Config;
use lacuna_runtime::config::{PlannerPolicy, Recording, RecordingPace};
use lacuna_sim::{Hooks, Settings, Trace, replay};
use lacuna_testkit::data_dir;

use super::cluster::{Cluster, SERVICES};

/// The first submission of the recorded trainers, and twelve hours later.
const START: Timestamp = Timestamp::from_unix(1_612_988_475);
const END: Timestamp = Timestamp::from_unix(1_612_988_475 + 12 * 3600);

#[tokio::test(flavor = "multi_thread")]
async fn services_and_replay_do_the_same_work() {
    let Some(data) = data_dir("services_and_replay_do_the_same_work") else {
        return;
    };
    let holes = data.join("summit-2021-02/holes.csv.gz");
    let nodes = data.join("summit-2021-02/nodes.txt");
    let trainers = data.join("summit-2021-02/hpo-1000.jsonl.gz");
    let trainers = lacuna_schedlog::read_trainers(&trainers).unwrap();

    let list = lacuna_schedlog::read_holes(&holes).unwrap();
    let order = lacuna_schedlog::read_nodes(&nodes).unwrap();
    let first = lacuna_schedlog::first_nodes(1024, Some(&order), &list.records);
    let trace = Trace::new(&list.records, Some(&first), START, Some(END));
    let settings = Settings {
        policy: Policy::Dp,
        node_choice: NodeChoice::Together,
        ..Settings::default()
    };
    let mut hooks = Hooks {
        stopwatch: &|| 0.0,
        progress: &mut |_| {},
        save: None,
    };
    let replayed = replay(&trace, &trainers, &settings, None, &mut hooks)
        .unwrap()
        .summary;

    let mut config = Config::default();
    config.ingest.recording = Some(Recording {
        path: holes.canonicalize().unwrap(),
        nodes_file: Some(nodes.canonicalize().unwrap()),
        first_nodes: Some(1024),
        pace: RecordingPace::LockStep,
        rate: 1.0,
        start: Some(START),
        end: Some(END),
    });
    config.planner.policy = PlannerPolicy::Dp;
    config.planner.node_choice = NodeChoice::Together;
    let mut cluster = Cluster::new(config).await;
    for service in SERVICES {
        if service == "ingest" {
            cluster.submit(trainers.clone()).await;
        }
        cluster.start(service);
    }
    cluster.ended(Duration::from_secs(300)).await;
    let totals = cluster.totals().await;

    println!(
        "replay: {:.6e} samples, {} done, {} preemptions, {} rescales over {} events",
        replayed.samples,
        replayed.trainers_done,
        replayed.preemptions,
        replayed.rescales,
        replayed.events
    );
    println!(
        "services: {:.6e} samples, {} done, {} preemptions, {} rescales",
        totals.samples, totals.trainers_done, totals.preemptions, totals.rescales
    );
    let difference = totals.samples / replayed.samples - 1.0;
    assert!(
        difference.abs() < 0.02,
        "the services did {:+.2} % of the replay's work\n{}",
        100.0 * difference,
        cluster.logs()
    );
    assert!(
        totals.trainers_done > 20,
        "only {} trainers ended",
        totals.trainers_done
    );
}
