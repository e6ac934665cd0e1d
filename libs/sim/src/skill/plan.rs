//! When is asked.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{Moments, SkillOptions};
use crate::{Progress, Recording, SimError};

/// Shown this often, in steps.
const SHOWN_EVERY: u64 = 256;

/// When is asked.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Plan {
    /// From when on predictors are scored, seconds since the start.
    pub(super) from_s: f64,
    /// Events from then on.
    pub(super) events: u64,
    /// Every so many of them.
    pub(super) every: u64,
    /// Which of so many.
    pub(super) phase: u64,
    /// Or at these times, in order, seconds since the start.
    pub(super) times: Vec<f64>,
}

/// Decides when to ask. Events are counted by a walk of its own.
///
/// # Errors
/// [`SimError`] if the recording cannot be read.
pub(super) fn plan(
    recording: &dyn Recording,
    options: &SkillOptions,
    from_s: f64,
    progress: &mut dyn FnMut(Progress),
) -> Result<Plan, SimError> {
    let mut rng = ChaCha8Rng::seed_from_u64(options.seed);
    let length_s = recording.length_s();
    let mut plan = Plan {
        from_s,
        ..Plan::default()
    };
    let mut steps = recording.steps()?;
    let mut walked = 0_u64;
    while let Some(step) = steps.next()? {
        if step.at_s >= length_s {
            break;
        }
        walked += 1;
        plan.events += u64::from(step.at_s >= from_s);
        show(progress, "counting", walked, step.at_s, length_s);
    }
    match options.moments {
        Moments::Events(most) => {
            plan.every = plan.events.div_ceil(u64::from(most.max(1))).max(1);
            plan.phase = rng.random_range(0..plan.every);
        }
        Moments::Times(number) => {
            // One moment in each of equal parts, so that they are spread and hit no rhythm.
            let part = (length_s - from_s).max(0.0) / f64::from(number.max(1));
            plan.times = (0..number)
                .map(|at| (f64::from(at) + rng.random::<f64>()).mul_add(part, from_s))
                .collect();
        }
    }
    Ok(plan)
}

/// Shows how far a walk has come.
pub(super) fn show(
    progress: &mut dyn FnMut(Progress),
    stage: &'static str,
    events: u64,
    done_s: f64,
    total_s: f64,
) {
    if events.is_multiple_of(SHOWN_EVERY) {
        progress(Progress {
            stage,
            done_s,
            total_s,
            events,
            trainers_done: 0,
        });
    }
}
