//! Scenarios: departures of all nodes in several equally likely futures, where the nodes are, and of
//! which kind.

use crate::problem::{Mix, Switches, mixes_of};

/// Leave times in seconds from now, for each scenario and node; nodes in the order in which they
/// are expected to leave.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scenarios {
    nodes: usize,
    count: usize,
    /// By node, then scenario, since the value of a node set reads whole nodes.
    leave: Vec<f64>,
    /// The horizon of `stay_s`, seconds.
    horizon_s: f64,
    /// The stay of each node within the horizon, seconds; empty before [`Scenarios::within`].
    stay_s: Vec<f64>,
    /// Where the nodes are.
    switches: Switches,
    /// The kind of each node; empty where all are of one kind.
    kinds: Vec<u8>,
    /// By kind: what a node is worth beside one of the best kind; 1 where it is missing.
    worth: Vec<f64>,
}

/// The leave times of one scenario.
#[derive(Debug, Clone, Copy)]
pub struct Leave<'a> {
    scenarios: &'a Scenarios,
    scenario: usize,
}

impl<'a> Leave<'a> {
    /// Leave time of a node, seconds from now; nothing without such a node or scenario.
    #[must_use]
    pub fn get(self, node: usize) -> Option<&'a f64> {
        self.scenarios.of(node).get(self.scenario)
    }
}

impl Scenarios {
    /// Scenarios from leave times in seconds, scenario by scenario. Times that are not numbers or
    /// lie in the past count as now. An incomplete last scenario is dropped.
    #[must_use]
    pub fn new(nodes: usize, leave: Vec<f64>) -> Self {
        let count = leave.len().checked_div(nodes).unwrap_or(0);
        let scenarios: Vec<&[f64]> = leave.chunks_exact(nodes.max(1)).collect();
        let mut by_node = Vec::with_capacity(nodes * count);
        for node in 0..nodes {
            by_node.extend(scenarios.iter().filter_map(|leave| leave.get(node)));
        }
        Self::by_node(nodes, by_node)
    }

    /// Scenarios from leave times in seconds, node by node.
    pub(super) fn by_node(nodes: usize, mut leave: Vec<f64>) -> Self {
        for time in &mut leave {
            *time = time.max(0.0);
        }
        Self {
            nodes,
            count: leave.len().checked_div(nodes).unwrap_or(0),
            leave,
            horizon_s: 0.0,
            stay_s: Vec::new(),
            switches: Switches::default(),
            kinds: Vec::new(),
            worth: Vec::new(),
        }
    }

    /// The scenarios, which keep the stays within this horizon: decisions ask for them often.
    #[must_use]
    pub fn within(self, horizon_s: f64) -> Self {
        let stays = (0..self.nodes).map(|node| self.mean_stay_s(node, horizon_s));
        Self {
            stay_s: stays.collect(),
            horizon_s,
            ..self
        }
    }

    /// The scenarios of nodes that lie below these switches.
    #[must_use]
    pub fn below(self, switches: Switches) -> Self {
        Self { switches, ..self }
    }

    /// The scenarios of nodes of these kinds. `worth` says what a node of each is worth beside one of
    /// the best, from 0 to 1.
    #[must_use]
    pub fn of_kinds(self, kinds: Vec<u8>, worth: Vec<f64>) -> Self {
        Self {
            kinds,
            worth,
            ..self
        }
    }

    /// What a node is worth beside one of the best kind.
    pub(crate) fn worth(&self, node: usize) -> f64 {
        self.worth.get(self.kind(node)).copied().unwrap_or(1.0)
    }

    /// The kind of a node.
    #[must_use]
    pub fn kind(&self, node: usize) -> usize {
        self.kinds.get(node).copied().map_or(0, usize::from)
    }

    /// The kinds to tell apart: one where all nodes are alike.
    pub(crate) fn kinds(&self) -> std::ops::Range<usize> {
        let most = self.kinds.iter().copied().max().map_or(0, usize::from);
        0..most + 1
    }

    /// The nodes of each kind.
    #[must_use]
    pub fn mix(&self) -> Mix {
        let all = (0..self.nodes).map(|node| (Some(0), self.kind(node) as u8));
        mixes_of(1, all).first().copied().unwrap_or_default()
    }

    /// Whether nodes are told apart by kind.
    #[must_use]
    pub fn tells_kinds(&self) -> bool {
        !self.kinds.is_empty()
    }

    /// The nodes of each of `trainers` trainers.
    #[must_use]
    pub fn mixes(&self, owners: &[Option<u32>], trainers: usize) -> Vec<Mix> {
        let owned = owners.iter().enumerate();
        let owned = owned.map(|(node, owner)| (*owner, self.kind(node) as u8));
        mixes_of(trainers, owned)
    }

    /// Where the nodes are.
    #[must_use]
    pub const fn switches(&self) -> &Switches {
        &self.switches
    }

    /// The one scenario of clairvoyance: the true leave times, seconds.
    #[must_use]
    pub fn known(leave: Vec<f64>) -> Self {
        Self::by_node(leave.len(), leave)
    }

    /// The same scenarios for some of the nodes, by their places.
    #[must_use]
    pub fn only(&self, places: &[u32]) -> Self {
        let leave = places.iter().flat_map(|&place| self.of(place as usize));
        let stay_s = places
            .iter()
            .filter_map(|&place| self.stay_s.get(place as usize));
        Self {
            nodes: places.len(),
            count: self.count,
            leave: leave.copied().collect(),
            horizon_s: self.horizon_s,
            stay_s: stay_s.copied().collect(),
            switches: self
                .switches
                .only(places.iter().map(|&place| place as usize)),
            kinds: if self.tells_kinds() {
                let places = places.iter();
                places
                    .map(|&place| self.kind(place as usize) as u8)
                    .collect()
            } else {
                Vec::new()
            },
            worth: self.worth.clone(),
        }
    }

    /// Number of nodes.
    #[must_use]
    pub const fn nodes(&self) -> usize {
        self.nodes
    }

    /// Number of scenarios.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// The leave times of one scenario.
    #[must_use]
    pub const fn leave(&self, scenario: usize) -> Leave<'_> {
        Leave {
            scenarios: self,
            scenario,
        }
    }

    /// The leave times of one node, by scenario; empty without such a node.
    #[must_use]
    pub fn of(&self, node: usize) -> &[f64] {
        let from = node * self.count;
        self.leave.get(from..from + self.count).unwrap_or(&[])
    }

    /// Mean over the scenarios of the seconds that a node stays within `horizon_s`.
    #[must_use]
    pub fn stay_s(&self, node: usize, horizon_s: f64) -> f64 {
        let known = self
            .stay_s
            .get(node)
            .filter(|_| horizon_s == self.horizon_s);
        known.map_or_else(|| self.mean_stay_s(node, horizon_s), |stay_s| *stay_s)
    }

    fn mean_stay_s(&self, node: usize, horizon_s: f64) -> f64 {
        let stays = self.of(node).iter().map(|leave| leave.min(horizon_s));
        let sum: f64 = stays.sum();
        if self.count > 0 {
            sum / self.count as f64
        } else {
            0.0
        }
    }
}
