//! `lacuna plan`.

use clap::Args;

use lacuna_wire::msg::PlanState;

use crate::client::{Client, ConnectArgs};
use crate::error::{CliError, Exit, Result};
use crate::output::{self, JsonArg};
use crate::view::{plan_table, plan_view};

/// Arguments of `plan`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna plan
  lacuna plan --json | jq .allocations

Gains, costs and losses are in units of the objective over the planner's horizon.")]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    json: JsonArg,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// The newest plan.
///
/// # Errors
/// `L0015` when there is none yet.
pub(crate) async fn newest(client: &Client) -> Result<PlanState> {
    client
        .newest(&lacuna_wire::address::plan(client.cluster()))
        .await?
        .ok_or_else(|| {
            CliError::new("L0015", Exit::Failed, "there is no plan yet").remedy(
                "the planner needs a pool and trainers: see `lacuna nodes` and `lacuna trainers`",
            )
        })
}

/// Runs `plan`.
///
/// # Errors
/// There is no plan yet, or NATS does not answer.
pub(crate) async fn run(args: PlanArgs) -> Result<()> {
    let client = Client::connect(&args.connect).await?;
    let state = newest(&client).await?;
    if args.json.json {
        output::print_json(&plan_view(&state))
    } else {
        output::print(&plan_table(&state))
    }
}
