//! How long nodes wait for pilots of a trainer's owner, which plans count as lost.

use std::collections::VecDeque;

use lacuna_model::Span;

/// The newest waits; the oldest is forgotten.
const KEPT: usize = 33;
/// Fewer measured waits tell nothing.
const LEAST: usize = 5;
/// Plans depend on a change by more than this share.
const STEP: f64 = 0.2;

/// The measured waits of nodes, from the plan that gave them until their agent came.
#[derive(Debug, Default)]
pub(crate) struct PilotStarts {
    waits: VecDeque<f64>,
    /// What plans take for a wait, seconds.
    planned_s: Option<f64>,
}

impl PilotStarts {
    /// An agent has come. Returns whether plans depend on it.
    pub(crate) fn add(&mut self, wait: Span, assumed: Span) -> bool {
        self.waits.push_back(wait.as_secs_f64().max(0.0));
        if self.waits.len() > KEPT {
            self.waits.pop_front();
        }
        let median_s = self.median();
        let planned_s = self.planned_s(assumed);
        let differs = median_s.filter(|median| (median - planned_s).abs() > STEP * planned_s);
        self.planned_s = differs.or(self.planned_s);
        differs.is_some()
    }

    /// What plans take for a wait, seconds: the median within a step, else what is assumed.
    pub(crate) fn planned_s(&self, assumed: Span) -> f64 {
        self.planned_s.unwrap_or_else(|| assumed.as_secs_f64())
    }

    fn median(&self) -> Option<f64> {
        let mut sorted: Vec<f64> = self.waits.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        let enough = sorted.len() >= LEAST;
        sorted.get(sorted.len() / 2).copied().filter(|_| enough)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_take_the_median_once_enough_is_measured_and_follow_large_changes_only() {
        let assumed = Span::from_secs(10);
        let mut starts = PilotStarts::default();
        let mut add = |seconds| {
            let changed = starts.add(Span::from_secs(seconds), assumed);
            (changed, starts.planned_s(assumed))
        };
        for seconds in [3, 60, 4, 3] {
            assert_eq!(add(seconds), (false, 10.0), "too few");
        }
        assert_eq!(add(5), (true, 4.0));
        for seconds in [4, 4, 5, 5, 4] {
            assert_eq!(add(seconds), (false, 4.0), "within a fifth");
        }
        let changes = (0..40).filter(|_| add(20).0).count();
        assert!((1..=3).contains(&changes), "{changes}");
        assert_eq!(add(20), (false, 20.0));
    }
}
