//! A bound of the mean completion time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::job::Job;
use crate::speed::Speeds;

/// The mean completion time below which no policy comes, though it knows all work and arrivals, while
/// gangs have the GPUs that they ask for and at most their consolidated speed; seconds, 0 without jobs.
///
/// A gang ends no earlier than half of its running time after its mean busy time. The least sum of
/// mean busy times is that of one machine as fast as all GPUs, where the gang with the least work goes
/// first and others are preempted (Goemans, Queyranne, Schulz, Skutella and Wang, SIAM Journal on
/// Discrete Mathematics 15, 2002). The mean running time is a bound too, and the larger one counts.
#[must_use]
pub fn mean_bound_s(jobs: &[Job], speeds: &Speeds) -> f64 {
    let gpus = f64::from(speeds.layout().gpus());
    let alone_s = |job: &Job| job.ideal_s() / speeds.consolidated(job, job.gpus);
    let mut gangs: Vec<(f64, f64)> = jobs
        .iter()
        .map(|job| (job.arrival_s, alone_s(job) * f64::from(job.gpus) / gpus))
        .collect();
    gangs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let count = jobs.len().max(1) as f64;
    let alone = jobs.iter().map(alone_s).sum::<f64>() / count;
    (busy_sum_s(&gangs) / count + alone / 2.0).max(alone)
}

/// The sum of mean busy times after arrival on one machine, the least work first. `gangs` are arrivals
/// and times on the machine, in order of arrival.
fn busy_sum_s(gangs: &[(f64, f64)]) -> f64 {
    let mut coming = gangs.iter().peekable();
    // Positive times have the order of their bits. Work, arrival, and the part that is left.
    let mut waiting: BinaryHeap<Reverse<(u64, u64, u64)>> = BinaryHeap::new();
    let (mut now, mut sum) = (0.0, 0.0);
    loop {
        while let Some((arrival, work)) = coming.next_if(|(arrival, _)| *arrival <= now) {
            waiting.push(Reverse((work.to_bits(), arrival.to_bits(), work.to_bits())));
        }
        let next = coming.peek().map(|(arrival, _)| *arrival);
        let Some(Reverse((work, arrival, left))) = waiting.pop() else {
            match next {
                Some(arrival) => now = arrival,
                None => return sum,
            }
            continue;
        };
        let whole = f64::from_bits(work);
        let runs = next
            .map_or(f64::INFINITY, |next| next - now)
            .min(f64::from_bits(left));
        if whole > 0.0 {
            sum += runs / whole * (now + runs / 2.0 - f64::from_bits(arrival));
        }
        now += runs;
        let left = f64::from_bits(left) - runs;
        if left > 0.0 {
            waiting.push(Reverse((work, arrival, left.to_bits())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_work_goes_first_and_others_are_preempted() {
        // Busy from 0 to 4: the second one from 1 to 2, the first one around it.
        let sum = busy_sum_s(&[(0.0, 3.0), (1.0, 1.0)]);
        let first = (0.5 + 2.0 * 3.0) / 3.0;
        assert!((sum - (first + 0.5)).abs() < 1e-12, "{sum}");
        assert_eq!(busy_sum_s(&[]), 0.0);
        assert_eq!(busy_sum_s(&[(5.0, 2.0)]), 1.0);
    }
}
