//! Quirks of the published program of `BFTrainer` (arXiv 2106.12091), for comparisons with it.
//! No service has them.

use lacuna_planner::{Problem, Sizes, equal_share};

/// Largest change of one trainer at one event, nodes: the effect of the published program's big-M
/// of `nodes + 1`.
pub(crate) const fn max_change(nodes: u32) -> u32 {
    nodes.saturating_add(1) / 2
}

/// Equal share as published: a trainer whose share equals its minimum gets no nodes in the first
/// round.
pub(crate) fn equal_share(problem: &Problem) -> Sizes {
    equal_share::shared(problem, |item, share| share > item.min)
}

#[cfg(test)]
mod tests {
    use lacuna_planner::{Far, Item};

    use super::*;

    #[test]
    fn a_share_of_the_minimum_goes_to_the_first_trainer_that_can_use_it() {
        let item = Item {
            current: 0,
            min: 2,
            max: 3,
            value: (0..=3).map(f64::from).collect(),
            rate_now: 0.0,
            up_s: 0.0,
            pilot_s: 0.0,
            far: Far::default(),
            kinds: None,
            down_s: 0.0,
            lost: lacuna_planner::Lost::default(),
        };
        let problem = Problem {
            nodes: 4,
            horizon_s: 10.0,
            trainers: vec![item.clone(), item],
            max_change: None,
        };
        assert_eq!(equal_share(&problem).counts, [3, 0]);
        assert_eq!(equal_share::solve(&problem).counts, [2, 2]);
        assert_eq!([0, 1, 4, 7].map(max_change), [0, 1, 2, 4]);
    }
}
