//! Re-planning at events: when a job comes or ends, and after an hour without either.
//!
//! ```text
//! chosen = greedily, the fewest GPU-seconds left first, while GPUs are left in number
//! chosen jobs stay where they run, unless below half their consolidated speed
//! the rest of chosen: largest first on whole machines
//! if one does not fit: all chosen again, largest first, on their old GPUs where these are free
//! all others by rank: own GPUs, whole machines, or spread at half the consolidated speed or more
//! ```

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
#[derive(Debug, Clone, Default)]
pub(super) struct Replan {
    wake_s: Option<f64>,
}

impl Policy for Replan {
    fn plan(&mut self, view: &View<'_>) -> Plan {
        self.wake_s = Some(view.now_s + RENEWED_S);
        let all = view.waiting.iter().chain(view.running).copied();
        let ranked = sorted(all, |job| Rank::Shortest.key(view, job));
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
