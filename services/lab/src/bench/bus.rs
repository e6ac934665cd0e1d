//! `lacuna-lab bench bus`: a nats-server, real services, ten thousand nodes, a hundred trainers.

mod churn;
mod cluster;
mod echo;
mod event_tracker;
mod latency;
mod memory;
mod plain_nats;
mod quantiles;
mod scrape;
mod sustained;
mod table;

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use lacuna_cli::Config;
use lacuna_cli::client::Client;
use lacuna_cli::error::{CliError, Result, file_error};
use lacuna_cli::output::{self, JsonArg, progress_bar};
use lacuna_cli::submit_all;
use lacuna_cli::up::{Settings, Supervisor, stop_token};
use lacuna_model::{NodeId, ScalingCurve, Span, TrainerId, TrainerSpec, Work};
use lacuna_runtime::clock::Stopwatch;

use self::churn::Churn;
use self::cluster::{TestCluster, event};
use self::event_tracker::EventTracker;
use self::quantiles::Quantiles;

/// The longest comparison with plain NATS, seconds for each way.
const PLAIN_S: u64 = 20;

/// Arguments of `bench bus`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna-lab bench bus
  lacuna-lab bench bus --together 10
  lacuna-lab bench bus --seconds 10 --nodes 1000 --burst 3000 --samples 20 --json

The benchmark starts its own nats-server and services. Half of the nodes train, the others come and
go. It measures one after the other:
  quiet      from publishing node.idle to the command that starts training there, with the stages
             ingest, forecast, planner and control in the lines below; from node.busy to the first
             command to the rest of the trainer
  bursts     --burst events at once: until the queue keeps them, until the pool includes them
  load       --rate events a second for --seconds: latencies of all events, and of those that take a
             node in training (--hit-share) until a plan includes them and until the stop command
  memory     of each process, once a second; the slope is that of the last two thirds of the load
  plain      the same sizes and rates by NATS alone: publish/subscribe, and into a stream
Each event must be accounted for; the exit code is 1 if one is not. One agent plays all nodes, so
its memory is that of thousands. Rescaling costs nothing, so each hole is worth taking at once.")]
pub(crate) struct BusArgs {
    /// Duration of the steady load
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// Events a second
    #[arg(long, default_value_t = 1000)]
    rate: u32,
    /// Events of one message; schedulers and hooks may send lists
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    together: u32,
    /// Number of samples of each quiet latency
    #[arg(long, default_value_t = 100)]
    samples: u32,
    /// Number of nodes of the machine
    #[arg(long, default_value_t = 10_000)]
    nodes: u32,
    /// Number of trainers, on half of the nodes
    #[arg(long, default_value_t = 100)]
    trainers: u32,
    /// Number of bursts before the steady load
    #[arg(long, default_value_t = 3)]
    bursts: u32,
    /// Number of events of a burst
    #[arg(long, default_value_t = 30_000)]
    burst: u64,
    /// Share of the events that take a node in training
    #[arg(long, default_value_t = 0.002, value_name = "SHARE")]
    hit_share: f64,
    /// Seed of the choice of nodes that come and go
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Keep data and logs in this folder instead of a temporary one
    #[arg(long, value_name = "DIR")]
    data_dir: Option<std::path::PathBuf>,
    #[command(flatten)]
    json: JsonArg,
}

/// All results of the benchmark.
#[derive(Debug, Serialize)]
pub(crate) struct Outcome {
    /// Number of nodes of the machine.
    pub(crate) nodes: u32,
    /// Number of nodes in training.
    pub(crate) training: u32,
    /// Number of trainers.
    pub(crate) trainers: u32,
    /// Seed of the choice of nodes.
    pub(crate) seed: u64,
    /// Events a second.
    pub(crate) rate: u32,
    /// Events of one message.
    pub(crate) together: u32,
    /// Seconds until all services answered.
    pub(crate) start_s: f64,
    /// Seconds until each node in training had its lease.
    pub(crate) fill_s: f64,
    /// Latencies without other load.
    pub(crate) quiet: Vec<Quantiles>,
    /// The results of the bursts.
    pub(crate) bursts: Vec<sustained::Burst>,
    /// The results of the steady load.
    pub(crate) sustained: sustained::Sustained,
    /// The account of all events.
    pub(crate) account: sustained::Account,
    /// The results of NATS alone.
    pub(crate) plain: Vec<plain_nats::Plain>,
    /// Number of times that a service died.
    pub(crate) deaths: u32,
}

fn trainer(number: u32, max_nodes: u32) -> Result<TrainerSpec> {
    let bad = |e: String| CliError::failed(e);
    Ok(TrainerSpec {
        max_nodes,
        work: Work::Samples(1e15),
        ..TrainerSpec::simulated(
            TrainerId::new(format!("bench-{number}")).map_err(|e| bad(e.to_string()))?,
            ScalingCurve::linear(1000.0, max_nodes).map_err(|e| bad(e.to_string()))?,
        )
    })
}

/// Runs all measurements; the number of deaths is added by the caller.
async fn measure(args: &BusArgs, bench: &TestCluster, start_s: f64) -> Result<Outcome> {
    let template = "{msg:24} {wide_bar} {pos}/{len} s of load  {elapsed}";
    let bar = progress_bar(args.json.json, args.seconds, template);
    bar.set_message("filling the nodes");
    let training = bench.nodes.len() as u32;
    let (tracker, listening) = EventTracker::listen(bench).await?;
    let watch = Stopwatch::start();
    let most = training.div_ceil(args.trainers.max(1));
    let trainers = (0..args.trainers)
        .map(|n| trainer(n, most))
        .collect::<Result<Vec<_>>>()?;
    submit_all(&bench.client, trainers, BTreeMap::new(), false).await?;
    bench
        .publish_all(bench.nodes.iter().map(|n| event("node.idle", n)))
        .await?;
    bench.settle(training, training).await?;
    let fill_s = watch.seconds();
    bar.set_message("quiet latencies");
    let mut quiet = latency::measure(bench, args.samples).await?;
    quiet.push(echo::measure(&bench.client, args.samples * 10).await?);
    let churn = Churn::new(&bench.spare, &bench.nodes, args.hit_share, args.seed);
    let mut generator =
        sustained::LoadGenerator::new(bench, &tracker, churn, args.together as usize, &bar).await;
    let mut bursts = Vec::new();
    for number in 1..=args.bursts {
        bar.set_message(format!("burst {number}"));
        bursts.push(generator.burst(args.burst).await?);
    }
    bar.set_message("steady load");
    let load = sustained::Load {
        seconds: args.seconds,
        rate: args.rate,
    };
    let sustained = generator.steady(load).await?;
    let account = generator.account().await;
    drop(listening);
    bar.set_message("plain NATS");
    let short = sustained::Load {
        seconds: load.seconds.min(PLAIN_S),
        ..load
    };
    let plain = plain_nats::measure(&bench.client, args.burst, short).await?;
    bar.finish_and_clear();
    Ok(Outcome {
        nodes: args.nodes,
        training,
        trainers: args.trainers,
        seed: args.seed,
        rate: args.rate,
        together: args.together,
        start_s,
        fill_s,
        quiet,
        bursts,
        sustained,
        account,
        plain,
        deaths: 0,
    })
}

fn names(prefix: &str, count: u32) -> Result<Vec<NodeId>> {
    let name = |i| NodeId::new(format!("{prefix}{i:05}"));
    let names: std::result::Result<_, _> = (0..count).map(name).collect();
    names.map_err(|e| CliError::failed(e.to_string()))
}

/// Runs `bench bus`.
///
/// # Errors
/// A program is missing, a service does not answer, or an event is not accounted for.
pub(crate) async fn run(args: BusArgs) -> Result<()> {
    let stop = stop_token();
    let temporary = tempfile::Builder::new()
        .prefix("lacuna-bench-")
        .tempdir()
        .map_err(|e| file_error("make", &std::env::temp_dir(), &e))?;
    let data_dir = args
        .data_dir
        .clone()
        .unwrap_or_else(|| temporary.path().to_owned());
    let mut config = Config::default();
    config.control.max_parallel = args.trainers;
    config.agent.report_every = Span::from_secs(1);
    let training = args.nodes / 2;
    let (nodes, spare) = (names("n", training)?, names("s", args.nodes - training)?);
    let watch = Stopwatch::start();
    let settings = Settings {
        data_dir: data_dir.clone(),
        config,
        nats_port: None,
    };
    let mut supervisor = Supervisor::start(settings).await?;
    supervisor.start_ingest()?;
    let ready = supervisor.wait_until_ready(Duration::from_secs(30)).await;
    let start_s = watch.seconds();
    let outcome = async {
        ready?;
        let bench = TestCluster {
            client: Client::at(&supervisor.file.nats, &supervisor.file.cluster).await?,
            nodes,
            spare,
            http: supervisor.file.http.clone(),
            data_dir,
        };
        tokio::select! {
            measured = measure(&args, &bench, start_s) => measured,
            e = supervisor.until_failure() => Err(e),
            () = stop.cancelled() => Err(CliError::failed("interrupted")),
        }
    }
    .await;
    let deaths = supervisor.deaths;
    supervisor.stop().await;
    let outcome = Outcome { deaths, ..outcome? };
    if args.json.json {
        output::print_json(&outcome)?;
    } else {
        output::print(&table::table(&outcome))?;
    }
    if outcome.account.holds() && deaths == 0 {
        return Ok(());
    }
    Err(CliError::already_printed())
}
