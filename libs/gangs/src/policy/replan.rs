//! Re-planning at events: when a job comes or ends, and after an hour without either.
//!
//! ```text
//! chosen = greedily by rank, while GPUs are left in number
//! chosen jobs stay where they run, unless below half their consolidated speed
//! the rest of chosen: largest first on whole machines
//! if one does not fit: all chosen again, largest first, on their old GPUs where these are free
//! all others by rank: own GPUs, whole machines, or spread at half the consolidated speed or more
//! ```

use crate::job::JobState;

use super::board::Board;
use super::path::Path;
use super::rank::{Order, sorted};
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
    order: Order,
    /// Finds the jobs that go before all others, if there are such.
    path: Option<Path>,
    wake_s: Option<f64>,
}

impl Replan {
    pub(super) const fn new(order: Order) -> Self {
        Self {
            order,
            path: None,
            wake_s: None,
        }
    }

    /// The same with jobs on the critical path first, from this share of the busy time on.
    pub(super) fn with_path(mut self, share: f64) -> Self {
        self.path = Some(Path::new(share));
        self
    }

    /// All jobs in the order in which they are chosen.
    fn ranked<'a>(&mut self, view: &View<'a>) -> Vec<&'a JobState> {
        let all = || view.waiting.iter().chain(view.running).copied();
        let Some(path) = &mut self.path else {
            return self.order.sorted(view, all());
        };
        let needs = |job: &'a JobState| {
            let left_s = view.left_s(job);
            (job, left_s * f64::from(job.job.gpus), left_s)
        };
        let jobs: Vec<(&JobState, f64, f64)> = all().map(needs).collect();
        let marked: Vec<(&JobState, bool)> = all().zip(path.urgent(view, &jobs)).collect();
        let of = |urgent: bool| {
            marked
                .iter()
                .filter(move |(_, is)| *is == urgent)
                .map(|(job, _)| *job)
        };
        let mut ranked = sorted(of(true), |job| -view.left_s(job));
        ranked.extend(self.order.sorted(view, of(false)));
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
