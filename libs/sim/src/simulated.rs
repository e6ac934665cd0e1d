//! A log of batch jobs without node lists as a trace: each walk simulates the batch scheduler
//! again.
//!
//! Only the survey of the log is kept between walks, so memory does not grow with the log. The
//! exception is a log whose jobs are not in order of submission: if it is small enough, its jobs
//! are kept in memory and sorted there.

mod feed;
mod survey;
mod walk;

use std::borrow::Cow;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use lacuna_batchsim::{BatchJob, Machine, Simulator};
use lacuna_model::{Span, Timestamp};
use lacuna_trace::{Reading, Window};

use crate::{PoolSteps, PoolTrace, SimError};

use feed::{Feed, Shared};
use walk::Walk;

pub use feed::JobCounts;
pub use survey::{Survey, SurveyProgress};

/// Jobs in order of submission, from the log or from memory.
type Jobs<'a> = Box<dyn Iterator<Item = BatchJob> + 'a>;

/// Settings of the simulation of a log, besides the machine.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Simulation {
    /// The part to replay. Its default start is the first submission, its default end the last
    /// one: after it the simulated machine only empties, as the real one did not. The time before
    /// the start is simulated, and its steps are not part of a walk.
    pub window: Window,
    /// The walltime of jobs without one in the log. If absent, their walltime is their run time.
    pub walltime: Option<Span>,
    /// Whether walks give the planned starts of the simulated scheduler ([`PoolStep::planned`]).
    /// The steps are the same either way: a change between two steps, by a submission, comes with
    /// the second.
    ///
    /// Planned starts follow from walltimes. A job with no walltime, neither in the log nor by
    /// [`walltime`](Self::walltime), counts with its run time. Planned starts that follow from it
    /// are more exact than any real scheduler's ([`Survey::knows_lengths`]).
    ///
    /// [`PoolStep::planned`]: crate::PoolStep::planned
    pub planned_starts: bool,
}

/// A log of batch jobs, placed by the simulated scheduler of a machine. Nodes have the machine's
/// numbers, and its scheduler takes nodes in that order: a job starts on the lowest free numbers,
/// or on the lowest free block that is long enough.
#[derive(Debug)]
pub struct SimulatedTrace {
    path: PathBuf,
    reading: Reading,
    machine: Machine,
    simulation: Simulation,
    /// The jobs, if the log is not in order of submission.
    sorted: Option<Vec<BatchJob>>,
    /// The part to replay, seconds since the Unix epoch.
    from_s: i64,
    until_s: i64,
    survey: Survey,
}

impl SimulatedTrace {
    /// Reads the log once and simulates it once, for its [`Survey`].
    ///
    /// # Errors
    /// [`SimError`] if the log cannot be read, holds no batch jobs, or none that ran, and if the
    /// machine is invalid.
    pub fn open(
        path: &Path,
        reading: &Reading,
        machine: Machine,
        simulation: Simulation,
        progress: &mut dyn FnMut(SurveyProgress),
    ) -> Result<Self, SimError> {
        let mut simulated = Self {
            path: path.to_owned(),
            reading: reading.clone(),
            machine,
            simulation,
            sorted: None,
            from_s: i64::MIN,
            until_s: i64::MAX,
            survey: Survey::default(),
        };
        simulated.look(progress)?;
        Ok(simulated)
    }

    /// The survey of the log.
    #[must_use]
    pub const fn survey(&self) -> &Survey {
        &self.survey
    }

    /// The machine that is simulated.
    #[must_use]
    pub const fn machine(&self) -> &Machine {
        &self.machine
    }

    /// A walk from the start on.
    fn walk(&self, planned_starts: bool) -> Result<Walk<'_>, SimError> {
        let shared = Rc::new(RefCell::new(Shared::default()));
        let (simulator, nodes) = (self.simulator(&shared)?, self.machine.nodes);
        let part = (self.from_s, self.until_s);
        Ok(Walk::new(simulator, shared, nodes, part, planned_starts))
    }

    /// Starts a simulation at the first job.
    fn simulator(&self, shared: &Rc<RefCell<Shared>>) -> Result<Simulator<Jobs<'_>>, SimError> {
        let jobs: Jobs<'_> = match &self.sorted {
            Some(jobs) => Box::new(jobs.iter().copied()),
            None => Box::new(Feed::open(
                &self.path,
                &self.reading,
                self.simulation.walltime,
                shared.clone(),
            )?),
        };
        Ok(Simulator::new(self.machine.clone(), jobs)?)
    }
}

impl PoolTrace for SimulatedTrace {
    fn start(&self) -> Timestamp {
        Timestamp::from_unix(self.from_s)
    }

    fn end(&self) -> Timestamp {
        Timestamp::from_unix(self.until_s)
    }

    /// The number of nodes of the machine.
    fn nodes(&self) -> u32 {
        self.machine.nodes
    }

    /// `n1` and so on: names count from 1, as in lists of outages.
    fn node_name(&self, node: u32) -> Cow<'_, str> {
        Cow::Owned(format!("n{}", u64::from(node) + 1))
    }

    fn history(&self) -> u64 {
        self.survey.history_holes
    }

    /// Without planned starts, which are announced from the start on.
    fn past(&self) -> Result<Option<Box<dyn PoolSteps + '_>>, SimError> {
        if self.simulation.window.start.is_none() {
            return Ok(None);
        }
        Ok(Some(Box::new(self.walk(false)?.before())))
    }

    fn steps(&self) -> Result<Box<dyn PoolSteps + '_>, SimError> {
        Ok(Box::new(self.walk(self.simulation.planned_starts)?))
    }
}
