//! A steady load of events, counted at every stage.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use lacuna_model::{EventKind, NodeId};
use lacuna_runtime::clock::Stopwatch;
use lacuna_wire::address;

use super::bus::{Bench, event};
use super::scrape::{exposition, rss_mib, value};
use crate::error::{CliError, Result};
use crate::up::RuntimeFile;

/// The load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    /// For how long.
    pub(crate) seconds: u64,
    /// Events a second.
    pub(crate) rate: u32,
    /// Share of them that hits nodes in training.
    pub(crate) preempt_share: f64,
}

/// What became of the load.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Sustained {
    /// Wall-clock seconds of publishing.
    pub(crate) seconds: f64,
    /// Events published.
    pub(crate) published: u64,
    /// Events that NATS has acknowledged.
    pub(crate) acknowledged: u64,
    /// Numbered events that came out of ingest.
    pub(crate) numbered: u64,
    /// Jumps in their numbers.
    pub(crate) gaps: u64,
    /// Published but never numbered.
    pub(crate) lost: i64,
    /// Number of the last event.
    pub(crate) last_seq: u64,
    /// The last event in the newest pool.
    pub(crate) pool_seq: u64,
    /// The last event in the newest plan.
    pub(crate) plan_seq: u64,
    /// Seconds from the last publish until the pool includes it; none if it never does.
    pub(crate) catch_up_s: Option<f64>,
    /// Most events that waited for ingest at a reading.
    pub(crate) queue_max: u64,
    /// Most events that the pool was behind at a reading.
    pub(crate) pool_lag_max: u64,
    /// Commands sent meanwhile.
    pub(crate) commands: u64,
    /// Resident memory of each process before and after, MiB.
    pub(crate) rss_mib: BTreeMap<String, (f64, f64)>,
    /// What the services counted meanwhile: difference of their metrics.
    pub(crate) metrics: BTreeMap<String, f64>,
}

/// Metrics whose growth is shown, by service.
const COUNTED: [(&str, &str); 10] = [
    ("ingest", "lacuna_ingest_events_total"),
    ("forecast", "lacuna_forecast_events_total"),
    ("forecast", "lacuna_forecast_gaps_total"),
    ("control", "lacuna_control_events_total"),
    ("control", "lacuna_control_preemptions_total"),
    ("planner", "lacuna_planner_plans_total"),
    ("ingest", "lacuna_bus_slow_consumers_total"),
    ("forecast", "lacuna_bus_slow_consumers_total"),
    ("control", "lacuna_bus_slow_consumers_total"),
    ("planner", "lacuna_bus_slow_consumers_total"),
];

#[derive(Default)]
struct Counts {
    numbered: AtomicU64,
    gaps: AtomicU64,
    last: AtomicU64,
    commands: AtomicU64,
    pool: AtomicU64,
    plan: AtomicU64,
}

/// Listens to what comes out.
async fn listen(bench: &Bench, counts: &Arc<Counts>) -> Result<tokio::task::JoinSet<()>> {
    let cluster = bench.client.cluster().clone();
    let mut tasks = tokio::task::JoinSet::new();
    let mut events = bench.client.listen(&address::event(&cluster)).await?;
    let mut commands = bench.client.listen(&address::commands(&cluster)).await?;
    let mut pools = bench.client.listen(&address::pool(&cluster)).await?;
    let mut plans = bench.client.listen(&address::plan(&cluster)).await?;
    let c = Arc::clone(counts);
    tasks.spawn(async move {
        while let Some(event) = events.next().await {
            if matches!(event.kind, EventKind::Snapshot { .. }) {
                continue;
            }
            let before = c.last.swap(event.seq, Ordering::Relaxed);
            if before != 0 && event.seq != before + 1 {
                c.gaps.fetch_add(1, Ordering::Relaxed);
            }
            c.numbered.fetch_add(1, Ordering::Relaxed);
        }
    });
    let c = Arc::clone(counts);
    tasks.spawn(async move {
        while commands.next().await.is_some() {
            c.commands.fetch_add(1, Ordering::Relaxed);
        }
    });
    let c = Arc::clone(counts);
    tasks.spawn(async move {
        while let Some(pool) = pools.next().await {
            c.pool.store(pool.pool.seq, Ordering::Relaxed);
        }
    });
    let c = Arc::clone(counts);
    tasks.spawn(async move {
        while let Some(plan) = plans.next().await {
            c.plan.store(plan.plan.seq, Ordering::Relaxed);
        }
    });
    Ok(tasks)
}

/// Events that wait for ingest.
async fn queue(bench: &Bench) -> u64 {
    let subject = address::incoming(bench.client.cluster());
    let Some(name) = subject.stream() else {
        return 0;
    };
    match bench.client.bus().jetstream().get_stream(name).await {
        Ok(stream) => stream.cached_info().state.messages,
        Err(_) => 0,
    }
}

async fn metrics(bench: &Bench) -> BTreeMap<String, f64> {
    let mut found = BTreeMap::new();
    for (service, name) in COUNTED {
        if let Some(at) = bench.http.get(service)
            && let Some(value) = value(&exposition(at).await, name)
        {
            *found.entry(name.to_owned()).or_insert(0.0) += value;
        }
    }
    found
}

fn memory(bench: &Bench) -> BTreeMap<String, f64> {
    RuntimeFile::read(&bench.data_dir)
        .into_iter()
        .flat_map(|file| file.children)
        .filter_map(|(name, pid)| rss_mib(pid).map(|mib| (name, mib)))
        .collect()
}

/// Nodes that come and go: as many again as the pool has, all outside it at first.
struct Churn {
    spare: Vec<(NodeId, bool)>,
    training: Vec<(NodeId, bool)>,
    rng: ChaCha8Rng,
    preempt_share: f64,
    next: usize,
}

impl Churn {
    fn next(&mut self) -> Option<serde_json::Value> {
        let hit = self.rng.random::<f64>() < self.preempt_share;
        let list = if hit {
            &mut self.training
        } else {
            &mut self.spare
        };
        let at = if hit {
            self.rng.next_u32() as usize
        } else {
            self.next
        };
        self.next += usize::from(!hit);
        let count = list.len();
        let (node, idle) = list.get_mut(at % count.max(1))?;
        *idle = !*idle;
        Some(event(if *idle { "node.idle" } else { "node.busy" }, node))
    }
}

/// Publishes at a steady rate and counts what comes out of each stage.
///
/// # Errors
/// NATS does not answer.
pub(crate) async fn measure(bench: &Bench, load: Load) -> Result<Sustained> {
    let spare = (0..bench.nodes.len())
        .map(|i| NodeId::new(format!("spare{i:05}")).map(|n| (n, false)))
        .collect::<std::result::Result<_, _>>()
        .map_err(|e| CliError::failed(e.to_string()))?;
    let mut churn = Churn {
        spare,
        training: bench.nodes.iter().map(|n| (n.clone(), true)).collect(),
        rng: ChaCha8Rng::seed_from_u64(1),
        preempt_share: load.preempt_share,
        next: 0,
    };
    let counts = Arc::new(Counts::default());
    let tasks = listen(bench, &counts).await?;
    let (metrics_before, memory_before) = (metrics(bench).await, memory(bench));
    let mut result = Sustained::default();
    let total = load.seconds * u64::from(load.rate);
    let watch = Stopwatch::start();
    let mut ticks = tokio::time::interval(Duration::from_millis(10));
    let mut acks = tokio::task::JoinSet::new();
    let acknowledged = Arc::new(AtomicU64::new(0));
    let mut next_reading = 1.0;
    while result.published < total {
        ticks.tick().await;
        let due = ((watch.seconds() * f64::from(load.rate)) as u64).min(total);
        while result.published < due {
            let Some(event) = churn.next() else { break };
            let (_, ack) = bench.client.send_external("bench", &event).await?;
            let acknowledged = Arc::clone(&acknowledged);
            acks.spawn(async move {
                if ack.wait().await.is_ok() {
                    acknowledged.fetch_add(1, Ordering::Relaxed);
                }
            });
            result.published += 1;
        }
        while acks.try_join_next().is_some() {}
        if watch.seconds() >= next_reading {
            next_reading += 1.0;
            result.queue_max = result.queue_max.max(queue(bench).await);
            let (last, pool) = (
                counts.last.load(Ordering::Relaxed),
                counts.pool.load(Ordering::Relaxed),
            );
            result.pool_lag_max = result.pool_lag_max.max(last.saturating_sub(pool));
        }
    }
    result.seconds = watch.seconds();
    let watch = Stopwatch::start();
    while acks.join_next().await.is_some() {}
    let read = |a: &AtomicU64| a.load(Ordering::Relaxed);
    while watch.seconds() < 20.0 {
        if read(&counts.numbered) >= result.published && read(&counts.pool) >= read(&counts.last) {
            result.catch_up_s = Some(watch.seconds());
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // The planner may still be at work on the last pool.
    tokio::time::sleep(Duration::from_millis(500)).await;
    bench
        .client
        .bus()
        .client()
        .flush()
        .await
        .map_err(|e| CliError::failed(e.to_string()))?;
    result.acknowledged = read(&acknowledged);
    result.numbered = read(&counts.numbered);
    result.gaps = read(&counts.gaps);
    result.last_seq = read(&counts.last);
    result.pool_seq = read(&counts.pool);
    result.plan_seq = read(&counts.plan);
    result.commands = read(&counts.commands);
    result.lost = i64::try_from(result.published).unwrap_or(i64::MAX)
        - i64::try_from(result.numbered).unwrap_or(0);
    let after = metrics(bench).await;
    for (name, value) in after {
        let before = metrics_before.get(&name).copied().unwrap_or(0.0);
        result.metrics.insert(name, value - before);
    }
    let memory_after = memory(bench);
    for (name, before) in memory_before {
        let after = memory_after.get(&name).copied().unwrap_or(0.0);
        result.rss_mib.insert(name, (before, after));
    }
    drop(tasks);
    Ok(result)
}
