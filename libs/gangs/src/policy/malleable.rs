//! Malleable gangs: a job may have fewer GPUs than it asks for.
//!
//! Gangs grow from no GPU by the largest gain per GPU and work left, along the sizes 1, 2, 3, 4, 8,
//! 16, 24, ...; those on the critical path before the others. Where work is not known, the learnt
//! price of an end takes the place of the work left, and no path is known. Where the network costs nothing, that
//! is shortest remaining service. A running gang keeps its size unless the gain of an hour is worth
//! twice the restart. The quality of a sample is taken to be the same at each size of the global
//! batch, so combine this with the statistical efficiency of a job before it is relied upon.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::job::JobState;

use super::board::Board;
use super::learnt::Learnt;
use super::path::Path;
use super::rank::sorted;
use super::view::{Plan, Policy, View};

/// A plan is renewed after this time without events, seconds.
const RENEWED_S: f64 = 3600.0;

/// The smallest gain for which a gang grows, in GPUs at full speed.
const LEAST_GAIN: f64 = 0.02;

/// A change of size must bring this many times what the restart loses.
const RESTARTS: f64 = 2.0;

/// The weight of jobs on the critical path; that of others is at most 1.
const URGENT: f64 = 1e9;

/// Shares of the consolidated speed, as in re-planning.
const POOR: f64 = 0.5;
const GOOD: f64 = 0.98;

/// The policy.
#[derive(Debug, Clone)]
pub(super) struct Malleable {
    worth: Worth,
    wake_s: Option<f64>,
}

/// What a gang's growth is worth.
#[derive(Debug, Clone)]
enum Worth {
    /// By the work that is left; jobs on the critical path grow before all others.
    Known(Path),
    /// By the price of an end, as far as one has learnt.
    Learnt(Learnt),
}

impl Malleable {
    /// Work is known. Jobs on the critical path grow first, from this share of the busy time on.
    pub(super) const fn known(share: f64) -> Self {
        Self {
            worth: Worth::Known(Path::new(share)),
            wake_s: None,
        }
    }

    /// Work is not known.
    pub(super) fn learnt() -> Self {
        Self {
            worth: Worth::Learnt(Learnt::default()),
            wake_s: None,
        }
    }
}

impl Worth {
    /// Jobs with the weights of their gains, in the order in which equal gains count.
    fn weighed<'a>(&mut self, view: &View<'a>) -> Vec<(&'a JobState, f64)> {
        let all = view.waiting.iter().chain(view.running).copied();
        let path = match self {
            Self::Known(path) => path,
            Self::Learnt(learnt) => {
                learnt.learn(view);
                let ordered = sorted(all, |job| learnt.price(view, job));
                let weight = |job: &'a JobState| (job, 1.0 / learnt.price(view, job));
                return ordered.into_iter().map(weight).collect();
            }
        };
        let ordered = sorted(all, JobState::left_gpu_s);
        let machine_gpus = view.cluster.layout().machine_gpus();
        let needs = |job: &&'a JobState| {
            let rates = sizes(job.job.gpus, machine_gpus).map(|size| rate(view, job, size));
            (
                *job,
                job.left_gpu_s(),
                job.left_gpu_s() / rates.fold(1.0, f64::max),
            )
        };
        let needs: Vec<(&JobState, f64, f64)> = ordered.iter().map(needs).collect();
        let urgent = path.urgent(view, &needs);
        let weight = |(job, urgent): (&'a JobState, bool)| {
            let weight = 1.0 / job.left_gpu_s().max(1.0);
            (job, if urgent { URGENT } else { weight })
        };
        ordered.into_iter().zip(urgent).map(weight).collect()
    }
}

/// A growth of one job.
struct Growth {
    value: f64,
    /// Place of the job in the order of work.
    at: usize,
    /// Its size afterwards.
    to: u32,
}

impl Ord for Growth {
    fn cmp(&self, other: &Self) -> Ordering {
        self.value
            .total_cmp(&other.value)
            .then(other.at.cmp(&self.at))
    }
}

impl PartialOrd for Growth {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Growth {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Growth {}

/// The sizes that a job with this number of GPUs may have.
fn sizes(gpus: u32, machine_gpus: u32) -> impl Iterator<Item = u32> {
    let small = [1, 2, 3, 4]
        .into_iter()
        .filter(move |size| *size < machine_gpus);
    let large = (1..).map(move |machines| machines * machine_gpus);
    let all = small.chain(large).take_while(move |size| *size < gpus);
    all.chain([gpus])
}

/// Progress with this number of GPUs, in GPUs at full speed.
fn rate(view: &View<'_>, job: &JobState, gpus: u32) -> f64 {
    f64::from(gpus) * view.speeds.consolidated(&job.job, gpus)
}

/// The best growth of a job from a size: the largest gain per GPU, times a weight.
fn growth(
    view: &View<'_>,
    (at, job): (usize, &JobState),
    weight: f64,
    from: u32,
    left: u32,
) -> Option<Growth> {
    let now = rate(view, job, from);
    let machine_gpus = view.cluster.layout().machine_gpus();
    let larger = sizes(job.job.gpus, machine_gpus).filter(|to| *to > from && *to - from <= left);
    let grown = larger.filter_map(|to| {
        let gain = rate(view, job, to) - now;
        let value = gain / f64::from(to - from) * weight;
        (gain >= LEAST_GAIN).then_some(Growth { value, at, to })
    });
    grown.max()
}

impl Malleable {
    /// Jobs with their sizes.
    fn sized<'a>(&mut self, view: &View<'a>) -> Vec<(&'a JobState, u32)> {
        let weighed = self.worth.weighed(view);
        let weight = |at: usize| weighed.get(at).map_or(0.0, |(_, weight)| *weight);
        let mut left = view.cluster.layout().gpus();
        let mut sized: Vec<(&JobState, u32)> = weighed.iter().map(|(job, _)| (*job, 0)).collect();
        let begun = sized.iter().enumerate();
        let begun = begun.filter_map(|(at, (job, _))| growth(view, (at, job), weight(at), 0, left));
        let mut heap: BinaryHeap<Growth> = begun.collect();
        while let Some(next) = heap.pop() {
            let Some((job, gpus)) = sized.get_mut(next.at) else {
                continue;
            };
            if next.to - *gpus <= left {
                left -= next.to - *gpus;
                *gpus = next.to;
            }
            if left > 0 {
                heap.extend(growth(view, (next.at, job), weight(next.at), *gpus, left));
            }
        }
        Self::settled(view, &mut sized);
        sized
    }

    /// Lets gangs keep their sizes where a change is not worth its restart.
    fn settled(view: &View<'_>, sized: &mut [(&JobState, u32)]) {
        let all = view.cluster.layout().gpus();
        let mut used: u32 = sized.iter().map(|(_, gpus)| gpus).sum();
        // Shrinking gangs last: they keep their size only where GPUs are left.
        let mut order: Vec<&mut (&JobState, u32)> = sized.iter_mut().collect();
        order.sort_by_key(|(job, gpus)| job.run.as_ref().is_some_and(|run| run.gpus > *gpus));
        for (job, gpus) in order {
            let Some(run) = job
                .run
                .as_ref()
                .filter(|run| run.gpus != *gpus && *gpus > 0)
            else {
                continue;
            };
            let (now, then) = (rate(view, job, run.gpus), rate(view, job, *gpus));
            let stall_s = view.terms.restart_s * f64::from(*gpus);
            let worth = (then - now) * RENEWED_S >= RESTARTS * stall_s * then;
            let kept = used - *gpus + run.gpus;
            if !worth && kept <= all {
                *gpus = run.gpus;
                used = kept;
            }
        }
    }
}

impl Policy for Malleable {
    fn plan(&mut self, view: &View<'_>) -> Plan {
        self.wake_s = Some(view.now_s + RENEWED_S);
        let mut sized = self.sized(view);
        sized.retain(|(_, gpus)| *gpus > 0);
        sized.sort_by_key(|(_, gpus)| std::cmp::Reverse(*gpus));
        let mut board = Board::new(view);
        for (job, gpus) in &sized {
            board.keep(job, *gpus, POOR);
        }
        let fits = sized
            .iter()
            .all(|(job, gpus)| board.has(job) || board.whole(job, *gpus));
        if !fits {
            board = Board::new(view);
            for (job, gpus) in &sized {
                let _ = board.keep(job, *gpus, GOOD) || board.whole(job, *gpus);
            }
            for (job, gpus) in &sized {
                let _ = board.has(job) || board.scattered(job, *gpus, POOR);
            }
        }
        board.plan()
    }

    fn wake_s(&self) -> Option<f64> {
        self.wake_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_small_ones_and_whole_machines() {
        assert_eq!(
            sizes(40, 8).collect::<Vec<_>>(),
            [1, 2, 3, 4, 8, 16, 24, 32, 40]
        );
        assert_eq!(sizes(6, 8).collect::<Vec<_>>(), [1, 2, 3, 4, 6]);
        assert_eq!(sizes(1, 8).collect::<Vec<_>>(), [1]);
    }
}
