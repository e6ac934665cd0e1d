//! A log of batch jobs without node lists as a trace: the batch scheduler is simulated
//! anew for each walk.
//!
//! Nothing of the log is kept between walks but its facts, so memory does not grow with its
//! length. Only a log whose jobs do not come in order of submission is kept in memory, if it is
//! small enough to be sorted there.

mod feed;
mod survey;
mod walk;

use std::borrow::Cow;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use lacuna_model::{Span, Timestamp};
use lacuna_schedlog::{Reading, Window};
use lacuna_timeline::batch::{BatchJob, Machine, Simulator};

use crate::{PoolTrace, SimError, PoolSteps};

use feed::{Feed, Shared};
use walk::Walk;

pub use feed::JobCounts;
pub use survey::{Survey, SurveyProgress};

/// Jobs in order of submission, from wherever they come.
type Jobs<'a> = Box<dyn Iterator<Item = BatchJob> + 'a>;

/// How a log of batch jobs is to be simulated, besides the machine.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Simulation {
    /// The part to replay. From the first submission if its start is absent. If its end is
    /// absent, to the last submission: after it the machine only empties, which it never did.
    /// What comes before the start is simulated but not told.
    pub window: Window,
    /// The walltime of jobs for which the log has none. If absent they are taken to have asked
    /// for as long as they ran, as if their users had known.
    pub walltime: Option<Span>,
    /// Whether walks tell what the simulated scheduler believes ([`PoolStep::planned`]). The steps
    /// are the same either way: what it comes to believe between two of them, when a job is
    /// submitted and waits, is told with the second.
    ///
    /// Beliefs are made of walltimes. A job that has none, neither in the log nor by
    /// [`walltime`](Self::walltime), asked for as long as it ran, so that what is believed of it
    /// is true, which no user could have known ([`Survey::knows_lengths`]).
    ///
    /// [`PoolStep::planned`]: crate::PoolStep::planned
    pub planned_starts: bool,
}

/// A log of batch jobs, placed by the simulated scheduler of a machine. Nodes are numbered as
/// the machine has them, and that is the order in which its scheduler takes them: a job starts
/// on the lowest numbers that are free, or on the lowest free block that is long enough.
#[derive(Debug)]
pub struct SimulatedTrace {
    path: PathBuf,
    reading: Reading,
    machine: Machine,
    simulation: Simulation,
    /// The jobs, if they had to be sorted.
    sorted: Option<Vec<BatchJob>>,
    /// The part to replay, seconds since the Unix epoch.
    from_s: i64,
    until_s: i64,
    survey: Survey,
}

impl SimulatedTrace {
    /// Reads the log once and simulates it once, to learn where it ends and what is in it.
    ///
    /// # Errors
    /// [`SimError`] if the log cannot be read, is not one of batch jobs, or has none that ran;
    /// or if the machine makes no sense.
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

    /// What was found in the log.
    #[must_use]
    pub const fn survey(&self) -> &Survey {
        &self.survey
    }

    /// The machine.
    #[must_use]
    pub const fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Starts the simulation from the first job.
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

    /// How many nodes the machine has.
    fn nodes(&self) -> u32 {
        self.machine.nodes
    }

    /// `n1` and so on: people count nodes from 1, as lists of outages do.
    fn node_name(&self, node: u32) -> Cow<'_, str> {
        Cow::Owned(format!("n{}", u64::from(node) + 1))
    }

    fn history(&self) -> u64 {
        self.survey.history_holes
    }

    fn steps(&self) -> Result<Box<dyn PoolSteps + '_>, SimError> {
        let shared = Rc::new(RefCell::new(Shared::default()));
        let simulator = self.simulator(&shared)?;
        let nodes = self.machine.nodes;
        Ok(Box::new(Walk::new(
            simulator,
            shared,
            nodes,
            (self.from_s, self.until_s),
            self.simulation.planned_starts,
        )))
    }
}
