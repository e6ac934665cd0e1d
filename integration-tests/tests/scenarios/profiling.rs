//! A real network without a curve is measured while it trains: PyTorch by `regroup`, one process
//! a node, all on this machine. With `LACUNA_PROFILE_TABLE=SECONDS` every count is measured for so
//! long by itself too, and a table compares the two.
//!
//! `LACUNA_PROFILE_TABLE=24 make test ARGS="the_curve_of_a_real -- --nocapture"` prints the table
//! for a convolutional network, one to four processes by gloo on a machine of two cores on which
//! other work ran. In two runs the curve was off by 6 to 30 % from 24 s at each count alone, whose
//! own reports spread by 5 to 20 %: such a machine is no steadier. The 40 and 91 node-seconds that
//! it took compare with 144.

use std::collections::BTreeMap;
use std::time::Duration;

use lacuna_cli::Config;
use lacuna_model::{
    Basis, Elastic, Launch, MeasuredRate, Phase, Program, RescaleCost, ScalingCurve, Span,
    TrainerId, TrainerRecord, TrainerSpec,
};
use lacuna_rates::Rates;
use lacuna_testkit::or_skip;
use lacuna_wire::msg::{Reply, Request};

use super::cluster::{Cluster, SERVICES};
use super::program::publish;
use super::torch::{package, python};

const NODES: u32 = 4;

async fn cluster(nodes: u32, share: f64) -> Cluster {
    let mut config = Config::default();
    config.control.renew_every = Span::from_secs(1);
    config.control.reconcile_every = Span::from_ms(500);
    config.control.store = Some("127.0.0.1:0".to_owned());
    config.control.profile.share = share;
    config.planner.objective = "scaling-efficiency".to_owned();
    config.control.profile.longest = Span::from_secs(30);
    config.agent.report_every = Span::from_secs(1);
    config.agent.hang_after = Span::from_secs(30);
    let mut cluster = Cluster::new(config).await;
    for service in SERVICES {
        cluster.start(service);
    }
    for n in 1..=nodes {
        publish(&cluster, n, "node.idle", &format!("n{n}")).await;
    }
    cluster
}

fn network(python: &str, name: &str, nodes: (u32, u32)) -> TrainerSpec {
    // A step with much to compute, so that more processes are faster.
    let own = ["--epochs", "100000", "--batch", "256", "--size", "64"];
    let script = package().join("examples/cnn_images.py");
    let args = std::iter::once(script.display().to_string());
    let path = package().join("src").display().to_string();
    TrainerSpec {
        min_nodes: nodes.0,
        max_nodes: nodes.1,
        rescale: RescaleCost::of(0.5, 0.5),
        launch: Launch::Command(Program {
            program: python.to_owned(),
            args: args.chain(own.map(str::to_owned)).collect(),
            env: BTreeMap::from([
                ("PYTHONPATH".to_owned(), path),
                ("OMP_NUM_THREADS".to_owned(), "1".to_owned()),
            ]),
            profile: true,
            family: Some(name.to_owned()),
            elastic: Elastic::REGROUP,
            ..Program::default()
        }),
        ..TrainerSpec::simulated(
            TrainerId::new(name).unwrap(),
            ScalingCurve::linear(1.0, nodes.1).unwrap(),
        )
    }
}

async fn wait(
    cluster: &Cluster,
    (name, what): (&str, &str),
    seconds: u64,
    wanted: impl Fn(&TrainerRecord) -> bool,
) -> TrainerRecord {
    let mut seen = None;
    for _ in 0..seconds * 5 {
        let all = cluster.trainers().await;
        let record = all.into_iter().find(|r| r.spec.id.as_str() == name);
        let record = record.unwrap();
        assert!(record.phase != Phase::Failed, "{record:?}");
        if wanted(&record) {
            return record;
        }
        seen = Some(record);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    panic!("{name} not {what}: {seen:?}\n{}", cluster.logs());
}

fn rates(record: &TrainerRecord) -> Vec<MeasuredRate> {
    let measured = record.measured.as_deref();
    measured.map_or_else(Vec::new, |m| m.rates.clone())
}

fn counts(record: &TrainerRecord) -> Vec<u32> {
    rates(record).iter().map(|rate| rate.nodes).collect()
}

async fn cancel(cluster: &Cluster, name: &str) {
    let trainer = TrainerId::new(name).unwrap();
    cluster.ask(&Request::Cancel { trainer }).await;
    wait(cluster, (name, "over"), 60, |r| r.phase == Phase::Cancelled).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_curve_of_a_real_network_is_measured_while_it_trains() {
    let python = or_skip!(python());
    let table = std::env::var("LACUNA_PROFILE_TABLE").ok();
    let seconds = table.and_then(|text| text.parse::<f64>().ok());
    // Two sizes suffice for the test; the table takes four processes.
    let nodes = if seconds.is_some() { NODES } else { 2 };
    let cluster = cluster(nodes, 1.0).await;
    let spec = network(&python, "unknown", (1, nodes));
    cluster.submit(vec![spec]).await;
    let sizes: Vec<u32> = [1, 2, 4].into_iter().filter(|n| *n <= nodes).collect();
    let online = wait(&cluster, ("unknown", "measured"), 300, |record| {
        let known = counts(record);
        let whole = record.nodes.len() as u32 == nodes && record.samples_run > 0.0;
        sizes.iter().all(|n| known.contains(n)) && whole
    })
    .await;
    let measured = online.measured.as_deref().unwrap();
    assert!(measured.parked.is_empty() && measured.spent_node_s > 0.0);
    assert!(rates(&online).iter().all(|rate| rate.count >= 2));
    assert_eq!((online.failures, online.preemptions), (0, 0));
    for rate in rates(&online) {
        let least = rates(&online)[0].rate;
        let at = Rates::of(&online).curve().at(rate.nodes);
        assert!((at - rate.rate.max(least)).abs() <= 0.06 * at, "{online:?}");
    }
    cancel(&cluster, "unknown").await;
    if let Some(seconds) = seconds {
        compare(&cluster, &python, &online, seconds).await;
    }
}

/// Measures each count for some seconds, and prints the online measurement beside it.
async fn compare(cluster: &Cluster, python: &str, online: &TrainerRecord, seconds: f64) {
    println!("nodes   curve  online  spread  times  alone  spread  times  error");
    let mut spent = 0.0;
    for n in 1..=NODES {
        let name = format!("alone-{n}");
        let spec = network(python, &name, (n, n));
        cluster.submit(vec![spec]).await;
        let enough = seconds as u32;
        let alone = wait(cluster, (&name, "measured"), 600, |record| {
            let pairs = rates(record).first().map_or(0, |rate| rate.count);
            pairs >= enough.min(24)
        })
        .await;
        spent += f64::from(NODES - n) * seconds;
        let alone = rates(&alone)[0].clone();
        let curve = Rates::of(online).curve().at(n);
        let measured = rates(online).into_iter().find(|rate| rate.nodes == n);
        let measured = measured.map_or_else(
            || format!("{:>6}  {:>6}  {:>5}", "-", "-", "-"),
            |m| format!("{:6.0}  {:6.0}  {:5}", m.rate, m.spread, m.count),
        );
        println!(
            "{n:5}  {curve:6.0}  {measured}  {:5.0}  {:6.0}  {:5}  {:+.1} %",
            alone.rate,
            alone.spread,
            alone.count,
            100.0 * (curve - alone.rate) / alone.rate
        );
        cancel(cluster, &name).await;
    }
    let online = online.measured.as_deref().unwrap();
    println!(
        "node-seconds idle or stalled: {:.0} online, {spent:.0} with each count alone; growing costs \
         {:?}, shrinking {:?}",
        online.spent_node_s, online.up, online.down
    );
}

/// A step of two members: 20 ms of computing, and 80 ms of a link that one member does not need. The
/// batch is that of the whole group.
const STEPS: &str = r#"
zero=0; ready=20000; end=100000
for i in 1 2 3 4 5 6 7; do zero="$zero,0"; ready="$ready,20000"; end="$end,100000"; done
rank() {
    printf '{"rank":%s,' "$1"
    for list in wait hand prep fetch update rest; do printf '"%s":[%s],' "$list" "$zero"; done
    printf '"ready":[[%s]],"done":[[%s]]}' "$ready" "$end"
}
case $LACUNA_WORLD_SIZE in
1) more=25 stalls= ;;
*) more=10 stalls=",\"stalls\":{\"version\":1,\"members\":2,\"workers\":0,\"depth\":1,\"follows\":\"whole\""
   stalls="$stalls,\"bytes\":[1000],\"ranks\":[$(rank 0),$(rank 1)]}" ;;
esac
"#;

/// Rank 0 reports its samples, that they are saved, and where the time of a step goes.
const REPORTS: &str = r#"
trap 'exit 0' TERM
n=0
while :; do
    sleep 0.1
    [ "$LACUNA_RANK" = 0 ] || continue
    n=$((n + more))
    echo "{\"t\":$(date +%s),\"samples\":$n,\"world_size\":$LACUNA_WORLD_SIZE,\"checkpoint\":\"c\"$stalls}" >> "$LACUNA_PROGRESS_FILE"
done
"#;

/// Two nodes were tried, and one was not. It does more there by the replay of a step, so the plan takes
/// a node away and gives it to another trainer.
#[tokio::test(flavor = "multi_thread")]
async fn a_replayed_step_changes_the_plan_for_a_size_that_was_never_tried() {
    let cluster = cluster(4, 0.0).await;
    let mut narrow = network("/bin/sh", "narrow", (1, 2));
    if let Launch::Command(Program {
        args,
        env,
        checkpoint_dir,
        elastic,
        ..
    }) = &mut narrow.launch
    {
        *args = vec!["-c".to_owned(), format!("{STEPS}{REPORTS}")];
        env.clear();
        *checkpoint_dir = Some(std::env::temp_dir().display().to_string());
        *elastic = Elastic::Restart;
    }
    let mut wide = network("", "wide", (1, 4));
    wide.throughput = ScalingCurve::new([(1, 10.0), (2, 19.0), (3, 27.0), (4, 34.0)]).unwrap();
    wide.launch = Launch::Simulated;
    loop {
        let all = cluster.ask(&Request::Nodes).await;
        if matches!(all, Reply::Nodes { nodes, .. } if nodes.len() == 4) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    cluster.submit(vec![narrow, wide]).await;
    let tried = wait(&cluster, ("narrow", "measured"), 60, |record| {
        counts(record) == [2]
    })
    .await;
    assert_eq!(tried.failures, 0);
    let left = wait(&cluster, ("narrow", "on one node"), 60, |record| {
        record.nodes.len() == 1
    })
    .await;
    assert_eq!(counts(&left), [2], "one node was tried");
    let measured = left.measured.as_deref().unwrap();
    assert!(matches!(
        measured.basis(1),
        Basis::Replayed { nodes: 2, .. }
    ));
    let rates = Rates::of(&left);
    let curve = rates.curve();
    assert!((curve.at(1) / curve.at(2) - 2.5).abs() < 0.1, "{curve:?}");
    wait(&cluster, ("wide", "on three nodes"), 60, |record| {
        record.nodes.len() == 3
    })
    .await;
    for name in ["narrow", "wide"] {
        cancel(&cluster, name).await;
    }
}
