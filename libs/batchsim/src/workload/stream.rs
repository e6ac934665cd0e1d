//! An endless stream of jobs.

use crate::BatchJob;

use super::calibrate::{Workload, WorkloadError, arrivals, mean_area, model};
use super::lublin::{Arrivals, Model, mean_gap};

/// The number of jobs for the mean work. Work is heavy-tailed: with this many, the mean is known to
/// about half a percent.
const SAMPLE: u32 = 1_000_000;

/// An endless stream of jobs, by submission, from second 0; see [`jobs`].
#[derive(Debug, Clone)]
pub struct Jobs {
    model: Model,
    arrivals: Arrivals,
    next: u64,
}

/// An endless stream of jobs in constant memory; `workload.days` has no effect. On average the jobs
/// need the wanted share of the machine. No schedule is simulated, so the queue grows forever if
/// that utilisation cannot be reached: near 1, or with jobs as wide as the machine.
///
/// # Errors
/// [`WorkloadError`] for an invalid machine or utilisation.
pub fn jobs(workload: &Workload) -> Result<Jobs, WorkloadError> {
    workload.check()?;
    let area = mean_area(workload, SAMPLE)?;
    let offered = area / mean_gap() / f64::from(workload.nodes);
    let scale = offered / workload.utilisation;
    Ok(Jobs {
        model: model(workload)?,
        arrivals: arrivals(workload, scale)?,
        next: 1,
    })
}

impl Iterator for Jobs {
    type Item = BatchJob;

    fn next(&mut self) -> Option<BatchJob> {
        let submit = self.arrivals.next()?;
        let shape = self.model.shape();
        let id = self.next;
        self.next += 1;
        Some(BatchJob {
            id,
            submit,
            nodes: shape.nodes,
            runtime: shape.runtime,
            walltime: shape.walltime,
            recorded_start: None,
        })
    }
}
