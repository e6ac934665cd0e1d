//! The order in which jobs get GPUs.

use crate::job::JobState;

use super::view::View;

/// The key of a job: the smallest goes first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Rank {
    /// The smallest share of possible progress ([`JobState::score`]).
    Score,
    /// The least service so far, GPU-seconds.
    Attained,
    /// The fewest GPU-seconds left, at the consolidated speed.
    Shortest,
}

impl Rank {
    pub(super) fn key(self, view: &View<'_>, job: &JobState) -> f64 {
        match self {
            Self::Score => job.score(),
            Self::Attained => job.served_gpu_s,
            Self::Shortest => job.left_gpu_s() / view.consolidated(job),
        }
    }
}

/// Jobs in the order of their keys; equal ones by the time since which they have no GPUs or had none,
/// then by id.
pub(super) fn sorted<'a>(
    jobs: impl Iterator<Item = &'a JobState>,
    mut key: impl FnMut(&JobState) -> f64,
) -> Vec<&'a JobState> {
    let mut keyed: Vec<(f64, &JobState)> = jobs.map(|job| (key(job), job)).collect();
    keyed.sort_unstable_by(|(a, one), (b, other)| {
        let waits = one.waiting_since_s.total_cmp(&other.waiting_since_s);
        a.total_cmp(b)
            .then(waits)
            .then(one.job.id.cmp(&other.job.id))
    });
    keyed.into_iter().map(|(_, job)| job).collect()
}
