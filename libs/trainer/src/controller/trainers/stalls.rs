//! Stalls of programs, measured while they train.
//!
//! The cost of a change of nodes is measured: how much later the new incarnation would have had to
//! begin, at its present rate, to have come as far as it has. That is the stall of the published
//! accounting (seconds of lost training), for stopping, starting, reading a checkpoint or
//! regrouping alike. The start from no nodes is no rescale and is not counted. Each is counted as a
//! stall ([`crate::measure`]). Of a profiled trainer, the mean of the last changes of a kind
//! replaces the submitted cost once there are two of them, and is kept in the record.

use std::collections::VecDeque;

use lacuna_model::{LossCause, MeasuredPause, Progress, RunId, Timestamp, TrainerRecord};

use crate::account::Change;
use crate::controller::trainers::stats::{restored, spread};
use crate::measure;

/// Changes of a kind after which their cost is measured.
const CHANGES: usize = 2;
/// Changes of a kind that are remembered.
const REMEMBERED: usize = 16;
/// A cost is replaced when it is off by more than this share and by more than [`OFF_S`].
const OFF: f64 = 0.2;
/// Seconds.
const OFF_S: f64 = 0.1;

/// A change whose stall is being measured.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Open {
    run: RunId,
    since: Timestamp,
    cause: LossCause,
    /// Whether the trainer grew; nothing if it has as many nodes as before.
    grown: Option<bool>,
    /// The incarnation's first report of progress: when, and how far.
    first: Option<(Timestamp, f64)>,
}

/// A stall that has been measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Stall {
    /// Seconds of lost training.
    pub(crate) seconds: f64,
    /// Whether a rescale cost of the trainer was replaced for it.
    pub(crate) cost_changed: bool,
}

/// The newest stalls of one trainer, seconds.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct StallTimes {
    up: VecDeque<f64>,
    down: VecDeque<f64>,
    open: Option<Open>,
}

impl StallTimes {
    /// Goes on from a record.
    pub(crate) fn resumed(record: &TrainerRecord) -> Self {
        let of = |kept: Option<MeasuredPause>| {
            kept.map(|kept| {
                let count = kept.count.min(REMEMBERED as u32);
                restored(count, kept.mean_s, kept.spread_s).collect()
            })
            .unwrap_or_default()
        };
        let measured = record.measured.as_deref();
        Self {
            up: of(measured.and_then(|m| m.up)),
            down: of(measured.and_then(|m| m.down)),
            open: None,
        }
    }

    /// An incarnation has begun, on `after` nodes.
    pub(crate) fn begin(
        &mut self,
        (run, since): (RunId, Timestamp),
        change: Change,
        before: u32,
        after: u32,
    ) {
        let grown = match change {
            Change::Grown => Some(true),
            Change::Shrunk | Change::Lost { .. } | Change::Restarted => Some(false),
            Change::Repooled | Change::Ended => None,
        };
        let cause = change.cause().filter(|_| before > 0 && after > 0);
        self.open = cause.map(|cause| Open {
            run,
            since,
            cause,
            grown,
            first: None,
        });
    }

    /// Takes a report of the present incarnation. Returns the stall that it is the first to show.
    pub(crate) fn observe(
        &mut self,
        record: &mut TrainerRecord,
        report: &Progress,
    ) -> Option<Stall> {
        let open = self.open.as_mut().filter(|open| open.run == report.run)?;
        let Some((at, samples)) = open.first else {
            open.first = (report.samples > 0.0).then_some((report.at, report.samples));
            return None;
        };
        let (more, seconds) = (report.samples - samples, report.at.since(at).as_secs_f64());
        if more <= 0.0 || seconds <= 0.0 {
            return None;
        }
        let pause = at.since(open.since).as_secs_f64() - samples * seconds / more;
        let (cause, grown) = (open.cause, open.grown);
        self.open = None;
        if !pause.is_finite() {
            return None;
        }
        let (lasted, seconds) = (seconds, pause.max(0.0));
        measure::stalled(record, cause, seconds, seconds * more / lasted);
        let grown = grown.filter(|_| record.spec.is_profiled())?;
        let measured = record.measured.get_or_insert_default();
        let (pauses, kept, cost) = if grown {
            (
                &mut self.up,
                &mut measured.up,
                &mut record.spec.rescale.up_s,
            )
        } else {
            (
                &mut self.down,
                &mut measured.down,
                &mut record.spec.rescale.down_s,
            )
        };
        if pauses.len() == REMEMBERED {
            pauses.pop_front();
        }
        pauses.push_back(seconds);
        if pauses.len() < CHANGES {
            let cost_changed = false;
            return Some(Stall {
                seconds,
                cost_changed,
            });
        }
        let mean = pauses.iter().sum::<f64>() / pauses.len() as f64;
        *kept = Some(MeasuredPause {
            mean_s: mean,
            spread_s: spread(pauses.iter().copied()),
            count: pauses.len() as u32,
            at: report.at,
        });
        let cost_changed = is_off(mean, *cost);
        if cost_changed {
            *cost = mean;
        }
        Some(Stall {
            seconds,
            cost_changed,
        })
    }
}

/// Whether a measured cost is so far from the known one, seconds, that it replaces it.
pub(crate) fn is_off(mean: f64, known: f64) -> bool {
    let off = (mean - known).abs();
    off > OFF_S && off > OFF * known
}
