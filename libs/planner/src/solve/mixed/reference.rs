//! The plain dynamic program over all kinds, and brute force. They judge the fast ways.

use crate::problem::{Item, Mix, MixProblem, MixSizes, NO_NODES};

/// The possible mixes of a trainer on these nodes, each once.
pub fn mixes(item: &Item, nodes: Mix) -> impl Iterator<Item = Mix> + '_ {
    let table = item.kinds.iter();
    let cells = table.flat_map(move |kinds| kinds.value.cells(nodes));
    let mixes = cells.filter(|cell| !cell.is_again()).map(|cell| cell.mix());
    mixes.filter(|mix| item.value_of(*mix).is_finite())
}

/// What is left of some nodes; nothing if they are too few.
fn less(nodes: Mix, mix: Mix) -> Option<Mix> {
    let mut left = nodes;
    for (left, used) in left.iter_mut().zip(mix) {
        *left = left.checked_sub(used)?;
    }
    Some(left)
}

/// All counts of each kind up to these nodes, in the order of [`solve`]'s keys.
fn cells(nodes: Mix) -> Vec<Mix> {
    let mut cells = vec![NO_NODES];
    for (kind, most) in nodes.into_iter().enumerate() {
        let rows = cells
            .into_iter()
            .flat_map(|cell| (0..=most).map(move |n| crate::problem::with_count(cell, kind, n)));
        cells = rows.collect();
    }
    cells
}

/// The optimum in O(trainers x counts of all kinds x mixes).
#[must_use]
pub fn solve(problem: &MixProblem) -> MixSizes {
    let nodes = problem.nodes;
    let key = |mix: Mix| {
        let digits = mix.iter().zip(nodes);
        digits.fold(0, |key, (&n, most)| key * (most as usize + 1) + n as usize)
    };
    let cells = cells(nodes);
    let mut best = vec![0.0; cells.len()];
    let mut taken: Vec<Vec<Mix>> = Vec::new();
    for item in &problem.trainers {
        let (next, choice) = cells
            .iter()
            .map(|&cell| {
                let tried = mixes(item, cell).filter_map(|mix| {
                    let left = best.get(key(less(cell, mix)?))?;
                    Some((left + item.gain_of(problem.horizon_s, mix), mix))
                });
                let none = (f64::NEG_INFINITY, NO_NODES);
                tried.fold(none, |x, y| if y.0 > x.0 { y } else { x })
            })
            .unzip();
        best = next;
        taken.push(choice);
    }
    let mut left = nodes;
    let mut chosen: Vec<Mix> = Vec::new();
    for choice in taken.iter().rev() {
        let mix = choice.get(key(left)).copied().unwrap_or_default();
        left = less(left, mix).unwrap_or_default();
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
            let Some(left) = less(left, mix) else {
                continue;
            };
            chosen.push(mix);
            extend(problem, chosen, left, best);
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
