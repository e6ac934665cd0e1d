//! Reference figures on the Summit trace, and the goals after them. They are constants: no command
//! makes them.
//!
//! Source: an independent replayer, not part of Lacuna, on the same trace (from Unix 1613347732,
//! endless `hpo-1000`, exact dynamic program for the sizes); shares of the zero-cost bound. `best`
//! is the best of three ways without look-ahead: the scheduler's order; the order with
//! re-placement; a risk model. Its clairvoyant column is the best heuristic found and no proven
//! optimum. The figures hold in the published accounting, in which starts are free.

/// The reference figures of one case.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Reference {
    /// Number of nodes: the first ones of the machine.
    pub(super) nodes: u32,
    /// Trainers in parallel.
    pub(super) parallel: u32,
    /// Factor on the costs.
    pub(super) cost: f64,
    /// BFTrainer's policy, T = 120 s, nodes at random.
    pub(super) bftrainer: f64,
    /// The best figure without look-ahead.
    pub(super) best: f64,
    /// The figure with all true ends.
    pub(super) clairvoyant: f64,
    /// The goal without look-ahead.
    pub(super) goal: Option<f64>,
    /// The goal with 15 minutes of look-ahead.
    pub(super) goal_15m: Option<f64>,
}

/// The source of the figures in words.
pub(super) const SOURCE: &str = "a constant, measured earlier on the same \
     trace by a replayer that is not part of Lacuna, which no command reproduces";

const REFERENCES: [Reference; 9] = [
    reference((1024, 10, 1.0), [0.966, 0.972, 0.974], [None, None]),
    reference(
        (1024, 10, 5.0),
        [0.856, 0.886, 0.910],
        [Some(0.89), Some(0.905)],
    ),
    reference(
        (1024, 10, 10.0),
        [0.728, 0.791, 0.852],
        [Some(0.80), Some(0.845)],
    ),
    reference((4734, 10, 1.0), [0.940, 0.974, 0.976], [None, None]),
    reference((4734, 10, 5.0), [0.772, 0.880, 0.915], [Some(0.885), None]),
    reference((4734, 10, 10.0), [0.604, 0.772, 0.856], [Some(0.78), None]),
    reference((4734, 35, 1.0), [0.966, 0.978, 0.980], [None, None]),
    reference(
        (4734, 35, 5.0),
        [0.852, 0.903, 0.924],
        [Some(0.908), Some(0.918)],
    ),
    reference(
        (4734, 35, 10.0),
        [0.720, 0.821, 0.869],
        [Some(0.83), Some(0.86)],
    ),
];

const fn reference(
    (nodes, parallel, cost): (u32, u32, f64),
    [bftrainer, best, clairvoyant]: [f64; 3],
    [goal, goal_15m]: [Option<f64>; 2],
) -> Reference {
    Reference {
        nodes,
        parallel,
        cost,
        bftrainer,
        best,
        clairvoyant,
        goal,
        goal_15m,
    }
}

/// The pools and numbers of trainers with reference figures.
pub(super) fn pairs() -> Vec<(u32, u32)> {
    let mut pairs: Vec<(u32, u32)> = REFERENCES.iter().map(|k| (k.nodes, k.parallel)).collect();
    pairs.dedup();
    pairs
}

/// The reference figures of a case.
pub(super) fn of(nodes: u32, parallel: u32, cost: f64) -> Option<&'static Reference> {
    let same = |reference: &&Reference| {
        (reference.nodes, reference.parallel) == (nodes, parallel)
            && (reference.cost - cost).abs() < 1e-9
    };
    REFERENCES.iter().find(same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_grow_with_the_revealed_future() {
        assert_eq!(pairs(), [(1024, 10), (4734, 10), (4734, 35)]);
        for reference in &REFERENCES {
            assert_eq!(
                of(reference.nodes, reference.parallel, reference.cost),
                Some(reference)
            );
            assert!(reference.bftrainer < reference.best && reference.best < reference.clairvoyant);
            // More revealed future gives a higher figure, and a goal is above the measured one.
            let goal = reference.goal.unwrap_or(reference.best);
            let ahead = reference.goal_15m.unwrap_or(goal);
            assert!(reference.best <= goal && goal <= ahead && ahead < reference.clairvoyant);
        }
        assert_eq!(of(1024, 35, 5.0), None);
    }
}
