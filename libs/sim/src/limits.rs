//! What no replay is made of: settings that make no sense, and numbers that only damage or
//! malice can have written.
//!
//! The bounds are far beyond what any centre has. They are here so that such input ends with an
//! error that names it, and not in a lack of memory, an overflow, or a loop without end.

use lacuna_forecast::OrderBy;
use lacuna_model::TrainerSpec;

use crate::{PoolTrace, Settings, SimError};

/// Years of a trace: each day has a place in the history, each hour one in the statistics.
const MOST_YEARS: f64 = 1000.0;
const YEAR_S: f64 = 365.25 * 86_400.0;

/// Trainers at a time: dedicated nodes and endless lists really have that many.
const MOST_PARALLEL: u32 = 100_000;

/// Nodes of a trainer: there is a rate for each.
const MOST_NODES: u32 = 1_000_000;

/// Seconds that a change can cost, and factors on them.
const MOST_COST_S: f64 = 1e9;
const MOST_SCALE: f64 = 1e9;

/// Times its cost that a change must be worth.
const MOST_HYSTERESIS: f64 = 100.0;

/// Whether a trace can be walked through at all.
///
/// # Errors
/// [`SimError::TooLong`].
pub(crate) fn check_length(trace: &dyn PoolTrace) -> Result<(), SimError> {
    let years = trace.length_s() / YEAR_S;
    if years > MOST_YEARS {
        return Err(SimError::TooLong {
            years,
            start: trace.start(),
            end: trace.end(),
        });
    }
    Ok(())
}

/// Whether a replay makes sense.
///
/// # Errors
/// [`SimError`] names what does not.
pub(crate) fn check(
    trace: &dyn PoolTrace,
    trainers: &[TrainerSpec],
    settings: &Settings,
) -> Result<(), SimError> {
    if trainers.is_empty() {
        return Err(SimError::NoTrainers);
    }
    if trace.length_s() <= 0.0 {
        return Err(SimError::NothingLeft {
            start: trace.start(),
            end: trace.end(),
        });
    }
    check_length(trace)?;
    trainers.iter().try_for_each(check_trainer)?;
    check_settings(settings)
}

fn check_trainer(spec: &TrainerSpec) -> Result<(), SimError> {
    let nodes = (
        "max_nodes",
        f64::from(spec.max_nodes),
        f64::from(MOST_NODES),
    );
    let costs = [
        ("rescale.up_s", spec.rescale.up_s, MOST_COST_S),
        ("rescale.down_s", spec.rescale.down_s, MOST_COST_S),
    ];
    for (what, value, most) in costs.into_iter().chain([nodes]) {
        // What is no number is refused too.
        if value.is_nan() || value > most {
            return Err(SimError::Trainer {
                id: spec.id.clone(),
                what,
                value,
                most,
            });
        }
    }
    Ok(())
}

fn check_settings(settings: &Settings) -> Result<(), SimError> {
    let refuse = |what, expected| Err(SimError::Setting { what, expected });
    if settings.horizon.as_ms() <= 0 {
        return refuse("horizon", "more than zero seconds");
    }
    if !(1..=MOST_PARALLEL).contains(&settings.max_parallel) {
        return refuse("max-parallel", "1 to 100,000");
    }
    if let Some(window) = settings.gantt {
        let length = window.until_s - window.from_s;
        if !length.is_finite() || length <= 0.0 || window.from_s < 0.0 {
            return refuse("gantt", "a start of zero or more, and an end after it");
        }
    }
    let joint = &settings.forecast.joint;
    if !joint.horizon_s.is_finite() || joint.horizon_s <= 0.0 {
        return refuse("forecast-horizon", "more than zero seconds");
    }
    if !(0.0..=MOST_HYSTERESIS).contains(&joint.hysteresis) {
        return refuse("hysteresis", "a number from 0 to 100");
    }
    if matches!(&settings.forecast.order, OrderBy::List(nodes) if nodes.is_empty()) {
        return refuse("order", "a list that names at least one node");
    }
    if !(0.0..=MOST_SCALE).contains(&settings.cost_scale) {
        return refuse("cost-scale", "a number from 0 to 1e9");
    }
    Ok(())
}
