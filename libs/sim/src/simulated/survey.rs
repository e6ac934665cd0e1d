//! The survey of a log: its contents, and the totals of its simulation.

use std::cell::RefCell;
use std::rc::Rc;

use lacuna_batchsim::{BatchJob, Totals};
use lacuna_model::Timestamp;
use lacuna_trace::{Damage, Format, LogHeader};

use super::SimulatedTrace;
use super::feed::{Feed, JobCounts, Shared};
use crate::SimError;

/// Most jobs of a log that is sorted in memory (some 120 MB).
const SORTABLE: u64 = 2_000_000;

/// Progress of a survey.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SurveyProgress {
    /// Lines read.
    pub lines: u64,
    /// Bytes of plain text read.
    pub bytes: u64,
    /// Jobs given to the simulator.
    pub jobs: u64,
}

/// Contents of a log, and totals of its simulation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Survey {
    /// The log's format.
    pub format: Option<Format>,
    /// The log's header.
    pub header: LogHeader,
    /// Damaged lines of the log.
    pub damage: Damage,
    /// Its records by their use.
    pub counts: JobCounts,
    /// Whether its jobs were sorted by submission in memory. In a log that is too long for that, a
    /// late job counts as submitted when it is read ([`Totals::late`]).
    pub sorted: bool,
    /// Time of the first submission.
    pub first_submit: Timestamp,
    /// Time of the last submission.
    pub last_submit: Timestamp,
    /// End of the last job on the simulated machine.
    pub last_end: Timestamp,
    /// Totals of the simulation of the whole log.
    pub totals: Totals,
    /// Totals of the simulation until the last submission, or until the end of the part to replay
    /// if that comes first. The time in which the machine only empties is not in them.
    pub totals_in_use: Totals,
    /// Fraction of the node-time of the part to replay that jobs used. Drained and reserved time
    /// counts as offered.
    pub utilisation: f64,
    /// Holes that had ended before the part to replay.
    pub history_holes: u64,
    /// Jobs without a walltime, whose true length the simulated scheduler therefore knows. With
    /// many of them its planned starts are better than any real scheduler's.
    pub knows_lengths: u64,
}

impl SimulatedTrace {
    /// Fills in the survey, the part to replay, and the sorted jobs.
    pub(super) fn look(
        &mut self,
        progress: &mut dyn FnMut(SurveyProgress),
    ) -> Result<(), SimError> {
        let shared = Rc::new(RefCell::new(Shared::default()));
        let mut seen = self.simulate(&shared, progress)?;
        let late = shared.borrow().counts.late;
        if late > 0 && shared.borrow().counts.jobs <= SORTABLE {
            self.sorted = Some(self.sort()?);
            seen = self.simulate(&Rc::default(), progress)?;
        }
        let shared = shared.take();
        let (Some(first), Some(last)) = (shared.first_submit, shared.last_submit) else {
            return Err(SimError::NoJobs {
                path: self.path.clone(),
                records: shared.counts.records,
            });
        };
        let window = self.simulation.window;
        let second = |at: Timestamp| at.unix_ms().div_euclid(1000);
        self.from_s = window.start.map_or(first, second).max(first);
        let end = if last > self.from_s {
            last
        } else {
            seen.totals.at
        };
        let end = window.end.map_or(end, second).min(seen.totals.at);
        self.until_s = end.max(self.from_s);
        let unasked = self.simulation.walltime.is_none();
        self.survey = Survey {
            format: shared.format,
            header: shared.header,
            damage: shared.damage,
            counts: shared.counts,
            sorted: self.sorted.is_some(),
            first_submit: Timestamp::from_unix(first),
            last_submit: Timestamp::from_unix(last),
            last_end: Timestamp::from_unix(seen.totals.at),
            totals: seen.totals,
            totals_in_use: seen.in_use,
            utilisation: seen.utilisation(window.end.is_some() || last <= self.from_s),
            history_holes: seen.history,
            knows_lengths: u64::from(unasked).saturating_mul(shared.counts.without_walltime),
        };
        Ok(())
    }

    /// Runs the whole simulation once.
    fn simulate(
        &self,
        shared: &Rc<RefCell<Shared>>,
        progress: &mut dyn FnMut(SurveyProgress),
    ) -> Result<Seen, SimError> {
        let from = self.simulation.window.start.map(Timestamp::unix_ms);
        let until = self.simulation.window.end.map(Timestamp::unix_ms);
        let mut simulator = self.simulator(shared)?;
        let mut seen = Seen::default();
        let mut steps = 0_u64;
        let mut submitted = 0;
        let mut before = NodeTime::default();
        while let Some(step) = simulator.step()? {
            let at_ms = step.at.saturating_mul(1000);
            if from.is_some_and(|from| at_ms <= from) && steps > 0 {
                seen.history += step
                    .taken
                    .iter()
                    .map(|run| u64::from(run.count))
                    .sum::<u64>();
            }
            let totals = simulator.totals();
            if totals.submitted > submitted && until.is_none_or(|until| at_ms <= until) {
                submitted = totals.submitted;
                seen.in_use = *totals;
            }
            let now = NodeTime::of(totals);
            for (bound, kept) in [(from, &mut seen.at_from), (until, &mut seen.at_until)] {
                if let Some(bound) = bound
                    && kept.is_none()
                    && at_ms >= bound
                {
                    *kept = Some(before.until(now, bound as f64 / 1000.0));
                }
            }
            before = now;
            if steps.is_multiple_of(4096) {
                let shared = shared.borrow();
                progress(SurveyProgress {
                    lines: shared.lines,
                    bytes: shared.bytes,
                    jobs: shared.counts.jobs,
                });
            }
            steps += 1;
        }
        seen.totals = *simulator.totals();
        match shared.borrow_mut().error.take() {
            Some(error) => Err(error.into()),
            None => Ok(seen),
        }
    }

    /// The jobs of the log in order of submission.
    fn sort(&self) -> Result<Vec<BatchJob>, SimError> {
        let shared = Rc::new(RefCell::new(Shared::default()));
        let walltime = self.simulation.walltime;
        let feed = Feed::open(&self.path, &self.reading, walltime, shared.clone())?;
        let mut jobs: Vec<BatchJob> = feed.collect();
        if let Some(error) = shared.borrow_mut().error.take() {
            return Err(error.into());
        }
        jobs.sort_by_key(|job| job.submit);
        Ok(jobs)
    }
}

/// Counts of one simulation of the whole log.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    totals: Totals,
    in_use: Totals,
    history: u64,
    /// Counts at the start and at the end of the part to replay, once they are reached.
    at_from: Option<NodeTime>,
    at_until: Option<NodeTime>,
}

impl Seen {
    /// Utilisation of the part to replay, which ends at its set end (`bounded`) or at the last
    /// submission.
    fn utilisation(&self, bounded: bool) -> f64 {
        let from = self.at_from.unwrap_or_default();
        let until = match self.at_until {
            Some(until) => until,
            None if bounded => NodeTime::of(&self.totals),
            None => NodeTime::of(&self.in_use),
        };
        let offered = until.offered - from.offered;
        if offered > 0.0 {
            (until.busy - from.busy) / offered
        } else {
            0.0
        }
    }
}

/// Counts until a moment.
#[derive(Debug, Clone, Copy, Default)]
struct NodeTime {
    /// Unix seconds.
    at: f64,
    /// Node-seconds with a job, and all node-seconds.
    busy: f64,
    offered: f64,
}

impl NodeTime {
    fn of(totals: &Totals) -> Self {
        let busy = totals.busy_node_s as f64;
        let others = [
            totals.idle_node_s,
            totals.down_node_s,
            totals.reserved_node_s,
        ];
        Self {
            at: totals.at as f64,
            busy,
            offered: busy + others.iter().map(|&part| part as f64).sum::<f64>(),
        }
    }

    /// The counts at a moment between this step and a later one. Nodes change only at steps.
    fn until(self, next: Self, at: f64) -> Self {
        let part = if self.offered == 0.0 && next.offered == 0.0 {
            0.0
        } else {
            ((at - self.at) / (next.at - self.at).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0)
        };
        Self {
            at,
            busy: self.busy + (next.busy - self.busy) * part,
            offered: self.offered + (next.offered - self.offered) * part,
        }
    }
}
