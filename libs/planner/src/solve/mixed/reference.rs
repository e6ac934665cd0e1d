//! The plain dynamic program over two kinds, and brute force. They judge the fast way.

use crate::problem::{Mix, MixItem, MixProblem, MixSizes};

fn mixes(item: &MixItem, [a, b]: Mix) -> impl Iterator<Item = Mix> + '_ {
    let [most_a, most_b] = item.value.most();
    let rows = 0..=most_a.min(a);
    let all = rows.flat_map(move |a| (0..=most_b.min(b)).map(move |b| [a, b]));
    all.filter(|mix| item.is_mix(*mix))
}

/// The optimum in O(trainers x nodes of both kinds x mixes).
#[must_use]
pub fn solve(problem: &MixProblem) -> MixSizes {
    let [rows, columns] = problem.nodes;
    let stride = columns as usize + 1;
    let key = |[a, b]: Mix| a as usize * stride + b as usize;
    let cells: Vec<Mix> = (0..=rows)
        .flat_map(|a| (0..=columns).map(move |b| [a, b]))
        .collect();
    let mut best = vec![0.0; cells.len()];
    let mut taken: Vec<Vec<Mix>> = Vec::new();
    for item in &problem.trainers {
        let (next, choice) = cells
            .iter()
            .map(|&[a, b]| {
                let tried = mixes(item, [a, b]).filter_map(|mix| {
                    let [more_a, more_b] = mix;
                    let left = best.get(key([a - more_a, b - more_b]))?;
                    Some((left + item.gain(problem.horizon_s, mix), mix))
                });
                let none = (f64::NEG_INFINITY, [0, 0]);
                tried.fold(none, |x, y| if y.0 > x.0 { y } else { x })
            })
            .unzip();
        best = next;
        taken.push(choice);
    }
    let mut left = problem.nodes;
    let mut chosen: Vec<Mix> = Vec::new();
    for choice in taken.iter().rev() {
        let mix = choice.get(key(left)).copied().unwrap_or_default();
        let ([a, b], [less_a, less_b]) = (left, mix);
        left = [a - less_a, b - less_b];
        chosen.push(mix);
    }
    chosen.reverse();
    problem.sizes(chosen)
}

/// The optimum by trying everything, for very small problems.
#[must_use]
pub fn brute_force(problem: &MixProblem) -> MixSizes {
    fn extend(problem: &MixProblem, chosen: &mut Vec<Mix>, left: Mix, best: &mut MixSizes) {
        let Some(item) = problem.trainers.get(chosen.len()) else {
            let found = problem.sizes(chosen.clone());
            if found.objective > best.objective {
                *best = found;
            }
            return;
        };
        for mix in mixes(item, left) {
            let ([a, b], [less_a, less_b]) = (left, mix);
            chosen.push(mix);
            extend(problem, chosen, [a - less_a, b - less_b], best);
            chosen.pop();
        }
    }
    let mut best = MixSizes {
        mixes: Vec::new(),
        objective: f64::NEG_INFINITY,
    };
    extend(problem, &mut Vec::new(), problem.nodes, &mut best);
    best
}
