//! The moments of questions.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{SampleTimes, SkillOptions};
use crate::{PoolTrace, Progress, SimError};

/// Steps between two reports of progress.
const SHOWN_EVERY: u64 = 256;

/// The moments of an evaluation.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Plan {
    /// Start of scoring, seconds since the start.
    pub(super) from_s: f64,
    /// Events from the start of scoring.
    pub(super) events: u64,
    /// Moments of questions from the start of scoring.
    pub(super) asking: Asking,
    /// Moments of questions before it, for the training constant.
    pub(super) past: Asking,
}

/// Moments: every k-th step, or given times.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Asking {
    /// The number k of steps between two moments; 0 for none.
    pub(super) every: u64,
    /// The remainder that selects steps.
    pub(super) phase: u64,
    /// Or given times, ascending, seconds since the start.
    pub(super) times: Vec<f64>,
}

impl Asking {
    /// Moments between two times, with `steps` steps between them.
    fn new(
        moments: SampleTimes,
        steps: u64,
        from_s: f64,
        until_s: f64,
        rng: &mut ChaCha8Rng,
    ) -> Self {
        let mut asking = Self::default();
        match moments {
            SampleTimes::Events(most) => {
                asking.every = steps.div_ceil(u64::from(most.max(1))).max(1);
                asking.phase = rng.random_range(0..asking.every);
            }
            SampleTimes::Times(number) => {
                // One random moment in each of equal parts: spread out, and in step with no rhythm.
                let part = (until_s - from_s).max(0.0) / f64::from(number.max(1));
                let time = |at| (f64::from(at) + rng.random::<f64>()).mul_add(part, from_s);
                asking.times = (0..number).map(time).collect();
            }
        }
        asking
    }
}

/// Chooses the moments. A walk of its own counts the events.
///
/// # Errors
/// [`SimError`] if the trace cannot be read.
pub(super) fn plan(
    trace: &dyn PoolTrace,
    options: &SkillOptions,
    from_s: f64,
    progress: &mut dyn FnMut(Progress),
) -> Result<Plan, SimError> {
    let mut rng = ChaCha8Rng::seed_from_u64(options.seed);
    let length_s = trace.length_s();
    let mut plan = Plan {
        from_s,
        ..Plan::default()
    };
    let mut steps = trace.steps()?;
    let (mut walked, mut before) = (0_u64, 0_u64);
    while let Some(step) = steps.next()? {
        if step.at_s >= length_s {
            break;
        }
        walked += 1;
        plan.events += u64::from(step.at_s >= from_s);
        before += u64::from(step.at_s < from_s);
        show(progress, "counting", walked, step.at_s, length_s);
    }
    plan.asking = Asking::new(options.moments, plan.events, from_s, length_s, &mut rng);
    if from_s > 0.0 {
        plan.past = Asking::new(options.moments, before, 0.0, from_s, &mut rng);
    }
    Ok(plan)
}

/// Reports the progress of a walk.
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
