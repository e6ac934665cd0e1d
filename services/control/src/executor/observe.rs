//! What is counted while nothing is started, kept by the hour.

use std::collections::BTreeSet;

use lacuna_model::NodeId;
use lacuna_pilots::observe::{Assumed, Hour, Observer, hour_of};
use lacuna_runtime::metrics::{self, Counter, Error, Registry};
use lacuna_runtime::{Bucket, Context};
use lacuna_wire::msg::{ObservedHour, PlanState, PoolState};
use lacuna_wire::{address, time_text};
use prometheus::IntGauge;

/// Metrics of observation.
#[derive(Debug, Clone)]
pub struct ObservedMetrics {
    idle: Counter,
    planned: Counter,
    harvested: Counter,
    pilots: Counter,
    wanted: Counter,
    moments: Counter,
    delay: Counter,
    nodes: IntGauge,
}

impl ObservedMetrics {
    /// Registers them.
    ///
    /// # Errors
    /// If a name is taken.
    pub fn new(registry: &Registry) -> Result<Self, Error> {
        let counter = |name: &str, help: &str| metrics::float_counter(registry, name, help);
        Ok(Self {
            idle: counter(
                "lacuna_control_observed_idle_node_seconds_total",
                "node-seconds in the pool while nothing is started",
            )?,
            planned: counter(
                "lacuna_control_observed_planned_node_seconds_total",
                "node-seconds that plans would have used",
            )?,
            harvested: counter(
                "lacuna_control_observed_harvested_node_seconds_total",
                "node-seconds in which pilots would have trained",
            )?,
            pilots: counter(
                "lacuna_control_observed_pilots_total",
                "pilots that would have been started",
            )?,
            wanted: counter(
                "lacuna_control_observed_wanted_nodes_total",
                "nodes that batch jobs took while plans would have used them",
            )?,
            moments: counter(
                "lacuna_control_observed_wanted_moments_total",
                "moments at which batch jobs took such nodes",
            )?,
            delay: counter(
                "lacuna_control_observed_delay_seconds_total",
                "seconds that batch jobs would have waited, as far as can be assumed",
            )?,
            nodes: metrics::gauge(
                registry,
                "lacuna_control_observed_planned_nodes",
                "idle nodes that the newest plan would use",
            )?,
        })
    }

    /// Adds what two looks at one hour differ by.
    fn add(&self, before: &Hour, now: &Hour) {
        let up = |counter: &Counter, from: f64, to: f64| {
            if to > from {
                counter.inc_by(to - from);
            }
        };
        up(&self.idle, before.idle_node_s, now.idle_node_s);
        up(&self.planned, before.planned_node_s, now.planned_node_s);
        up(
            &self.harvested,
            before.harvested_node_s,
            now.harvested_node_s,
        );
        up(&self.pilots, before.pilots as f64, now.pilots as f64);
        up(&self.wanted, before.wanted as f64, now.wanted as f64);
        up(&self.moments, before.moments as f64, now.moments as f64);
        up(&self.delay, before.delay_s, now.delay_s);
    }
}

/// The observer and its bucket.
pub(super) struct Watching {
    ctx: Context,
    observer: Observer,
    bucket: Bucket<ObservedHour>,
    metrics: ObservedMetrics,
    /// The present hour as it was last added to the metrics.
    counted: Hour,
}

impl Watching {
    /// Goes on with the present hour, if it has been begun.
    pub(super) async fn new(ctx: Context, assumed: Assumed, metrics: ObservedMetrics) -> Self {
        let bucket = ctx.bus.bucket(address::observed_bucket(&ctx.cluster));
        let mut observer = Observer::new(assumed);
        let start = hour_of(ctx.clock.now());
        match bucket.get(&time_text::format(start)).await {
            Ok(Some(entry)) => observer.resume(read(&entry.value)),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "the hour observed so far is not known"),
        }
        Self {
            counted: *observer.hour(),
            ctx,
            observer,
            bucket,
            metrics,
        }
    }

    pub(super) fn pool(&mut self, state: &PoolState) {
        let holes = state.pool.holes.iter();
        let idle: BTreeSet<NodeId> = holes.map(|hole| hole.hole.node.clone()).collect();
        self.observer.pool(self.ctx.clock.now(), idle);
    }

    pub(super) fn plan(&mut self, state: &PlanState) {
        let allocations = state.plan.allocations.iter();
        let nodes = allocations.flat_map(|a| a.nodes.iter().cloned()).collect();
        self.observer.plan(self.ctx.clock.now(), nodes);
    }

    /// Brings counts, metrics and the bucket up to date.
    pub(super) async fn keep(&mut self) {
        self.observer.pass(self.ctx.clock.now());
        for hour in self.observer.take_done() {
            self.count(&hour);
            self.put(&hour).await;
        }
        let hour = *self.observer.hour();
        self.count(&hour);
        self.metrics
            .nodes
            .set(i64::try_from(self.observer.planned()).unwrap_or(i64::MAX));
        if hour.watched_s > 0.0 {
            self.put(&hour).await;
        }
    }

    fn count(&mut self, hour: &Hour) {
        let before = if self.counted.start == hour.start {
            self.counted
        } else {
            Hour::default()
        };
        self.metrics.add(&before, hour);
        self.counted = *hour;
    }

    async fn put(&self, hour: &Hour) {
        let key = time_text::format(hour.start);
        if let Err(error) = self.bucket.put(&key, &write(hour), "").await {
            tracing::warn!(%error, "what was observed is not kept yet");
        }
    }
}

fn read(kept: &ObservedHour) -> Hour {
    Hour {
        start: kept.start,
        watched_s: kept.watched_s,
        idle_node_s: kept.idle_node_s,
        planned_node_s: kept.planned_node_s,
        harvested_node_s: kept.harvested_node_s,
        holes: kept.holes,
        pilots: kept.pilots,
        wanted: kept.wanted,
        moments: kept.moments,
        delay_s: kept.delay_s,
        most_idle: kept.most_idle,
        most_planned: kept.most_planned,
    }
}

fn write(hour: &Hour) -> ObservedHour {
    ObservedHour {
        start: hour.start,
        watched_s: hour.watched_s,
        idle_node_s: hour.idle_node_s,
        planned_node_s: hour.planned_node_s,
        harvested_node_s: hour.harvested_node_s,
        holes: hour.holes,
        pilots: hour.pilots,
        wanted: hour.wanted,
        moments: hour.moments,
        delay_s: hour.delay_s,
        most_idle: hour.most_idle,
        most_planned: hour.most_planned,
    }
}
