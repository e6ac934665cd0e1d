//! `lacuna bench bus`: its own nats-server, real services, a thousand nodes, ten trainers.

use std::time::Duration;

use clap::Args;
use serde::Serialize;

use lacuna_model::{
    Launch, NodeId, RescaleCost, ScalingCurve, Span, Timestamp, TrainerId, TrainerSpec, Work,
};
use lacuna_runtime::Config;
use lacuna_runtime::clock::Stopwatch;
use lacuna_wire::msg::{Reply, Request};

use super::{echo, latency, sustained};
use crate::client::{Client, from_bus, unexpected};
use crate::commands::submit::submit_all;
use crate::error::{CliError, Exit, Result, file_error};
use crate::output::{self, JsonArg, latency as seconds, quantile};
use crate::table::{Side, facts, render};
use crate::up::{Family, Settings, stop_token};

/// Arguments of `bench bus`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna bench bus
  lacuna bench bus --seconds 10 --samples 50 --json

It starts its own nats-server and services. Measured are:
  idle -> run      from publishing node.idle to the command that starts training there; ingest,
                   forecast, planner and control are between (each is heard of in the lines below)
  busy -> command  from publishing node.busy to the first command to what is left of the trainer
  echo             the same computer's plain NATS round trip, publish to reply, for comparison
  sustained        --rate events a second for --seconds, counted at every stage; queues are read
                   once a second
Rescaling costs nothing here, so that every hole is worth taking at once.")]
pub(crate) struct BusArgs {
    /// How long the steady load lasts
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Events a second
    #[arg(long, default_value_t = 1000)]
    rate: u32,
    /// Samples of each latency
    #[arg(long, default_value_t = 100)]
    samples: u32,
    /// Nodes in the pool
    #[arg(long, default_value_t = 1000)]
    nodes: u32,
    /// Trainers
    #[arg(long, default_value_t = 10)]
    trainers: u32,
    /// Share of the steady load that hits nodes in training
    #[arg(long, default_value_t = 0.001)]
    preempt_share: f64,
    /// Keep data and logs in this folder, instead of a temporary one
    #[arg(long, value_name = "DIR")]
    data_dir: Option<std::path::PathBuf>,
    #[command(flatten)]
    json: JsonArg,
}

/// Quantiles of one latency, seconds.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Quantiles {
    /// What was measured.
    pub(crate) what: &'static str,
    /// How often.
    pub(crate) samples: usize,
    /// Median.
    pub p50_s: Option<f64>,
    /// 99th percentile.
    pub p99_s: Option<f64>,
    /// Longest.
    pub(crate) max_s: Option<f64>,
}

impl Quantiles {
    /// Of a list in any order.
    #[must_use]
    pub(crate) fn of(what: &'static str, mut list: Vec<f64>) -> Self {
        list.sort_by(f64::total_cmp);
        Self {
            what,
            samples: list.len(),
            p50_s: quantile(&list, 0.5),
            p99_s: quantile(&list, 0.99),
            max_s: list.last().copied(),
        }
    }
}

#[derive(Debug, Serialize)]
struct Outcome {
    nodes: u32,
    trainers: u32,
    latencies: Vec<Quantiles>,
    sustained: sustained::Sustained,
    deaths: u32,
    start_s: f64,
}

/// What both measurements work on.
pub(crate) struct Bench {
    /// The bus.
    pub(crate) client: Client,
    /// The nodes of the pool.
    pub(crate) nodes: Vec<NodeId>,
    /// Addresses of /metrics, by service.
    pub(crate) http: std::collections::BTreeMap<String, String>,
    /// Where up.json is.
    pub(crate) data_dir: std::path::PathBuf,
}

fn trainer(number: u32, max_nodes: u32) -> Result<TrainerSpec> {
    let bad = |e: String| CliError::failed(e);
    Ok(TrainerSpec {
        id: TrainerId::new(format!("bench-{number}")).map_err(|e| bad(e.to_string()))?,
        owner: None,
        weight: None,
        deadline: None,
        priority: 0,
        submit: Timestamp::default(),
        min_nodes: 1,
        max_nodes,
        throughput: ScalingCurve::linear(1000.0, max_nodes).map_err(|e| bad(e.to_string()))?,
        objective: None,
        rescale: RescaleCost {
            up_s: 0.0,
            down_s: 0.0,
        },
        work: Work::Samples(1e15),
        launch: Launch::Simulated,
    })
}

/// One event of this kind.
#[must_use]
pub(crate) fn event(kind: &str, node: &NodeId) -> serde_json::Value {
    serde_json::json!({ "type": kind, "node": node.as_str() })
}

impl Bench {
    /// Publishes events and waits for every acknowledgement.
    ///
    /// # Errors
    /// NATS does not answer.
    pub(crate) async fn publish_all(
        &self,
        events: impl Iterator<Item = serde_json::Value>,
    ) -> Result<()> {
        let mut acks = Vec::new();
        for event in events {
            acks.push(self.client.send_external("bench", &event).await?.1);
        }
        for ack in acks {
            ack.wait().await.map_err(|e| from_bus(&e))?;
        }
        Ok(())
    }

    /// Waits until control has this many nodes in the pool and under leases.
    ///
    /// # Errors
    /// It does not come to that within 30 s.
    pub(crate) async fn settle(&self, pool: u32, leased: u32) -> Result<()> {
        let watch = Stopwatch::start();
        loop {
            let totals = match self.client.ask(Request::Totals).await? {
                Reply::Totals(totals) => totals,
                other => return Err(unexpected(other)),
            };
            if totals.pool_nodes == pool && totals.leased_nodes == leased {
                return Ok(());
            }
            if watch.seconds() > 30.0 {
                return Err(CliError::new(
                    "L0002",
                    Exit::Failed,
                    format!(
                        "after 30 s there are {} nodes in the pool and {} leased: expected {pool} and {leased}",
                        totals.pool_nodes, totals.leased_nodes
                    ),
                ));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

async fn measure(args: &BusArgs, bench: &Bench) -> Result<(Vec<Quantiles>, sustained::Sustained)> {
    // A fifth more than needed, so that every hole finds a taker.
    let most = (args.nodes * 6 / 5).div_ceil(args.trainers.max(1));
    let trainers = (0..args.trainers)
        .map(|n| trainer(n, most))
        .collect::<Result<Vec<_>>>()?;
    submit_all(&bench.client, trainers, false).await?;
    bench
        .publish_all(bench.nodes.iter().map(|n| event("node.idle", n)))
        .await?;
    bench.settle(args.nodes, args.nodes).await?;
    let mut latencies = latency::measure(bench, args.samples).await?;
    latencies.push(echo::measure(&bench.client, args.samples * 10).await?);
    let load = sustained::Load {
        seconds: args.seconds,
        rate: args.rate,
        preempt_share: args.preempt_share,
    };
    let sustained = sustained::measure(bench, load).await?;
    Ok((latencies, sustained))
}

/// Runs `bench bus`.
///
/// # Errors
/// A program is missing or a service does not answer.
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
    let watch = Stopwatch::start();
    let settings = Settings {
        data_dir: data_dir.clone(),
        config,
        nats_port: None,
    };
    let mut family = Family::start(settings).await?;
    family.start_ingest()?;
    let ready = family.wait_until_ready(Duration::from_secs(30)).await;
    let start_s = watch.seconds();
    let nodes = (0..args.nodes)
        .map(|i| NodeId::new(format!("n{i:05}")))
        .collect::<std::result::Result<_, _>>();
    let outcome = async {
        ready?;
        let bench = Bench {
            client: Client::at(&family.file.nats, &family.file.cluster).await?,
            nodes: nodes.map_err(|e| CliError::failed(e.to_string()))?,
            http: family.file.http.clone(),
            data_dir,
        };
        tokio::select! {
            measured = measure(&args, &bench) => measured,
            e = family.until_broken() => Err(e),
            () = stop.cancelled() => Err(CliError::failed("interrupted")),
        }
    }
    .await;
    let deaths = family.deaths;
    family.stop().await;
    let (latencies, sustained) = outcome?;
    let outcome = Outcome {
        nodes: args.nodes,
        trainers: args.trainers,
        latencies,
        sustained,
        deaths,
        start_s,
    };
    if args.json.json {
        output::print_json(&outcome)
    } else {
        output::print(&outcome.table())
    }
}

impl Outcome {
    fn table(&self) -> String {
        let rows: Vec<Vec<String>> = self
            .latencies
            .iter()
            .map(|q| {
                vec![
                    q.what.to_owned(),
                    q.samples.to_string(),
                    seconds(q.p50_s),
                    seconds(q.p99_s),
                    seconds(q.max_s),
                ]
            })
            .collect();
        let columns = [
            ("LATENCY", Side::Left),
            ("SAMPLES", Side::Right),
            ("P50", Side::Right),
            ("P99", Side::Right),
            ("MAX", Side::Right),
        ];
        let s = &self.sustained;
        let mut lines = vec![
            (
                "published",
                format!(
                    "{} events in {:.1} s ({:.0}/s)",
                    s.published,
                    s.seconds,
                    s.published as f64 / s.seconds
                ),
            ),
            ("acknowledged", s.acknowledged.to_string()),
            (
                "numbered",
                format!("{} by ingest, {} gaps in their numbers", s.numbered, s.gaps),
            ),
            (
                "seen",
                format!(
                    "last event {}; newest pool is of event {}, newest plan of {} (none follows if nothing changes)",
                    s.last_seq, s.pool_seq, s.plan_seq
                ),
            ),
            (
                "caught up",
                format!("{} after the last event", seconds(s.catch_up_s)),
            ),
            (
                "queue",
                format!(
                    "at most {} events wait for ingest; pool at most {} events behind",
                    s.queue_max, s.pool_lag_max
                ),
            ),
            ("lost", s.lost.to_string()),
            ("commands", format!("{} in that time", s.commands)),
        ];
        let memory: Vec<String> = s
            .rss_mib
            .iter()
            .map(|(name, (before, after))| format!("{name} {before:.0}->{after:.0}"))
            .collect();
        lines.push(("memory MiB", memory.join(", ")));
        for (name, value) in &s.metrics {
            lines.push((name.as_str(), value.to_string()));
        }
        if self.deaths > 0 {
            lines.push(("restarts", format!("{} services died", self.deaths)));
        }
        format!(
            "{} nodes in the pool, {} trainers\n\n{}\n{}",
            self.nodes,
            self.trainers,
            render(&columns, &rows),
            facts(&lines)
        )
    }
}
