//! Slurm: `topology.yaml`.
//!
//! Source: topology.yaml(5). The file is a list of topologies. The one with `cluster_default` counts,
//! else the first; the others are not looked into. A `flat` topology knows nothing about distance, nor
//! does one of an unknown kind.

use std::collections::BTreeMap;
use std::fmt;

use lacuna_model::Topology;
use serde::de::{DeserializeSeed, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_saphyr::Spanned;

use super::Noted;
use super::error::{Fault, TopologyFileError};
use super::slurm::join;
use super::tree::Tree;

/// Whether a first line is of `topology.yaml`.
pub(super) fn knows(line: &str) -> bool {
    let item = line.strip_prefix('-').map(str::trim_start);
    line == "---" || item.is_some_and(|item| item.starts_with("topology"))
}

/// The part of a topology that says whether it counts.
#[derive(Debug, Deserialize)]
struct Head {
    topology: Spanned<String>,
    #[serde(default)]
    cluster_default: bool,
}

/// Keys of a topology besides its kind, and the kinds that are read.
const KEYS: [&str; 2] = ["topology", "cluster_default"];
const KINDS: [&str; 3] = ["tree", "block", "flat"];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    topology: Spanned<String>,
    #[serde(default, rename = "cluster_default")]
    _cluster_default: IgnoredAny,
    tree: Option<Switches>,
    block: Option<Blocks>,
    flat: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Switches {
    switches: Vec<Switch>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Switch {
    switch: Spanned<String>,
    children: Option<Spanned<String>>,
    nodes: Option<Spanned<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Blocks {
    block_sizes: Option<Spanned<Vec<u64>>>,
    blocks: Vec<Block>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Block {
    block: Spanned<String>,
    nodes: Option<Spanned<String>>,
}

/// Reads one topology of the list, and skips the others.
struct Chosen(usize);

impl<'de> DeserializeSeed<'de> for Chosen {
    type Value = Option<Named>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Chosen {
    type Value = Option<Named>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of topologies")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        for _ in 0..self.0 {
            list.next_element::<IgnoredAny>()?;
        }
        let chosen = list.next_element::<Named>()?;
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(chosen)
    }
}

fn refused(error: &serde_saphyr::Error) -> TopologyFileError {
    let line = error.location().map_or(1, |location| location.line());
    let error = error.without_snippet();
    TopologyFileError::new(line, Fault::Syntax(error.to_string()))
}

/// Reads the cluster's default topology.
pub(super) fn read(text: &str) -> Result<Noted, TopologyFileError> {
    let heads: Vec<Head> = serde_saphyr::from_str(text).map_err(|error| refused(&error))?;
    let default = heads
        .iter()
        .position(|one| one.cluster_default)
        .unwrap_or(0);
    let keys: Vec<BTreeMap<String, IgnoredAny>> =
        serde_saphyr::from_str(text).map_err(|error| refused(&error))?;
    let (Some(head), Some(keys)) = (heads.get(default), keys.get(default)) else {
        return Err(TopologyFileError::new(1, Fault::NoNodes));
    };
    let unknown = |key: &&String| !KEYS.contains(&key.as_str());
    let is_known = KINDS.iter().any(|kind| keys.contains_key(*kind));
    if let Some(kind) = keys.keys().find(unknown).filter(|_| !is_known) {
        let name = format!("topology {}", head.topology.value);
        return Ok(Noted::unknown(&name, kind));
    }
    let read =
        serde_saphyr::with_deserializer_from_str(text, |from| Chosen(default).deserialize(from));
    let Some(chosen) = read.map_err(|error| refused(&error))? else {
        return Err(TopologyFileError::new(1, Fault::NoNodes));
    };
    let mut tree = Tree::default();
    match chosen {
        Named { tree: Some(of), .. } => switches(of, &mut tree)?,
        Named {
            block: Some(of), ..
        } => blocks(of, &mut tree)?,
        Named { flat: Some(_), .. } => return Ok(Topology::default().into()),
        Named { topology, .. } => {
            let text = format!(
                "topology {} has no content: expected tree, block or flat",
                topology.value
            );
            return Err(TopologyFileError::new(line(&topology), Fault::Syntax(text)));
        }
    }
    tree.finish().map(Noted::from)
}

fn switches(of: Switches, tree: &mut Tree) -> Result<(), TopologyFileError> {
    for one in of.switches {
        let switch = tree.define(&one.switch.value, line(&one.switch))?;
        if let Some(nodes) = &one.nodes {
            tree.put(switch, &nodes.value, line(nodes))?;
        }
        if let Some(children) = &one.children {
            tree.link(switch, &children.value, line(children))?;
        }
    }
    Ok(())
}

fn blocks(of: Blocks, tree: &mut Tree) -> Result<(), TopologyFileError> {
    let mut names = Vec::with_capacity(of.blocks.len());
    for one in of.blocks {
        let at = line(&one.block);
        let block = tree.define(&one.block.value, at)?;
        if let Some(nodes) = &one.nodes {
            tree.put(block, &nodes.value, line(nodes))?;
        }
        names.push((one.block.value, at));
    }
    match &of.block_sizes {
        Some(sizes) => join(tree, &names, &sizes.value, line(sizes)),
        None => Ok(()),
    }
}

/// Number of a value's line, from 1.
fn line<T>(value: &Spanned<T>) -> u64 {
    value.referenced.line()
}
