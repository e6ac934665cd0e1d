//! The baseline: an equal share for each trainer, the rest first-come-first-served.

use crate::{Problem, Sizes};

/// Gives each of J trainers `floor(nodes / J)` (none below its minimum, none above its
/// maximum), then the remaining nodes in order of arrival, each up to its maximum.
#[must_use]
pub fn solve(problem: &Problem) -> Sizes {
    let trainers = problem.trainers.len() as u32;
    let share = problem.nodes.checked_div(trainers).unwrap_or(0);
    let mut left = problem.nodes;
    let mut counts: Vec<u32> = problem
        .trainers
        .iter()
        .map(|item| {
            let count = if share >= item.min {
                share.min(item.max)
            } else {
                0
            };
            left -= count;
            count
        })
        .collect();
    for (item, count) in problem.trainers.iter().zip(&mut counts) {
        let take = left.min(item.max - *count);
        if *count + take >= item.min {
            *count += take;
            left -= take;
        }
    }
    problem.sizes(counts)
}

#[cfg(test)]
mod tests {
    use crate::Item;

    use super::*;

    fn problem(nodes: u32, bounds: &[(u32, u32)]) -> Problem {
        let trainers = bounds
            .iter()
            .map(|&(min, max)| Item {
                current: 0,
                min,
                max,
                value: (0..=max).map(f64::from).collect(),
                rate_now: 0.0,
                up_s: 0.0,
                pilot_s: 0.0,
                far: crate::Far::default(),
                kinds: None,
                down_s: 0.0,
                lost: crate::Lost::default(),
            })
            .collect();
        Problem {
            nodes,
            horizon_s: 10.0,
            trainers,
        }
    }

    #[test]
    fn remaining_nodes_go_to_the_first_comers() {
        let sizes = solve(&problem(11, &[(1, 4), (1, 8), (1, 8)]));
        assert_eq!(sizes.counts, [4, 4, 3]);
        assert_eq!(sizes.objective, 110.0);
        let sizes = solve(&problem(2, &[(1, 1), (1, 8), (1, 8)]));
        assert_eq!(sizes.counts, [1, 1, 0]);
        assert!(solve(&problem(5, &[])).counts.is_empty());
    }

    #[test]
    fn a_share_at_the_minimum_runs() {
        let two = problem(4, &[(2, 3), (2, 3)]);
        assert_eq!(solve(&two).counts, [2, 2]);
    }
}
