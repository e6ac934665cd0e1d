//! `lacuna trainers` and `cancel`.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;

use lacuna_model::{Timestamp, TrainerId, TrainerRecord};
use lacuna_wire::msg::{Kept, NodeView, Reply, Request};

use crate::client::{Client, ConnectArgs, unexpected};
use crate::commands::ListArgs;
use crate::commands::selector::{TrainerSelector, examples_like};
use crate::error::{CliError, Exit, Result};
use crate::live::{Screen, Surface};
use crate::output::{self, JsonArg};
use crate::view::{depends_on_nodes, trainer_rows, trainer_table};

/// Arguments of `trainers`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna trainers
  lacuna trainers 'sw-*' hpo-[01-12]        those of these names, ended ones too
  lacuna trainers --all --json | jq '.trainers[] | select(.phase == \"failed\")'
  lacuna trainers --watch

END is the time at which the trainer ended, or with ~ an estimate at its present rate; RATE with ~
is assumed, not measured. STATE is queued (not admitted), waiting (admitted, no nodes), starting
(no agent has begun its program yet), resuming (stalled by a change of nodes), training, retrying (its program
failed and will be started again), ending (its work is done, its programs still end), done, cancelled
or failed. REASON is the reason for the end of its last process, or what keeps it from nodes
(`lacuna explain TRAINER` has the remedy), or that its program has reported no samples for a minute.
OWNER pays by quota; `ada (by root)` was submitted by root for ada.")]
pub(crate) struct TrainersArgs {
    /// Only these trainers: names, ranges as in sw-[01-16], or patterns as in sw-*
    #[arg(value_name = "TRAINER", value_parser = TrainerSelector::parse)]
    only: Vec<TrainerSelector>,
    /// Include ended trainers
    #[arg(long, short)]
    all: bool,
    /// Trainers that ended long ago and are in the archive (control.keep_finished)
    #[arg(long, conflicts_with_all = ["all", "watch"])]
    archived: bool,
    /// Redraw every second
    #[arg(long, short, conflicts_with_all = ["json", "parsable"])]
    watch: bool,
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Arguments of `cancel`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna cancel hpo-12 hpo-13
  lacuna cancel 'sw-*'                      all of these names that have not ended

It prints the names of those that it has ended. A name that cannot be cancelled is an error, and the
others are cancelled all the same.")]
pub(crate) struct CancelArgs {
    /// The trainers to end: names, ranges as in sw-[01-16], or patterns as in sw-*
    #[arg(required = true, value_name = "TRAINER", value_parser = TrainerSelector::parse)]
    trainers: Vec<TrainerSelector>,
    #[command(flatten)]
    json: JsonArg,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// The node views, if they say more of one of these trainers than its record; else none.
///
/// # Errors
/// NATS or control does not answer.
pub(crate) async fn nodes_of(client: &Client, trainers: &[TrainerRecord]) -> Result<Vec<NodeView>> {
    if !trainers.iter().any(depends_on_nodes) {
        return Ok(Vec::new());
    }
    match client.ask(Request::Nodes).await? {
        Reply::Nodes { nodes, .. } => Ok(nodes),
        other => Err(unexpected(other)),
    }
}

/// The trainers that the arguments select.
async fn asked(client: &Client, args: &TrainersArgs) -> Result<(Timestamp, Vec<TrainerRecord>)> {
    if args.only.is_empty() && (args.all || args.archived) {
        let of = match args.archived {
            true => Kept::Archive,
            false => Kept::Live,
        };
        return pages(client, of).await;
    }
    if args.only.is_empty() {
        return match client.ask(Request::Trainers { all: false }).await? {
            Reply::Trainers { now, trainers } => Ok((now, trainers)),
            other => Err(unexpected(other)),
        };
    }
    let of = match args.archived {
        true => Kept::Archive,
        false => Kept::Live,
    };
    let Selected {
        now,
        names,
        mut records,
    } = selected(client, &args.only, of).await?;
    let mut now = now.unwrap_or_default();
    for name in &names {
        if records.iter().all(|record| record.spec.id != *name) {
            let Some((at, record, _)) = one(client, name).await? else {
                return Err(unknown(client, name).await);
            };
            now = at;
            records.push(record);
        }
    }
    records.sort_by_key(|record| record.order);
    Ok((now, records))
}

/// What selections of trainers name.
pub(super) struct Selected {
    /// The selected trainers in the order of the selections.
    pub(super) names: Vec<TrainerId>,
    /// The records of those that control was asked for: it knows which names fit a pattern.
    records: Vec<TrainerRecord>,
    /// When these were as they are.
    now: Option<Timestamp>,
}

/// The trainers that selections name. A name needs no look; a pattern must fit a trainer that is kept
/// there.
///
/// # Errors
/// `L0009` if a pattern fits none; NATS or control does not answer.
pub(super) async fn selected(
    client: &Client,
    selectors: &[TrainerSelector],
    of: Kept,
) -> Result<Selected> {
    let (now, mut records) = match selectors.iter().any(TrainerSelector::has_patterns) {
        true => {
            let (now, records) = pages(client, of).await?;
            (Some(now), records)
        }
        false => (None, Vec::new()),
    };
    let known: BTreeSet<TrainerId> = records
        .iter()
        .map(|record| record.spec.id.clone())
        .collect();
    let mut names: Vec<TrainerId> = Vec::new();
    for selector in selectors {
        let (found, unknown) = selector
            .among(&known)
            .map_err(|text| CliError::new("L0009", Exit::Failed, text))?;
        for name in found.into_iter().chain(unknown) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    records.retain(|record| names.contains(&record.spec.id));
    Ok(Selected {
        names,
        records,
        now,
    })
}

/// All trainers of control's state or of the archive, read page by page.
///
/// # Errors
/// NATS or control does not answer.
pub(super) async fn pages(client: &Client, of: Kept) -> Result<(Timestamp, Vec<TrainerRecord>)> {
    let (mut all, mut from) = (Vec::new(), 0);
    loop {
        match client.ask(Request::Page { of, from }).await? {
            Reply::Page {
                now,
                trainers,
                next,
            } => {
                all.extend(trainers);
                match next {
                    Some(next) => from = next,
                    None => return Ok((now, all)),
                }
            }
            other => return Err(unexpected(other)),
        }
    }
}

/// One trainer and where its record is kept; none if there is no such trainer.
///
/// # Errors
/// NATS or control does not answer.
pub(crate) async fn one(
    client: &Client,
    name: &TrainerId,
) -> Result<Option<(Timestamp, TrainerRecord, Kept)>> {
    let trainer = name.clone();
    match client.ask(Request::Trainer { trainer }).await? {
        Reply::Trainer { now, trainer, kept } => Ok(Some((now, *trainer, kept))),
        Reply::Refused { code, .. } if code == "L0009" => Ok(None),
        other => Err(unexpected(other)),
    }
}

/// The error for an answer that was not expected about a trainer: an unknown one has similar ones.
pub(super) async fn unexpected_of(client: &Client, name: &TrainerId, reply: Reply) -> CliError {
    match reply {
        Reply::Refused { code, .. } if code == "L0009" => unknown(client, name).await,
        other => unexpected(other),
    }
}

/// The error for an unknown trainer; it names similar trainers.
pub(super) async fn unknown(client: &Client, name: &TrainerId) -> CliError {
    let known = match pages(client, Kept::Live).await {
        Ok((_, records)) => records,
        Err(error) => return error,
    };
    let known = known.iter().map(|record| record.spec.id.as_str());
    let near = examples_like(known, name.as_str());
    let said = format!("there is no trainer named {name}: {near}");
    CliError::new("L0009", Exit::Failed, said)
}

/// Runs `trainers`.
///
/// # Errors
/// NATS or control does not answer.
pub(crate) async fn run(args: TrainersArgs) -> Result<()> {
    let client = Client::connect(&args.connect).await?;
    let mut screen = args.watch.then(Screen::new);
    let stop = crate::up::stop_token();
    loop {
        let (now, trainers) = asked(&client, &args).await?;
        let nodes = nodes_of(&client, &trainers).await?;
        let rows = trainer_rows(&trainers, now, &nodes);
        if args.list.json() {
            return output::print_json(&serde_json::json!({
                "now": output::iso(now),
                "trainers": rows,
            }));
        }
        let table = trainer_table(&rows, args.list.style());
        let Some(screen) = &mut screen else {
            return output::print(&table);
        };
        if screen.surface() == Surface::Terminal {
            let (width, height) = screen.size();
            let lines: Vec<String> = std::iter::once(output::iso_short(now))
                .chain(table.lines().map(str::to_owned))
                .take(height)
                .map(|l| console::truncate_str(&l, width, "").into_owned())
                .collect();
            screen.draw(&lines);
        } else {
            output::print(&format!("{}\n{table}", output::iso_short(now)))?;
        }
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
            () = stop.cancelled() => return Ok(()),
        }
    }
}

/// Runs `cancel`.
///
/// # Errors
/// There is no such trainer, or control does not answer.
pub(crate) async fn cancel(args: CancelArgs) -> Result<()> {
    let client = Client::connect(&args.connect).await?;
    let (mut names, mut records) = (Vec::new(), Vec::new());
    let (mut ended, mut failed): (Vec<TrainerId>, Vec<CliError>) = (Vec::new(), Vec::new());
    for selector in &args.trainers {
        match selected(&client, std::slice::from_ref(selector), Kept::Live).await {
            Ok(found) => {
                names.extend(found.names);
                records.extend(found.records);
            }
            Err(error) if error.exit == Exit::Unavailable => return Err(error),
            Err(error) => failed.push(error),
        }
    }
    // A pattern means trainers that can still be cancelled; a name that cannot is an error.
    let is_named = |name: &TrainerId| args.trainers.iter().any(|one| one.names(name));
    let is_over = |name: &TrainerId| {
        let mut over = records.iter().filter(|record| record.phase.is_final());
        over.any(|record| record.spec.id == *name)
    };
    let mut asked = BTreeSet::new();
    for trainer in names {
        if !asked.insert(trainer.clone()) || (is_over(&trainer) && !is_named(&trainer)) {
            continue;
        }
        let name = trainer.clone();
        match client.ask(Request::Cancel { trainer }).await {
            Ok(Reply::Accepted { trainers }) => ended.extend(trainers),
            Ok(other) => failed.push(unexpected_of(&client, &name, other).await),
            Err(error) => {
                let is_away = error.exit == Exit::Unavailable;
                failed.push(error);
                if is_away {
                    break;
                }
            }
        }
    }
    if ended.is_empty() {
        if failed.is_empty() {
            let words = "all trainers of these names have ended already: nothing to cancel";
            failed.push(CliError::failed(words));
        }
    } else if args.json.json {
        let errors: Vec<_> = failed.iter().map(CliError::fields).collect();
        output::print_json(&serde_json::json!({ "cancelled": ended, "errors": errors }))?;
    } else {
        let names: Vec<&str> = ended.iter().map(TrainerId::as_str).collect();
        output::print(&format!("cancelled {}", names.join(" ")))?;
    }
    CliError::of_all(failed, !ended.is_empty())
}
