//! Shapes: what a decision knows of a node set beside its departures.
//!
//! Whatever a trainer gains by its nodes (kinds, distance, crowded uplinks) is its rate on a shape.
//! Where nodes are of one kind, a mix has nodes of the first kind alone.

use lacuna_model::MOST_KINDS;

/// Node counts of each kind. A kind that there is not has none.
pub type Mix = [u32; MOST_KINDS];

/// The mix of a trainer without nodes.
pub const NO_NODES: Mix = [0; MOST_KINDS];

/// A node set without its departures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    /// Nodes of each kind.
    pub mix: Mix,
    /// How far apart they are.
    pub tier: usize,
    /// How crowded their uplinks are, 1 or more; see [`lacuna_model::crowds`].
    pub crowd: f64,
}

impl Default for Shape {
    fn default() -> Self {
        Self::new(NO_NODES, 0)
    }
}

impl Shape {
    /// A mix at a tier, with free uplinks.
    #[must_use]
    pub const fn new(mix: Mix, tier: usize) -> Self {
        Self {
            mix,
            tier,
            crowd: 1.0,
        }
    }

    /// Nodes of the first kind at a tier, with free uplinks.
    #[must_use]
    pub const fn of(nodes: u32, tier: usize) -> Self {
        Self::new([nodes, 0, 0, 0], tier)
    }

    /// Number of nodes.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        self.mix.iter().sum()
    }
}
