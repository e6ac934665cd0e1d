//! A trace of nodes whose places in the network are known.

use std::borrow::Cow;
use std::collections::BTreeMap;

use lacuna_forecast::natural_cmp;
use lacuna_model::{NodeId, Timestamp, Topology, TopologyError};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::{PoolSteps, PoolTrace, SimError};

/// A trace with a topology of its nodes.
pub struct Located<'a> {
    trace: &'a dyn PoolTrace,
    topology: Topology,
}

impl<'a> Located<'a> {
    /// The trace with this topology. An empty one changes nothing.
    #[must_use]
    pub const fn new(trace: &'a dyn PoolTrace, topology: Topology) -> Self {
        Self { trace, topology }
    }
}

/// An assumed topology of a trace's nodes: leaves of `size` neighbours in the natural order of
/// names, below one switch. With a seed the nodes are shuffled over the leaves.
///
/// # Errors
/// [`TopologyError`], if two nodes have one name.
pub fn leaves_by_name(
    trace: &dyn PoolTrace,
    size: u32,
    shuffle: Option<u64>,
) -> Result<Topology, TopologyError> {
    let mut names: Vec<String> = (0..trace.known_nodes())
        .map(|node| trace.node_name(node).into_owned())
        .collect();
    names.sort_by(|a, b| natural_cmp(a, b));
    if let Some(seed) = shuffle {
        names.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    }
    let mut paths = BTreeMap::new();
    for (leaf, names) in (1..).zip(names.chunks(size.max(1) as usize)) {
        let ids = names.iter().filter_map(|name| NodeId::new(name).ok());
        paths.extend(ids.map(|id| (id, vec![format!("leaf{leaf}")])));
    }
    Topology::new(paths)
}

impl PoolTrace for Located<'_> {
    fn start(&self) -> Timestamp {
        self.trace.start()
    }

    fn end(&self) -> Timestamp {
        self.trace.end()
    }

    fn nodes(&self) -> u32 {
        self.trace.nodes()
    }

    fn node_name(&self, node: u32) -> Cow<'_, str> {
        self.trace.node_name(node)
    }

    fn history(&self) -> u64 {
        self.trace.history()
    }

    fn past(&self) -> Result<Option<Box<dyn PoolSteps + '_>>, SimError> {
        self.trace.past()
    }

    fn known_nodes(&self) -> u32 {
        self.trace.known_nodes()
    }

    fn topology(&self) -> Option<&Topology> {
        Some(&self.topology)
    }

    fn steps(&self) -> Result<Box<dyn PoolSteps + '_>, SimError> {
        self.trace.steps()
    }
}
