//! When each node leaves, in each of several equally likely futures.

/// Leave times in seconds from now, for each scenario and node; nodes in the order in which they
/// are expected to leave.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scenarios {
    nodes: usize,
    leave: Vec<f64>,
}

impl Scenarios {
    /// From the leave times of the first scenario, then those of the second, and so on. Times
    /// that are no numbers, or past, count as now; what is left over of a scenario is dropped.
    #[must_use]
    pub fn new(nodes: usize, mut leave: Vec<f64>) -> Self {
        leave.truncate(leave.len().checked_div(nodes).unwrap_or(0) * nodes);
        for time in &mut leave {
            *time = time.max(0.0);
        }
        Self { nodes, leave }
    }

    /// The one future in which each node leaves when it really does.
    #[must_use]
    pub fn known(leave: Vec<f64>) -> Self {
        Self::new(leave.len(), leave)
    }

    /// How many nodes there are.
    #[must_use]
    pub const fn nodes(&self) -> usize {
        self.nodes
    }

    /// How many scenarios there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.leave.len().checked_div(self.nodes).unwrap_or(0)
    }

    /// The leave times of one scenario; empty if there is no such.
    #[must_use]
    pub fn leave(&self, scenario: usize) -> &[f64] {
        let from = scenario * self.nodes;
        self.leave.get(from..from + self.nodes).unwrap_or(&[])
    }

    /// Mean over the scenarios of the seconds that a node stays within `horizon_s`.
    #[must_use]
    pub fn stay_s(&self, node: usize, horizon_s: f64) -> f64 {
        self.mean(node, |leave| leave.min(horizon_s))
    }

    /// Share of the scenarios in which a node leaves within `within_s`.
    #[must_use]
    pub fn leaves_within(&self, node: usize, within_s: f64) -> f64 {
        self.mean(node, |leave| if leave < within_s { 1.0 } else { 0.0 })
    }

    fn mean(&self, node: usize, of: impl Fn(f64) -> f64) -> f64 {
        let count = self.count();
        let sum: f64 = (0..count)
            .filter_map(|s| self.leave(s).get(node))
            .map(|&leave| of(leave))
            .sum();
        if count > 0 { sum / count as f64 } else { 0.0 }
    }
}
