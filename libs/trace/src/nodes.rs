//! Lists of nodes: one name a line, in a meaningful order.

use std::collections::HashSet;
use std::io::BufRead;
use std::path::Path;

use lacuna_model::{HoleRecord, NodeId};

use crate::{FieldError, ReadError, open};

/// Reads a list of nodes, plain, gzip or zstd. Blank lines and lines that start with `#` are
/// skipped.
///
/// # Errors
/// [`ReadError`] with the line of an invalid or repeated name.
pub fn read_nodes(path: &Path) -> Result<Vec<NodeId>, ReadError> {
    let mut source = open(path)?;
    let mut nodes = Vec::new();
    let mut seen = HashSet::new();
    let mut text = Vec::new();
    let mut line = 0;
    loop {
        text.clear();
        let read = source.read_until(b'\n', &mut text);
        if read.map_err(|source| ReadError::interrupted(path, line, source))? == 0 {
            break;
        }
        line += 1;
        let name = String::from_utf8_lossy(&text);
        let name = name.trim();
        if name.is_empty() || name.starts_with('#') {
            continue;
        }
        let refuse = |expected: &str| ReadError::Field {
            path: path.to_owned(),
            line,
            at: FieldError::new("column 1 (node)", expected, format!("{name:?}")),
        };
        let node = NodeId::new(name).map_err(|error| refuse(error.expected))?;
        if !seen.insert(node.clone()) {
            return Err(refuse("a name that does not stand there yet"));
        }
        nodes.push(node);
    }
    if nodes.is_empty() {
        return Err(ReadError::Empty {
            path: path.to_owned(),
            expected: "one node name a line",
        });
    }
    Ok(nodes)
}

/// The first `count` nodes, in the order of a list of nodes, or else of their first appearance.
#[must_use]
pub fn first_nodes(
    count: usize,
    order: Option<&[NodeId]>,
    records: &[HoleRecord],
) -> HashSet<NodeId> {
    if let Some(order) = order {
        return order.iter().take(count).cloned().collect();
    }
    let mut first = HashSet::new();
    for record in records {
        if first.len() == count {
            break;
        }
        first.insert(record.node.clone());
    }
    first
}
