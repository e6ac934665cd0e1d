//! What the nodes of a trainer give as it learns: a sample of a large batch is worth more late than
//! early, since the noise scale of the gradient grows. Source: Pollux (OSDI 2021), section 3.1.

use std::collections::BTreeMap;

use crate::{Cause, ScalingCurve, TrainerId};

/// The curves of a trainer from a point of its work on.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// Samples done from which they hold.
    pub from: f64,
    /// Throughput in samples/s by node count.
    pub throughput: ScalingCurve,
    /// The curve that the planner maximises; throughput if absent.
    pub objective: Option<ScalingCurve>,
    /// Learning in samples/s of the user's batch by node count, which the objective `goodput`
    /// maximises; throughput if absent.
    pub goodput: Option<ScalingCurve>,
    /// What steps teach and wait for from here on, if that is known.
    pub steps: Option<Steps>,
}

/// A trainer whose curves change, or whose steps or learning are known.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Staged {
    /// What steps teach and wait for before the first stage, if that is known.
    pub steps: Option<Steps>,
    /// Learning before the first stage ([`Stage::goodput`]).
    pub goodput: Option<ScalingCurve>,
    /// The stages, in order of their work. Before the first a trainer has the curves of its
    /// description.
    pub later: Vec<Stage>,
}

impl Staged {
    /// What steps teach and wait for after this many stages.
    #[must_use]
    pub fn steps(&self, stages: usize) -> Option<&Steps> {
        match stages.checked_sub(1) {
            None => self.steps.as_ref(),
            Some(at) => self.later.get(at)?.steps.as_ref(),
        }
    }
}

/// The trainers of a list that have stages, or whose steps are known.
pub type Stages = BTreeMap<TrainerId, Staged>;

/// What the steps of a trainer teach and wait for, by node count.
#[derive(Debug, Clone, PartialEq)]
pub struct Steps {
    /// Fewest nodes first.
    rows: Vec<(u32, StepsAt)>,
}

/// What the steps of a trainer teach and wait for on some nodes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StepsAt {
    /// The batch, in samples.
    pub batch: f64,
    /// Samples of the user's batch that one sample is worth.
    pub efficiency: f64,
    /// Shares of a step that causes cost, in the order of [`Cause::ALL`].
    pub waits: [f64; Cause::ALL.len()],
}

impl StepsAt {
    /// Why these figures make no sense.
    fn wrong(&self) -> Option<&'static str> {
        let positive = |x: f64| x.is_finite() && x > 0.0;
        if !positive(self.batch) || !positive(self.efficiency) {
            return Some("a positive batch and a positive worth of a sample");
        }
        let whole = self.waits.iter().sum::<f64>() <= 1.0 + 1e-9;
        let all = self.waits.iter().all(|share| (0.0..=1.0).contains(share));
        (!whole || !all).then_some("shares of a step from 0 on that are 1 at most together")
    }
}

impl Steps {
    /// Of node counts in rising order. Those at no nodes are left out.
    ///
    /// # Errors
    /// The expected values: no node count, counts that do not rise, or figures out of their range.
    pub fn new(rows: impl IntoIterator<Item = (u32, StepsAt)>) -> Result<Self, &'static str> {
        let rows: Vec<(u32, StepsAt)> = rows.into_iter().filter(|row| row.0 > 0).collect();
        if rows.is_empty() || !rows.is_sorted_by(|a, b| a.0 < b.0) {
            return Err("node counts in rising order");
        }
        match rows.iter().find_map(|row| row.1.wrong()) {
            Some(expected) => Err(expected),
            None => Ok(Self { rows }),
        }
    }

    /// Those of the nearest given node count below, or of the first.
    #[must_use]
    pub fn at(&self, nodes: u32) -> StepsAt {
        let below = self.rows.iter().rfind(|row| row.0 <= nodes);
        below
            .or(self.rows.first())
            .map_or_else(StepsAt::default, |row| row.1)
    }
}
