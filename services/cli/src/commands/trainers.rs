//! `lacuna trainers` and `cancel`.

use std::time::Duration;

use clap::Args;

use lacuna_model::{Timestamp, TrainerId, TrainerRecord};
use lacuna_wire::msg::{Kept, NodeView, Reply, Request};

use crate::client::{Client, ConnectArgs, unexpected};
use crate::commands::ListArgs;
use crate::error::Result;
use crate::live::{Screen, Surface};
use crate::output::{self, JsonArg};
use crate::view::{depends_on_nodes, trainer_rows, trainer_table};

/// Arguments of `trainers`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna trainers
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
    /// Only these trainers
    #[arg(value_name = "TRAINER")]
    only: Vec<TrainerId>,
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
#[command(after_help = "Example:\n  lacuna cancel hpo-12 hpo-13")]
pub(crate) struct CancelArgs {
    /// The trainers to end
    #[arg(required = true, value_name = "TRAINER")]
    trainers: Vec<TrainerId>,
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
            false => Kept::Books,
        };
        return pages(client, of).await;
    }
    if args.only.is_empty() {
        return match client.ask(Request::Trainers { all: false }).await? {
            Reply::Trainers { now, trainers } => Ok((now, trainers)),
            other => Err(unexpected(other)),
        };
    }
    let (mut now, mut trainers) = (Timestamp::default(), Vec::new());
    for name in &args.only {
        if let Some((at, record, _)) = one(client, name).await? {
            now = at;
            trainers.push(record);
        }
    }
    trainers.sort_by_key(|record| record.order);
    Ok((now, trainers))
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
    let mut ended = Vec::new();
    for trainer in args.trainers {
        match client.ask(Request::Cancel { trainer }).await? {
            Reply::Accepted { trainers } => ended.extend(trainers),
            other => return Err(unexpected(other)),
        }
    }
    if args.json.json {
        return output::print_json(&serde_json::json!({ "cancelled": ended }));
    }
    let names: Vec<&str> = ended.iter().map(TrainerId::as_str).collect();
    output::print(&format!("cancelled {}", names.join(" ")))
}
