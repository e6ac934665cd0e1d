//! Errors of topologies.

use lacuna_model::NodeId;

use crate::FieldError;

/// Why a topology was refused, with the line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {fault}")]
pub struct TopologyFileError {
    /// Number of the line, from 1.
    pub line: u64,
    /// What is wrong there.
    pub fault: Fault,
}

impl TopologyFileError {
    pub(super) fn new(line: u64, fault: impl Into<Fault>) -> Self {
        let fault = fault.into();
        Self { line, fault }
    }
}

/// What is wrong in a line of a topology.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// No reader recognises the first line.
    #[error(
        "{0:?} begins no known topology: expected topology.conf, topology.yaml, the output of \
         scontrol show topology, pbsnodes -a -F json, bmgroup -cu or ibnetdiscover, or CSV with \
         the header node,leaf[,pod[,...]]"
    )]
    Format(String),
    /// A value is wrong.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// The text is no JSON or no YAML, or its fields have other types.
    #[error("{0}")]
    Syntax(String),
    /// The file contradicts itself.
    #[error(transparent)]
    Contradiction(#[from] Contradiction),
    /// The file names no node.
    #[error("no node has a switch here: expected one node at least")]
    NoNodes,
}

/// How rails of a fabric disagree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the rails disagree: {near:?} has nodes together on {leaf} that {apart:?} has apart ({first}, \
     {second}): name the rails that count with --rail or ingest.topology_rails ({rails})"
)]
pub struct Disagreement {
    /// The rail in which two nodes are near.
    pub near: String,
    /// Their switch there.
    pub leaf: String,
    /// The rail in which they are apart.
    pub apart: String,
    /// A node and its switch there.
    pub first: String,
    /// The other node and its switch there.
    pub second: String,
    /// All rails.
    pub rails: String,
}

/// How a file contradicts itself, with the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Contradiction {
    /// A switch or block has two definitions.
    #[error("{name} is already defined in line {first}: remove one of the two, or rename it")]
    DefinedTwice {
        /// Name of the switch.
        name: String,
        /// Line of the first definition.
        first: u64,
    },
    /// A node is on two leaf switches, as with several rails.
    #[error(
        "node {node} is on leaf {first} (line {line}) and on leaf {second}: keep one of them; of \
         several rails keep the one that training uses"
    )]
    TwoLeaves {
        /// The node.
        node: NodeId,
        /// Its first leaf.
        first: String,
        /// Line that names the first leaf.
        line: u64,
        /// Its second leaf.
        second: String,
    },
    /// Rails of a fabric have different groups of nodes.
    #[error(transparent)]
    Rails(Box<Disagreement>),
    /// A switch is below two others.
    #[error(
        "switch {switch} is below {first} (line {line}) and below {second}: keep one of them, \
         since a topology is a tree"
    )]
    TwoAbove {
        /// The switch.
        switch: String,
        /// A switch above it.
        first: String,
        /// Line that names the first switch above.
        line: u64,
        /// Another switch above it.
        second: String,
    },
    /// Switches are below each other in a circle.
    #[error("these switches are below each other in a circle: {0}: remove one of the links")]
    Circle(String),
    /// A switch is named and not defined.
    #[error(
        "{above} has {missing} below it, which no line defines: define {missing}, or correct its \
         name"
    )]
    Undefined {
        /// The switch that names it.
        above: String,
        /// The missing switch.
        missing: String,
    },
    /// A switch has both nodes and switches directly below it.
    #[error("{0} has nodes and switches below it: give its nodes a leaf switch of their own")]
    Mixed(String),
    /// The file has both a tree and blocks.
    #[error("the file has switches and blocks: keep one kind")]
    TwoKinds,
}
