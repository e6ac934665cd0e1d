//! The order in which jobs get GPUs.

use crate::job::JobState;

use super::learnt::Learnt;
use super::view::View;

/// Seconds of a day.
const DAY_S: f64 = 86_400.0;

/// Service of the lowest level, GPU-seconds.
const LEVEL_GPU_S: f64 = 3600.0;

/// The key of a job: the smallest goes first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Rank {
    /// The earliest arrival.
    Arrival,
    /// The smallest share of possible progress ([`JobState::score`]).
    Score,
    /// The least service so far, GPU-seconds.
    Attained,
    /// The lowest level of service so far, times the GPUs that the gang takes for the progress of
    /// one. A level holds twice the service of the one below, so few jobs change places.
    Levels,
    /// The fewest GPU-seconds left, at the consolidated speed.
    Shortest,
    /// The longest time left, at the consolidated speed.
    Longest,
    /// As `Shortest`, over the square of one plus the age in days.
    Aged,
}

impl Rank {
    pub(super) fn key(self, view: &View<'_>, job: &JobState) -> f64 {
        let left = || job.left_gpu_s() / view.consolidated(job);
        match self {
            Self::Arrival => job.job.arrival_s,
            Self::Score => job.score(),
            Self::Attained => job.served_gpu_s,
            Self::Shortest => left(),
            Self::Levels => {
                let price = f64::from(job.job.gpus) / view.consolidated(job);
                (price * (1.0 + job.served_gpu_s / LEVEL_GPU_S))
                    .log2()
                    .floor()
            }
            Self::Longest => -view.left_s(job),
            Self::Aged => {
                let days = (view.now_s - job.job.arrival_s) / DAY_S;
                left() / (1.0 + days).powi(2)
            }
        }
    }
}

/// How jobs are put in order.
#[derive(Debug, Clone)]
pub(super) enum Order {
    /// By a rank.
    Of(Rank),
    /// The smallest price of an end first, as far as one has learnt.
    Learnt(Learnt),
}

impl Order {
    /// Jobs of a view in this order.
    pub(super) fn sorted<'a>(
        &mut self,
        view: &View<'a>,
        jobs: impl Iterator<Item = &'a JobState>,
    ) -> Vec<&'a JobState> {
        match self {
            Self::Of(rank) => sorted(jobs, |job| rank.key(view, job)),
            Self::Learnt(learnt) => {
                learnt.learn(view);
                sorted(jobs, |job| learnt.key(view, job))
            }
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
