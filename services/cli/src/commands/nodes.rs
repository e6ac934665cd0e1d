//! `lacuna nodes`.

use clap::Args;

use lacuna_wire::msg::{Reply, Request};

use crate::client::{Client, ConnectArgs, unexpected};
use crate::commands::ListArgs;
use crate::error::Result;
use crate::output;
use crate::view::{node_rows, node_table, nodes_summary};

/// Arguments of `nodes`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna nodes
  lacuna nodes --all
  lacuna nodes --json | jq '[.nodes[] | select(.state == \"leased\")] | length'

STATE is idle (a hole without a trainer), leased, releasing (the hole has ended, the lease is
being given up) or busy (with batch jobs).")]
pub(crate) struct NodesArgs {
    /// Busy nodes too
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
/// Nobody answers.
pub(crate) async fn run(args: NodesArgs) -> Result<()> {
    let client = Client::connect(&args.connect).await?;
    let (now, nodes) = match client.ask(Request::Nodes).await? {
        Reply::Nodes { now, nodes } => (now, nodes),
        other => return Err(unexpected(other)),
    };
    let mut rows = node_rows(&nodes, now);
    let summary = nodes_summary(&rows);
    if !args.all {
        rows.retain(|r| r.state != "busy");
    }
    if args.list.json() {
        return output::print_json(&serde_json::json!({ "now": output::iso(now), "nodes": rows }));
    }
    let table = node_table(&rows, args.list.style());
    match args.list.style() {
        crate::commands::Style::Parsable => output::print(&table),
        crate::commands::Style::Table => output::print(&format!("{table}{summary}\n")),
    }
}
