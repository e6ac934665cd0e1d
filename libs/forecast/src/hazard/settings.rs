//! How the hazard learns, and what it says of itself.

use lacuna_model::Span;
use serde::{Deserialize, Serialize};

use crate::settings::UNLEARNT;
use crate::{Evidence, OrderBy};

/// How the hazard learns and forecasts.
#[derive(Debug, Clone, PartialEq)]
pub struct HazardSettings {
    /// Where the order of nodes comes from.
    pub order: OrderBy,
    /// Mean remaining length believed while nothing has been learnt.
    pub fallback: Span,
    /// After this time what was seen counts half; for ever if absent.
    pub half_life: Option<Span>,
    /// Ended holes that must have been seen before what was learnt is used.
    pub needed: u64,
    /// The model is fitted anew at least this often, in the cluster's time, if holes have ended.
    pub refit_every: Span,
    /// Questions kept to learn from.
    pub samples: usize,
    /// Seed of the choice of what to learn from.
    pub seed: u64,
}

impl Default for HazardSettings {
    fn default() -> Self {
        Self {
            order: OrderBy::Learnt,
            fallback: UNLEARNT,
            half_life: Some(Span::from_secs(14 * 86_400)),
            needed: 200,
            refit_every: Span::from_secs(6 * 3600),
            samples: 60_000,
            seed: 1,
        }
    }
}

/// What the order of nodes rests on now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderState {
    /// The order that was given (names, list or weights), forwards.
    Given,
    /// Names, backwards.
    Reversed,
    /// What was taken and what was passed over.
    Taken,
    /// There is none: holes are kept together by release.
    Released,
}

impl OrderState {
    /// Whether nodes have places in an order.
    #[must_use]
    pub const fn is_order(self) -> bool {
        !matches!(self, Self::Released)
    }

    /// In words.
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

/// What came in that should not have, counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Anomalies {
    /// Times that the clock went back.
    pub clock_back: u64,
    /// Holes that begin after they were seen, or end before they begin.
    pub negative: u64,
    /// Ends of holes that were not present.
    pub unknown_end: u64,
    /// Starts of holes on nodes that had one already.
    pub reopened: u64,
    /// Nodes that have no place in the order.
    pub unordered: u64,
    /// Times that the given order was given up because the log contradicts it.
    pub contradicted: u64,
}

/// The order and the evidence for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OrderReport {
    /// What it rests on now.
    pub state: OrderState,
    /// Where taken nodes stood in the order that was given, forwards (by names if none was).
    pub given: Evidence,
    /// Where they stood in the order that was learnt before they were taken.
    pub taken: Evidence,
}
