//! InfiniBand: the output of `ibnetdiscover`.
//!
//! Source: ibnetdiscover(8), infiniband-diags; tried on samples of the manual only. A fabric is no
//! tree above its leaf switches, so only these are read: nodes are on one leaf or apart. The host is
//! the first word of an adapter's description. Adapters inside switches (aggregation) are no hosts.

use std::collections::HashMap;

use lacuna_model::Topology;

use super::error::TopologyError;
use super::tree::Tree;
use crate::FieldError;

/// Whether a first line is of `ibnetdiscover`.
pub(super) fn knows(line: &str) -> bool {
    [
        "vendid=",
        "devid=",
        "sysimgguid=",
        "switchguid=",
        "caguid=",
        "Switch\t",
        "Switch ",
        "Ca\t",
    ]
    .iter()
    .any(|start| line.starts_with(start))
}

/// Reads the ports of all switches that lead to an adapter.
pub(super) fn read(text: &str) -> Result<Topology, TopologyError> {
    let mut tree = Tree::default();
    let names = switch_names(text)?;
    let mut leaf = None;
    for (number, line) in super::lines(text) {
        if let Some(switch) = line.strip_prefix("Switch") {
            let guid = quoted(switch).unwrap_or_default();
            leaf = Some(tree.define(names.get(guid).map_or(guid, String::as_str), number)?);
        } else if line.starts_with("Ca") || line.starts_with("Rt") {
            leaf = None;
        } else if let (Some(leaf), Some(host)) = (leaf, host(line, number)?) {
            tree.put(leaf, host, number)?;
        }
    }
    tree.finish()
}

/// The host behind a port of a switch, as in `[22] "H-0008f1"[1](8f1) # "node1 HCA-1" lid 4`; none
/// behind a port that leads to a switch, and in a line that is no port.
fn host(line: &str, number: u64) -> Result<Option<&str>, TopologyError> {
    let is_adapter =
        line.starts_with('[') && quoted(line).is_some_and(|peer| peer.starts_with("H-"));
    if !is_adapter {
        return Ok(None);
    }
    let description = line
        .split_once('#')
        .and_then(|(_, comment)| quoted(comment));
    let Some(description) = description else {
        let expected = "the description of the adapter, as in # \"node1 HCA-1\"";
        let at = FieldError::new("port", expected, line);
        return Err(TopologyError::new(number, at));
    };
    if description.contains("Aggregation Node") {
        return Ok(None);
    }
    let host = description.split_whitespace().next();
    host.map(Some).ok_or_else(|| {
        let at = FieldError::new(
            "description",
            "the name of a host",
            format!("{description:?}"),
        );
        TopologyError::new(number, at)
    })
}

/// The name of each switch by its GUID: that of its description if no other switch has it.
fn switch_names(text: &str) -> Result<HashMap<&str, String>, TopologyError> {
    let mut names: HashMap<&str, String> = HashMap::new();
    let mut count: HashMap<String, u32> = HashMap::new();
    for (number, line) in super::lines(text) {
        let Some(switch) = line.strip_prefix("Switch") else {
            continue;
        };
        let Some(guid) = quoted(switch).filter(|guid| !guid.is_empty()) else {
            let at = FieldError::new("switch", "its GUID in quotes, as in \"S-0008f1\"", line);
            return Err(TopologyError::new(number, at));
        };
        // A managed switch is described as in `MF0;leaf1:MQM8700/U1`.
        let described = switch
            .split_once('#')
            .and_then(|(_, comment)| quoted(comment));
        let name = described
            .and_then(|text| text.split_once(';')?.1.split(':').next())
            .filter(|name| !name.is_empty() && !name.contains(['[', ']', ',', ' ']))
            .unwrap_or(guid);
        *count.entry(name.to_owned()).or_default() += 1;
        names.insert(guid, name.to_owned());
    }
    for (guid, name) in &mut names {
        if count.get(name).is_some_and(|count| *count > 1) {
            (*guid).clone_into(name);
        }
    }
    Ok(names)
}

/// The first text in quotes.
fn quoted(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('"')?;
    Some(rest.split_once('"')?.0)
}
