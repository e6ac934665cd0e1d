//! Stalls of programs, measured while they train.
//!
//! The cost of a change of nodes is measured: how much later the new incarnation would have had to
//! begin, at its present rate, to have come as far as it has. That is the stall of the published
//! accounting (seconds of lost training), for stopping, starting, reading a checkpoint or
//! regrouping alike. Each is counted as a stall ([`crate::measure`]). Of a profiled trainer, the
//! mean of the last changes of a kind counts in place of the submitted cost once there are two of
//! them, and is kept in the record.
//!
//! A start from no nodes is no rescale and is not counted. Its cost is measured in the same way from
//! the command to start the program on, and stands in the record (`Measured.start`) beside the
//! submitted one; `lacuna_rates` says which counts. A program that every change starts
//! again shows it at every change.

use lacuna_model::{LossCause, Progress, RunId, Timestamp, TrainerRecord};
use lacuna_rates::Pauses;

use crate::account::Change;
use crate::measure;

/// A change whose stall is being measured.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Open {
    run: RunId,
    since: Timestamp,
    /// Nothing for a start from no nodes.
    cause: Option<LossCause>,
    /// Since when the program starts, if it does.
    starts: Option<Timestamp>,
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
    /// Whether another cost of the trainer is in force for it.
    pub(crate) cost_changed: bool,
    /// Whether it shows the cost of a start.
    pub(crate) is_start: bool,
}

/// The newest stalls of one trainer, seconds.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct StallTimes {
    pauses: Pauses,
    /// Since when programs start before their first incarnation (cluster time).
    prepared: Option<Timestamp>,
    open: Option<Open>,
}

impl StallTimes {
    /// Goes on from a record.
    pub(crate) fn resumed(record: &TrainerRecord) -> Self {
        Self {
            pauses: Pauses::resumed(record),
            prepared: None,
            open: None,
        }
    }

    /// The programs of a trainer without nodes are being started, before its incarnation begins.
    pub(crate) const fn prepare(&mut self, since: Timestamp) {
        self.prepared = Some(since);
    }

    /// An incarnation has begun, on `after` nodes. `regroups` says whether programs live on over it.
    pub(crate) fn begin(
        &mut self,
        (run, since): (RunId, Timestamp),
        change: Change,
        (before, after): (u32, u32),
        regroups: bool,
    ) {
        let grown = match change {
            Change::Grown => Some(true),
            Change::Shrunk | Change::Lost { .. } | Change::Restarted => Some(false),
            Change::Replaced | Change::Paced | Change::Ended => None,
        };
        let prepared = self.prepared.take().filter(|_| before == 0);
        let starts = before == 0 || !regroups;
        self.open = (after > 0).then(|| Open {
            run,
            since,
            cause: change.cause().filter(|_| before > 0),
            starts: starts.then(|| prepared.unwrap_or(since)),
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
        // What it has done it would have done in this time.
        let trained_s = samples * seconds / more;
        let Open {
            since,
            cause,
            starts,
            grown,
            ..
        } = *open;
        self.open = None;
        if !trained_s.is_finite() {
            return None;
        }
        let lost_s = |since| (at.since(since).as_secs_f64() - trained_s).max(0.0);
        let (lasted, seconds) = (seconds, lost_s(since));
        let mut cost_changed =
            starts.is_some_and(|since| self.pauses.add_start(record, lost_s(since), report.at));
        if let Some(cause) = cause {
            measure::stalled(record, cause, seconds, seconds * more / lasted);
            let grown = grown.filter(|_| record.spec.is_profiled());
            cost_changed |= grown
                .is_some_and(|grown| self.pauses.add_change(record, grown, seconds, report.at));
        }
        Some(Stall {
            seconds,
            cost_changed,
            is_start: starts.is_some(),
        })
    }
}
