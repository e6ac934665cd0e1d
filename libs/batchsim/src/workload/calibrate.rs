//! The rate of arrivals that gives a wanted utilisation.

use serde::{Deserialize, Serialize};

use crate::{BatchError, BatchJob, Schedule, simulate};

use super::lublin::{Arrivals, Model};

const DAY_S: i64 = 86_400;
/// The warm-up days before the days that count, in which the machine fills.
const WARM_UP_DAYS: u32 = 2;
/// The steps of the search for the rate of arrivals.
const TRIALS: u32 = 24;
/// The number of jobs for the first guess.
const GUESS_JOBS: u32 = 10_000;
/// The tolerance of the utilisation.
const TOLERANCE: f64 = 0.002;

/// The parameters of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// The number of nodes of the machine.
    pub nodes: u32,
    /// The number of days.
    pub days: u32,
    /// The seed of all random numbers.
    pub seed: u64,
    /// The wanted share of the node-time with a job, between 0 and 1. Big machines have .90 to .96.
    pub utilisation: f64,
}

impl Workload {
    /// Refuses invalid parameters.
    pub(super) fn check(&self) -> Result<(), WorkloadError> {
        let &Self {
            nodes,
            days,
            utilisation,
            ..
        } = self;
        if nodes < 2 || days == 0 {
            return Err(WorkloadError::Size { nodes, days });
        }
        if !(utilisation > 0.0 && utilisation < 1.0) {
            return Err(WorkloadError::Utilisation { utilisation });
        }
        Ok(())
    }
}

/// The reason why no workload is drawn.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum WorkloadError {
    /// The machine is too small for the model.
    #[error("a generated machine needs at least 2 nodes and 1 day: got {nodes} nodes, {days} days")]
    Size {
        /// The given number of nodes.
        nodes: u32,
        /// The given number of days.
        days: u32,
    },
    /// The utilisation is out of range.
    #[error("utilisation is {utilisation}: expected a number above 0 and below 1")]
    Utilisation {
        /// The given utilisation.
        utilisation: f64,
    },
    /// The parameters of a distribution were refused (never with the built-in ones).
    #[error("the workload model is unusable: {0}")]
    Model(String),
    /// The simulator refused a job (never with generated ones).
    #[error(transparent)]
    Batch(#[from] BatchError),
}

/// A workload whose utilisation is as near to the wanted one as possible.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibrated {
    /// The jobs, by submission; second 0 is midnight of the first warm-up day.
    pub jobs: Vec<BatchJob>,
    /// The schedule of the jobs.
    pub schedule: Schedule,
    /// The first second after the warm-up.
    pub from: i64,
    /// The first second after the days that count.
    pub until: i64,
    /// The factor on the times between arrivals of the model.
    pub scale: f64,
    /// The share of the node-time within `[from, until)` with a job.
    pub utilisation: f64,
}

/// Draws a workload and finds the rate of arrivals for the wanted utilisation. The daily cycle and
/// the jobs themselves are those of the model.
///
/// # Errors
/// [`WorkloadError`] for an invalid machine or utilisation.
pub fn calibrate(workload: &Workload) -> Result<Calibrated, WorkloadError> {
    workload.check()?;
    let utilisation = workload.utilisation;
    let mut best: Option<Calibrated> = None;
    // The scale is halved or doubled until the wanted utilisation lies between two steps, then
    // bisected in logarithms. A full machine does not become fuller, so the best step is kept.
    let (mut fast, mut slow): (Option<f64>, Option<f64>) = (None, None);
    let mut scale = offered(workload, GUESS_JOBS)? / utilisation;
    for _ in 0..TRIALS {
        let attempt = simulated(workload, scale)?;
        let found = attempt.utilisation;
        if found > utilisation {
            fast = Some(scale);
        } else {
            slow = Some(scale);
        }
        let off = (found - utilisation).abs();
        let nearer = best
            .as_ref()
            .is_none_or(|best| off < (best.utilisation - utilisation).abs());
        if nearer {
            best = Some(attempt);
        }
        if off <= TOLERANCE {
            break;
        }
        scale = match (fast, slow) {
            (Some(fast), Some(slow)) => (fast * slow).sqrt(),
            (Some(fast), None) => fast * 1.25,
            (None, Some(slow)) => slow / 1.25,
            (None, None) => scale,
        };
    }
    best.ok_or(WorkloadError::Utilisation { utilisation })
}

/// The jobs of [`calibrate`], with second 0 at the first warm-up day.
///
/// # Errors
/// As [`calibrate`].
pub fn generate(workload: &Workload) -> Result<Vec<BatchJob>, WorkloadError> {
    Ok(calibrate(workload)?.jobs)
}

/// The share of the node-time that jobs need at the rate of arrivals of the model, by the first
/// jobs.
fn offered(workload: &Workload, jobs: u32) -> Result<f64, WorkloadError> {
    let area = mean_area(workload, jobs)?;
    let gap = arrivals(workload, 1.0)?
        .nth(jobs.saturating_sub(1) as usize)
        .map_or(1.0, |last| last as f64 / f64::from(jobs));
    Ok(area / gap.max(1.0) / f64::from(workload.nodes))
}

/// Mean node-seconds of the first jobs.
pub(super) fn mean_area(workload: &Workload, jobs: u32) -> Result<f64, WorkloadError> {
    let mut model = model(workload)?;
    let area: f64 = (0..jobs)
        .map(|_| model.shape())
        .map(|job| f64::from(job.nodes) * job.runtime as f64)
        .sum();
    Ok(area / f64::from(jobs))
}

fn simulated(workload: &Workload, scale: f64) -> Result<Calibrated, WorkloadError> {
    let from = i64::from(WARM_UP_DAYS) * DAY_S;
    let until = from + i64::from(workload.days) * DAY_S;
    let mut model = model(workload)?;
    let jobs: Vec<BatchJob> = arrivals(workload, scale)?
        .take_while(|&at| at < until)
        .zip(1..)
        .map(|(submit, id)| {
            let shape = model.shape();
            BatchJob {
                id,
                submit,
                nodes: shape.nodes,
                runtime: shape.runtime,
                walltime: shape.walltime,
                recorded_start: None,
            }
        })
        .collect();
    let schedule = simulate(workload.nodes, &jobs, Some(until))?;
    let utilisation = schedule.utilisation(from, until);
    Ok(Calibrated {
        jobs,
        schedule,
        from,
        until,
        scale,
        utilisation,
    })
}

pub(super) fn model(workload: &Workload) -> Result<Model, WorkloadError> {
    Model::new(workload.nodes, workload.seed)
        .map_err(|error| WorkloadError::Model(error.to_string()))
}

pub(super) fn arrivals(workload: &Workload, scale: f64) -> Result<Arrivals, WorkloadError> {
    Arrivals::new(workload.seed, scale).map_err(|error| WorkloadError::Model(error.to_string()))
}
