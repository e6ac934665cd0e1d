//! PBS: placement sets in the output of `pbsnodes -a -F json`.
//!
//! Source: PBS Professional administrator's guide, "Placement Sets". The server's `node_group_key`
//! names resources, and nodes with one value of such a resource are near each other. A node that
//! lacks one of them is left out, so it has a leaf of its own.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use lacuna_model::Topology;
use lacuna_records::lenient;
use serde::Deserialize;
use serde_json::Value;

use super::error::{Fault, TopologyFileError};
use super::rows::Rows;
use super::tree::node_id;
use crate::FieldError;

/// Resources that PBS itself sets; they group nothing.
const BUILT_IN: [&str; 12] = [
    "accelerator_memory",
    "arch",
    "host",
    "hpmem",
    "mem",
    "mpiprocs",
    "naccelerators",
    "ncpus",
    "netwins",
    "ngpus",
    "vmem",
    "vnode",
];

/// Whether a first line is of `pbsnodes -F json`.
pub(super) fn knows(line: &str) -> bool {
    line.starts_with('{')
}

#[derive(Debug, Deserialize)]
struct Answer {
    nodes: BTreeMap<String, Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    #[serde(default)]
    resources_available: BTreeMap<String, Value>,
}

/// Reads the nodes with the resources `keys`, the leaf first.
pub(super) fn read(text: &str, keys: &[String]) -> Result<Topology, TopologyFileError> {
    let refuse = |reason: String| TopologyFileError::new(1, Fault::Syntax(reason));
    let read = lenient::read(text).map_err(|reason| refuse(format!("no JSON: {reason}")))?;
    let answer: Answer =
        serde_json::from_value(read.value).map_err(|error| refuse(error.to_string()))?;
    if keys.is_empty() {
        return Err(TopologyFileError::new(1, unnamed(&answer)));
    }
    let objects = objects(text);
    let mut rows = Rows::default();
    for (name, node) in &answer.nodes {
        let of = &node.resources_available;
        let path: Option<Vec<String>> = keys.iter().map(|key| value(of.get(key)?)).collect();
        let Some(path) = path else { continue };
        let line = objects.get(name.as_str()).copied().unwrap_or(1);
        // A part of a host, as in `n1[0]`, is at its host.
        let host = name.contains('[').then(|| value(of.get("host")?)).flatten();
        let node = node_id(host.as_deref().unwrap_or(name), line)?;
        if let Some(several) = path.iter().find(|value| value.contains(',')) {
            let expected = format!("one value of each of {}", keys.join(", "));
            let found = format!("{several:?} of node {node}");
            let fault = FieldError::new("placement set", expected, found);
            return Err(TopologyFileError::new(line, fault));
        }
        rows.add(node, path, line)?;
    }
    rows.finish()
}

/// The text of a resource; none if it is not set.
fn value(resource: &Value) -> Option<String> {
    let text = match resource {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    (!text.is_empty()).then_some(text)
}

/// The fault of a missing choice of resources, with the resources that could be meant.
fn unnamed(answer: &Answer) -> Fault {
    let candidates: BTreeSet<&str> = answer
        .nodes
        .values()
        .flat_map(|node| &node.resources_available)
        .filter(|(key, value)| !BUILT_IN.contains(&key.as_str()) && value.is_string())
        .map(|(key, _)| key.as_str())
        .collect();
    let candidates: Vec<&str> = candidates.into_iter().collect();
    let found = match candidates.as_slice() {
        [] => "no resource that a site has set".to_owned(),
        some => format!("the nodes have {}", some.join(", ")),
    };
    let expected = "the resources that name the switches, the leaf first (ingest.topology_keys, \
                    --keys), as in the server's node_group_key";
    FieldError::new("placement set", expected, found).into()
}

/// The line in which each object begins, by its name; `pbsnodes` begins each in a line of its own.
fn objects(text: &str) -> HashMap<&str, u64> {
    let mut objects = HashMap::new();
    for (number, line) in super::lines(text) {
        let named = line.strip_prefix('"').and_then(|line| line.split_once('"'));
        let Some((name, after)) = named else { continue };
        let value = after.trim_start().strip_prefix(':').map(str::trim_start);
        if value.is_some_and(|value| value.starts_with('{')) {
            objects.entry(name).or_insert(number);
        }
    }
    objects
}
