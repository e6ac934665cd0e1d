//! InfiniBand: the output of `ibnetdiscover`.
//!
//! Source: ibnetdiscover(8), infiniband-diags; tried on samples of the manual, and on the form of a
//! machine with several rails. A fabric is no tree above its leaf switches, so only these are read:
//! nodes are on one leaf or apart. The host is the first word of an adapter's description, and its
//! rail the rest (`mlx5_0`). Adapters inside switches (aggregation) are no hosts.
//!
//! A node with an adapter on each of several rails is on several leaves. Rails agree if each has the
//! same groups of nodes; a group is then one leaf, with the name of the first rail's switch. Rails
//! that disagree are refused unless the user names those that count.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use lacuna_model::Topology;

use super::error::{Contradiction, Disagreement, TopologyFileError};
use super::tree::{Tree, node_id};
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

/// A port of a switch that leads to an adapter of a host.
#[derive(Debug, Clone, Copy)]
struct Port<'a> {
    switch: &'a str,
    host: &'a str,
    rail: &'a str,
    line: u64,
}

/// Reads the ports of all switches that lead to an adapter whose description fits one of `rails`, or
/// to any without them.
pub(super) fn read(text: &str, rails: &[String]) -> Result<Topology, TopologyFileError> {
    let names = switch_names(text)?;
    let mut ports: Vec<Port<'_>> = Vec::new();
    let mut others: BTreeSet<&str> = BTreeSet::new();
    let mut switch = None;
    for (number, line) in super::lines(text) {
        if let Some(of) = line.strip_prefix("Switch") {
            let guid = quoted(of).unwrap_or_default();
            let name = names.get(guid).map_or(guid, String::as_str);
            switch = Some(name);
        } else if line.starts_with("Ca") || line.starts_with("Rt") {
            switch = None;
        } else if let (Some(switch), Some(description)) = (switch, adapter(line, number)?) {
            let (host, rail) = described(description);
            if rails.is_empty() || rails.iter().any(|rail| fits(rail, description)) {
                ports.push(Port {
                    switch,
                    host,
                    rail,
                    line: number,
                });
            } else {
                others.insert(rail);
            }
        }
    }
    if ports.is_empty() && !others.is_empty() {
        let others: Vec<&str> = others.into_iter().collect();
        let expected = format!("one of {}", others.join(", "));
        let at = FieldError::new("rail (--rail)", expected, format!("{:?}", rails.join(",")));
        return Err(TopologyFileError::new(1, at));
    }
    let leaves = leaves(&ports)?;
    let mut tree = Tree::default();
    for port in &ports {
        let name = leaves.get(port.switch).copied().unwrap_or(port.switch);
        let leaf = match tree.find(name) {
            Some(leaf) => leaf,
            None => tree.define(name, port.line)?,
        };
        tree.put_one(leaf, port.host, port.line)?;
    }
    tree.finish()
}

/// The leaf of each switch: the first rail's switch of its group, if all rails agree.
fn leaves<'a>(ports: &[Port<'a>]) -> Result<HashMap<&'a str, &'a str>, TopologyFileError> {
    let mut below: HashMap<&str, BTreeSet<&str>> = HashMap::new();
    let mut above: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut at: HashMap<&str, Vec<&Port<'a>>> = HashMap::new();
    for port in ports {
        below.entry(port.switch).or_default().insert(port.host);
        above.entry(port.host).or_default().insert(port.switch);
        at.entry(port.switch).or_default().push(port);
    }
    let mut leaves: HashMap<&str, &str> = HashMap::new();
    for port in ports {
        if leaves.contains_key(port.switch) {
            continue;
        }
        // All switches that share a host with one of the group.
        let mut group: BTreeSet<&str> = BTreeSet::from([port.switch]);
        let mut open = vec![port.switch];
        let mut hosts: BTreeSet<&str> = BTreeSet::new();
        while let Some(switch) = open.pop() {
            for host in below.get(switch).into_iter().flatten() {
                if hosts.insert(host) {
                    let more = above.get(host).into_iter().flatten();
                    open.extend(more.filter(|switch| group.insert(switch)));
                }
            }
        }
        let all = || group.iter().filter_map(|switch| at.get(switch)).flatten();
        let mut rails: BTreeMap<Natural<'_>, BTreeSet<&str>> = BTreeMap::new();
        for port in all() {
            rails
                .entry(natural(port.rail))
                .or_default()
                .insert(port.switch);
        }
        let same = hosts.iter().all(|host| above.get(host) == Some(&group));
        let apart = rails.iter().find(|(_, switches)| switches.len() > 1);
        if let Some(((_, _, rail), _)) = apart.filter(|_| !same) {
            let all: Vec<&Port<'a>> = all().copied().collect();
            return Err(disagreement(&all, rail, ports));
        }
        let first = rails.values().flatten().next().copied();
        let first = first.unwrap_or(port.switch);
        leaves.extend(group.iter().map(|switch| (*switch, first)));
    }
    Ok(leaves)
}

/// The fault of two nodes that are on one switch, and on two of `rail`; or of one node that is on two
/// switches of a rail.
fn disagreement(group: &[&Port<'_>], rail: &str, ports: &[Port<'_>]) -> TopologyFileError {
    let mut mine: HashMap<&str, &Port<'_>> = HashMap::new();
    for port in group.iter().filter(|port| port.rail == rail) {
        let first = *mine.entry(port.host).or_insert(port);
        if first.switch != port.switch
            && let Ok(node) = node_id(port.host, port.line)
        {
            let fault = Contradiction::TwoLeaves {
                node,
                first: first.switch.to_owned(),
                line: first.line,
                second: port.switch.to_owned(),
            };
            return TopologyFileError::new(port.line, fault);
        }
    }
    let rails: BTreeSet<Natural<'_>> = ports.iter().map(|port| natural(port.rail)).collect();
    let rails: Vec<&str> = rails.into_iter().map(|(_, _, rail)| rail).collect();
    let on = |port: &Port<'_>| format!("{} on {}", port.host, port.switch);
    let fault = |near: &str, leaf: &str, first: String, second: String| {
        Contradiction::Rails(Box::new(Disagreement {
            near: near.to_owned(),
            leaf: leaf.to_owned(),
            apart: rail.to_owned(),
            first,
            second,
            rails: rails.join(", "),
        }))
    };
    let mut first: HashMap<&str, &Port<'_>> = HashMap::new();
    for port in group {
        let Some(mine) = mine.get(port.host) else {
            continue;
        };
        let known = *first.entry(port.switch).or_insert(mine);
        if known.switch != mine.switch {
            let fault = fault(port.rail, port.switch, on(known), on(mine));
            return TopologyFileError::new(port.line, fault);
        }
    }
    // Nodes without an adapter of this rail join its switches.
    let mut mine: Vec<&&Port<'_>> = mine.values().collect();
    mine.sort_by_key(|port| port.line);
    let last = mine.iter().rev().find(|port| {
        let first = mine.first();
        first.is_some_and(|first| first.switch != port.switch)
    });
    let text = |port: Option<&&&Port<'_>>| port.map_or_else(String::new, |port| on(port));
    let line = last.map_or(1, |port| port.line);
    let fault = fault("others", "further switches", text(mine.first()), text(last));
    TopologyFileError::new(line, fault)
}

/// Orders rails by their numbers: `mlx5_2` before `mlx5_10`.
type Natural<'a> = (&'a str, u64, &'a str);

fn natural(rail: &str) -> Natural<'_> {
    let name = rail.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = rail.strip_prefix(name).and_then(|text| text.parse().ok());
    (name, number.unwrap_or(0), rail)
}

/// Host and rail of an adapter's description, as in `g01 mlx5_0`.
fn described(description: &str) -> (&str, &str) {
    let text = description.trim();
    let (host, rail) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (host, rail.trim())
}

/// Whether a description, or one of its words, fits a pattern, in which `*` is any text.
fn fits(pattern: &str, description: &str) -> bool {
    let mut all = std::iter::once(description.trim()).chain(description.split_whitespace());
    all.any(|text| fits_whole(pattern, text))
}

fn fits_whole(pattern: &str, text: &str) -> bool {
    let Some((start, mut rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(start) else {
        return false;
    };
    while let Some((part, more)) = rest.split_once('*') {
        let Some(at) = text.find(part) else {
            return false;
        };
        text = text.get(at + part.len()..).unwrap_or_default();
        rest = more;
    }
    text.ends_with(rest)
}

/// The description of the adapter behind a port of a switch, as in
/// `[22] "H-0008f1"[1](8f1) # "node1 HCA-1" lid 4`; none behind a port that leads to a switch, and in
/// a line that is no port.
fn adapter(line: &str, number: u64) -> Result<Option<&str>, TopologyFileError> {
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
        return Err(TopologyFileError::new(number, at));
    };
    if description.contains("Aggregation Node") {
        return Ok(None);
    }
    let (host, _) = described(description);
    if host.is_empty() {
        let expected = "the name of a host";
        let at = FieldError::new("description", expected, format!("{description:?}"));
        return Err(TopologyFileError::new(number, at));
    }
    node_id(host, number)?;
    Ok(Some(description))
}

/// The name of each switch by its GUID: that of its description if no other switch has it.
fn switch_names(text: &str) -> Result<HashMap<&str, String>, TopologyFileError> {
    let mut names: HashMap<&str, String> = HashMap::new();
    let mut count: HashMap<String, u32> = HashMap::new();
    for (number, line) in super::lines(text) {
        let Some(switch) = line.strip_prefix("Switch") else {
            continue;
        };
        let Some(guid) = quoted(switch).filter(|guid| !guid.is_empty()) else {
            let at = FieldError::new("switch", "its GUID in quotes, as in \"S-0008f1\"", line);
            return Err(TopologyFileError::new(number, at));
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
