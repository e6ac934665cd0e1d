//! `lacuna explain`: why a trainer or a node is as it is.

use clap::Args;
use serde_json::json;

use lacuna_model::{Timestamp, TrainerId, TrainerRecord};
use lacuna_wire::msg::{Kept, NodeView, PlanState, Reply, Request, UseState};

use crate::client::{Client, ConnectArgs, unexpected};
use crate::commands::controls::why_withheld;
use crate::commands::trainers::{nodes_of_failing, one};
use crate::error::{CliError, Exit, Result};
use crate::output::{self, JsonArg, iso};
use crate::view::{explain_json, node_rows, trainer_facts, trainer_rows};

/// Arguments of `explain`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna explain hpo-12        why it has these nodes, or none
  lacuna explain a01n07        who trains there and why, or why nobody does")]
pub(crate) struct ExplainArgs {
    /// A trainer or a node
    name: String,
    #[command(flatten)]
    json: JsonArg,
    #[command(flatten)]
    connect: ConnectArgs,
}

async fn trainer(client: &Client, name: &str) -> Result<Option<(Timestamp, TrainerRecord, Kept)>> {
    match TrainerId::new(name) {
        Ok(name) => one(client, &name).await,
        Err(_) => Ok(None),
    }
}

async fn node(client: &Client, name: &str) -> Result<Option<(Timestamp, NodeView)>> {
    match client.ask(Request::Nodes).await? {
        Reply::Nodes { now, nodes } => Ok(nodes
            .into_iter()
            .find(|n| n.node.as_str() == name)
            .map(|n| (now, n))),
        other => Err(unexpected(other)),
    }
}

/// What is to be said when the plan does not name a trainer.
fn without_plan(record: &TrainerRecord, plan: Option<&PlanState>, now: Timestamp) -> String {
    use lacuna_model::Phase;
    match record.phase {
        Phase::Queued if record.spec.submit > now => format!(
            "{} is not admitted yet: it is not to start before {}",
            record.spec.id,
            iso(record.spec.submit)
        ),
        Phase::Queued => format!(
            "{} is not admitted yet: as many trainers as control.max_parallel allows are active \
             and its owner has its share of them, or its least nodes do not fit into the pool or \
             its user's quota, or its owner has come anew beside others more often than \
             control.anew_every allows",
            record.spec.id
        ),
        Phase::Active if plan.is_none() => {
            format!("{} is admitted, but there is no plan yet", record.spec.id)
        }
        Phase::Active => format!("{} was admitted after the newest plan", record.spec.id),
        Phase::Done => format!("{} has done its work", record.spec.id),
        Phase::Cancelled => format!("{} was cancelled", record.spec.id),
        Phase::Failed => format!("{} was given up: {}", record.spec.id, record.reason),
    }
}

/// Runs `explain`.
///
/// # Errors
/// There is neither a trainer nor a node of this name, or nobody answers.
pub(crate) async fn run(args: ExplainArgs) -> Result<()> {
    let client = Client::connect(&args.connect).await?;
    let address = lacuna_wire::address::plan(client.cluster());
    let plan: Option<PlanState> = client.newest(&address).await?;
    let said = plan
        .as_ref()
        .and_then(|p| explain_json(&p.plan, &args.name));
    if let Some((now, record, kept)) = trainer(&client, &args.name).await? {
        let records = std::slice::from_ref(&record);
        let nodes = nodes_of_failing(&client, records).await?;
        let row = trainer_rows(records, now, &nodes).pop();
        if args.json.json {
            return output::print_json(&json!({
                "trainer": row,
                "plan": said,
            }));
        }
        let why = plan
            .as_ref()
            .filter(|_| said.is_some())
            .and_then(|p| lacuna_planner::explain::trainer(&p.plan, &record.spec.id))
            .unwrap_or_else(|| without_plan(&record, plan.as_ref(), now));
        let why = match kept {
            Kept::Books => why,
            Kept::Archive => format!(
                "{}; it is in the archive, which `lacuna trainers --archived` lists",
                why.trim_end()
            ),
        };
        let facts = row.map_or_else(String::new, |row| trainer_facts(&record, row, now));
        return output::print(&format!("{}\n{facts}", why.trim_end()));
    }
    let Some((now, view)) = node(&client, &args.name).await? else {
        return Err(CliError::new(
            "L0010",
            Exit::Failed,
            format!(
                "there is neither a trainer nor a node named {:?}",
                args.name
            ),
        )
        .remedy("`lacuna trainers --all` and `lacuna nodes --all` list them"));
    };
    let subject = lacuna_wire::address::use_state(client.cluster());
    let used: UseState = client.newest(&subject).await?.unwrap_or_default();
    let rows = node_rows(std::slice::from_ref(&view), now, &used);
    if args.json.json {
        return output::print_json(&json!({ "node": rows.first(), "plan": said }));
    }
    if used.why(&view.node).is_some() {
        let controls = match client.ask(Request::Controls).await? {
            Reply::Controls(controls) => controls,
            other => return Err(unexpected(other)),
        };
        let why = why_withheld(Some(&controls), &used, &view.node).unwrap_or_default();
        let table = crate::view::node_table(&rows, crate::commands::Style::Table);
        return output::print(&format!("{why}\n\n{table}"));
    }
    let why = plan
        .as_ref()
        .filter(|_| said.is_some())
        .and_then(|p| lacuna_planner::explain::node(&p.plan, &view.node))
        .unwrap_or_else(|| match view.idle_since {
            Some(_) if plan.is_none() => format!("{} is idle, but there is no plan yet", view.node),
            Some(_) => format!("{} became idle after the newest plan", view.node),
            None => format!(
                "{} is not in the pool: the main scheduler uses it",
                view.node
            ),
        });
    let table = crate::view::node_table(&rows, crate::commands::Style::Table);
    output::print(&format!("{}\n\n{table}", why.trim_end()))
}
