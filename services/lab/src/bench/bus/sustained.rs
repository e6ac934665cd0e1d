//! Bursts and a steady load, with each event counted at each stage.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::ProgressBar;
use serde::Serialize;
use tokio::task::JoinSet;

use lacuna_cli::error::Result;
use lacuna_model::NodeId;
use lacuna_runtime::clock::Stopwatch;
use lacuna_wire::address;

use super::churn::Churn;
use super::cluster::{TestCluster, event};
use super::event_tracker::EventTracker;
use super::memory::{Memory, Watch};
use super::quantiles::Quantiles;
use super::scrape::{by_label, exposition, value};

/// The time limit, after the last event, for a pool with all events.
const CATCH_UP_S: f64 = 60.0;
/// The time limit for the last plan and the last command.
const SETTLE_S: f64 = 20.0;

/// The steady load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    /// Its duration, seconds.
    pub(crate) seconds: u64,
    /// Events a second.
    pub(crate) rate: u32,
}

/// The result of a burst.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Burst {
    /// Events published at once.
    pub(crate) events: u64,
    /// Seconds until the queue kept them all.
    pub(crate) kept_s: f64,
    /// Seconds until all were numbered and in the pool; none if that never happened.
    pub(crate) pooled_s: Option<f64>,
}

/// The result of the steady load.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Sustained {
    /// Wall-clock seconds of publishing.
    pub(crate) seconds: f64,
    /// Events published.
    pub(crate) published: u64,
    /// Seconds from the last publish until the pool includes it; none if it never does.
    pub(crate) catch_up_s: Option<f64>,
    /// Largest number of messages that waited for ingest at a reading.
    pub(crate) queue_max: u64,
    /// Largest number of events that the pool lagged behind at a reading.
    pub(crate) pool_lag_max: u64,
    /// Commands sent under the load.
    pub(crate) commands: u64,
    /// Plans published under the load.
    pub(crate) plans: u64,
    /// Latencies under this load.
    pub(crate) latencies: Vec<Quantiles>,
    /// Memory of each process.
    pub(crate) memory: BTreeMap<String, Memory>,
    /// Counts of the services under the load: differences of their metrics.
    pub(crate) metrics: BTreeMap<String, f64>,
}

/// The account of all events, of bursts and steady load.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Account {
    /// Events published.
    pub(crate) published: u64,
    /// Events that the queue has acknowledged.
    pub(crate) acknowledged: u64,
    /// Events at ingest, by outcome.
    pub(crate) ingest: BTreeMap<String, u64>,
    /// Numbered events that were received.
    pub(crate) numbered: u64,
    /// Gaps in their sequence.
    pub(crate) gaps: u64,
    /// Events that were published and never numbered.
    pub(crate) lost: u64,
    /// Growth of the stream of events.
    pub(crate) stream: u64,
    /// Sequence number of the last event.
    pub(crate) last_seq: u64,
    /// Sequence number of the last event in the newest pool.
    pub(crate) pool_seq: u64,
    /// Messages left in the queue.
    pub(crate) queue: u64,
    /// Nodes that must be idle at the end.
    pub(crate) idle: usize,
    /// Of these, nodes that the pool lacks.
    pub(crate) pool_lacks: usize,
    /// Nodes in the pool that are not idle.
    pub(crate) pool_wrong: usize,
    /// Events that took a node in training.
    pub(crate) hits: u64,
    /// Of these, hits without a plan.
    pub(crate) unplanned: usize,
    /// Of these, nodes without a stop command.
    pub(crate) untold: usize,
}

impl Account {
    /// Whether each event is accounted for.
    pub(crate) fn holds(&self) -> bool {
        let taken = self.ingest.get("taken").copied().unwrap_or_default();
        let all = self.published;
        [self.acknowledged, taken, self.numbered, self.stream] == [all; 4]
            && self.gaps == 0
            && self.lost == 0
            && self.queue == 0
            && self.pool_seq == self.last_seq
            && self.pool_lacks + self.pool_wrong + self.unplanned + self.untold == 0
    }
}

/// Metrics whose growth is shown, by service.
const COUNTED: [(&str, &str); 9] = [
    ("ingest", "lacuna_ingest_events_total"),
    ("forecast", "lacuna_forecast_events_total"),
    ("forecast", "lacuna_forecast_gaps_total"),
    ("control", "lacuna_control_events_total"),
    ("control", "lacuna_control_preemptions_total"),
    ("planner", "lacuna_planner_plans_total"),
    ("ingest", "lacuna_bus_slow_consumers_total"),
    ("forecast", "lacuna_bus_slow_consumers_total"),
    ("control", "lacuna_bus_slow_consumers_total"),
];

async fn metrics(bench: &TestCluster) -> BTreeMap<String, f64> {
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

async fn ingested(bench: &TestCluster) -> BTreeMap<String, u64> {
    let Some(at) = bench.http.get("ingest") else {
        return BTreeMap::new();
    };
    let text = exposition(at).await;
    let counts = by_label(&text, "lacuna_ingest_external_total", "outcome").into_iter();
    counts.map(|(what, count)| (what, count as u64)).collect()
}

/// The number of messages in a stream, and the sequence number of its last.
async fn stream(bench: &TestCluster, name: Option<&str>) -> (u64, u64) {
    let Some(name) = name else {
        return (0, 0);
    };
    let Ok(nats) = bench.client.bus().nats() else {
        return (0, 0);
    };
    match nats.jetstream.get_stream(name).await {
        Ok(stream) => {
            let state = &stream.cached_info().state;
            (state.messages, state.last_sequence)
        }
        Err(_) => (0, 0),
    }
}

async fn queue(bench: &TestCluster) -> u64 {
    let subject = address::incoming(bench.client.cluster());
    stream(bench, subject.stream()).await.0
}

/// The number of messages left in the queue, after nats-server has removed acknowledged ones.
async fn left(bench: &TestCluster) -> u64 {
    let waiting = Stopwatch::start();
    loop {
        let left = queue(bench).await;
        if left == 0 || waiting.seconds() > CATCH_UP_S {
            return left;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn kept(bench: &TestCluster) -> u64 {
    let subject = address::event(bench.client.cluster());
    stream(bench, subject.stream()).await.1
}

/// Generates the load and keeps the account.
pub(crate) struct LoadGenerator<'a> {
    bench: &'a TestCluster,
    tracker: EventTracker,
    churn: Churn,
    clock: Stopwatch,
    bar: &'a ProgressBar,
    acks: JoinSet<()>,
    acknowledged: Arc<AtomicU64>,
    published: u64,
    /// The most events of one message.
    together: usize,
    /// Counts before the load: events numbered, gaps, end of the stream, outcomes at ingest.
    before: (u64, u64, u64, BTreeMap<String, u64>),
}

impl<'a> LoadGenerator<'a> {
    /// A generator that has published no event yet.
    pub(crate) async fn new(
        bench: &'a TestCluster,
        tracker: &EventTracker,
        churn: Churn,
        together: usize,
        bar: &'a ProgressBar,
    ) -> Self {
        let (numbered, gaps) = {
            let mut records = tracker.records();
            // Latencies of the start are no latencies under load.
            records.latencies();
            (records.numbered, records.gaps)
        };
        Self {
            before: (numbered, gaps, kept(bench).await, ingested(bench).await),
            bench,
            tracker: tracker.clone(),
            churn,
            together,
            clock: Stopwatch::start(),
            bar,
            acks: JoinSet::new(),
            acknowledged: Arc::default(),
            published: 0,
        }
    }

    /// Publishes `count` events, those of one message together.
    async fn publish(&mut self, count: u64) -> Result<()> {
        let mut left = count;
        while left > 0 {
            let now_s = self.clock.seconds();
            let mut list = Vec::new();
            while list.len() < self.together && left > 0 {
                left -= 1;
                let Some((node, idle)) = self.churn.next(now_s) else {
                    continue;
                };
                self.tracker.sends(&node, idle);
                list.push(event(if idle { "node.idle" } else { "node.busy" }, &node));
            }
            let (watch, events) = (Stopwatch::start(), list.len() as u64);
            let client = &self.bench.client;
            let ack = match list.as_slice() {
                [] => continue,
                [one] => client.send_external("bench", one).await?.1,
                list => client.send_external_list("bench", list).await?,
            };
            let (tracker, acknowledged) = (self.tracker.clone(), Arc::clone(&self.acknowledged));
            self.acks.spawn(async move {
                if ack.wait().await.is_ok() {
                    for _ in 0..events {
                        tracker.kept(watch.seconds());
                    }
                    acknowledged.fetch_add(events, Ordering::Relaxed);
                }
            });
            self.published += events;
            while self.acks.try_join_next().is_some() {}
        }
        Ok(())
    }

    /// Waits until the pool includes all published events; returns the seconds until then.
    async fn pooled(&mut self, watch: Stopwatch) -> Option<f64> {
        while self.acks.join_next().await.is_some() {}
        while watch.seconds() < CATCH_UP_S {
            let done = {
                let records = self.tracker.records();
                records.numbered - self.before.0 >= self.published && records.pool >= records.last
            };
            if done {
                return Some(watch.seconds());
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        None
    }

    /// Publishes `events` events as fast as possible.
    ///
    /// # Errors
    /// NATS does not answer.
    pub(crate) async fn burst(&mut self, events: u64) -> Result<Burst> {
        let watch = Stopwatch::start();
        self.publish(events).await?;
        while self.acks.join_next().await.is_some() {}
        let kept_s = watch.seconds();
        let pooled_s = self.pooled(watch).await;
        Ok(Burst {
            events,
            kept_s,
            pooled_s,
        })
    }

    /// Waits until plans and commands have followed all hits, within a time limit.
    async fn settle(&self) {
        let watch = Stopwatch::start();
        while watch.seconds() < SETTLE_S && self.tracker.records().open() != (0, 0, 0) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Publishes a steady load.
    ///
    /// # Errors
    /// NATS does not answer.
    pub(crate) async fn steady(&mut self, load: Load) -> Result<Sustained> {
        self.settle().await;
        let before = metrics(self.bench).await;
        let (commands, plans) = {
            let mut records = self.tracker.records();
            records.latencies();
            (records.commands, records.plans)
        };
        let (mut result, mut memory) = (Sustained::default(), Watch::default());
        let total = load.seconds * u64::from(load.rate);
        let watch = Stopwatch::start();
        let mut ticks = tokio::time::interval(Duration::from_millis(10));
        let mut next_reading = 0.0;
        while result.published < total {
            ticks.tick().await;
            let due = ((watch.seconds() * f64::from(load.rate)) as u64).min(total);
            self.publish(due - result.published).await?;
            result.published = due;
            if watch.seconds() >= next_reading {
                next_reading += 1.0;
                self.bar.set_position(watch.seconds() as u64);
                memory.read(&self.bench.data_dir, watch.seconds());
                result.queue_max = result.queue_max.max(queue(self.bench).await);
                let records = self.tracker.records();
                let lag = records.last.saturating_sub(records.pool);
                result.pool_lag_max = result.pool_lag_max.max(lag);
            }
        }
        result.seconds = watch.seconds();
        result.catch_up_s = self.pooled(Stopwatch::start()).await;
        self.settle().await;
        memory.read(&self.bench.data_dir, watch.seconds());
        result.memory = memory.end();
        {
            let mut records = self.tracker.records();
            result.latencies = records.latencies();
            result.commands = records.commands - commands;
            result.plans = records.plans - plans;
        }
        for (name, value) in metrics(self.bench).await {
            let before = before.get(&name).copied().unwrap_or(0.0);
            result.metrics.insert(name, value - before);
        }
        Ok(result)
    }

    /// The account of all events.
    pub(crate) async fn account(self) -> Account {
        self.settle().await;
        let stream = kept(self.bench).await - self.before.2;
        let queue = left(self.bench).await;
        let ingest = ingested(self.bench).await.into_iter();
        let ingest: BTreeMap<String, u64> = ingest
            .map(|(what, count)| {
                let before = self.before.3.get(&what).copied().unwrap_or_default();
                (what, count - before)
            })
            .filter(|(_, count)| *count > 0)
            .collect();
        let records = self.tracker.records();
        let (expected, idle) = (self.churn.idle(), records.idle());
        let differs = |of: &std::collections::BTreeSet<NodeId>, from| of.difference(from).count();
        let (lost, unplanned, untold) = records.open();
        Account {
            published: self.published,
            acknowledged: self.acknowledged.load(Ordering::Relaxed),
            ingest,
            numbered: records.numbered - self.before.0,
            gaps: records.gaps - self.before.1,
            lost: lost as u64,
            stream,
            last_seq: records.last,
            pool_seq: records.pool,
            queue,
            idle: expected.len(),
            pool_lacks: differs(&expected, &idle),
            pool_wrong: differs(&idle, &expected),
            hits: records.hits,
            unplanned,
            untold,
        }
    }
}
