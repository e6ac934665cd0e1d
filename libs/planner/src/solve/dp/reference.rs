//! The plain dynamic program and brute force: slow, short and independent of the fast way.
//! They judge it in tests.
#![expect(
    clippy::indexing_slicing,
    reason = "each row has a choice for every number of nodes, and what is taken lowers the number"
)]

use crate::{Problem, Sizes};

/// The optimum in O(trainers x nodes x max): `best[w]` is the largest sum of gains of the
/// trainers so far on exactly at most `w` nodes.
#[must_use]
pub fn solve(problem: &Problem) -> Sizes {
    let room: u64 = problem.trainers.iter().map(|i| u64::from(i.max)).sum();
    let nodes = u64::from(problem.nodes).min(room) as usize;
    let mut best = vec![0.0_f64; nodes + 1];
    let mut taken: Vec<Vec<u32>> = Vec::with_capacity(problem.trainers.len());
    for item in &problem.trainers {
        let sizes: Vec<(usize, f64)> = (0..=item.max)
            .filter(|&n| item.is_size(n))
            .map(|n| (n as usize, item.gain(problem.horizon_s, n)))
            .collect();
        let (next, choice) = (0..=nodes)
            .map(|w| {
                sizes
                    .iter()
                    .filter_map(|&(n, gain)| Some((best.get(w.checked_sub(n)?)? + gain, n as u32)))
                    .fold((f64::NEG_INFINITY, 0), |a, b| if b.0 > a.0 { b } else { a })
            })
            .unzip();
        best = next;
        taken.push(choice);
    }
    let mut left = nodes;
    let mut counts: Vec<u32> = taken
        .iter()
        .rev()
        .map(|choice| {
            let n = choice[left];
            left -= n as usize;
            n
        })
        .collect();
    counts.reverse();
    problem.sizes(counts)
}

/// The optimum by trying everything, for very small problems. Nothing if no choice is feasible.
#[must_use]
pub fn brute_force(problem: &Problem) -> Option<Sizes> {
    fn extend(problem: &Problem, counts: &mut Vec<u32>, left: u32, best: &mut Option<Sizes>) {
        let Some(item) = problem.trainers.get(counts.len()) else {
            let objective = problem.objective(counts);
            if best.as_ref().is_none_or(|b| objective > b.objective) {
                *best = Some(Sizes {
                    counts: counts.clone(),
                    objective,
                });
            }
            return;
        };
        for n in (0..=item.max.min(left)).filter(|&n| item.is_size(n)) {
            counts.push(n);
            extend(problem, counts, left - n, best);
            counts.pop();
        }
    }
    let mut best = None;
    extend(problem, &mut Vec::new(), problem.nodes, &mut best);
    best
}
