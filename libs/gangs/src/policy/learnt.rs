//! Work that is not known, learnt from the jobs that have ended.
//!
//! The work of a job, GPU-hours of computing, is a random number. It is cut into bins whose edges grow
//! by the square root of two. Jobs of the same model say how many of those that reached a bin ended
//! there; while they are few, the prior says it:
//!
//! ```text
//! prior_b  = 1 - (c n + from_b) / (c n + to_b)
//! hazard_b = (ended_b + K prior_b) / (reached_b + K)
//! index_b  = max over m of  P(end in b..=m) / E[work in b..=m],   b is reached
//! price    = 1 / (index_b s*)                                     GPU-hours held for an end
//! ```
//!
//! Jobs that have not ended count as far as they came, as in the estimator of Kaplan and Meier (1958).
//! The prior is a Lomax distribution; its scale is c hours on the n GPUs of the job. The index is that
//! of Gittins (1979), which gives the least mean completion time on one server (Aalto, Ayesta and
//! Righter, Queueing Systems 63, 2009). On a cluster it is a heuristic.

use std::collections::BTreeMap;

use crate::job::{Job, JobState};

use super::view::View;

/// Number of bins; the last one has all larger work too.
const BINS: usize = 48;

/// The upper edge of the first bin, GPU-hours.
const FIRST_GPU_H: f64 = 0.1;

/// The weight of the prior, jobs.
const PRIOR: f64 = 4.0;

/// The scale of the prior, hours.
const SCALE_H: f64 = 5.0;

/// Prices within this factor count as equal, so few jobs change places.
const STEP: f64 = std::f64::consts::SQRT_2;

/// Jobs that ended in a bin, and that reached it.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    ended: f64,
    reached: f64,
}

/// A job that has not ended, with the bin of its work so far.
#[derive(Debug, Clone, Copy)]
struct Seen {
    job: Job,
    model: usize,
    bin: usize,
}

/// What is known of the work of jobs.
#[derive(Debug, Clone, Default)]
pub(super) struct Learnt {
    /// Models by name, with the counts of their bins.
    models: Vec<(String, Vec<Count>)>,
    seen: BTreeMap<usize, Seen>,
    /// GPU-hours of computing for an end, by model, GPUs, and bin; forgotten where counts change.
    work_for_end: BTreeMap<(usize, u32), Vec<f64>>,
}

impl Learnt {
    /// Learns from how far jobs have come, and from those that have ended.
    pub(super) fn learn(&mut self, view: &View<'_>) {
        let mut ended = std::mem::take(&mut self.seen);
        for state in view.waiting.iter().chain(view.running) {
            let bin = bin_of(done_gpu_h(state));
            let model = self.model(view.speeds.model(&state.job));
            let before = ended.remove(&state.index).map_or(0, |seen| seen.bin);
            self.count(model, before..bin, None);
            let job = state.job;
            self.seen.insert(state.index, Seen { job, model, bin });
        }
        // The work of a job is known when it has ended.
        for seen in ended.into_values() {
            let last = bin_of(seen.job.samples * seen.job.sample_s / 3600.0).max(seen.bin);
            self.count(seen.model, seen.bin..last + 1, Some(last));
        }
    }

    /// The number of a model.
    fn model(&mut self, name: &str) -> usize {
        let mut names = self.models.iter();
        names.position(|(of, _)| of == name).unwrap_or_else(|| {
            let counts = vec![Count::default(); BINS];
            self.models.push((name.to_owned(), counts));
            self.models.len() - 1
        })
    }

    /// Counts a job that reached the end of some bins, or ended in one of them.
    fn count(&mut self, model: usize, bins: std::ops::Range<usize>, ended: Option<usize>) {
        if bins.is_empty() {
            return;
        }
        self.work_for_end.retain(|(of, _), _| *of != model);
        let counts = self.models.get_mut(model).map(|(_, counts)| counts);
        for (at, count) in counts.into_iter().flatten().enumerate() {
            count.reached += f64::from(u8::from(bins.contains(&at)));
            count.ended += f64::from(u8::from(ended == Some(at)));
        }
    }

    /// GPU-hours held for an end of a job that runs consolidated: what is paid for it, as far as one
    /// knows.
    pub(super) fn price(&mut self, view: &View<'_>, job: &JobState) -> f64 {
        let model = self.model(view.speeds.model(&job.job));
        let gpus = job.job.gpus;
        let counts = self.models.get(model).map_or(&[][..], |(_, counts)| counts);
        let works = self.work_for_end.entry((model, gpus));
        let works = works.or_insert_with(|| works_for_end(counts, SCALE_H * f64::from(gpus)));
        let bin = bin_of(done_gpu_h(job));
        let work = works.get(bin).copied().unwrap_or(f64::INFINITY);
        work / view.consolidated(job)
    }

    /// The price in steps.
    pub(super) fn key(&mut self, view: &View<'_>, job: &JobState) -> f64 {
        self.price(view, job).log(STEP).floor()
    }
}

/// Work so far, GPU-hours of computing.
fn done_gpu_h(job: &JobState) -> f64 {
    (job.job.samples - job.left) * job.job.sample_s / 3600.0
}

/// The lower edge of a bin, GPU-hours.
fn edge(bin: usize) -> f64 {
    match bin {
        0 => 0.0,
        _ => FIRST_GPU_H * std::f64::consts::SQRT_2.powf(bin as f64 - 1.0),
    }
}

/// The bin of an amount of work, GPU-hours.
fn bin_of(gpu_h: f64) -> usize {
    let halves = (gpu_h / FIRST_GPU_H).log2() * 2.0;
    ((halves.floor() + 1.0).max(0.0) as usize).min(BINS - 1)
}

/// The inverse of the index for each bin, GPU-hours of computing; the prior has a scale in GPU-hours.
fn works_for_end(counts: &[Count], scale_gpu_h: f64) -> Vec<f64> {
    let bins: Vec<(f64, f64)> = (0..)
        .zip(counts)
        .map(|(bin, count)| {
            let (from, to) = (edge(bin), edge(bin + 1));
            let prior = 1.0 - (scale_gpu_h + from) / (scale_gpu_h + to);
            let hazard = (count.ended + PRIOR * prior) / (count.reached + PRIOR);
            (hazard, to - from)
        })
        .collect();
    let from = |bin: usize| {
        let (mut left, mut work, mut best) = (1.0, 0.0, f64::INFINITY);
        for (hazard, width) in bins.iter().skip(bin) {
            // Ends lie in the middle of their bin.
            work += left * width * (1.0 - hazard / 2.0);
            left *= 1.0 - hazard;
            best = f64::min(best, work / (1.0 - left));
        }
        best
    };
    (0..bins.len()).map(from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_has_a_bin() {
        assert_eq!((bin_of(0.0), bin_of(0.0999), bin_of(0.1001)), (0, 0, 1));
        assert_eq!(bin_of(1e300), BINS - 1);
        for bin in 0..BINS {
            assert_eq!(bin_of((edge(bin) + edge(bin + 1)) / 2.0), bin);
        }
    }

    #[test]
    fn without_ends_the_work_for_an_end_grows_with_the_work_so_far() {
        let works = works_for_end(&[Count::default(); BINS], 5.0);
        assert!(works.windows(2).all(|pair| pair[0] < pair[1]), "{works:?}");
        // Half of what reaches twice the scale ends before four times the scale.
        assert!((works[0] - 5.0).abs() < 0.5, "{works:?}");
    }

    #[test]
    fn where_all_jobs_are_equal_the_furthest_goes_first() {
        let last = bin_of(10.0);
        let mut counts = [Count::default(); BINS];
        for (bin, count) in counts.iter_mut().enumerate().take(last + 1) {
            *count = Count {
                ended: if bin == last { 1000.0 } else { 0.0 },
                reached: 1000.0,
            };
        }
        let works = works_for_end(&counts, 5.0);
        assert!(works[..=last].windows(2).all(|pair| pair[0] > pair[1]));
        assert!((works[0] - 10.0).abs() < 2.0, "{works:?}");
        assert!(works[last + 1] > works[0]);
    }
}
