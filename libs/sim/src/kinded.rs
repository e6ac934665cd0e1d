//! A trace of nodes of known kinds.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use lacuna_model::{KindName, NodeId, Timestamp, Topology};

use crate::{PoolSteps, PoolTrace, SimError};

/// A trace with a kind of each node.
pub struct Kinded<'a> {
    trace: &'a dyn PoolTrace,
    names: Vec<KindName>,
    of: Vec<u8>,
}

impl<'a> Kinded<'a> {
    /// The trace with the kinds of a list. Kinds are in the order of their names.
    ///
    /// # Errors
    /// [`SimError::NoKind`] for a node that is not in the list, [`SimError::ManyKinds`] for a list of
    /// more kinds than a replay plans.
    pub fn new(
        trace: &'a dyn PoolTrace,
        kinds: &BTreeMap<NodeId, KindName>,
    ) -> Result<Self, SimError> {
        // A kind whose nodes never idle in the trace is a kind too.
        let names: BTreeSet<&KindName> = kinds.values().collect();
        let names: Vec<KindName> = names.into_iter().cloned().collect();
        if names.len() > 2 {
            return Err(SimError::ManyKinds { kinds: names });
        }
        let mut of = Vec::new();
        for node in 0..trace.known_nodes() {
            let name = trace.node_name(node).into_owned();
            let kind = NodeId::new(&name).ok().and_then(|id| kinds.get(&id));
            of.push(kind.ok_or(SimError::NoKind { node: name })?);
        }
        let second = names.get(1);
        let of = of.into_iter().map(|kind| u8::from(Some(kind) == second));
        Ok(Self {
            of: of.collect(),
            names,
            trace,
        })
    }

    /// The trace with its first `first` nodes of the first kind, and the others of the second.
    pub(crate) fn split(trace: &'a dyn PoolTrace, names: &[KindName], first: u32) -> Self {
        Self {
            of: (0..trace.known_nodes())
                .map(|node| u8::from(node >= first))
                .collect(),
            names: names.to_vec(),
            trace,
        }
    }
}

impl PoolTrace for Kinded<'_> {
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
        self.trace.topology()
    }

    fn kinds(&self) -> &[KindName] {
        &self.names
    }

    fn kind(&self, node: u32) -> u8 {
        self.of.get(node as usize).copied().unwrap_or_default()
    }

    fn steps(&self) -> Result<Box<dyn PoolSteps + '_>, SimError> {
        self.trace.steps()
    }
}
