//! `lacuna explain`: the reasons for the state of a trainer or a node.

use clap::Args;
use serde_json::json;

use lacuna_model::{
    Goodput, GoodputAt, Learning, NodeId, Phase, Timestamp, TrainerId, TrainerRecord,
};
use lacuna_owner::Signed;
use lacuna_runtime::clock::wall;
use lacuna_stalls::in_words;
use lacuna_trainer::controller::NO_PILOT;
use lacuna_wire::msg::{Kept, NodeView, PlanState, Reply, Request, UseState};

use crate::client::{Client, ConnectArgs, unexpected};
use crate::commands::Style;
use crate::commands::controls::why_withheld;
use crate::commands::selector::{NodeSelector, all_among};
use crate::commands::trainers::{nodes_of, one};
use crate::error::{CliError, Exit, Result};
use crate::output::{self, JsonArg, iso, iso_short};
use crate::view::{
    LoadersView, TrainerRow, explain_json, hindrances, loaders_text, next_try, node_rows,
    node_table, node_troubles, program_json, remedy, trainer_details, trainer_rows,
};

/// Arguments of `explain`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna explain hpo-12        the reason for its nodes, or for none
  lacuna explain a01n07        the trainer there and why, or why there is none
  lacuna explain 'a01n[07-12]' the same for several nodes")]
pub(crate) struct ExplainArgs {
    /// A trainer, a node, or several nodes: a range as in a[01-16], a pattern as in a*
    #[arg(value_name = "TRAINER|NODE")]
    name: String,
    #[command(flatten)]
    json: JsonArg,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// What to do about a program that reports no samples.
const SILENCE_REMEDY: &str = "remedy: its program writes the samples that it has done into \
                              $LACUNA_PROGRESS_FILE; without, it counts as no work done and cannot \
                              be planned well";

async fn trainer(client: &Client, name: &str) -> Result<Option<(Timestamp, TrainerRecord, Kept)>> {
    match TrainerId::new(name) {
        Ok(name) => one(client, &name).await,
        Err(_) => Ok(None),
    }
}

/// The explanation of a trainer that the plan does not name.
fn without_plan(record: &TrainerRecord, plan: Option<&PlanState>, now: Timestamp) -> String {
    match record.phase {
        Phase::Queued if record.spec.submit > now => format!(
            "{} is not admitted yet: it is not to start before {}",
            record.spec.id,
            iso(record.spec.submit)
        ),
        Phase::Queued => format!(
            "{} is not admitted yet: as many trainers as control.max_parallel allows are active \
             and its owner has its share of them, or its least nodes do not fit into the pool or \
             its user's quota, or its owner has returned beside others more often than \
             control.entry_every allows",
            record.spec.id
        ),
        Phase::Active if plan.is_none() => {
            format!("{} is admitted, but there is no plan yet", record.spec.id)
        }
        Phase::Active => match record.spec.kinds.loads_for() {
            Some(of) => format!(
                "{} is a loader of {of}, which brings nothing now: `lacuna explain {of}` has the \
                 reason",
                record.spec.id
            ),
            None => format!("{} was admitted after the newest plan", record.spec.id),
        },
        Phase::Done => format!("{} has done its work", record.spec.id),
        Phase::Cancelled => format!("{} was cancelled", record.spec.id),
        Phase::Failed => format!("{} was given up: {}", record.spec.id, record.reason),
    }
}

/// What the owner of a trainer that waits for its turn has to do; none if something else holds.
fn to_do(record: &TrainerRecord, now: Timestamp) -> Option<String> {
    let waits = match record.phase {
        Phase::Queued => record.spec.submit <= now,
        Phase::Active => record.nodes.is_empty() && record.spec.kinds.loads_for().is_none(),
        Phase::Done | Phase::Cancelled | Phase::Failed => false,
    };
    let is_sound = record.failures == 0 && record.reason.is_empty();
    (waits && is_sound).then(|| {
        format!(
            "{} waits and starts by itself: nothing is to do. It starts earlier with fewer min_nodes, \
             a higher priority, or more idle nodes (`lacuna nodes`)",
            record.spec.id
        )
    })
}

/// What is wrong with a trainer's program, and what to do about it.
fn trouble(record: &TrainerRecord, row: Option<&TrainerRow>) -> Vec<String> {
    let id = &record.spec.id;
    let mut lines = Vec::new();
    if record.phase == Phase::Active && record.ending.is_some() {
        lines.push(format!(
            "the work of {id} is done: it keeps its {} nodes until its program has ended there",
            record.nodes.len()
        ));
    } else if record.phase == Phase::Active && record.failures > 0 {
        let times = match record.failures {
            1 => "once".to_owned(),
            times => format!("{times} times in a row"),
        };
        lines.push(format!(
            "the program of {id} failed {times}: {}",
            record.reason
        ));
        let next = next_try(record).unwrap_or_else(|| "it is started again by itself".to_owned());
        lines.push(format!("its output: `lacuna logs {id}`; {next}"));
    } else if record.phase == Phase::Active && record.reason.starts_with(NO_PILOT) {
        lines.push(format!(
            "{id} gets no further nodes for now: {}",
            record.reason
        ));
    } else if let Some(silence) = row.and_then(TrainerRow::silence) {
        lines.push(format!("{id}: {silence}"));
        lines.push(SILENCE_REMEDY.to_owned());
    } else if record.phase == Phase::Active && !record.reason.is_empty() {
        lines.push(format!("{id} was last restarted: {}", record.reason));
    }
    lines.extend(remedy(&record.reason).map(|remedy| format!("remedy: {remedy}")));
    lines
}

/// What to say of the end of a trainer's ticket, which its owner and operators see.
fn ticket(record: &TrainerRecord, now: Timestamp) -> Option<String> {
    let ticket = Signed::unpacked(record.ticket.as_deref()?).ok()?;
    if record.phase.is_final() {
        return None;
    }
    let (id, until) = (&record.spec.id, iso_short(ticket.not_after));
    Some(if ticket.valid_at(now).is_ok() {
        format!("its ticket holds until {until}")
    } else {
        format!(
            "the ticket of {id} is stale since {until}: no further pilots start for it\n\
             remedy: its owner signs again: `lacuna renew FILE`, with the file of `lacuna submit`"
        )
    })
}

/// The batch and what it is worth.
fn learning(of: &Learning) -> String {
    format!(
        "its batch is {} samples, that of its user {}: a sample is worth {:.2} of one of the user's; \
         the noise scale of its gradient is {:.0} samples, give or take {:.0} %",
        of.batch,
        of.user_batch,
        of.efficiency,
        of.noise_scale,
        100.0 * of.error
    )
}

/// Sizes that are listed.
const SIZES: usize = 8;

/// How fast it would learn on other numbers of nodes, and with which batch.
fn goodput(of: &Goodput, nodes: usize) -> String {
    let is_listed = |size: &&GoodputAt| {
        size.nodes.is_power_of_two() || size.nodes as usize == nodes || of.sizes.len() <= SIZES
    };
    let listed = of.sizes.iter().filter(is_listed).map(|size| {
        format!(
            "{:.3} on {} with batch {}",
            size.rate, size.nodes, size.batch
        )
    });
    format!(
        "by its noise scale and its measured steps it learns, in samples of its user's batch a \
         second by nodes: {}; objective `goodput` plans by this",
        listed.collect::<Vec<_>>().join(", ")
    )
}

/// The loaders of a trainer, if it may have some.
async fn loaders(
    client: &Client,
    record: &TrainerRecord,
    plan: Option<&PlanState>,
) -> Result<Option<LoadersView>> {
    if record.spec.kinds.loaders().is_none() || record.phase.is_final() {
        return Ok(None);
    }
    let mut loaders = match client.ask(Request::Trainers { all: false }).await? {
        Reply::Trainers { trainers, .. } => trainers,
        other => return Err(unexpected(other)),
    };
    loaders.retain(|one| one.spec.kinds.loads_for() == Some(&record.spec.id));
    let mut without = loaders.iter().filter(|one| one.nodes.is_empty());
    let why = plan.and_then(|p| {
        without.find_map(|one| lacuna_planner::explain::trainer(&p.plan, &one.spec.id))
    });
    Ok(LoadersView::of(record, &loaders, why))
}

/// Runs `explain`.
///
/// # Errors
/// Neither a trainer nor a node has this name, or NATS or control does not answer.
pub(crate) async fn run(args: ExplainArgs) -> Result<()> {
    let client = Client::connect(&args.connect).await?;
    let address = lacuna_wire::address::plan(client.cluster());
    let plan: Option<PlanState> = client.newest(&address).await?;
    let said = plan
        .as_ref()
        .and_then(|p| explain_json(&p.plan, &args.name));
    if let Some((now, record, kept)) = trainer(&client, &args.name).await? {
        let records = std::slice::from_ref(&record);
        let nodes = nodes_of(&client, records).await?;
        let row = trainer_rows(records, now, &nodes).pop();
        let hindered = hindrances(&record, &nodes);
        let loaders = loaders(&client, &record, plan.as_ref()).await?;
        if args.json.json {
            return output::print_json(&json!({
                "trainer": row,
                "launch": program_json(&record.spec.launch),
                "plan": said,
                "hindrances": hindered,
                "remedy": remedy(&record.reason),
                "step": record.step_costs,
                "no_replay": record.no_replay,
                "learning": record.learning,
                "goodput": record.goodput,
                "loaders": loaders,
            }));
        }
        let why = plan
            .as_ref()
            .filter(|_| said.is_some())
            .and_then(|p| lacuna_planner::explain::trainer(&p.plan, &record.spec.id))
            .unwrap_or_else(|| without_plan(&record, plan.as_ref(), now));
        let why = match kept {
            Kept::Live => why,
            Kept::Archive => format!(
                "{}; its record is in the archive (`lacuna trainers --archived`)",
                why.trim_end()
            ),
        };
        let mut lines = trouble(&record, row.as_ref());
        if record.failures > 0 && !hindered.is_empty() {
            // The first says when it is tried again, as the lines above.
            lines.extend(hindered.into_iter().skip(1));
        } else if hindered.is_empty() {
            lines.extend(to_do(&record, now));
            lines.push(why.trim_end().to_owned());
            let planned = plan.as_ref().filter(|_| said.is_some());
            lines.extend(planned.and_then(|p| lacuna_planner::explain::rule(&p.plan)));
        } else {
            lines.extend(hindered);
        }
        lines.extend(ticket(&record, wall()));
        lines.extend(row.map(|row| trainer_details(&record, row, now)));
        lines.extend(
            (record.step_costs.as_deref()).map(|costs| in_words(costs).trim_end().to_owned()),
        );
        lines.extend(
            record
                .no_replay
                .as_ref()
                .map(|why| format!("no replay   {why}")),
        );
        lines.extend(loaders.as_ref().map(loaders_text));
        lines.extend(record.learning.as_ref().map(learning));
        lines.extend((record.goodput.as_deref()).map(|found| goodput(found, record.nodes.len())));
        return output::print(&lines.join("\n"));
    }
    of_nodes(&client, &args, plan.as_ref()).await
}

/// Explains the nodes of a name, a range or a pattern.
async fn of_nodes(client: &Client, args: &ExplainArgs, plan: Option<&PlanState>) -> Result<()> {
    let (now, mut nodes) = match client.ask(Request::Nodes).await? {
        Reply::Nodes { now, nodes } => (now, nodes),
        other => return Err(unexpected(other)),
    };
    let several = args.name.contains(['[', '*', '?', ',']);
    if several {
        let known = nodes.iter().map(|view| view.node.clone()).collect();
        let asked = NodeSelector::parse(&args.name).and_then(|asked| all_among(&[asked], &known));
        let asked = asked.map_err(|text| CliError::new("L0010", Exit::Failed, text))?;
        nodes.retain(|view| asked.contains(&view.node));
    } else {
        nodes.retain(|view| view.node.as_str() == args.name);
    }
    if nodes.is_empty() {
        return Err(CliError::new(
            "L0010",
            Exit::Failed,
            format!(
                "there is neither a trainer nor a node named {:?}",
                args.name
            ),
        )
        .remedy("`lacuna trainers --all` and `lacuna nodes --all` list them"));
    }
    let subject = lacuna_wire::address::use_state(client.cluster());
    let used: UseState = client.newest(&subject).await?.unwrap_or_default();
    let places = client.places().await?;
    let rows = node_rows(&nodes, now, &used, &places);
    if args.json.json {
        let said = |node: &NodeId| plan.and_then(|p| explain_json(&p.plan, node.as_str()));
        let values = nodes.iter().zip(&rows);
        let mut values = values.map(|(view, row)| json!({ "node": row, "plan": said(&view.node) }));
        return match several {
            true => output::print_json(&json!({ "nodes": values.collect::<Vec<_>>() })),
            false => output::print_json(&values.next()),
        };
    }
    let controls = match nodes.iter().any(|view| used.why(&view.node).is_some()) {
        false => None,
        true => match client.ask(Request::Controls).await? {
            Reply::Controls(controls) => Some(controls),
            other => return Err(unexpected(other)),
        },
    };
    let why: Vec<String> = nodes
        .iter()
        .map(
            |view| match why_withheld(controls.as_ref(), &used, &view.node) {
                Some(why) => why,
                None if view.trouble.is_some() && view.trainer.is_none() => String::new(),
                None => why_of(view, plan).trim_end().to_owned(),
            },
        )
        .filter(|why| !why.is_empty())
        .collect();
    let table = node_table(&rows, Style::Table);
    let troubles = node_troubles(&rows);
    let mut text = format!("{troubles}{}", why.join("\n"));
    text.truncate(text.trim_end().len());
    output::print(&format!("{text}\n\n{table}"))
}

/// The reason why a usable node trains its trainer, or none.
fn why_of(view: &NodeView, plan: Option<&PlanState>) -> String {
    plan.filter(|p| explain_json(&p.plan, view.node.as_str()).is_some())
        .and_then(|p| lacuna_planner::explain::node(&p.plan, &view.node))
        .unwrap_or_else(|| match view.idle_since {
            Some(_) if plan.is_none() => format!("{} is idle, but there is no plan yet", view.node),
            Some(_) => format!("{} became idle after the newest plan", view.node),
            None if view.is_down => format!(
                "{} is down, drained or rebooting in the main scheduler, whose tools have the reason",
                view.node
            ),
            None => format!(
                "{} is not in the pool: the main scheduler uses it",
                view.node
            ),
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::tests::record;

    #[test]
    fn one_that_waits_for_its_turn_has_nothing_to_do() {
        let now = Timestamp::from_unix(2_000_000_000);
        let waits = |record: &TrainerRecord| to_do(record, now).is_some();
        assert!(waits(&record("a", Phase::Queued, 0)));
        assert!(waits(&record("a", Phase::Active, 0)));
        assert!(!waits(&record("a", Phase::Active, 2)));
        assert!(!waits(&record("a", Phase::Done, 0)));
        let mut later = record("a", Phase::Queued, 0);
        later.spec.submit = Timestamp::from_unix(3_000_000_000);
        assert!(!waits(&later));
        let mut failed = record("a", Phase::Active, 0);
        failed.failures = 1;
        assert!(!waits(&failed));
    }
}
