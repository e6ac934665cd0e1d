//! The question of placement and its answer, for blocks and columns alike.

use std::iter::repeat;

use serde::{Deserialize, Serialize};

use crate::Item;

use super::scenarios::Scenarios;
use super::value::Member;

/// A question of placement. Nodes come in the order in which they are expected to leave.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The trainers; the horizon of the problem is not used.
    pub trainers: &'a [Item],
    /// Whether a departure hit each trainer at this event; false where the list is shorter.
    pub hit: &'a [bool],
    /// Stall of a start of each trainer, seconds at the rate after it; 0 where the list is shorter.
    pub start_s: &'a [f64],
    /// Present owner of each node.
    pub owners: &'a [Option<u32>],
    /// Departures of the nodes.
    pub scenarios: &'a Scenarios,
}

impl<'a> Request<'a> {
    /// The trainers as members; with `replace`, hit trainers restart anyway.
    pub fn members(&self, replace: bool) -> impl Iterator<Item = Member<'a>> {
        let hit = self.hit.iter().map(move |&hit| replace && hit);
        let hit = hit.chain(repeat(false));
        let start_s = self.start_s.iter().copied().chain(repeat(0.0));
        let trainers = self.trainers.iter().zip(hit.zip(start_s));
        trainers.map(|(item, (hit, start_s))| Member { item, hit, start_s })
    }
}

/// The sizes of pinned trainers that a decision by blocks tries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Proposal {
    /// The present sizes, grown where that pays.
    Present,
    /// The optimum without forecasts over a fifth of the horizon.
    Short,
    /// The optimum without forecasts over half of the horizon.
    Long,
    /// As present, but trainers whose nodes are apart shrink to near ones where that pays.
    Near,
    /// Where nodes are of several kinds: the exact counts of each without forecasts over the horizon.
    Mixes,
    /// Every trainer keeps exactly its nodes: the floor.
    #[default]
    Keep,
}

impl Proposal {
    pub(super) const ALL: [Self; 5] = [
        Self::Present,
        Self::Short,
        Self::Long,
        Self::Near,
        Self::Mixes,
    ];

    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Present => "present",
            Self::Short => "short",
            Self::Long => "long",
            Self::Near => "near",
            Self::Mixes => "mixes",
            Self::Keep => "keep",
        }
    }

    /// The part of the horizon over which its sizes are optimal.
    pub(super) const fn share(self) -> Option<f64> {
        match self {
            Self::Present | Self::Near | Self::Keep => None,
            Self::Short => Some(0.2),
            Self::Long => Some(0.5),
            Self::Mixes => Some(1.0),
        }
    }
}

/// An answer of placement.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Assignment {
    /// New owner of each node.
    pub owners: Vec<Option<u32>>,
    /// The sum of V over the trainers less all switching costs, objective units.
    pub value: f64,
    /// The proposal that won.
    pub proposal: Proposal,
    /// The shadow price of a node-second that was used, objective units.
    pub shadow_price: f64,
}
