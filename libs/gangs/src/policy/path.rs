//! The critical path.
//!
//! Shortest work first delays the longest jobs, which then end last and alone. A job is urgent when
//! its time left is at least a share of the time for which the other jobs keep the cluster busy:
//!
//! ```text
//! busy = max(GPU-time left / GPUs, chain) / (1 - load)
//! ```
//!
//! The chain is the time of the jobs of which a rack holds one at a time, over the racks. The load is
//! the GPU-time that came within the last day, over the GPU-time of the cluster. What came at the
//! very first moment is a backlog and no load. Urgent jobs go first, the longest before the others.
//! The share trades the mean completion time (large) for the makespan (small).

use std::collections::VecDeque;

use crate::job::JobState;

use super::view::View;

/// Time over which the load is measured, seconds.
const WINDOW_S: f64 = 86_400.0;

/// Finds urgent jobs.
#[derive(Debug, Clone)]
pub(super) struct Path {
    share: f64,
    /// The first arrival and the newest one that is known, seconds.
    seen: Option<(f64, f64)>,
    /// Work of newer arrivals: time, GPU-seconds.
    arrivals: VecDeque<(f64, f64)>,
}

impl Path {
    /// Jobs are urgent from this share of the busy time on.
    pub(super) const fn new(share: f64) -> Self {
        Self {
            share,
            seen: None,
            arrivals: VecDeque::new(),
        }
    }

    /// Whether each of some jobs is urgent. `jobs` are all jobs, each with the GPU-seconds and the
    /// seconds that it needs.
    pub(super) fn urgent(&mut self, view: &View<'_>, jobs: &[(&JobState, f64, f64)]) -> Vec<bool> {
        let layout = view.cluster.layout();
        let gpus = f64::from(layout.gpus());
        let load = self.load(view.now_s, jobs) / gpus;
        let alone = |job: &JobState| job.job.gpus > layout.rack_gpus() / 2;
        let area_s = jobs.iter().map(|(_, gpu_s, _)| gpu_s).sum::<f64>() / gpus;
        let chain = jobs
            .iter()
            .filter(|(job, ..)| alone(job))
            .map(|(_, _, left_s)| left_s);
        let chain_s = chain.sum::<f64>() / f64::from(layout.racks());
        let busy = |time_s: f64| match 1.0 - load {
            rest if rest > 0.0 => self.share * time_s / rest,
            _ => f64::INFINITY,
        };
        let (bound_s, area_bound_s) = (busy(area_s.max(chain_s)), busy(area_s));
        let is_urgent = |(job, _, left_s): &(&JobState, f64, f64)| {
            *left_s >= bound_s || (alone(job) && chain_s >= area_bound_s)
        };
        jobs.iter().map(is_urgent).collect()
    }

    /// GPU-seconds that came in each second of the last day.
    fn load(&mut self, now_s: f64, jobs: &[(&JobState, f64, f64)]) -> f64 {
        let came = |(job, ..): &(&JobState, f64, f64)| job.job.arrival_s;
        let first = jobs.iter().map(came).fold(f64::INFINITY, f64::min);
        let (first, newest) = *self.seen.get_or_insert((first, first));
        let new = jobs.iter().filter(|job| came(job) > newest);
        self.arrivals
            .extend(new.map(|(job, gpu_s, _)| (job.job.arrival_s, *gpu_s)));
        let newest = jobs.iter().map(came).fold(newest, f64::max);
        self.seen = Some((first, newest));
        while self
            .arrivals
            .front()
            .is_some_and(|(at, _)| *at < now_s - WINDOW_S)
        {
            self.arrivals.pop_front();
        }
        let work = self.arrivals.iter().map(|(_, gpu_s)| gpu_s).sum::<f64>();
        work / (now_s - first).clamp(1.0, WINDOW_S)
    }
}
