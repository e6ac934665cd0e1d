//! Slurm: `topology.yaml`.
//!
//! Source: topology.yaml(5). The file is a list of topologies. The one with `cluster_default` counts,
//! else the first. A `flat` topology knows nothing about distance.

use lacuna_model::Topology;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_saphyr::Spanned;

use super::error::{Fault, TopologyError};
use super::slurm::join;
use super::tree::Tree;

/// Whether a first line is of `topology.yaml`.
pub(super) fn knows(line: &str) -> bool {
    let item = line.strip_prefix('-').map(str::trim_start);
    line == "---" || item.is_some_and(|item| item.starts_with("topology"))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    topology: Spanned<String>,
    #[serde(default)]
    cluster_default: bool,
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

/// Reads the cluster's default topology.
pub(super) fn read(text: &str) -> Result<Topology, TopologyError> {
    let read: Result<Vec<Named>, _> = serde_saphyr::from_str(text);
    let all = read.map_err(|error| {
        let line = error.location().map_or(1, |location| location.line());
        let error = error.without_snippet();
        TopologyError::new(line, Fault::Syntax(error.to_string()))
    })?;
    let default = all.iter().position(|one| one.cluster_default);
    let Some(chosen) = all.into_iter().nth(default.unwrap_or(0)) else {
        return Err(TopologyError::new(1, Fault::NoNodes));
    };
    let mut tree = Tree::default();
    match chosen {
        Named { tree: Some(of), .. } => switches(of, &mut tree)?,
        Named {
            block: Some(of), ..
        } => blocks(of, &mut tree)?,
        Named { flat: Some(_), .. } => return Ok(Topology::default()),
        Named { topology, .. } => {
            let text = format!(
                "topology {} has no content: expected tree, block or flat",
                topology.value
            );
            return Err(TopologyError::new(line(&topology), Fault::Syntax(text)));
        }
    }
    tree.finish()
}

fn switches(of: Switches, tree: &mut Tree) -> Result<(), TopologyError> {
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

fn blocks(of: Blocks, tree: &mut Tree) -> Result<(), TopologyError> {
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
