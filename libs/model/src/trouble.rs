//! Why a node is not used as the others are.

use serde::{Deserialize, Serialize};

use crate::{NodeId, Timestamp, TrainerId, is_default};

/// Why a node is not used as the others are, or what speaks against it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// What holds.
    pub kind: TroubleKind,
    /// The owners for whom it holds; none: for all.
    #[serde(default, skip_serializing_if = "is_default")]
    pub owners: Vec<String>,
    /// When it ends by itself (real time).
    #[serde(default, skip_serializing_if = "is_default")]
    pub until: Option<Timestamp>,
    /// Programs that failed there and were sound elsewhere.
    #[serde(default, skip_serializing_if = "is_default")]
    pub failed: Vec<Blame>,
    /// The other name that the node may have: of agents that no scheduler has named, or of nodes on
    /// which no agent has spoken.
    #[serde(default, skip_serializing_if = "is_default")]
    pub perhaps: Vec<NodeId>,
}

/// Nodes with the same trouble.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Troubled {
    /// What holds.
    pub kind: TroubleKind,
    /// Number of nodes.
    pub nodes: u32,
    /// The first of them, by name.
    pub some: Vec<NodeId>,
}

/// A program that failed on a node and was sound on another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blame {
    /// Its trainer.
    pub trainer: TrainerId,
    /// How it ended.
    pub reason: String,
    /// Where it was sound.
    pub sound_on: NodeId,
}

/// What keeps a node from being used, or speaks against it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TroubleKind {
    /// Programs of two owners failed there and were sound elsewhere, or it is slow to all owners: no
    /// trainer gets it.
    Quarantined,
    /// It keeps trainers waiting in each step: trainers of these owners do not get it.
    Slow,
    /// Programs of these owners failed there and were sound elsewhere: their trainers get it last.
    Last,
    /// A program failed there and was sound elsewhere.
    Suspect,
    /// Its agent has been silent for too long.
    Silent,
    /// Its agent has left.
    Left,
    /// No agent has ever spoken there, as far as control knows.
    Unheard,
    /// Its release is not confirmed.
    Overdue,
    /// An agent speaks, and no scheduler has named the node since control's start.
    Unnamed,
}

impl TroubleKind {
    /// As in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Quarantined => "quarantined",
            Self::Slow => "slow",
            Self::Last => "last",
            Self::Suspect => "suspect",
            Self::Silent => "silent",
            Self::Left => "left",
            Self::Unheard => "unheard",
            Self::Overdue => "overdue",
            Self::Unnamed => "unnamed",
        }
    }
}
