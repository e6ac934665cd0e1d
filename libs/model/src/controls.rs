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

/// Why a node is not to be used.
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
