//! `sinfo`: state and partitions of every node.

use std::collections::BTreeMap;

use lacuna_model::NodeId;
use lacuna_records::FieldError;

use super::NodeFlags;
use crate::answer::{AnswerError, each, format, text};

/// The requested fields, in this order. The reason is free text and comes last.
const FIELDS: [&str; 5] = [
    "NodeList",
    "StateComplete",
    "Partition",
    "Available",
    "Reason",
];

/// A node in one answer of `sinfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeReport {
    /// The node.
    pub node: NodeId,
    /// Its state.
    pub flags: NodeFlags,
    /// Its partitions.
    pub partitions: Vec<Partition>,
    /// The administrator's reason why it is drained or down; often empty.
    pub reason: String,
}

/// A partition of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// Name of the partition.
    pub name: String,
    /// Whether jobs start in the partition.
    pub up: bool,
}

/// Arguments of `sinfo` for one record a node and partition, or a node of `partition`, which may
/// be hidden.
#[must_use]
pub fn arguments(partition: Option<&str>) -> Vec<String> {
    let mut arguments = vec!["-h".to_owned(), "-N".to_owned()];
    match partition {
        // `-a` and `-p` exclude each other. A named partition is shown even if it is hidden.
        Some(partition) => arguments.extend(["-p".to_owned(), partition.to_owned()]),
        None => arguments.push("-a".to_owned()),
    }
    arguments.extend(["-O".to_owned(), format(&FIELDS)]);
    arguments
}

/// Reads an answer. Returns every node once, sorted.
///
/// # Errors
/// [`AnswerError`] if the answer holds no node or any damaged record.
pub fn read(answer: &str) -> Result<Vec<NodeReport>, AnswerError> {
    let mut nodes: BTreeMap<NodeId, NodeReport> = BTreeMap::new();
    each(answer, |[node, state, partition, available, reason]| {
        // A partition without nodes says nothing of any node.
        if node.is_empty() && state.eq_ignore_ascii_case("n/a") {
            return Ok(());
        }
        let node =
            NodeId::new(node).map_err(|error| FieldError::new("NodeList", error.expected, node))?;
        let flags = NodeFlags::parse(state);
        let report = nodes.entry(node.clone()).or_insert_with(|| NodeReport {
            node,
            flags,
            partitions: Vec::new(),
            reason: text(reason).to_owned(),
        });
        // Slurm may change a state while it answers. A node with two states is never a hole.
        if report.flags != flags {
            report.flags.strange = true;
        }
        // `sinfo` marks the default partition with a star.
        let name = partition.trim_end_matches('*');
        if !name.is_empty() {
            report.partitions.push(Partition {
                name: name.to_owned(),
                up: available.eq_ignore_ascii_case("up"),
            });
        }
        Ok(())
    })?;
    if nodes.is_empty() {
        let expected = "a record for each node; is the partition's name right?";
        return Err(AnswerError::Empty { expected });
    }
    Ok(nodes.into_values().collect())
}
