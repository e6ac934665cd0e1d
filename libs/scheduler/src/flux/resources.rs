//! `flux resource list`: state, queues and properties of nodes.
//!
//! Source: flux-resource(1), "list" and "OUTPUT FORMAT"; RFC 20 (properties), RFC 29 (hostlists). A line
//! has the nodes of equal state, queues and properties. The scheduler's view has no excluded nodes, and
//! shows as `down` what is drained, offline or torpid. It counts cores: a node of which a part is
//! allocated has a line of state `free` and one of state `allocated`.

use std::collections::{BTreeMap, BTreeSet};

use lacuna_model::NodeId;
use lacuna_records::FieldError;

use crate::answer::{AnswerError, RECORD_END, SEPARATOR, each, nodes};
use crate::labels::{Labels, some};

/// A node in one answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FluxNode {
    /// Whether jobs can use the node.
    pub up: bool,
    /// Whether a part of the node, or all of it, is allocated.
    pub allocated: bool,
    /// The queues whose jobs may come to the node; none where Flux has no named queues.
    pub queues: BTreeSet<String>,
    /// Its properties.
    pub properties: BTreeSet<String>,
}

/// Arguments of `flux`.
#[must_use]
pub fn arguments() -> Vec<String> {
    let fields = ["{state}", "{queue}", "{properties}", "{nodelist}"];
    let format = format!("{}{RECORD_END}", fields.join(&SEPARATOR.to_string()));
    let first = [
        "resource",
        "list",
        "--no-header",
        "--states=free,allocated,down",
        "-o",
    ];
    let first = first.into_iter().map(str::to_owned);
    first.chain([format]).collect()
}

/// Reads an answer.
///
/// # Errors
/// [`AnswerError`] if the answer holds no node or any damaged record.
pub fn read(answer: &str) -> Result<BTreeMap<NodeId, FluxNode>, AnswerError> {
    let mut found: BTreeMap<NodeId, FluxNode> = BTreeMap::new();
    each(answer, |[state, queues, properties, list]| {
        let (up, allocated) = match state {
            "free" => (true, false),
            "allocated" => (true, true),
            "down" => (false, false),
            _ => {
                let expected = "free, allocated or down";
                return Err(FieldError::new("state", expected, state));
            }
        };
        let words = |text: &str| -> Vec<String> {
            let words = text.split(',').map(str::trim);
            words.filter(|w| !w.is_empty()).map(str::to_owned).collect()
        };
        for name in nodes("nodelist", list)? {
            let node = found.entry(name).or_insert_with(|| FluxNode {
                up,
                ..FluxNode::default()
            });
            node.up &= up;
            node.allocated |= allocated;
            node.queues.extend(words(queues));
            node.properties.extend(words(properties));
        }
        Ok(())
    })?;
    if found.is_empty() {
        let expected = "a node at least";
        return Err(AnswerError::Empty { expected });
    }
    Ok(found)
}

/// Reads what tells nodes apart: their queues and properties.
///
/// # Errors
/// As [`read`].
pub fn labels(answer: &str) -> Result<Labels, AnswerError> {
    let of = |node: FluxNode| {
        let queues = node.queues.iter().map(|name| format!("queue:{name}"));
        let properties = node.properties.iter();
        let properties = properties.map(|name| format!("property:{name}"));
        queues.chain(properties).collect()
    };
    let all = read(answer)?.into_iter();
    some(all.map(|(name, node)| (name, of(node))).collect())
}
