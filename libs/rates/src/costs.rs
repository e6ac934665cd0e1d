//! Costs of changes of nodes as they were measured: the newest few, and their mean.

use std::collections::VecDeque;

use lacuna_model::{Measured, MeasuredPause, MeasuredStart, Timestamp, TrainerRecord};

use crate::Rates;
use crate::stats::{restored, spread};

/// Changes of a kind after which their cost is measured.
const CHANGES: usize = 2;
/// Changes of a kind that are remembered.
const REMEMBERED: usize = 16;
/// A cost is replaced when it is off by more than this share and by more than [`OFF_S`].
const OFF: f64 = 0.2;
/// Seconds.
const OFF_S: f64 = 0.1;

/// The newest costs of one trainer, seconds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Pauses {
    up: VecDeque<f64>,
    down: VecDeque<f64>,
    start: VecDeque<f64>,
}

impl Pauses {
    /// Goes on from a record.
    #[must_use]
    pub fn resumed(record: &TrainerRecord) -> Self {
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
            start: of(measured.and_then(own_start)),
        }
    }

    /// Adds the cost of a start. Returns whether plans depend on it.
    pub fn add_start(&mut self, record: &mut TrainerRecord, seconds: f64, at: Timestamp) -> bool {
        add(&mut self.start, seconds);
        let known = Rates::of(record).start_s();
        let measured = record.measured.get_or_insert_default();
        measured.start = Some(MeasuredStart {
            pause: summed_up(&self.start, at),
            from: None,
        });
        is_off(Rates::of(record).start_s(), known)
    }

    /// Adds the cost of growing or shrinking. Returns whether another cost is in force.
    pub fn add_change(
        &mut self,
        record: &mut TrainerRecord,
        grown: bool,
        seconds: f64,
        at: Timestamp,
    ) -> bool {
        let submitted = record.spec.rescale;
        let measured = record.measured.get_or_insert_default();
        let now = &mut measured.in_force;
        let (pauses, kept, now, submitted) = if grown {
            let (now, submitted) = (&mut now.up_s, submitted.up_s);
            (&mut self.up, &mut measured.up, now, submitted)
        } else {
            let (now, submitted) = (&mut now.down_s, submitted.down_s);
            (&mut self.down, &mut measured.down, now, submitted)
        };
        add(pauses, seconds);
        if pauses.len() < CHANGES {
            return false;
        }
        let pause = summed_up(pauses, at);
        *kept = Some(pause);
        let replaces = is_off(pause.mean_s, now.unwrap_or(submitted));
        if replaces {
            *now = Some(pause.mean_s);
        }
        replaces
    }
}

fn add(pauses: &mut VecDeque<f64>, seconds: f64) {
    if pauses.len() == REMEMBERED {
        pauses.pop_front();
    }
    pauses.push_back(seconds);
}

/// The mean and the spread of the newest pauses, the last of them at `at`.
fn summed_up(pauses: &VecDeque<f64>, at: Timestamp) -> MeasuredPause {
    MeasuredPause {
        mean_s: pauses.iter().sum::<f64>() / pauses.len().max(1) as f64,
        spread_s: spread(pauses.iter().copied()),
        count: pauses.len() as u32,
        at,
    }
}

/// The start that was measured of the trainer itself.
fn own_start(measured: &Measured) -> Option<MeasuredPause> {
    let start = measured.start.as_ref().filter(|start| start.from.is_none());
    start.map(|start| start.pause)
}

/// Whether a measured cost is so far from the known one, seconds, that it replaces it.
#[must_use]
pub fn is_off(mean: f64, known: f64) -> bool {
    let off = (mean - known).abs();
    off > OFF_S && off > OFF * known
}
