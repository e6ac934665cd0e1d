//! One admitted trainer.

use std::sync::Arc;

use lacuna_model::TrainerSpec;
use lacuna_planner::worth::{Values, Worth};
use lacuna_planner::{Mix, NO_NODES, Shape};
use lacuna_trainer::Ledger;
use lacuna_trainer::account::{Change, Rates, stall_debt};

use super::saves::Saves;

/// An admitted trainer.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) kind: Arc<Worth>,
    pub(super) nodes: u32,
    /// Its nodes of each kind; of the first alone where trainers do not tell kinds apart.
    pub(super) mix: Mix,
    /// How far apart its nodes are.
    pub(super) tier: usize,
    /// How crowded its uplinks are, 1 if they are not.
    pub(super) crowd: f64,
    /// Its rate at its nodes, samples/s.
    pub(super) rate: f64,
    pub(super) work: f64,
    pub(super) ledger: Ledger,
    /// Time at which its work was done, seconds since the start.
    pub(super) ended_s: Option<f64>,
    /// Its rate before it lost nodes in the present step, if it did, samples/s.
    pub(super) hit: Option<f64>,
    /// Whether it was charged for a loss of nodes in the present step, and so restarts anyway.
    pub(super) was_hit: bool,
    /// Its place in the list of trainers. An endless list goes on counting when it begins again.
    pub(super) life: u32,
    /// Number of stages that it has reached.
    pub(super) stage: usize,
    /// Its place in the order of admission.
    pub(super) admitted: u32,
    /// The number of its owner.
    pub(super) owner: usize,
    /// Its checkpoints, under a rule beside the policy.
    pub(super) saves: Saves,
    /// The present values of its sizes, if values change with time.
    pub(super) values: Option<Values>,
}

/// The index of a life in the list of trainers, which may begin again.
pub(super) fn place(trainers: &[TrainerSpec], life: u32) -> usize {
    life as usize % trainers.len().max(1)
}

/// The trainer of a life.
pub(super) fn spec_of(trainers: &[TrainerSpec], life: u32) -> Option<&TrainerSpec> {
    trainers.get(place(trainers, life))
}

impl Member {
    /// Sets its nodes of each kind.
    pub(super) fn remix(&mut self, mix: Mix) {
        let (tier, crowd) = (self.tier, self.crowd);
        self.nodes = mix.iter().sum();
        self.mix = mix;
        self.rate = self.kind.rate_on(&Shape { mix, tier, crowd });
    }

    /// Takes a node of a kind from it.
    pub(super) fn lose(&mut self, kind: u8) {
        let mut mix = self.mix;
        if let Some(count) = mix.get_mut(usize::from(kind)) {
            *count = count.saturating_sub(1);
        }
        self.remix(mix);
    }

    /// Takes all nodes from it.
    pub(super) fn stop(&mut self) {
        self.remix(NO_NODES);
    }

    /// Whether its nodes are too few to run, or a mix on which it cannot.
    pub(super) fn is_short(&self) -> bool {
        self.nodes > 0 && (self.nodes < self.kind.min() || !self.kind.runs_on(self.mix))
    }

    /// Sets how far apart its nodes are, and how crowded its uplinks.
    pub(super) fn set_tier(&mut self, tier: usize, crowd: f64) {
        (self.tier, self.crowd) = (tier, crowd);
        self.remix(self.mix);
    }

    /// Charges a change of its nodes. Gives the stall debt, samples, and what of it was lost to the
    /// wait for pilots.
    pub(super) fn charge(&mut self, change: Change, rates: Rates) -> (f64, f64) {
        let costs = self.kind.costs();
        let mut debt = stall_debt(&costs.rescale, costs.start_s, change, rates);
        let waits = pilot_wait(costs.pilot_s, change, rates);
        if !is_start(change, rates) {
            debt += waits;
        }
        self.ledger.charge(debt);
        (debt, waits)
    }
}

/// Whether a change is a start from no nodes; its costs have the wait for pilots.
fn is_start(change: Change, rates: Rates) -> bool {
    change == Change::Grown && rates.before <= 0.0
}

/// What further nodes do not add while they wait for pilots, samples.
fn pilot_wait(pilot_s: f64, change: Change, rates: Rates) -> f64 {
    match change {
        Change::Grown | Change::Replaced => pilot_s * (rates.after - rates.before).max(0.0),
        Change::Shrunk
        | Change::Lost { .. }
        | Change::Restarted
        | Change::Paced
        | Change::Ended => 0.0,
    }
}
