//! The simulated machine and its rules.

use serde::{Deserialize, Serialize};

use crate::job::{BatchError, BatchJob, NodeRange};

/// The waiting jobs that have a reservation, and so the later jobs that may start first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backfill {
    /// Only the first waiting job has a reservation. A later job starts if it does not delay that
    /// one (Lifka 1995).
    #[default]
    Easy,
    /// Every waiting job has a reservation, up to [`field@Machine::depth`]. A later job starts if
    /// it delays none of them.
    Conservative,
    /// No job passes another.
    None,
}

/// The rule by which a job gets nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// The free nodes with the lowest numbers.
    #[default]
    FirstFit,
    /// Adjacent nodes: the lowest block of free nodes that is large enough.
    Contiguous,
}

/// The treatment of a job that reaches its walltime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overrun {
    /// The job runs for its true length, and is expected to end any second.
    #[default]
    Extend,
    /// The job is ended.
    Kill,
}

/// The source of the starts of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Starts {
    /// The simulated scheduler.
    #[default]
    Simulated,
    /// The log. A job with too few free nodes at its recorded start counts as a conflict. It starts
    /// once there are enough, in order of the recorded starts, and reserves no nodes meanwhile.
    Recorded,
}

/// The treatment of a job that needs no nodes, or more than the machine has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Oversized {
    /// The whole workload is refused.
    #[default]
    Refuse,
    /// The job is counted and left out.
    Skip,
}

/// Drained nodes. From `from` on they take no new job, and their running jobs end first. The
/// scheduler does not know of an outage before it begins; then it knows its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outage {
    /// The nodes.
    pub nodes: NodeRange,
    /// The start, seconds.
    pub from: i64,
    /// The end, seconds.
    pub until: i64,
}

/// Reserved nodes. The scheduler knows a reservation from the beginning: a job starts on such a
/// node only if its walltime ends before. Reserved nodes are not holes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// The name of the reservation.
    pub name: String,
    /// The nodes.
    pub nodes: NodeRange,
    /// The start, seconds.
    pub from: i64,
    /// The end, seconds.
    pub until: i64,
}

/// The default number of waiting jobs with a reservation under conservative backfill. It is
/// Slurm's default of `bf_max_job_test`.
pub const CONSERVATIVE_DEPTH: u32 = 500;

/// The simulated machine and its rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The number of nodes.
    pub nodes: u32,
    /// The waiting jobs that have a reservation.
    pub backfill: Backfill,
    /// The rule by which a job gets nodes.
    pub layout: Layout,
    /// The treatment of a job that reaches its walltime.
    pub overrun: Overrun,
    /// The source of the starts of jobs.
    pub starts: Starts,
    /// Drained nodes.
    pub outages: Vec<Outage>,
    /// Reserved nodes.
    pub reservations: Vec<Reservation>,
    /// The treatment of a job that can never start.
    pub oversized: Oversized,
    /// The number of waiting jobs that the scheduler considers, the first one included. `None`: all
    /// under EASY, [`CONSERVATIVE_DEPTH`] under conservative backfill.
    pub depth: Option<u32>,
}

impl Machine {
    /// A machine of `nodes` nodes with EASY and first fit, without outages or reservations. Jobs
    /// run for their true lengths, and a job that is too large is an error.
    #[must_use]
    pub fn new(nodes: u32) -> Self {
        Self {
            nodes,
            backfill: Backfill::default(),
            layout: Layout::default(),
            overrun: Overrun::default(),
            starts: Starts::default(),
            outages: Vec::new(),
            reservations: Vec::new(),
            oversized: Oversized::default(),
            depth: None,
        }
    }

    /// The number of waiting jobs that are considered, at least 1.
    pub(crate) fn depth(&self) -> usize {
        let default = match self.backfill {
            Backfill::Easy => usize::MAX,
            Backfill::Conservative => CONSERVATIVE_DEPTH as usize,
            Backfill::None => 1,
        };
        self.depth.map_or(default, |depth| depth.max(1) as usize)
    }

    /// Refuses an invalid machine.
    pub(crate) fn check(&self) -> Result<(), BatchError> {
        if self.nodes == 0 {
            return Err(BatchError::NoNodes);
        }
        let outages = self.outages.iter();
        let outages = outages.map(|o| (o.nodes, o.from, o.until, "an outage".to_owned()));
        let reservations = self.reservations.iter().map(|r| {
            let what = format!("reservation {:?}", r.name);
            (r.nodes, r.from, r.until, what)
        });
        for (range, from, until, what) in outages.chain(reservations) {
            let end = u64::from(range.first) + u64::from(range.count);
            if range.count == 0 || end > u64::from(self.nodes) || from >= until {
                return Err(BatchError::Block {
                    what,
                    first: range.first,
                    last: end.saturating_sub(1),
                    from,
                    until,
                    has: self.nodes,
                });
            }
        }
        Ok(())
    }

    /// Refuses an invalid job. `false` if the job can never start and is left out.
    pub(crate) fn admits(&self, job: &BatchJob) -> Result<bool, BatchError> {
        for (what, value) in [("runtime", job.runtime), ("walltime", job.walltime)] {
            if value < 0 {
                let id = job.id;
                return Err(BatchError::Negative { id, what, value });
            }
        }
        let fits = (1..=self.nodes).contains(&job.nodes);
        match self.oversized {
            Oversized::Refuse if !fits => Err(BatchError::Size {
                id: job.id,
                needs: job.nodes,
                has: self.nodes,
            }),
            Oversized::Refuse | Oversized::Skip => Ok(fits),
        }
    }
}
