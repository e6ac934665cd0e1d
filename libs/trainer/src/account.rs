//! How samples and costs are counted.
//!
//! - The record keeps `samples_before` (closed incarnations) and `samples_run` (the newest report
//!   of the present one, never decreasing). Reports are cumulative within an incarnation and the
//!   largest counts. So a report that comes twice, late or out of order counts no sample twice, and
//!   a crash loses at most the samples not yet reported.
//! - When an incarnation ends, its newest report is added to `samples_before`. Reports of moments
//!   up to its end still count. A program may save while it is stopped, so its reports count up to
//!   the agent's grace and five seconds later. Reports of later moments are `Late` and ignored.
//! - The record keeps the last sixteen ended incarnations (`TrainerRecord::ended_runs`). So these
//!   reports count even if control ends before they come: a start reads what the bus kept of them.
//! - Only reports of the node of rank 0 count ([`TrainerRecord::leaders`]), also after the end of
//!   the incarnation.
//! - A program that writes checkpoints begins again at its newest one. So of its ended incarnation
//!   only the samples in that checkpoint (`Progress.saved`) are added, unless the work is done. The
//!   others are samples redone. A program without checkpoints is credited with all samples that it
//!   reported.
//! - A program that regroups keeps its state over its incarnations. Each report says how many
//!   samples that state had absorbed when the incarnation began (`Progress.base`). This replaces
//!   the count of earlier incarnations, upwards or downwards. So the next report corrects reports
//!   that were lost with a killed rank 0, and work since the last checkpoint when all members died.
//! - Work past the end of a trainer does not count.
//! - A change of the nodes costs seconds of training ([`stall_debt`], published accounting of
//!   BFTrainer, arXiv 2106.12091): `rate_before * up_s` when the trainer grows, `rate_before *
//!   down_s` when it shrinks or is preempted, a preemption once however many nodes are lost at one
//!   moment, and `rate_after * start_s` when it starts from no nodes (without `start` a simulated
//!   trainer starts free). The cost is stall debt in samples (`owed`), which the next incarnation
//!   pays first. Only simulated trainers are charged: losses of programs are measured
//!   (`controller/trainers/stalls.rs`, [`crate::measure`]).
//! - The record keeps when the incarnation began and its debt then, so a restarted control gives
//!   the same command.
//! - Samples count as service at the moment of their report ([`lacuna_model::Attained`]). Samples
//!   redone are subtracted.
//! - A trainer that a departure has hit restarts anyway. A plan for it begins the stall again, at
//!   the cost of the part already paid: nothing at the moment of the departure.

use lacuna_model::{
    EndedRun, Launch, LossCause, Phase, Program, Progress, RescaleCost, RunId, Span, Timestamp,
    TrainerRecord, TrainerSpec, Work,
};

use crate::Ledger;
use crate::measure;

/// Why the set of a trainer's nodes changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The planner gives it more nodes.
    Grown,
    /// The planner takes nodes from it.
    Shrunk,
    /// Nodes leave unasked, by an event of this moment.
    Lost {
        /// The moment of the event. Several losses of one moment are one preemption.
        at: Timestamp,
    },
    /// The planner places it again (more, fewer or other nodes) while it stalls after a loss.
    Replaced,
    /// Its program starts again on the same nodes.
    Restarted,
    /// It keeps its nodes, and its rate there is another, since other trainers share its uplinks.
    Paced,
    /// The trainer has ended.
    Ended,
}

impl Change {
    /// The change by a plan from `before` nodes to a different number `after`. `hit` says whether
    /// the trainer stalls after a loss.
    #[must_use]
    pub const fn planned(before: u32, after: u32, hit: bool) -> Self {
        if hit {
            Self::Replaced
        } else if after > before {
            Self::Grown
        } else {
            Self::Shrunk
        }
    }

    /// The cause under which its cost is counted; `None` if it costs nothing.
    #[must_use]
    pub const fn cause(self) -> Option<LossCause> {
        match self {
            Self::Grown | Self::Shrunk | Self::Replaced => Some(LossCause::Rescale),
            Self::Lost { .. } => Some(LossCause::Preempt),
            Self::Restarted => Some(LossCause::Restart),
            Self::Paced | Self::Ended => None,
        }
    }
}

/// Rates of a trainer around a change of its nodes, samples/s; zero where it does not run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// On the nodes before.
    pub before: f64,
    /// On the nodes after.
    pub after: f64,
}

/// Stall debt of a change of the nodes, samples. `start_s` is that of
/// [`lacuna_rates::Rates::start_s`]. [`Change::Replaced`] costs 0 here: a stall that begins
/// again costs its part already paid, which only [`LossAccount`] knows.
#[must_use]
pub fn stall_debt(rescale: &RescaleCost, start_s: f64, change: Change, rates: Rates) -> f64 {
    match change {
        Change::Grown if rates.before <= 0.0 => rates.after * start_s,
        Change::Grown => rates.before * rescale.up_s,
        Change::Shrunk | Change::Lost { .. } | Change::Restarted => rates.before * rescale.down_s,
        Change::Replaced | Change::Paced | Change::Ended => 0.0,
    }
}

/// Whether only the samples in its newest checkpoint count once an incarnation has ended.
fn counts_saved_only(record: &TrainerRecord) -> bool {
    // The next incarnation of a program that regroups reports what the state had absorbed.
    let saves = matches!(
        record.spec.launch,
        Launch::Command(Program {
            checkpoint_dir: Some(_),
            ..
        })
    );
    saves && !record.spec.launch.regroups() && record.phase != Phase::Done
}

/// The result of a report.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Counted {
    /// It added this many samples (zero if it is not new).
    Samples(f64),
    /// It is of an incarnation that is not kept any more, or of a moment after its end.
    Late,
    /// Its node does not lead that incarnation.
    Foreign,
    /// A figure is negative, above [`TrainerSpec::MOST_SAMPLES`], or not a number.
    Nonsense,
}

/// How many ended incarnations of a trainer are kept for their last reports, at most.
const REMEMBERED: usize = 16;

/// Accounting of one trainer's incarnations. The figures themselves are in its record.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LossAccount {
    /// When the present incarnation began.
    since: Timestamp,
    /// The moment that `record.owed` refers to.
    owed_at: Timestamp,
    /// The newest moment that the present incarnation has reported.
    reported: Option<Timestamp>,
    /// Why the present incarnation began, or why the one before it ended if there were no nodes
    /// between.
    began: Option<LossCause>,
    /// The last moment at which a loss was charged.
    lost_at: Option<Timestamp>,
}

impl LossAccount {
    /// The newest moment that the present incarnation has reported, or its beginning.
    #[must_use]
    pub fn reported(&self) -> Timestamp {
        self.reported.unwrap_or(self.since)
    }

    /// Takes over an incarnation that continued while control was down. Its stall debt is computed
    /// from its beginning until it reports.
    pub fn resume(&mut self, record: &mut TrainerRecord) {
        self.since = record.run_since;
        self.owed_at = record.run_since;
        record.owed = record.run_owed;
        // This account has had no report of it yet.
        self.reported = Some(Timestamp::default());
    }

    /// Ends the present incarnation at `at`, charges the change to nodes on which the rate is
    /// `after` (samples/s), and begins the incarnation of the next number. `record.nodes` must
    /// still be those of the one that ends. `allowance` is the time after `at` in which its reports
    /// still count.
    ///
    /// Returns whether the change is a new loss (several losses of one moment are one).
    pub fn turn(
        &mut self,
        record: &mut TrainerRecord,
        change: Change,
        after: f64,
        at: Timestamp,
        allowance: Span,
    ) -> bool {
        let known = record.samples();
        let before = record.nodes.len() as u32;
        let simulated = matches!(record.spec.launch, Launch::Simulated);
        let saved_only = counts_saved_only(record);
        let counted = if saved_only {
            record.saved_run.min(record.samples_run)
        } else {
            record.samples_run
        };
        let mut ledger = Ledger::indebted(record.owed);
        if before > 0 {
            if record.ended_runs.len() >= REMEMBERED {
                record.ended_runs.remove(0);
            }
            let ended = EndedRun {
                run: record.run,
                leaders: record.leaders().to_vec(),
                saved_only,
                counted,
                reported: record.samples_run,
                cause: change.cause(),
                until: at + allowance,
            };
            record.ended_runs.push(ended);
            if simulated {
                let rate = lacuna_rates::Rates::of(record).present();
                ledger.advance(at.since(self.owed_at).as_secs_f64(), rate);
            }
        }
        measure::held(record, at);
        if let Some(cause) = change.cause() {
            measure::redone(record, cause, record.samples_run - counted);
        }
        if before > 0 || self.began.is_none() {
            self.began = change.cause();
        }
        record.samples_before += counted;
        record.samples_run = 0.0;
        record.saved_run = 0.0;
        serve(record, known, at);

        let again = matches!(change, Change::Lost { at } if self.lost_at == Some(at));
        let of = lacuna_rates::Rates::of(record);
        let rates = Rates {
            before: record.mix_rate.unwrap_or_else(|| of.near(before)),
            after,
        };
        let cost = match change {
            _ if again || !simulated => 0.0,
            Change::Replaced => (record.run_owed - ledger.debt()).max(0.0),
            _ => {
                let known = lacuna_rates::Rates::of(record);
                stall_debt(&known.rescale(), known.start_s(), change, rates)
            }
        };
        ledger.charge(cost);
        if let Some(cause) = change.cause() {
            // A start stalls the nodes that it begins on.
            let rate = if rates.before > 0.0 {
                rates.before
            } else {
                rates.after
            };
            measure::stalled(record, cause, measure::share(cost, rate), cost);
        }
        if let Change::Lost { at } = change {
            self.lost_at = Some(at);
        }
        // A real program stalls by itself. Only a simulated one needs its debt in the command.
        record.owed = if simulated { ledger.debt() } else { 0.0 };
        record.run = RunId(record.run.0 + 1);
        record.run_since = at;
        record.run_owed = record.owed;
        self.since = at;
        self.owed_at = at;
        self.reported = None;
        matches!(change, Change::Lost { .. }) && !again
    }

    /// Counts a report of the trainer's present incarnation or of one that has just ended, and its
    /// samples as service.
    pub fn report(&mut self, record: &mut TrainerRecord, report: &Progress) -> Counted {
        let known = record.samples();
        let counted = self.count(record, report);
        serve(record, known, report.at);
        counted
    }

    fn count(&mut self, record: &mut TrainerRecord, report: &Progress) -> Counted {
        let sane = |x: f64| (0.0..=TrainerSpec::MOST_SAMPLES).contains(&x);
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
            if !record.leaders().contains(&report.node) {
                return Counted::Foreign;
            }
            let (known, before) = (record.samples(), record.samples_before);
            if let Some(base) = report.base {
                // The samples that the model has absorbed replace the count: late reports of
                // earlier incarnations are in them, and lost samples are not.
                if base < before
                    && let Some(cause) = self.began
                {
                    measure::redone(record, cause, before - base);
                }
                record.samples_before = base;
                record.ended_runs.clear();
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
        let mut ended = record.ended_runs.iter_mut();
        match ended.find(|ended| ended.run == report.run) {
            Some(ended) if !ended.leaders.contains(&report.node) => Counted::Foreign,
            Some(ended) if report.at <= ended.until => {
                let done = if ended.saved_only {
                    saved.min(report.samples)
                } else {
                    report.samples
                };
                let more = (done - ended.counted).max(0.0).min(left);
                let unheard = (report.samples - ended.reported).max(0.0);
                ended.counted += more;
                ended.reported += unheard;
                let redone = ended.cause.filter(|_| ended.saved_only);
                record.samples_before += more;
                if let Some(cause) = redone {
                    measure::redone(record, cause, unheard - more);
                }
                if self.reported.is_none() {
                    note(record, report);
                }
                Counted::Samples(more)
            }
            Some(_) | None => Counted::Late,
        }
    }
}

/// Counts a report into its record: control was away when it came.
pub fn catch_up(record: &mut TrainerRecord, report: &Progress) {
    let mut account = LossAccount::default();
    account.resume(record);
    account.report(record, report);
}

/// Counts the samples beyond `known` as service.
fn serve(record: &mut TrainerRecord, known: f64, at: Timestamp) {
    let more = record.samples() - known;
    if more != 0.0 {
        let service_s = lacuna_rates::Rates::of(record).service_s(more);
        record.attained.add(service_s, at);
    }
}

/// Keeps the loss, the checkpoint, the costs and the worth of a step of a report.
fn note(record: &mut TrainerRecord, report: &Progress) {
    if report.loss.is_some() {
        record.loss = report.loss;
    }
    if let Some(checkpoint) = &report.checkpoint
        && record.spec.launch.keeps(checkpoint)
    {
        record.checkpoint = Some(checkpoint.clone());
    }
    if report.step_costs.is_some() {
        record.step_costs.clone_from(&report.step_costs);
        record.no_replay = None;
    } else if report.no_replay.is_some() {
        record.no_replay.clone_from(&report.no_replay);
    }
    if report.learning.is_some() {
        record.learning.clone_from(&report.learning);
    }
}

/// Whether all work of the trainer is done, within a millionth of a sample, since sums of
/// fractions are not exact.
#[must_use]
pub fn is_done(record: &TrainerRecord) -> bool {
    match record.spec.work {
        Work::Samples(work) => record.samples() + 1e-6 >= work,
        Work::UntilExit => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESCALE: RescaleCost = RescaleCost::of(18.0, 12.0);

    #[test]
    fn growing_and_shrinking_cost_the_rate_before_and_a_start_the_rate_after() {
        let lost = Change::Lost {
            at: Timestamp::default(),
        };
        for (change, before, after, debt) in [
            (Change::Grown, 20.0, 40.0, 360.0),
            (Change::Shrunk, 40.0, 20.0, 480.0),
            (Change::Shrunk, 40.0, 0.0, 480.0),
            (lost, 40.0, 0.0, 480.0),
            (Change::Restarted, 40.0, 40.0, 480.0),
            (Change::Grown, 0.0, 40.0, 1_600.0),
            // Nodes below the minimum: nothing ran there.
            (Change::Grown, 0.0, 0.0, 0.0),
            (Change::Shrunk, 0.0, 0.0, 0.0),
            (lost, 0.0, 0.0, 0.0),
            (Change::Replaced, 40.0, 80.0, 0.0),
            (Change::Replaced, 0.0, 80.0, 0.0),
            (Change::Ended, 40.0, 0.0, 0.0),
        ] {
            let rates = Rates { before, after };
            let found = stall_debt(&RESCALE, 40.0, change, rates);
            assert_eq!(found, debt, "{change:?} {rates:?}");
        }
    }

    #[test]
    fn a_plan_for_a_trainer_that_was_hit_is_a_new_placement_whatever_its_size() {
        for (before, after, hit, change) in [
            (2, 4, false, Change::Grown),
            (4, 2, false, Change::Shrunk),
            (0, 4, false, Change::Grown),
            (2, 4, true, Change::Replaced),
            (4, 2, true, Change::Replaced),
            (0, 4, true, Change::Replaced),
        ] {
            assert_eq!(Change::planned(before, after, hit), change);
        }
    }
}
