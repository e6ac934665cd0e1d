//! `lacuna check topology`.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use lacuna_model::{NodeId, Topology};
use lacuna_trace::topology::{self, TopologyOptions, TopologyRead};

use crate::error::{CliError, Exit, Result};
use crate::output::{self, JsonArg};
use crate::table::{Side, render};

/// Most nodes of a leaf that the table names.
const NAMED: usize = 4;

/// Arguments of `check topology`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna check topology /etc/slurm/topology.conf
  scontrol show topology > topology.txt; lacuna check topology topology.txt
  pbsnodes -a -F json > nodes.json; lacuna check topology nodes.json --keys switch,cabinet
  ibnetdiscover > fabric.txt; lacuna check topology fabric.txt --rail mlx5_0
  lacuna check topology cabinets.csv --json | jq '.leaves | length'

Prints what ingest.topology = \"FILE\" would make of the file, or the line that is wrong. Formats:
Slurm's topology.conf, topology.yaml and scontrol show topology; pbsnodes -a -F json; CSV
node,leaf[,pod[,...]]; ibnetdiscover; tried on samples of the manuals only: LSF's lsb.hosts and
bmgroup -cu.")]
pub(crate) struct TopologyArgs {
    /// The file, plain, gzip or zstd
    file: PathBuf,
    /// PBS: the resources that name the switches above a node, the leaf first
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    keys: Vec<String>,
    /// ibnetdiscover: the adapters that count, where a node has several: a pattern of their
    /// descriptions or of a word there, such as mlx5_0 or 'HCA-*' [default: all, if they agree]
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    rail: Vec<String>,
    #[command(flatten)]
    json: JsonArg,
}

/// Runs `check topology`.
///
/// # Errors
/// `L0045` if the file cannot be read as a topology.
pub(crate) fn run(args: &TopologyArgs) -> Result<()> {
    let options = TopologyOptions {
        keys: args.keys.clone(),
        rails: args.rail.clone(),
    };
    let read = load(&args.file, &options)?;
    let TopologyRead {
        format,
        topology,
        note,
    } = &read;
    if args.json.json {
        let leaf = |(leaf, nodes): (&str, Vec<&NodeId>)| json!({ "leaf": leaf, "above": above(topology, &nodes), "nodes": nodes });
        return output::print_json(&json!({
            "format": format.name(),
            "note": note,
            "levels": topology.levels(),
            "nodes": topology.nodes().count(),
            "leaves": topology.leaves().into_iter().map(leaf).collect::<Vec<_>>(),
        }));
    }
    output::print(&text(&read))
}

/// Reads a topology.
///
/// # Errors
/// `L0045`, with the line and the remedy.
pub(super) fn load(file: &std::path::Path, options: &TopologyOptions) -> Result<TopologyRead> {
    topology::load(file, options)
        .map_err(|error| CliError::new("L0045", Exit::Failed, error.to_string()))
}

/// The switches above the leaf of these nodes.
fn above<'a>(topology: &'a Topology, nodes: &[&NodeId]) -> &'a [String] {
    let path = nodes.first().and_then(|node| topology.path(node));
    path.and_then(|path| path.get(1..)).unwrap_or_default()
}

/// Figures, then a row for each leaf.
fn text(read: &TopologyRead) -> String {
    let TopologyRead {
        format,
        topology,
        note,
    } = read;
    if let Some(note) = note {
        return format!("{format}: {note}\n");
    }
    let leaves = topology.leaves();
    let sizes = || leaves.values().map(Vec::len);
    let mut text = format!(
        "{format}: {} nodes on {} leaves of {} to {} nodes, {} levels of switches\n",
        topology.nodes().count(),
        leaves.len(),
        sizes().min().unwrap_or(0),
        sizes().max().unwrap_or(0),
        topology.levels(),
    );
    if topology.is_empty() {
        text.push_str("nothing is known about distance: all nodes are equally near\n");
        return text;
    }
    let columns = [
        ("LEAF", Side::Left),
        ("NODES", Side::Right),
        ("BELOW", Side::Left),
        ("NAMES", Side::Left),
    ];
    let row = |(leaf, nodes): (&&str, &Vec<&NodeId>)| {
        let above = above(topology, nodes);
        let above = if above.is_empty() {
            "-".to_owned()
        } else {
            above.join(" < ")
        };
        let names: Vec<&str> = nodes.iter().take(NAMED).map(|node| node.as_str()).collect();
        let more = if nodes.len() > NAMED { " ..." } else { "" };
        vec![
            (*leaf).to_owned(),
            nodes.len().to_string(),
            above,
            format!("{}{more}", names.join(" ")),
        ]
    };
    let rows: Vec<Vec<String>> = leaves.iter().map(row).collect();
    text.push('\n');
    text.push_str(&render(&columns, &rows));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_shown_by_leaf() {
        let conf =
            "SwitchName=s0 Nodes=n[1-6]\nSwitchName=s1 Nodes=m1\nSwitchName=top Switches=s[0-1]\n";
        let text = text(&topology::read(conf, &TopologyOptions::default()).unwrap());
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        assert_eq!(
            lines,
            [
                "topology.conf: 7 nodes on 2 leaves of 1 to 6 nodes, 2 levels of switches",
                "",
                "LEAF  NODES  BELOW  NAMES",
                "s0        6  top    n1 n2 n3 n4 ...",
                "s1        1  top    m1",
            ]
        );
    }

    #[test]
    fn a_wrong_file_has_a_code_and_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("topology.conf");
        std::fs::write(&file, "SwitchName=a Nodes=n1\nSwitchName=b Nodes=n1\n").unwrap();
        let error = load(&file, &TopologyOptions::default()).unwrap_err();
        assert_eq!(error.code.as_deref(), Some("L0045"));
        assert!(
            error.message.contains("line 2: node n1 is on leaf a"),
            "{}",
            error.message
        );
    }
}
