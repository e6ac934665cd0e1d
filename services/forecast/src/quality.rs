//! Metrics of the predictors: their scores, the basis of their forecasts, and their models.

use lacuna_forecast::{Adrift, EndKind, HORIZONS_S, OrderState};
use lacuna_runtime::metrics;
use prometheus::{Gauge, GaugeVec, Histogram, IntCounter, IntCounterVec, IntGauge};

use crate::{Forecaster, Role};

/// Upper bounds for the time of a fit, seconds.
const FIT_BOUNDS: [f64; 8] = [0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0];

/// The outcomes of saving or restoring a model.
const OUTCOMES: [&str; 10] = [
    "restored",
    "absent",
    "unreadable",
    "damaged",
    "other_version",
    "other_predictor",
    "foreign",
    "ahead",
    "saved",
    "not_saved",
];

const STATES: [(OrderState, &str); 4] = [
    (OrderState::Given, "given"),
    (OrderState::Reversed, "reversed"),
    (OrderState::Taken, "taken"),
    (OrderState::Released, "none"),
];

const KINDS: [(EndKind, &str); 2] = [
    (EndKind::Reservation, "reserved"),
    (EndKind::PlannedStart, "planned"),
];

metrics! {
    /// Metrics of the predictors.
    pub struct Quality {
        skill: GaugeVec = "lacuna_forecast_brier_skill",
            "1 minus the ratio of the Brier score to that of a constant, over the last hours, by horizon",
            by ["horizon_seconds"];
        brier: GaugeVec = "lacuna_forecast_brier_score",
            "Brier score: mean square of forecast minus outcome, over the last hours, by horizon",
            by ["horizon_seconds"];
        bias: GaugeVec = "lacuna_forecast_bias",
            "mean probability of open minus the share of open holes, over the last hours, by horizon",
            by ["horizon_seconds"];
        answered: IntCounterVec = "lacuna_forecast_answers_total",
            "forecasts with a known outcome, by horizon", by ["horizon_seconds"];
        concordance: Gauge = "lacuna_forecast_concordance",
            "concordance: share of hole pairs whose end order was forecast correctly, over the last hours; .5 is chance";
        drift: GaugeVec = "lacuna_forecast_drift",
            "1 while the predictor is adrift, by cause", by ["cause"];
        fallback: IntGauge = "lacuna_forecast_fallback",
            "1 while another predictor forecasts because the configured one is adrift";
        order: GaugeVec = "lacuna_forecast_order",
            "1 for the present basis of the order of nodes", by ["state"];
        order_place: Gauge = "lacuna_forecast_order_place",
            "mean place of taken nodes among idle ones in the order; 0 is the front, .5 is no order";
        order_z: Gauge = "lacuna_forecast_order_z",
            "standard errors by which the mean place is below .5; 4 are significant";
        order_events: IntGauge = "lacuna_forecast_order_events",
            "departures used as evidence that nodes are taken in order";
        announced_ends: IntGauge = "lacuna_forecast_announced_ends",
            "present holes with a planned start or reservation";
        ends_by_outcome: IntCounterVec = "lacuna_forecast_announced_ends_total",
            "planned starts and reservations, by kind and by whether they came true",
            by ["kind", "outcome"];
        end_reliability: GaugeVec = "lacuna_forecast_announced_end_reliability",
            "learnt probability that a planned start or reservation comes true, by kind", by ["kind"];
        anomalies: IntCounterVec = "lacuna_forecast_anomalies_total",
            "inputs that contradict each other, by kind", by ["kind"];
        fits: IntCounter = "lacuna_forecast_fits_total", "models fitted and installed";
        pub fit_seconds: Histogram = "lacuna_forecast_fit_seconds",
            "time of a fit; no forecast waits for it", within FIT_BOUNDS;
        pub fits_failed: IntCounter = "lacuna_forecast_fits_failed_total",
            "failed fits, after which the old model stays";
        pub models: IntCounterVec = "lacuna_forecast_models_total",
            "saved models, by outcome of the save or restore", by ["outcome"], of OUTCOMES;
        pub model_refused: IntGauge = "lacuna_forecast_model_refused",
            "1 while the saved or given model is unusable";
    }
}

/// Raises a counter to a total that is kept elsewhere. A total below the counter was reset, and the
/// counter stays.
fn follow(counter: &IntCounter, total: u64) {
    let shown = counter.get();
    counter.inc_by(total.saturating_sub(shown));
}

impl Quality {
    /// Updates all metrics.
    pub fn update(&self, forecaster: &Forecaster) {
        let models = forecaster.models();
        let calibration = models.calibration();
        for (score, horizon) in calibration.scores().iter().zip(HORIZONS_S) {
            let horizon = horizon.to_string();
            let show = |gauges: &GaugeVec, value: Option<f64>| {
                let gauge = gauges.with_label_values(&[&horizon]);
                gauge.set(value.unwrap_or(0.0));
            };
            show(&self.skill, score.skill());
            show(&self.brier, score.brier());
            show(&self.bias, score.in_the_large());
            let answered = self.answered.with_label_values(&[&horizon]);
            follow(&answered, score.answered);
        }
        self.concordance
            .set(calibration.concordance().unwrap_or(0.5));
        for (cause, is_it) in [
            (
                "skill",
                matches!(models.adrift(), Some(Adrift::Skill { .. })),
            ),
            (
                "calibration",
                matches!(models.adrift(), Some(Adrift::Calibration { .. })),
            ),
        ] {
            let gauge = self.drift.with_label_values(&[cause]);
            gauge.set(f64::from(u8::from(is_it)));
        }
        self.fallback.set(i64::from(models.active() == Role::Rival));
        self.show_report(forecaster);
        if let Some(first) = models.predictor(Role::First) {
            self.announced_ends
                .set(i64::try_from(first.announced_ends()).unwrap_or(i64::MAX));
            for (end_kind, kind) in KINDS {
                let record = first.record(end_kind);
                let ended = |outcome| self.ends_by_outcome.with_label_values(&[kind, outcome]);
                follow(&ended("came_true"), record.came_true);
                follow(&ended("proved_false"), record.proved_false);
                let gauge = self.end_reliability.with_label_values(&[kind]);
                gauge.set(record.reliability());
            }
        }
    }

    fn show_report(&self, forecaster: &Forecaster) {
        let report = forecaster.models().report();
        follow(&self.fits, report.fits);
        for (state, name) in STATES {
            let is_it = report.order.is_some_and(|order| order.state == state);
            let gauge = self.order.with_label_values(&[name]);
            gauge.set(f64::from(u8::from(is_it)));
        }
        let evidence = report.order.map(|order| match order.state {
            OrderState::Taken => order.taken,
            _ => order.given,
        });
        let evidence = evidence.unwrap_or_default();
        self.order_place.set(evidence.mean().unwrap_or(0.5));
        self.order_z.set(evidence.z().unwrap_or(0.0));
        self.order_events
            .set(i64::try_from(evidence.events()).unwrap_or(i64::MAX));
        let anomalies = forecaster.anomalies();
        let of_predictor = report.anomalies;
        for (kind, total) in [
            ("negative_hole", anomalies.negative_holes),
            ("clock_back", anomalies.clock_back),
            ("disorder", anomalies.disorder),
            ("unknown_end", of_predictor.unknown_end),
            ("reopened", of_predictor.reopened),
            ("unordered", of_predictor.unordered),
            ("order_contradicted", of_predictor.contradicted),
        ] {
            follow(&self.anomalies.with_label_values(&[kind]), total);
        }
    }
}
