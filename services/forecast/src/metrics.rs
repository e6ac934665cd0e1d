//! The metrics of the service, all declared here.

use lacuna_forecast::LearningStage;
use lacuna_pool::Counts;
use lacuna_runtime::metrics;
use lacuna_runtime::metrics::LATENCY_BOUNDS;
use prometheus::{Histogram, IntCounter, IntCounterVec, IntGauge};

use crate::{Forecaster, Quality, Ready};

/// Upper bounds for lengths of holes, seconds: a minute to a day.
const HOLE_BOUNDS: [f64; 12] = [
    60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0, 14_400.0, 28_800.0, 43_200.0,
    86_400.0,
];

/// Upper bounds for the time of one forecast, seconds.
const FORECAST_BOUNDS: [f64; 8] = [0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3];

metrics! {
    /// All metrics of the service.
    pub struct Metrics {
        pool_nodes: IntGauge = "lacuna_forecast_pool_nodes", "nodes in the pool now";
        stale: IntGauge = "lacuna_forecast_stale",
            "1 while events are missing and the pool can only shrink";
        events: IntCounter = "lacuna_forecast_events_total",
            "events and snapshots received, including refused ones";
        refused: IntCounterVec = "lacuna_forecast_events_refused_total",
            "events refused, by reason",
            by ["reason"], of ["duplicate", "late", "unknown_node", "old_snapshot"];
        duplicates: IntCounter = "lacuna_forecast_duplicates_total",
            "events whose number was seen before";
        gaps: IntCounter = "lacuna_forecast_gaps_total", "gaps in the numbers of events";
        late: IntCounter = "lacuna_forecast_late_total", "events older than their node's newest change";
        repairs: IntCounter = "lacuna_forecast_repairs_total",
            "snapshots that differed from the pool that the events gave";
        opened: IntCounter = "lacuna_forecast_holes_opened_total", "holes that opened";
        closed: IntCounter = "lacuna_forecast_holes_closed_total", "holes that closed";
        learnt: IntGauge = "lacuna_forecast_holes_learnt",
            "holes seen from start to end by the predictor";
        /// The metrics of the predictors.
        pub quality: Quality;
        pub hole_seconds: Histogram = "lacuna_forecast_hole_seconds",
            "lengths of holes with a seen end, in the cluster's time", within HOLE_BOUNDS;
        pub forecast_seconds: Histogram = "lacuna_forecast_seconds",
            "time of forecasting all present holes", within FORECAST_BOUNDS;
        pub publish_seconds: Histogram = "lacuna_forecast_publish_seconds",
            "from the arrival of the oldest event in it to the publication of a pool",
            within LATENCY_BOUNDS;
        pub published: IntCounter = "lacuna_forecast_pools_published_total", "pools published";
    }
}

impl Metrics {
    /// Adds the difference of the totals since `before`.
    fn show(&self, before: &Counts, now: &Counts) {
        self.events.inc_by(now.events - before.events);
        self.duplicates.inc_by(now.duplicates - before.duplicates);
        self.gaps.inc_by(now.gaps - before.gaps);
        self.late.inc_by(now.late - before.late);
        self.repairs.inc_by(now.repairs - before.repairs);
        self.opened.inc_by(now.opened - before.opened);
        self.closed.inc_by(now.closed - before.closed);
        for (reason, before, now) in [
            ("duplicate", before.duplicates, now.duplicates),
            ("late", before.late, now.late),
            ("unknown_node", before.unknown, now.unknown),
            ("old_snapshot", before.old_snapshots, now.old_snapshots),
        ] {
            let counter = self.refused.with_label_values(&[reason]);
            counter.inc_by(now - before);
        }
    }

    /// Updates all metrics. Returns the totals to pass as `before` the next time.
    pub fn update(&self, forecaster: &Forecaster, before: &Counts) -> Counts {
        let counts = *forecaster.counts();
        self.show(before, &counts);
        let holes = match forecaster.ready() {
            Ready::Live => forecaster.holes(),
            Ready::Waiting | Ready::CatchingUp => 0,
        };
        self.pool_nodes.set(holes as i64);
        self.stale.set(i64::from(forecaster.is_stale()));
        self.learnt.set(match forecaster.models().learning() {
            LearningStage::Fixed => 0,
            LearningStage::Young { ended, .. } | LearningStage::Learnt { ended } => ended as i64,
        });
        self.quality.update(forecaster);
        counts
    }
}
