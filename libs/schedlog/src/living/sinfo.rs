//! `sinfo`: the state of every node.

use std::collections::BTreeMap;

use lacuna_model::NodeId;

use super::records::{AnswerError, each, format, text};
use crate::FieldError;
use crate::living::NodeFlags;

/// The fields asked for, in this order. The reason is free text and comes last.
const FIELDS: [&str; 5] = [
    "NodeList",
    "StateComplete",
    "Partition",
    "Available",
    "Reason",
];

/// A node, as one answer of `sinfo` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeReport {
    /// Which node.
    pub node: NodeId,
    /// What it does.
    pub flags: NodeFlags,
    /// The partitions that it is in.
    pub partitions: Vec<Partition>,
    /// Why it is drained or down, in the administrator's words; often empty.
    pub reason: String,
}

/// A partition of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// Its name.
    pub name: String,
    /// Whether jobs start in it.
    pub up: bool,
}

/// The arguments for `sinfo`: one record for each node and partition, or for each node of one
/// partition (hidden or not).
#[must_use]
pub fn arguments(partition: Option<&str>) -> Vec<String> {
    let mut arguments = vec!["-h".to_owned(), "-N".to_owned()];
    match partition {
        // `-a` and `-p` exclude each other; a partition that is named is shown even if hidden.
        Some(partition) => arguments.extend(["-p".to_owned(), partition.to_owned()]),
        None => arguments.push("-a".to_owned()),
    }
    arguments.extend(["-O".to_owned(), format(&FIELDS)]);
    arguments
}

/// Reads an answer: every node once, sorted.
///
/// # Errors
/// [`AnswerError`] if it holds no node, or anything in it is not as asked for.
pub fn read(answer: &str) -> Result<Vec<NodeReport>, AnswerError> {
    let mut nodes: BTreeMap<NodeId, NodeReport> = BTreeMap::new();
    each(answer, |[node, state, partition, available, reason]| {
        let node =
            NodeId::new(node).map_err(|error| FieldError::new("NodeList", error.expected, node))?;
        let flags = NodeFlags::parse(state);
        let report = nodes.entry(node.clone()).or_insert_with(|| NodeReport {
            node,
            flags,
            partitions: Vec::new(),
            reason: text(reason).to_owned(),
        });
        // Slurm changes states while it answers; of two the one that says less is believed.
        if report.flags != flags {
            report.flags.strange = true;
        }
        // The default partition has a star.
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
