//! How samples and costs are counted.
//!
//! - Samples are counted per run, from cumulative reports: the largest counts, so that a
//!   report that comes twice, late or out of order counts nothing twice.
//! - When a run ends, what it has reported is added to the trainer's past. Its books stay
//!   open a while for the last report of its agent, but only for work done before the end
//!   (for real programs: a little longer, since they may save while they are being stopped).
//!   What comes later still is late, and is ignored.
//! - A program that writes checkpoints begins again at its newest one. So when such a run ends
//!   before the work is done, only what the checkpoint covers is added to the past: the rest
//!   will be done again. A program without checkpoints is credited with all that it reported.
//! - A program that regroups keeps its state over its runs, and says with each report how many
//!   samples that state had absorbed when the run began: that replaces what was counted of
//!   earlier runs, in both directions.
//! - Work past the end of a trainer does not count.
//! - A change of size costs seconds of training at the rate before the change (published
//!   accounting of BFTrainer, arXiv 2106.12091): `rate_before * up_s` when it grows,
//!   `rate_before * down_s` when it shrinks or is preempted, a preemption once however many
//!   nodes are lost at one moment, and a start from zero nodes is free. The cost is owed in
//!   samples and sat out by the next run first. A trainer that was hit and takes other nodes
//!   while it still sits that out begins its pause again: that costs what it has sat out.

use std::collections::VecDeque;

use lacuna_model::{
    Launch, Phase, Progress, RunId, Span, Timestamp, TrainerRecord, TrainerSpec, Work,
};

use crate::simulated::owed_after;

/// Why the set of a trainer's nodes changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The planner gives it more nodes.
    Grown,
    /// The planner takes nodes from it.
    Shrunk,
    /// It loses nodes without having been asked, by an event of this moment.
    Lost {
        /// The moment of the event: several losses of one moment are one preemption.
        at: Timestamp,
    },
    /// The planner gives it other nodes while it sits out a loss.
    Repooled,
    /// Its program starts again on the same nodes.
    Restarted,
    /// It is over.
    Ended,
}

/// What a change costs, in samples; for [`Change::Repooled`] that depends on the books.
#[must_use]
pub fn cost(spec: &TrainerSpec, nodes_before: u32, change: Change) -> f64 {
    let seconds = match change {
        Change::Grown => spec.rescale.up_s,
        Change::Shrunk | Change::Lost { .. } | Change::Restarted => spec.rescale.down_s,
        Change::Repooled | Change::Ended => 0.0,
    };
    let rate = if nodes_before >= spec.min_nodes {
        spec.throughput.at(nodes_before)
    } else {
        0.0
    };
    rate * seconds
}

/// What counts of a run that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Credit {
    /// All that it reported.
    All,
    /// What its newest checkpoint covers.
    Saved,
}

impl Credit {
    fn of(record: &TrainerRecord) -> Self {
        match &record.spec.launch {
            // Its next run says what its state had absorbed.
            launch if launch.regroups() => Self::All,
            Launch::Command {
                checkpoint_dir: Some(_),
                ..
            } if record.phase != Phase::Done => Self::Saved,
            Launch::Command { .. } | Launch::Simulated => Self::All,
        }
    }
}

/// A run that has ended and whose last report may still come.
#[derive(Debug, Clone, PartialEq)]
struct Closed {
    run: RunId,
    credit: Credit,
    /// Samples counted of it.
    counted: f64,
    /// Reports of later moments are not counted.
    until: Timestamp,
}

/// What became of a report.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Counted {
    /// It added this many samples (zero if it says nothing new).
    Samples(f64),
    /// It belongs to a run whose books are closed, or tells of work after the run's end.
    Late,
    /// Its figures are no figures: negative, infinite or not numbers.
    Nonsense,
}

/// How many ended runs of a trainer are remembered for their last report.
const REMEMBERED: usize = 16;

/// The books of one trainer's runs; the figures themselves stand in its record.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Account {
    /// When the present run began.
    since: Timestamp,
    /// The moment that `record.owed` refers to.
    owed_at: Timestamp,
    /// The newest moment that the present run has reported.
    reported: Option<Timestamp>,
    closed: VecDeque<Closed>,
    /// The last moment at which a loss was charged.
    lost_at: Option<Timestamp>,
}

impl Account {
    /// The newest moment that the present run has reported, or its beginning.
    #[must_use]
    pub fn reported(&self) -> Timestamp {
        self.reported.unwrap_or(self.since)
    }

    /// Takes over a run that went on while its books were not kept (control was away): what
    /// it owes is reckoned from its beginning until it reports.
    pub fn resume(&mut self, record: &mut TrainerRecord) {
        self.since = record.run_since;
        self.owed_at = record.run_since;
        record.owed = record.run_owed;
        // It has told this account nothing yet.
        self.reported = Some(Timestamp::default());
    }

    /// Ends the present run at `at`, charges the change, and begins the next run with the
    /// number after it. `record.nodes` must still be those of the run that ends.
    ///
    /// Returns whether the change was charged as a new loss (several losses of one moment
    /// are one).
    pub fn turn(
        &mut self,
        record: &mut TrainerRecord,
        change: Change,
        at: Timestamp,
        allowance: Span,
    ) -> bool {
        let before = record.nodes.len() as u32;
        let simulated = matches!(record.spec.launch, Launch::Simulated);
        let credit = Credit::of(record);
        let counted = match credit {
            Credit::All => record.samples_run,
            Credit::Saved => record.saved_run.min(record.samples_run),
        };
        if before > 0 {
            if self.closed.len() == REMEMBERED {
                self.closed.pop_front();
            }
            self.closed.push_back(Closed {
                run: record.run,
                credit,
                counted,
                until: at + allowance,
            });
            if simulated {
                let elapsed = at.since(self.owed_at);
                record.owed = owed_after(record.owed, record.rate(), elapsed);
            }
        }
        record.samples_before += counted;
        record.samples_run = 0.0;
        record.saved_run = 0.0;

        let again = matches!(change, Change::Lost { at } if self.lost_at == Some(at));
        let cost = if again {
            0.0
        } else if change == Change::Repooled && before > 0 {
            (record.run_owed - record.owed).max(0.0)
        } else {
            cost(&record.spec, before, change)
        };
        match change {
            Change::Grown | Change::Shrunk | Change::Repooled => record.rescale_cost += cost,
            Change::Lost { at } => {
                self.lost_at = Some(at);
                record.preempt_cost += cost;
            }
            Change::Restarted => record.preempt_cost += cost,
            Change::Ended => {}
        }
        // A real program pays in time by itself; only the simulated one has to be told.
        record.owed = if simulated { record.owed + cost } else { 0.0 };
        record.run = RunId(record.run.0 + 1);
        record.run_since = at;
        record.run_owed = record.owed;
        self.since = at;
        self.owed_at = at;
        self.reported = None;
        matches!(change, Change::Lost { .. }) && !again
    }

    /// Counts a report of the trainer's present run or of one that has just ended.
    pub fn report(&mut self, record: &mut TrainerRecord, report: &Progress) -> Counted {
        let sane = |x: f64| x.is_finite() && x >= 0.0;
        let saved = report.saved.unwrap_or_default();
        if !sane(report.samples) || !sane(report.owed) || !sane(saved) {
            return Counted::Nonsense;
        }
        let left = match record.spec.work {
            Work::Samples(work) => (work - record.samples_before - record.samples_run).max(0.0),
            Work::UntilExit => f64::INFINITY,
        };
        let base = report.base.unwrap_or_default();
        if !sane(base) {
            return Counted::Nonsense;
        }
        if report.run == record.run && !record.nodes.is_empty() {
            let (known, before) = (record.samples(), record.samples_before);
            if let Some(base) = report.base {
                // What the model has absorbed is the truth: whatever earlier runs have still
                // to say is in it, and what it had lost is not.
                record.samples_before = base;
                self.closed.clear();
            }
            let left = left + before - record.samples_before;
            let more = (report.samples - record.samples_run).max(0.0).min(left);
            record.samples_run += more;
            record.saved_run = record.saved_run.max(saved).min(record.samples_run);
            if self.reported.is_none_or(|newest| report.at >= newest) {
                self.reported = Some(report.at);
                if matches!(record.spec.launch, Launch::Simulated) {
                    record.owed = report.owed;
                    self.owed_at = report.at;
                }
                note(record, report);
            }
            if report.base.is_some() {
                return Counted::Samples((record.samples() - known).max(0.0));
            }
            return Counted::Samples(more);
        }
        match self.closed.iter_mut().find(|c| c.run == report.run) {
            Some(closed) if report.at <= closed.until => {
                let done = match closed.credit {
                    Credit::All => report.samples,
                    Credit::Saved => saved.min(report.samples),
                };
                let more = (done - closed.counted).max(0.0).min(left);
                closed.counted += more;
                record.samples_before += more;
                if self.reported.is_none() {
                    note(record, report);
                }
                Counted::Samples(more)
            }
            Some(_) | None => Counted::Late,
        }
    }
}

/// Keeps what the report says beside figures.
fn note(record: &mut TrainerRecord, report: &Progress) {
    if report.loss.is_some() {
        record.loss = report.loss;
    }
    if report.checkpoint.is_some() {
        record.checkpoint.clone_from(&report.checkpoint);
    }
}

/// Whether all work of the trainer is done. A millionth of a sample short is done: sums of
/// fractions are not exact.
#[must_use]
pub fn is_done(record: &TrainerRecord) -> bool {
    match record.spec.work {
        Work::Samples(work) => record.samples() + 1e-6 >= work,
        Work::UntilExit => false,
    }
}
