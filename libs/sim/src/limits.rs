//! Limits of a replay's input: invalid settings, and numbers that only damage or malice explains.
//!
//! The bounds are far beyond any centre's. With them such input ends in an error that names it,
//! and not in a lack of memory, an overflow, or an endless loop.

use lacuna_forecast::OrderBy;
use lacuna_model::TrainerSpec;

use crate::{PoolTrace, Settings, SimError};

/// Most years of a trace. Each day takes memory in the history, each hour in the statistics.
const MOST_YEARS: f64 = 1000.0;
const YEAR_S: f64 = 365.25 * 86_400.0;

/// Most trainers at a time. Dedicated nodes and endless lists reach this number.
const MOST_PARALLEL: u32 = 100_000;

/// Most nodes of a trainer. Each size takes memory for its rate.
const MOST_NODES: u32 = 1_000_000;

/// Largest cost of a change in seconds, and largest factor on costs.
const MOST_COST_S: f64 = 1e9;
const MOST_SCALE: f64 = 1e9;

/// Largest hysteresis: the factor by which the gain of a change must exceed its cost.
const MOST_HYSTERESIS: f64 = 100.0;

/// Checks the length of a trace.
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

/// Checks the input of a replay.
///
/// # Errors
/// [`SimError`] names the first invalid input.
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
    check_kinds(trace, trainers)?;
    check_settings(settings)
}

/// Trainers that know kinds, on nodes of several kinds.
fn check_kinds(trace: &dyn PoolTrace, trainers: &[TrainerSpec]) -> Result<(), SimError> {
    let kinds = trace.kinds();
    for spec in trainers.iter().filter(|spec| !spec.kinds.is_any()) {
        let id = spec.id.clone();
        if kinds.is_empty() {
            return Err(SimError::KindsUnknown { id });
        }
        if let Some(kind) = spec.kinds.names().find(|kind| !kinds.contains(kind)) {
            let (kind, kinds) = (kind.clone(), kinds.to_vec());
            return Err(SimError::UnknownKind { id, kind, kinds });
        }
    }
    Ok(())
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
        // NaN is refused too.
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
    if !settings.beside.is_empty() && settings.beside.checkpoint_every.as_ms() <= 0 {
        return refuse("checkpoint-every", "more than zero seconds");
    }
    let positive = |at_s: &f64| at_s.is_finite() && *at_s > 0.0;
    if !settings.milestones.iter().all(positive) || !settings.milestones.is_sorted() {
        return refuse("milestones", "lengths of time of more than zero, ascending");
    }
    let joint = &settings.forecast.joint;
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
