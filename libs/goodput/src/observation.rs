//! What was measured of a step.

/// A step that was measured, of one pass.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// Nodes.
    pub nodes: u32,
    /// Replicas on them.
    pub replicas: u32,
    /// Samples of a replica in the pass.
    pub local: u32,
    /// Seconds of a pass without the sum over replicas.
    pub pass_s: f64,
    /// Seconds of the pass with the sum.
    pub step_s: f64,
}
