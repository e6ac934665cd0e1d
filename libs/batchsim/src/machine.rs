//! The machine that is simulated, and by which rules.

use serde::{Deserialize, Serialize};

use crate::job::{BatchError, BatchJob, Run};

/// Which waiting jobs have a reservation, and so which later job may go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backfill {
    /// Only the first waiting job has one: a later job starts if it does not delay that one
    /// (Lifka 1995).
    #[default]
    Easy,
    /// Every waiting job has one, up to [`field@Machine::depth`]: a later job starts if it delays
    /// none of them.
    Conservative,
    /// No job passes another.
    None,
}

/// Which nodes a job gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// The free nodes with the lowest numbers.
    #[default]
    FirstFit,
    /// Adjacent nodes: the lowest block of free nodes that is large enough.
    Contiguous,
}

/// What becomes of a job that reaches its walltime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overrun {
    /// It runs on as long as the log says, and is expected to end any second.
    #[default]
    Extend,
    /// It ends.
    Kill,
}

/// Who says when a job starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Starts {
    /// The simulated scheduler.
    #[default]
    Simulated,
    /// The log. A job that finds too few free nodes at its recorded start is counted as a
    /// conflict and starts as soon as there are enough, in order of the recorded starts; it
    /// keeps nodes from nobody meanwhile.
    Recorded,
}

/// What becomes of a job that needs more nodes than there are, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Oversized {
    /// The whole workload is refused.
    #[default]
    Refuse,
    /// It is counted and left out.
    Skip,
}

/// Drained nodes: from `from` on they take no new job; a job that runs on them ends first. The
/// scheduler knows nothing of an outage before it begins, and its end from then on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outage {
    /// Which nodes.
    pub nodes: Run,
    /// From when, seconds.
    pub from: i64,
    /// Until when, seconds.
    pub until: i64,
}

/// Nodes that are kept for others. It is known from the beginning: a job starts on such a node
/// only if its walltime ends before. Nodes that are reserved are no holes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// Its name.
    pub name: String,
    /// Which nodes.
    pub nodes: Run,
    /// From when, seconds.
    pub from: i64,
    /// Until when, seconds.
    pub until: i64,
}

/// Waiting jobs that get a reservation under conservative backfill if nothing is said: as many
/// as Slurm looks at by default (`bf_max_job_test`).
pub const CONSERVATIVE_DEPTH: u32 = 500;

/// The machine that is simulated, and by which rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// How many nodes it has.
    pub nodes: u32,
    /// Which waiting jobs have a reservation.
    pub backfill: Backfill,
    /// Which nodes a job gets.
    pub layout: Layout,
    /// What becomes of a job that reaches its walltime.
    pub overrun: Overrun,
    /// Who says when a job starts.
    pub starts: Starts,
    /// Drained nodes.
    pub outages: Vec<Outage>,
    /// Nodes kept for others.
    pub reservations: Vec<Reservation>,
    /// What becomes of a job that can never start.
    pub oversized: Oversized,
    /// How many waiting jobs the scheduler looks at, the first one included. Nothing: all of
    /// them under EASY, [`CONSERVATIVE_DEPTH`] under conservative backfill.
    pub depth: Option<u32>,
}

impl Machine {
    /// A machine of `nodes` nodes: EASY, first fit, jobs run as long as the log says, nothing
    /// is drained or reserved, and a job that is too large is an error.
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

    /// How many waiting jobs are looked at; at least the first.
    pub(crate) fn depth(&self) -> usize {
        let unsaid = match self.backfill {
            Backfill::Easy => usize::MAX,
            Backfill::Conservative => CONSERVATIVE_DEPTH as usize,
            Backfill::None => 1,
        };
        self.depth.map_or(unsaid, |depth| depth.max(1) as usize)
    }

    /// Refuses what makes no sense.
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
        for (run, from, until, what) in outages.chain(reservations) {
            let end = u64::from(run.first) + u64::from(run.count);
            if run.count == 0 || end > u64::from(self.nodes) || from >= until {
                return Err(BatchError::Block {
                    what,
                    first: run.first,
                    last: end.saturating_sub(1),
                    from,
                    until,
                    has: self.nodes,
                });
            }
        }
        Ok(())
    }

    /// Refuses a job that makes no sense. `false`: it can never start and is left out.
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
