//! Re-planning at events: when a job comes or ends, and after an hour without either.
//!
//! ```text
//! chosen = greedily by rank, while GPUs are left in number
//! chosen jobs stay where they run, unless below half their consolidated speed
//! the rest of chosen: largest first on whole machines
//! if one does not fit: all chosen again, largest first, on their old GPUs where these are free
//! all others by rank: own GPUs, whole machines, or spread at half the consolidated speed or more
//! ```
//!
//! **The critical path.** Shortest work first delays the longest jobs, which then end last and
//! alone. A job is urgent when its time left is at least a share of the bound on the makespan that
//! the other jobs set: their GPU-time over all GPUs, or the chain of jobs of which a rack holds one
//! at a time. Urgent jobs go first, the longest before the others. The share trades the mean
//! completion time (large) for the makespan (small).

use crate::job::JobState;

use super::board::Board;
use super::rank::{Rank, sorted};
use super::view::{Plan, Policy, View};

/// A plan is renewed after this time without events, seconds.
const RENEWED_S: f64 = 3600.0;

/// Share of the consolidated speed below which a gang is better off elsewhere.
const POOR: f64 = 0.5;

/// Share of the consolidated speed at which a gang that must be placed again keeps its GPUs.
const GOOD: f64 = 0.98;

/// The policy.
#[derive(Debug, Clone)]
pub(super) struct Replan {
    rank: Rank,
    /// A job is urgent from this share of the bound on; infinite for none.
    urgent_from: f64,
    wake_s: Option<f64>,
}

impl Replan {
    pub(super) const fn new(rank: Rank) -> Self {
        Self {
            rank,
            urgent_from: f64::INFINITY,
            wake_s: None,
        }
    }

    /// The same with urgent jobs first.
    pub(super) const fn urgent_from(mut self, share: f64) -> Self {
        self.urgent_from = share;
        self
    }

    /// All jobs in the order in which they are chosen.
    fn ranked<'a>(&self, view: &View<'a>) -> Vec<&'a JobState> {
        let all = || view.waiting.iter().chain(view.running).copied();
        if self.urgent_from.is_infinite() {
            return sorted(all(), |job| self.rank.key(view, job));
        }
        let layout = view.cluster.layout();
        let alone = |job: &JobState| job.job.gpus > layout.rack_gpus() / 2;
        let gpu_s = |job: &JobState| job.left_gpu_s() / view.consolidated(job);
        let area_s = all().map(gpu_s).sum::<f64>() / f64::from(layout.gpus());
        let chain = all().filter(|job| alone(job)).map(|job| view.left_s(job));
        let chain_s = chain.sum::<f64>() / f64::from(layout.racks());
        let bound_s = self.urgent_from * area_s.max(chain_s);
        let chain_is_urgent = chain_s >= self.urgent_from * area_s;
        let is_urgent =
            |job: &JobState| view.left_s(job) >= bound_s || (chain_is_urgent && alone(job));
        let mut ranked = sorted(all().filter(|job| is_urgent(job)), |job| -view.left_s(job));
        let others = all().filter(|job| !is_urgent(job));
        ranked.extend(sorted(others, |job| self.rank.key(view, job)));
        ranked
    }
}

impl Policy for Replan {
    fn plan(&mut self, view: &View<'_>) -> Plan {
        self.wake_s = Some(view.now_s + RENEWED_S);
        let ranked = self.ranked(view);
        let mut left = view.cluster.layout().gpus();
        let mut chosen: Vec<&JobState> = Vec::new();
        for job in &ranked {
            if job.job.gpus <= left {
                left -= job.job.gpus;
                chosen.push(job);
            }
        }
        // Stable, so that equal sizes stay in the order of rank.
        chosen.sort_by_key(|job| std::cmp::Reverse(job.job.gpus));
        let mut board = Board::new(view);
        for job in &chosen {
            board.keep(job, job.job.gpus, POOR);
        }
        let fits = chosen
            .iter()
            .all(|job| board.has(job) || board.whole(job, job.job.gpus));
        if !fits {
            board = Board::new(view);
            for job in &chosen {
                let _ = board.keep(job, job.job.gpus, GOOD) || board.whole(job, job.job.gpus);
            }
        }
        for job in &ranked {
            let gpus = job.job.gpus;
            if board.free_gpus() == 0 {
                break;
            }
            if !board.has(job) && gpus <= board.free_gpus() {
                let _ = board.keep(job, gpus, POOR)
                    || board.whole(job, gpus)
                    || board.scattered(job, gpus, POOR);
            }
        }
        board.plan()
    }

    fn wake_s(&self) -> Option<f64> {
        self.wake_s
    }
}
