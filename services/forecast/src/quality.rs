//! Metrics of the predictors: their scores, the basis of their forecasts, and their models.

use lacuna_forecast::{Adrift, EndKind, HORIZONS_S, OrderState};
use lacuna_runtime::metrics::{Registry, counter, counters, float_gauge, gauge, gauges, histogram};
use prometheus::{Error, Gauge, GaugeVec, Histogram, IntCounter, IntCounterVec, IntGauge};

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

/// Metrics of the predictors.
#[derive(Debug, Clone)]
pub struct Quality {
    skill: GaugeVec,
    brier: GaugeVec,
    bias: GaugeVec,
    answered: IntCounterVec,
    concordance: Gauge,
    drift: GaugeVec,
    fallback: IntGauge,
    order: GaugeVec,
    order_place: Gauge,
    order_z: Gauge,
    order_events: IntGauge,
    announced_ends: IntGauge,
    ends_by_outcome: IntCounterVec,
    end_reliability: GaugeVec,
    anomalies: IntCounterVec,
    fits: IntCounter,
    /// The time of a fit; no forecast waits for it.
    pub fit_seconds: Histogram,
    /// Failed fits.
    pub fits_failed: IntCounter,
    /// Saves and restores of models, by outcome.
    pub models: IntCounterVec,
    /// 1 from the refusal of a saved or given model until a new one has been saved.
    pub model_refused: IntGauge,
}

/// Raises a counter to a total that is kept elsewhere. A total below the counter was reset, and the
/// counter stays.
fn follow(counter: &IntCounter, total: u64) {
    let shown = counter.get();
    counter.inc_by(total.saturating_sub(shown));
}

impl Quality {
    /// Registers all metrics.
    ///
    /// # Errors
    /// [`Error`] if a name is taken.
    pub fn new(registry: &Registry) -> Result<Self, Error> {
        let by_horizon =
            |name: &str, help: &str| gauges(registry, name, help, &["horizon_seconds"]);
        let quality = Self {
            skill: by_horizon(
                "lacuna_forecast_brier_skill",
                "1 minus the ratio of the Brier score to that of a constant, over the last hours, by horizon",
            )?,
            brier: by_horizon(
                "lacuna_forecast_brier_score",
                "Brier score: mean square of forecast minus outcome, over the last hours, by horizon",
            )?,
            bias: by_horizon(
                "lacuna_forecast_bias",
                "mean probability of open minus the share of open holes, over the last hours, by horizon",
            )?,
            answered: counters(
                registry,
                "lacuna_forecast_answers_total",
                "forecasts with a known outcome, by horizon",
                &["horizon_seconds"],
            )?,
            concordance: float_gauge(
                registry,
                "lacuna_forecast_concordance",
                "share of pairs of holes present together whose order of ends was forecast, over the last hours; .5 is chance",
            )?,
            drift: gauges(
                registry,
                "lacuna_forecast_drift",
                "1 while the predictor is adrift, by cause",
                &["cause"],
            )?,
            fallback: gauge(
                registry,
                "lacuna_forecast_fallback",
                "1 while another predictor forecasts because the configured one is adrift",
            )?,
            order: gauges(
                registry,
                "lacuna_forecast_order",
                "1 for the present basis of the order of nodes",
                &["state"],
            )?,
            order_place: float_gauge(
                registry,
                "lacuna_forecast_order_place",
                "mean place of taken nodes among idle ones in the order; 0 is the front, .5 is no order",
            )?,
            order_z: float_gauge(
                registry,
                "lacuna_forecast_order_z",
                "standard errors by which the mean place is below .5; 4 are significant",
            )?,
            order_events: gauge(
                registry,
                "lacuna_forecast_order_events",
                "leave events in the evidence for the order",
            )?,
            announced_ends: gauge(
                registry,
                "lacuna_forecast_hints",
                "present holes with a planned start or reservation",
            )?,
            ends_by_outcome: counters(
                registry,
                "lacuna_forecast_hints_total",
                "planned starts and reservations, by kind and by whether they came true",
                &["kind", "outcome"],
            )?,
            end_reliability: gauges(
                registry,
                "lacuna_forecast_hint_reliability",
                "learnt probability that a planned start or reservation comes true, by kind",
                &["kind"],
            )?,
            anomalies: counters(
                registry,
                "lacuna_forecast_oddities_total",
                "inputs that contradict each other, by kind",
                &["kind"],
            )?,
            fits: counter(
                registry,
                "lacuna_forecast_fits_total",
                "models fitted and installed",
            )?,
            fit_seconds: histogram(
                registry,
                "lacuna_forecast_fit_seconds",
                "time of a fit; no forecast waits for it",
                &FIT_BOUNDS,
            )?,
            fits_failed: counter(
                registry,
                "lacuna_forecast_fits_failed_total",
                "failed fits, after which the old model stays",
            )?,
            models: counters(
                registry,
                "lacuna_forecast_models_total",
                "saved models, by outcome of the save or restore",
                &["outcome"],
            )?,
            model_refused: gauge(
                registry,
                "lacuna_forecast_model_refused",
                "1 from the refusal of a saved or given model until a new one has been saved",
            )?,
        };
        for outcome in OUTCOMES {
            quality.models.with_label_values(&[outcome]);
        }
        Ok(quality)
    }

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
