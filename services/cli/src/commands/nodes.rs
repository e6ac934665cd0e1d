//! `lacuna nodes`.

use std::collections::BTreeSet;

use clap::Args;

use lacuna_model::NodeId;
use lacuna_wire::msg::{Reply, Request, UseState};

use crate::client::{Client, ConnectArgs, unexpected};
use crate::commands::ListArgs;
use crate::commands::selector::{NodeSelector, all_among};
use crate::error::{CliError, Exit, Result};
use crate::output;
use crate::view::{in_force, node_rows, node_table, node_troubles, nodes_summary};

/// Arguments of `nodes`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna nodes
  lacuna nodes --all
  lacuna nodes 'a[01-16]' 'b*'
  lacuna nodes --json | jq '[.nodes[] | select(.state == \"leased\")] | length'

STATE is idle (a hole without a trainer), drained (idle, and `lacuna drain` keeps it so), leased,
releasing (the hole has ended, the lease is being given up), busy (the main scheduler does not offer
it) or down (down, drained or rebooting in the main scheduler, whose tools have the reason; listed
without --all while an agent is there). WITHHELD is the reason why an idle node may not be
used: drained, list, paused, window or cap (see lacuna limits). EPOCH numbers the leases of the
cluster: a later lease of a node has a higher one. LEAF is the switch of the node, where the
topology is known (ingest.topology); --json has the switches above it too. KIND is the kind of the
node, where nodes have kinds (ingest.kinds, ingest.kinds_file). TROUBLE is what keeps a node from being
used as the others are, or speaks against it: quarantined, slow, last, suspect, silent, left, unheard,
overdue or unnamed; sentences below the table say why, to whom, until when and what to do.")]
pub(crate) struct NodesArgs {
    /// Only these nodes, busy ones too: names, ranges as in a[01-16], or patterns as in a*
    #[arg(value_name = "NODE", value_parser = NodeSelector::parse)]
    only: Vec<NodeSelector>,
    /// Include busy nodes
    #[arg(long, short)]
    all: bool,
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Runs `nodes`.
///
/// # Errors
/// `L0010` if there is no such node; NATS or control does not answer.
pub(crate) async fn run(args: NodesArgs) -> Result<()> {
    let client = Client::connect(&args.connect).await?;
    let (now, mut nodes) = match client.ask(Request::Nodes).await? {
        Reply::Nodes { now, nodes } => (now, nodes),
        other => return Err(unexpected(other)),
    };
    if !args.only.is_empty() {
        let known: BTreeSet<NodeId> = nodes.iter().map(|view| view.node.clone()).collect();
        let only = all_among(&args.only, &known)
            .map_err(|text| CliError::new("L0010", Exit::Failed, text))?;
        nodes.retain(|view| only.contains(&view.node));
    }
    let subject = lacuna_wire::address::use_state(client.cluster());
    let used: UseState = client.newest(&subject).await?.unwrap_or_default();
    let places = client.places().await?;
    let mut rows = node_rows(&nodes, now, &used, &places);
    let mut summary = nodes_summary(&rows);
    let troubles = node_troubles(&rows);
    if let Some(limits) = in_force(&used) {
        summary = format!("{summary}\nlimits: {limits}");
    }
    if !args.all && args.only.is_empty() {
        rows.retain(|r| match r.state {
            "busy" => false,
            "down" => r.agent.is_some(),
            _ => true,
        });
    }
    if args.list.json() {
        return output::print_json(&serde_json::json!({ "now": output::iso(now), "nodes": rows }));
    }
    let table = node_table(&rows, args.list.style());
    match args.list.style() {
        crate::commands::Style::Parsable => output::print(&table),
        crate::commands::Style::Table => output::print(&format!("{table}{summary}\n{troubles}")),
    }
}
