//! What an operator wants of the use of nodes: pauses, drained nodes, lists, a cap, windows of time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{NodeId, Timestamp};

/// How much may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "limit")]
pub enum UseLimit {
    /// What is used goes on; no further node is taken.
    NoGrowth,
    /// So many nodes at most; what is beyond goes back.
    AtMost {
        /// How many.
        nodes: u32,
    },
    /// No node: all go back at once.
    Nothing,
}

/// A limit that holds until somebody lifts it, or until a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// How much may still be used.
    pub limit: UseLimit,
    /// When it ends by itself, by the wall clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Who said so.
    pub by: String,
    /// Since when, by the wall clock.
    pub since: Timestamp,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// Why a node, or no pilot, is to be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drain {
    /// Who said so.
    pub by: String,
    /// Since when, by the wall clock.
    pub since: Timestamp,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// A limit that holds at certain hours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UseWindow {
    /// Its name, by which it is removed.
    pub name: String,
    /// Days on which it begins, `mon` to `sun`; every day if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub days: Vec<String>,
    /// When it begins, as `08:00`.
    pub from: String,
    /// When it ends, as `18:30`; a window whose end is not after its beginning ends the next day.
    pub to: String,
    /// The time zone, as `Europe/Berlin`; that of control's machine if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// How much may be used then.
    pub limit: UseLimit,
}

/// All that an operator wants. The default wants nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Controls {
    /// Grows with every change.
    pub version: u64,
    /// The pause that holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause: Option<Pause>,
    /// Nodes that are not to be used until somebody says so.
    pub drained: BTreeMap<NodeId, Drain>,
    /// Only these nodes are used, if any are named: names, or ranges as in `a[01-16]n*`.
    pub only: Vec<String>,
    /// These are never used, named likewise.
    pub avoid: Vec<String>,
    /// So many nodes are used at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_nodes: Option<u32>,
    /// Limits by the time of day.
    pub windows: Vec<UseWindow>,
    /// That no pilot is to run, and who said so, until pilots are started again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pilots_stopped: Option<Drain>,
}

/// One change of [`Controls`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "change")]
pub enum ControlsChange {
    /// Use less, in place of any pause that holds.
    Pause {
        /// How much may still be used.
        limit: UseLimit,
        /// When it ends by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
        /// Why.
        #[serde(default)]
        reason: String,
    },
    /// Lift the pause.
    Resume,
    /// Cancel all pilots and submit none.
    StopPilots,
    /// Pilots as the configuration has them.
    StartPilots,
    /// Give these nodes back and use them no more.
    Drain {
        /// Which.
        nodes: Vec<NodeId>,
        /// Why.
        #[serde(default)]
        reason: String,
    },
    /// These may be used again.
    Undrain {
        /// Which.
        nodes: Vec<NodeId>,
    },
    /// Use only these; an empty list means all.
    Only {
        /// Names and ranges.
        patterns: Vec<String>,
    },
    /// Never use these, in place of those named before.
    Avoid {
        /// Names and ranges.
        patterns: Vec<String>,
    },
    /// Use so many at most; nothing means no cap.
    MaxNodes {
        /// How many.
        nodes: Option<u32>,
    },
    /// Add a window, or replace that of the same name.
    SetWindow(UseWindow),
    /// Remove a window.
    RemoveWindow {
        /// Its name.
        name: String,
    },
}

/// Why a node is withheld from use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WithheldBy {
    /// An operator has drained it.
    Drained,
    /// The lists of nodes to use and not to use leave it out.
    List,
    /// A pause holds.
    Paused,
    /// A window of time holds.
    Window,
    /// As many nodes as the cap allows are used already.
    Cap,
}

impl WithheldBy {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Drained,
        Self::List,
        Self::Paused,
        Self::Window,
        Self::Cap,
    ];

    /// A word for it, for logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Drained => "drained",
            Self::List => "list",
            Self::Paused => "paused",
            Self::Window => "window",
            Self::Cap => "cap",
        }
    }
}

/// A limit that holds now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitInForce {
    /// Where it comes from.
    pub by: WithheldBy,
    /// How much may be used.
    pub limit: UseLimit,
    /// Who paused and why, or the window's name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// When it ends by itself, by the wall clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// What comes of [`Controls`] at a moment: for whoever shows it, and for whoever starts pilots.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UseState {
    /// [`Controls::version`] that it comes of.
    pub version: u64,
    /// When it was found, by the wall clock.
    pub at: Timestamp,
    /// So many nodes are used at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most: Option<u32>,
    /// Whether no further node is taken.
    pub no_growth: bool,
    /// The limits that hold.
    pub limits: Vec<LimitInForce>,
    /// When that changes by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Timestamp>,
    /// How many nodes are used now.
    pub used: u32,
    /// Nodes that are not used, by why: idle ones, those on their way back, and all drained ones.
    pub withheld: BTreeMap<WithheldBy, Vec<NodeId>>,
}

impl UseState {
    /// Why a node is withheld, if it is.
    #[must_use]
    pub fn why(&self, node: &NodeId) -> Option<WithheldBy> {
        let found = self.withheld.iter().find(|(_, nodes)| nodes.contains(node));
        found.map(|(by, _)| *by)
    }
}
