//! Scores of links: whether neighbours end together as often as forecast.

use lacuna_forecast::Joint;
use lacuna_forecast::skill::Brier;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

/// A question about two neighbours, by their nodes.
struct Pair {
    predictor: usize,
    nodes: [usize; 2],
    /// Probability that both end in the same event.
    together: f64,
    answered: bool,
}

/// Questions about a sample of the links between neighbours: when the first of the two ends, does
/// the other end at the same moment?
pub(super) struct Pairs {
    rng: ChaCha8Rng,
    at_a_time: usize,
    all: Vec<Pair>,
    /// By node, the open questions about its hole.
    waiting: Vec<Vec<usize>>,
    /// Whether each node leaves at this step.
    leaving: Vec<bool>,
    sums: Vec<Option<Brier>>,
}

impl Pairs {
    pub(super) fn new(predictors: usize, nodes: usize, at_a_time: usize, seed: u64) -> Self {
        Self {
            rng: ChaCha8Rng::seed_from_u64(seed),
            at_a_time,
            all: Vec::new(),
            waiting: vec![Vec::new(); nodes],
            leaving: vec![false; nodes],
            sums: vec![None; predictors],
        }
    }

    /// Makes room for new nodes.
    pub(super) fn grow(&mut self, nodes: usize) {
        self.waiting.resize_with(nodes, Vec::new);
        self.leaving.resize(nodes, false);
    }

    /// Takes the forecast of a predictor for the present holes, which are those of `nodes`.
    pub(super) fn ask(&mut self, predictor: usize, nodes: &[usize], joint: &Joint) {
        let node_at = |at: usize| nodes.get(*joint.order.get(at)? as usize).copied();
        let mut places: Vec<usize> = (0..joint.link.len()).collect();
        let (sample, _) = places.partial_shuffle(&mut self.rng, self.at_a_time);
        for &mut at in sample {
            let (Some(first), Some(second), Some(&link)) =
                (node_at(at), node_at(at + 1), joint.link.get(at))
            else {
                continue;
            };
            for node in [first, second] {
                if let Some(waiting) = self.waiting.get_mut(node) {
                    waiting.push(self.all.len());
                }
            }
            self.all.push(Pair {
                predictor,
                nodes: [first, second],
                together: f64::from(link),
                answered: false,
            });
        }
    }

    /// Answers questions about nodes that leave in one event.
    pub(super) fn leave(&mut self, closed: &[u32]) {
        self.mark(closed, true);
        for &node in closed {
            let waiting = self.waiting.get_mut(node as usize).map(std::mem::take);
            for number in waiting.unwrap_or_default() {
                let Some(pair) = self.all.get_mut(number).filter(|pair| !pair.answered) else {
                    continue;
                };
                pair.answered = true;
                let leaves = |node: usize| self.leaving.get(node).copied().unwrap_or(false);
                let together = pair.nodes.into_iter().all(leaves);
                if let Some(sums) = self.sums.get_mut(pair.predictor) {
                    sums.get_or_insert_default().add(pair.together, together);
                }
            }
        }
        self.mark(closed, false);
    }

    fn mark(&mut self, closed: &[u32], leaves: bool) {
        for &node in closed {
            if let Some(place) = self.leaving.get_mut(node as usize) {
                *place = leaves;
            }
        }
    }

    /// The scores, by predictor; none for a predictor without links. Pairs of which neither ends
    /// within the trace are left out.
    pub(super) fn scores(self) -> Vec<Option<Brier>> {
        self.sums
    }
}

#[cfg(test)]
mod tests {
    use lacuna_model::OrderSource;

    use super::*;

    #[test]
    fn the_first_to_end_answers_for_both() {
        let mut pairs = Pairs::new(2, 4, 10, 1);
        // In the order 2, 0, 3, 1, which are the nodes' places in the list of holes.
        let joint = Joint {
            source: OrderSource::Scheduler,
            order: vec![2, 0, 3, 1],
            link: vec![1.0, 0.5, 0.25],
            typical_s: None,
            announced: Vec::new(),
        };
        pairs.ask(1, &[0, 1, 2, 3], &joint);
        pairs.leave(&[2, 0]);
        // 0 left without 3, which answers the question about both.
        pairs.leave(&[3]);
        let scores = pairs.scores();
        assert_eq!(scores[0], None);
        let found = scores[1].unwrap();
        assert_eq!((found.answered(), found.open()), (3, 1));
        let squares: f64 = 0.0 + 0.25 + 0.0625;
        assert!((found.score().unwrap() - squares / 3.0).abs() < 1e-12);
    }

    #[test]
    fn a_link_to_nowhere_is_passed_over() {
        let mut pairs = Pairs::new(1, 2, 10, 1);
        let joint = Joint {
            source: OrderSource::Scheduler,
            order: vec![0, 9],
            link: vec![0.5, 0.5],
            typical_s: None,
            announced: Vec::new(),
        };
        pairs.ask(0, &[0, 1], &joint);
        pairs.leave(&[0, 7]);
        assert_eq!(pairs.scores(), [None]);
    }
}
