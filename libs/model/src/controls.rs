//! The operator's controls: pauses, drained nodes, lists, a cap, windows of time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{NodeId, Timestamp};

/// A limit on the nodes that may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "limit")]
pub enum UseLimit {
    /// Nodes in use stay in use; no further node is taken.
    NoGrowth,
    /// At most this many nodes; nodes beyond it go back.
    AtMost {
        /// The number of nodes.
        nodes: u32,
    },
    /// At least this many idle nodes stay free; nodes go back until they do.
    KeepIdle {
        /// The number of nodes.
        nodes: u32,
    },
    /// No node; all nodes go back at once.
    Nothing,
}

/// A limit that holds until an operator lifts it, or until a fixed time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// The limit that holds.
    pub limit: UseLimit,
    /// When it ends by itself, by the wall clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The user who set it.
    pub by: String,
    /// When it was set, by the wall clock.
    pub since: Timestamp,
    /// The reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// Why a node is drained, or why pilots are stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drain {
    /// The user who set it.
    pub by: String,
    /// When it was set, by the wall clock.
    pub since: Timestamp,
    /// The reason.
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
    /// When it begins, as in `08:00`.
    pub from: String,
    /// When it ends, as in `18:30`. A window whose end is not after its beginning ends on the next
    /// day.
    pub to: String,
    /// The time zone, as in `Europe/Berlin`; that of control's machine if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The limit that holds within it.
    pub limit: UseLimit,
}

/// All controls of the operator. The default restricts nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Controls {
    /// Grows with every change.
    pub version: u64,
    /// The pause that holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause: Option<Pause>,
    /// Nodes that are not used until an operator undrains them.
    pub drained: BTreeMap<NodeId, Drain>,
    /// If not empty, only these nodes are used: names, or ranges such as `a[01-16]n*`.
    pub only: Vec<String>,
    /// Nodes that are never used, as names or ranges.
    pub avoid: Vec<String>,
    /// Most nodes that are used at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_nodes: Option<u32>,
    /// Idle nodes that stay free for batch jobs that must start at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_idle: Option<u32>,
    /// Limits by the time of day.
    pub windows: Vec<UseWindow>,
    /// Set while pilots are stopped: the user, the time and the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pilots_stopped: Option<Drain>,
}

/// One change of [`Controls`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "change")]
pub enum ControlsChange {
    /// Restrict use. It replaces a pause that holds.
    Pause {
        /// The limit that holds.
        limit: UseLimit,
        /// When it ends by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
        /// The reason.
        #[serde(default)]
        reason: String,
    },
    /// Lift the pause.
    Resume,
    /// Cancel all pilots and submit none.
    StopPilots,
    /// Run pilots as the configuration says.
    StartPilots,
    /// Give these nodes back and do not use them again.
    Drain {
        /// The nodes.
        nodes: Vec<NodeId>,
        /// The reason.
        #[serde(default)]
        reason: String,
    },
    /// Use these nodes again.
    Undrain {
        /// The nodes.
        nodes: Vec<NodeId>,
    },
    /// Use only these nodes; an empty list means all nodes.
    Only {
        /// Names and ranges.
        patterns: Vec<String>,
    },
    /// Never use these nodes. The list replaces the one before.
    Avoid {
        /// Names and ranges.
        patterns: Vec<String>,
    },
    /// Use at most this many nodes; nothing means no cap.
    MaxNodes {
        /// The number of nodes.
        nodes: Option<u32>,
    },
    /// Keep this many idle nodes free; nothing means none.
    KeepIdle {
        /// The number of nodes.
        nodes: Option<u32>,
    },
    /// Add a window, or replace the window of the same name.
    SetWindow(UseWindow),
    /// Remove a window.
    RemoveWindow {
        /// Its name.
        name: String,
    },
}

/// The control that withholds a node from use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WithheldBy {
    /// An operator has drained the node.
    Drained,
    /// The lists of nodes exclude it.
    List,
    /// A pause holds.
    Paused,
    /// A window of time holds.
    Window,
    /// The cap is reached.
    Cap,
    /// The node is one of the idle nodes that stay free.
    Reserve,
}

impl WithheldBy {
    /// All controls, in the order in which they are tried.
    pub const ALL: [Self; 6] = [
        Self::Drained,
        Self::List,
        Self::Paused,
        Self::Window,
        Self::Cap,
        Self::Reserve,
    ];

    /// The name in logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Drained => "drained",
            Self::List => "list",
            Self::Paused => "paused",
            Self::Window => "window",
            Self::Cap => "cap",
            Self::Reserve => "reserve",
        }
    }
}

/// A limit that holds at present.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitInForce {
    /// The control that sets it.
    pub by: WithheldBy,
    /// The limit.
    pub limit: UseLimit,
    /// User and reason of a pause, or the name of a window.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// When it ends by itself, by the wall clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// The effect of [`Controls`] at one moment, for displays and for the executor of pilots.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UseState {
    /// The [`Controls::version`] of which this is the effect.
    pub version: u64,
    /// When it was computed, by the wall clock.
    pub at: Timestamp,
    /// Most nodes that are used at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most: Option<u32>,
    /// Whether no further node may be taken.
    pub no_growth: bool,
    /// The limits that hold.
    pub limits: Vec<LimitInForce>,
    /// When this state changes by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Timestamp>,
    /// Number of nodes in use.
    pub used: u32,
    /// Nodes that are withheld, by control: idle nodes, nodes on their way back, and all drained
    /// nodes.
    pub withheld: BTreeMap<WithheldBy, Vec<NodeId>>,
    /// Nodes that are down or drained by the main scheduler and still have an agent: their pilots end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub down: Vec<NodeId>,
}

impl UseState {
    /// The control that withholds a node, if one does.
    #[must_use]
    pub fn why(&self, node: &NodeId) -> Option<WithheldBy> {
        let found = self.withheld.iter().find(|(_, nodes)| nodes.contains(node));
        found.map(|(by, _)| *by)
    }
}
