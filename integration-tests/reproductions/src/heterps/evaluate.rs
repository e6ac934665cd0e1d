//! What a scheduler asks: the cost of a choice of kinds, provisioned exactly.

use lacuna_layers::{LayerProfile, Provisioner};

/// The cost of a choice that cannot meet the rate.
pub(super) const IMPOSSIBLE: f64 = 1e9;

/// Counts choices and keeps the cheapest.
pub(super) struct Evaluator<'a> {
    provisioner: Provisioner<'a>,
    profile: &'a LayerProfile,
    pub(super) evaluations: usize,
    pub(super) best: f64,
    pub(super) choice: Vec<usize>,
}

impl<'a> Evaluator<'a> {
    pub(super) fn new(profile: &'a LayerProfile) -> Self {
        Self {
            provisioner: Provisioner::new(profile),
            profile,
            evaluations: 0,
            best: IMPOSSIBLE,
            choice: vec![0; profile.layers().len()],
        }
    }

    pub(super) fn layers(&self) -> usize {
        self.profile.layers().len()
    }

    pub(super) fn kinds(&self) -> usize {
        self.profile.kinds().len()
    }

    pub(super) fn profile(&self) -> &'a LayerProfile {
        self.profile
    }

    /// The cost of the whole work; [`IMPOSSIBLE`] if no units meet the rate.
    pub(super) fn cost(&mut self, choice: &[usize]) -> f64 {
        self.evaluations += 1;
        let placement = self.provisioner.placement(choice).ok().flatten();
        let cost = placement.map_or(IMPOSSIBLE, |placement| placement.cost);
        if cost < self.best {
            self.best = cost;
            self.choice = choice.to_vec();
        }
        cost
    }
}
