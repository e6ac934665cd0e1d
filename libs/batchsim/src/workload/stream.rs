//! Jobs without end.

use crate::BatchJob;

use super::calibrate::{Workload, WorkloadError, arrivals, mean_area, model};
use super::lublin::{Arrivals, Model, mean_gap};

/// Jobs from which the mean work is taken. Work is heavy-tailed: with this many, the mean is
/// known to about half a percent.
const SAMPLE: u32 = 1_000_000;

/// The jobs of a machine that runs for ever, by submission, from second 0; see [`jobs`].
#[derive(Debug, Clone)]
pub struct Jobs {
    model: Model,
    arrivals: Arrivals,
    next: u64,
}

/// Jobs without end, in constant memory: `workload.days` does not matter. They ask for the
/// wanted share of the machine in the long run, by their mean; no scheduler is asked, so that
/// a machine that cannot be filled so far (near 1, or with jobs as wide as itself) has a queue
/// that grows for ever.
///
/// # Errors
/// [`WorkloadError`] for a machine or a utilisation that makes no sense.
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
