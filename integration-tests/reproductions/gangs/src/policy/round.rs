//! A round of a policy with leases: jobs bid in order, and each gets GPUs or is skipped.

use crate::cluster::Cluster;
use crate::job::JobState;
use crate::placement::Placement;

use super::view::{Plan, View};

/// The jobs that bid: those that wait, and under the published defect those that run.
pub(super) fn bidders<'a>(view: &View<'a>) -> impl Iterator<Item = &'a JobState> {
    let running = if view.terms.published {
        view.running
    } else {
        &[]
    };
    view.waiting.iter().chain(running).copied()
}

/// Lets jobs bid in order. `place` answers with GPUs that are free in the cluster that it gets.
pub(super) fn round(
    view: &View<'_>,
    ordered: Vec<&JobState>,
    mut place: impl FnMut(&Cluster, &JobState) -> Option<Placement>,
) -> (Plan, Cluster) {
    let mut cluster = view.cluster.clone();
    let mut plan = Plan::default();
    for job in ordered {
        if cluster.free_gpus() == 0 {
            break;
        }
        if job.job.gpus > cluster.free_gpus() {
            continue;
        }
        if let Some(placement) = place(&cluster, job)
            && cluster.take(&placement)
        {
            plan.starts.push((job.index, placement));
        }
    }
    (plan, cluster)
}
