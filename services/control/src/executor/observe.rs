//! Mode `observe`: the use that pilots would have made of nodes, counted by the hour.

use std::collections::{BTreeMap, BTreeSet};

use lacuna_model::pilots::Assumed;
use lacuna_model::{NodeId, RescaleCost, TrainerId};
use lacuna_pilots::observe::{Observer, Planned, hour_of};
use lacuna_runtime::Bucket;
use lacuna_runtime::metrics;
use lacuna_runtime::metrics::Counter;
use lacuna_wire::address;
use lacuna_wire::msg::{ObservedHour, PlanState, PoolState, TrainersState};
use prometheus::IntGauge;

use crate::sections::Context;

metrics! {
    /// Metrics of observation.
    pub struct ObservedMetrics {
        idle: Counter = "lacuna_control_observed_idle_node_seconds_total",
            "node-seconds in the pool while nothing is started";
        planned: Counter = "lacuna_control_observed_planned_node_seconds_total",
            "node-seconds that plans would have used";
        harvested: Counter = "lacuna_control_observed_harvested_node_seconds_total",
            "node-seconds in which pilots would have trained";
        restart: Counter = "lacuna_control_observed_restart_node_seconds_total",
            "node-seconds that restarts at changes of trainers' nodes would have cost";
        restarts: Counter = "lacuna_control_observed_restarts_total",
            "changes of trainers' nodes that would have stalled them";
        pilots: Counter = "lacuna_control_observed_pilots_total", "pilots that would have been started";
        wanted: Counter = "lacuna_control_observed_wanted_nodes_total",
            "nodes that batch jobs took while plans would have used them";
        moments: Counter = "lacuna_control_observed_wanted_moments_total",
            "moments at which batch jobs took such nodes";
        delay: Counter = "lacuna_control_observed_delay_seconds_total",
            "seconds that batch jobs would have waited, as far as can be assumed";
        nodes: IntGauge = "lacuna_control_observed_planned_nodes",
            "idle nodes that the newest plan would use";
    }
}

impl ObservedMetrics {
    /// Adds the difference of two states of one hour.
    fn add(&self, before: &ObservedHour, now: &ObservedHour) {
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
        up(&self.restart, before.restart_node_s, now.restart_node_s);
        up(&self.restarts, before.restarts as f64, now.restarts as f64);
        up(&self.pilots, before.pilots as f64, now.pilots as f64);
        up(&self.wanted, before.wanted as f64, now.wanted as f64);
        up(&self.moments, before.moments as f64, now.moments as f64);
        up(&self.delay, before.delay_s, now.delay_s);
    }
}

/// The observer and its bucket.
pub(super) struct Observation {
    ctx: Context,
    observer: Observer,
    bucket: Bucket<ObservedHour>,
    metrics: ObservedMetrics,
    /// The present hour as it was last added to the metrics.
    counted: ObservedHour,
    /// Rescale costs of each trainer.
    costs: BTreeMap<TrainerId, RescaleCost>,
}

impl Observation {
    /// Goes on with the present hour, if it has been begun.
    pub(super) async fn new(ctx: Context, assumed: Assumed, metrics: ObservedMetrics) -> Self {
        let bucket = ctx.bus.bucket(address::observed_bucket(&ctx.cluster));
        let mut observer = Observer::new(assumed);
        let start = hour_of(ctx.clock.now());
        match bucket.get(&start.to_string()).await {
            Ok(Some(entry)) => observer.resume(entry.value),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "the hour observed so far is not known"),
        }
        Self {
            counted: *observer.hour(),
            ctx,
            observer,
            bucket,
            metrics,
            costs: BTreeMap::new(),
        }
    }

    pub(super) fn pool(&mut self, state: &PoolState) {
        let holes = state.pool.holes.iter();
        let idle: BTreeSet<NodeId> = holes.map(|hole| hole.hole.node.clone()).collect();
        self.observer.pool(self.ctx.clock.now(), idle);
    }

    pub(super) fn trainers(&mut self, state: &TrainersState) {
        let specs = state.trainers.iter().map(|t| &t.spec);
        self.costs = specs.map(|s| (s.id.clone(), s.rescale)).collect();
    }

    pub(super) fn plan(&mut self, state: &PlanState) {
        let nothing = RescaleCost::default();
        let planned = state.plan.allocations.iter().map(|a| {
            let planned = Planned {
                nodes: a.nodes.iter().cloned().collect(),
                rescale: self.costs.get(&a.trainer).copied().unwrap_or(nothing),
            };
            (a.trainer.clone(), planned)
        });
        let planned = planned.collect();
        self.observer.plan(self.ctx.clock.now(), planned);
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

    fn count(&mut self, hour: &ObservedHour) {
        let before = if self.counted.start == hour.start {
            self.counted
        } else {
            ObservedHour::default()
        };
        self.metrics.add(&before, hour);
        self.counted = *hour;
    }

    async fn put(&self, hour: &ObservedHour) {
        let key = hour.start.to_string();
        if let Err(error) = self.bucket.put(&key, hour, "").await {
            tracing::warn!(%error, "the observed hour is not stored yet");
        }
    }
}
