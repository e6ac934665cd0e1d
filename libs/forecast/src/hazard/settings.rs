//! The settings and the reports of the hazard.

use lacuna_model::Span;
use serde::{Deserialize, Serialize};

use crate::{Evidence, OrderBy, Prior};

/// The settings of the hazard.
#[derive(Debug, Clone, PartialEq)]
pub struct HazardSettings {
    /// The source of the order of nodes.
    pub order: OrderBy,
    /// The time after which a sample counts half; `None` for no decay.
    pub half_life: Option<Span>,
    /// The number of ended holes before a model is fitted.
    pub needed: u64,
    /// The longest time between fits, in the cluster's time, if holes have ended.
    pub refit_every: Span,
    /// The largest number of samples.
    pub samples: usize,
    /// The seed of the choice of samples.
    pub seed: u64,
    /// What is expected before anything is known.
    pub prior: Prior,
}

impl Default for HazardSettings {
    fn default() -> Self {
        Self {
            order: OrderBy::Learnt,
            half_life: Some(Span::from_secs(14 * 86_400)),
            needed: 50,
            refit_every: Span::from_secs(6 * 3600),
            samples: 60_000,
            seed: 1,
            prior: Prior::default(),
        }
    }
}

/// The basis of the order of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderState {
    /// The order that was given (names, list or weights), forwards.
    Given,
    /// Names, backwards.
    Reversed,
    /// Learnt from which nodes were taken and which were passed over.
    Taken,
    /// No order: holes are grouped by release.
    Released,
}

impl OrderState {
    /// Whether nodes have places in an order.
    #[must_use]
    pub const fn is_order(self) -> bool {
        !matches!(self, Self::Released)
    }

    /// The state in words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Given => "as given",
            Self::Reversed => "names backwards",
            Self::Taken => "learnt from what was taken",
            Self::Released => "none, by release",
        }
    }
}

/// Inputs that contradict each other, counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Anomalies {
    /// Times that the clock went back.
    pub clock_back: u64,
    /// Holes that begin after they were reported, or end before they begin.
    pub negative: u64,
    /// Ends of holes that were not present.
    pub unknown_end: u64,
    /// Starts of holes on nodes with a present hole.
    pub reopened: u64,
    /// Nodes without a place in the order.
    pub unordered: u64,
    /// Times that the given order was dropped because the events contradict it.
    pub contradicted: u64,
}

/// The order and the evidence for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OrderReport {
    /// The present basis of the order.
    pub state: OrderState,
    /// The places of taken nodes in the given order, forwards; by names without one.
    pub given: Evidence,
    /// The places of taken nodes in the order that was learnt before.
    pub taken: Evidence,
}
