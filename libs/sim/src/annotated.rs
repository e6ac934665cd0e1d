//! A trace of nodes of which more is known: their places in the network, their kinds.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use lacuna_forecast::natural_cmp;
use lacuna_model::{KindName, MOST_KINDS, NodeId, Timestamp, Topology, TopologyError};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::{PoolSteps, PoolTrace, SimError};

/// A trace with a topology of its nodes, a kind of each node, or both.
pub struct Annotated<'a> {
    trace: &'a dyn PoolTrace,
    topology: Option<Topology>,
    kinds: Option<Kinds>,
}

/// Names of kinds, and the place of each node's kind among them.
struct Kinds {
    names: Vec<KindName>,
    of: Vec<u8>,
}

impl<'a> Annotated<'a> {
    /// The trace as it is.
    #[must_use]
    pub const fn new(trace: &'a dyn PoolTrace) -> Self {
        Self {
            trace,
            topology: None,
            kinds: None,
        }
    }

    /// With this topology. An empty one changes no plan.
    #[must_use]
    pub fn with_topology(mut self, topology: Topology) -> Self {
        self.topology = Some(topology);
        self
    }

    /// With the kinds of a list, in the order of their names.
    ///
    /// # Errors
    /// [`SimError::NoKind`] for a node that is not in the list, [`SimError::ManyKinds`] for a list of
    /// more kinds than a replay plans.
    pub fn with_kinds(mut self, kinds: &BTreeMap<NodeId, KindName>) -> Result<Self, SimError> {
        // A kind whose nodes never idle in the trace is a kind too.
        let names: BTreeSet<&KindName> = kinds.values().collect();
        let names: Vec<KindName> = names.into_iter().cloned().collect();
        if names.len() > MOST_KINDS {
            return Err(SimError::ManyKinds { kinds: names });
        }
        let mut of = Vec::new();
        for node in 0..self.trace.known_nodes() {
            let name = self.trace.node_name(node).into_owned();
            let kind = NodeId::new(&name).ok().and_then(|id| kinds.get(&id));
            let kind = kind.ok_or(SimError::NoKind { node: name })?;
            let place = names.iter().position(|name| name == kind);
            of.push(
                place
                    .and_then(|at| u8::try_from(at).ok())
                    .unwrap_or_default(),
            );
        }
        self.kinds = Some(Kinds { names, of });
        Ok(self)
    }

    /// With its nodes in runs of one kind each. `ends` has the end of each run.
    pub(crate) fn split(mut self, names: &[KindName], ends: &[u32]) -> Self {
        let kind = |node: u32| ends.iter().filter(|end| node >= **end).count();
        let last = names.len().saturating_sub(1);
        let of = (0..self.trace.known_nodes()).map(|node| kind(node).min(last) as u8);
        self.kinds = Some(Kinds {
            of: of.collect(),
            names: names.to_vec(),
        });
        self
    }
}

impl PoolTrace for Annotated<'_> {
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
        self.topology.as_ref().or_else(|| self.trace.topology())
    }

    fn kinds(&self) -> &[KindName] {
        match &self.kinds {
            Some(kinds) => &kinds.names,
            None => self.trace.kinds(),
        }
    }

    fn kind(&self, node: u32) -> u8 {
        match &self.kinds {
            Some(kinds) => kinds.of.get(node as usize).copied().unwrap_or_default(),
            None => self.trace.kind(node),
        }
    }

    fn steps(&self) -> Result<Box<dyn PoolSteps + '_>, SimError> {
        self.trace.steps()
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
