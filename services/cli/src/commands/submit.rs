//! `lacuna submit`.

mod programs;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::Args;

use lacuna_model::{Launch, Span, TrainerId, TrainerSpec};
use lacuna_runtime::clock::wall;
use lacuna_trainer_file::Purpose;
use lacuna_wire::msg::{Reply, Request};

use crate::client::{Client, ConnectArgs};
use crate::commands::{ListArgs, signing};
use crate::error::{CliError, Exit, Result, file_error};
use crate::output;

/// The most trainers of one request. A request must stay below the server's limit on the size of a
/// message.
const AT_ONCE: usize = 100;

/// Arguments of `submit`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna submit trainer.toml
  lacuna submit --test-only trainer.toml       only check it
  lacuna submit --parsable trainer.toml        print only the names
  lacuna wait $(lacuna submit --parsable trainer.toml)
  lacuna submit hpo-1000.jsonl.gz              a list, one JSON object a line

The owner of a trainer is who submits it, if the file names none. With an identity your key signs a
ticket for each program of yours: where control.pilots.helper is set, pilots run it under your account.
Under `lacuna up` a program that this machine lacks is refused. Elsewhere it is a warning, since nodes
may have it.

Relative paths of the file begin at its folder. A program runs there too, where a node has that
folder, else in a folder of its own; `directory` names another. Secrets stand in a file of the nodes
that you alone can read, a NAME=value on each line: environment_from = \"/home/you/secrets.env\".")]
pub(crate) struct SubmitArgs {
    /// Trainers as TOML, or as JSON lines, plain or compressed
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Check the trainers without queueing them
    #[arg(long)]
    test_only: bool,
    /// How long your signature lets Lacuna start pilots under your account
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = output::parse_span)]
    ticket_valid: Span,
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Reads the trainers of a file.
///
/// # Errors
/// The file is wrong; the error names file, line and field.
pub(crate) fn read(path: &Path) -> Result<Vec<TrainerSpec>> {
    // A file that is not there is no wrong trainer.
    std::fs::File::open(path).map_err(|error| file_error("read", path, &error))?;
    let list = lacuna_trainer_file::read(path, Purpose::Submit);
    let list = list.map_err(|error| CliError::new("L0007", Exit::Config, error.to_string()))?;
    Ok(list.trainers)
}

/// Submits trainers, with the packed tickets of those that have one, in several requests; returns the
/// names that control accepted.
///
/// # Errors
/// Control refuses one request or does not answer. Trainers of earlier requests stay queued.
pub async fn submit_all(
    client: &Client,
    trainers: Vec<TrainerSpec>,
    mut tickets: BTreeMap<TrainerId, String>,
    test_only: bool,
) -> Result<Vec<String>> {
    let mut taken = Vec::with_capacity(trainers.len());
    let mut rest = trainers;
    while !rest.is_empty() {
        let tail = rest.split_off(rest.len().min(AT_ONCE));
        let signed = rest
            .iter()
            .filter_map(|spec| tickets.remove_entry(&spec.id));
        let asked = Request::Submit {
            tickets: signed.collect(),
            trainers: rest,
            test_only,
        };
        rest = tail;
        match client.ask(asked).await? {
            Reply::Accepted { trainers } => taken.extend(trainers.iter().map(ToString::to_string)),
            other => return Err(crate::client::unexpected(other)),
        }
    }
    Ok(taken)
}

/// What is wrong with the programs of trainers, as far as this machine knows; each fault once.
///
/// # Errors
/// `L0007` for a fault where nodes are on this machine.
fn check_programs(client: &Client, trainers: &[TrainerSpec]) -> Result<BTreeSet<String>> {
    let path = std::env::var_os("PATH");
    let mut warnings = BTreeSet::new();
    for spec in trainers {
        let Some(fault) = programs::fault(&spec.launch, path.as_deref()) else {
            continue;
        };
        if client.has_nodes_here() {
            let said = format!("trainer {}: {fault}", spec.id);
            return Err(CliError::new("L0007", Exit::Config, said)
                .remedy("name a program and a script that are on this machine, by their paths"));
        }
        warnings.insert(format!(
            "{fault}, as this machine sees it; nodes may differ"
        ));
    }
    Ok(warnings)
}

/// The packed tickets that the holder of the identity signs for their own programs. Without an identity
/// there are none.
///
/// # Errors
/// The identity is wrong, or the time too long.
pub(super) fn sign(
    connect: &ConnectArgs,
    valid: Span,
    trainers: &[TrainerSpec],
) -> Result<BTreeMap<TrainerId, String>> {
    let Some(path) = &connect.identity else {
        return Ok(BTreeMap::new());
    };
    let identity = signing::identity(path)?;
    let user = &identity.holder.user;
    let is_own = |spec: &&TrainerSpec| {
        spec.launch != Launch::Simulated && spec.owner.as_deref().is_none_or(|owner| owner == user)
    };
    let until = wall() + signing::valid(valid)?;
    let own = trainers.iter().filter(is_own);
    let packed = own.map(|spec| {
        let signed = signing::sign_one(&identity, spec, None, until)?;
        let word = signed.packed().map_err(|error| error.to_string())?;
        Ok((spec.id.clone(), word))
    });
    let packed: std::result::Result<BTreeMap<_, _>, String> = packed.collect();
    packed.map_err(|error| CliError::failed(format!("no ticket: {error}")))
}

/// The trainers whose least is more than the nodes that control knows, as a warning.
async fn check_nodes(client: &Client, least: &[(String, u32)]) -> Option<String> {
    // The trainers are queued: without an answer there is no warning.
    let Ok(Reply::Nodes { nodes, .. }) = client.ask(Request::Nodes).await else {
        return None;
    };
    let known = nodes.len();
    let lacking = |(_, least): &&(String, u32)| *least as usize > known;
    let (first, least) = least.iter().find(lacking)?;
    let count = match known {
        0 => "none yet".to_owned(),
        some => format!("only {some}"),
    };
    Some(format!(
        "{first} waits: it needs {least} {}, and the cluster knows {count} \
         (`lacuna events publish node.idle NODE` adds one by hand)",
        if *least == 1 { "node" } else { "nodes" }
    ))
}

/// Runs `submit`.
///
/// # Errors
/// A file is wrong, control refuses, or NATS or control does not answer.
pub(crate) async fn run(args: SubmitArgs) -> Result<()> {
    let mut trainers = Vec::new();
    for file in &args.files {
        trainers.extend(read(file)?);
    }
    let client = Client::connect(&args.connect).await?;
    let mut warnings = check_programs(&client, &trainers)?;
    warnings.extend(trainers.iter().filter_map(|spec| {
        let why = programs::exposed(&spec.launch)?;
        Some(format!("trainer {}: {why}", spec.id))
    }));
    warnings.extend(programs::forgetful(&trainers));
    for spec in &mut trainers {
        let user = || client.bus().user().to_owned();
        spec.owner.get_or_insert_with(user);
    }
    let least = trainers
        .iter()
        .map(|spec| (spec.id.to_string(), spec.min_nodes));
    let least: Vec<(String, u32)> = least.collect();
    let tickets = sign(&args.connect, args.ticket_valid, &trainers)?;
    let taken = submit_all(&client, trainers, tickets, args.test_only).await?;
    warnings.extend(check_nodes(&client, &least).await);
    if args.list.json() {
        return output::print_json(&serde_json::json!({
            "trainers": taken,
            "queued": !args.test_only,
            "warnings": warnings,
        }));
    }
    for warning in &warnings {
        output::print_error(&format!("lacuna: warning: {warning}"));
    }
    let text = match args.list.style() {
        crate::commands::Style::Parsable => taken.join("\n"),
        crate::commands::Style::Table => {
            let what = if args.test_only {
                "would be queued"
            } else {
                "queued"
            };
            match taken.as_slice() {
                [one] if !args.test_only => {
                    format!("{one} {what}; `lacuna wait {one}` waits for its end")
                }
                [one] => format!("{one} {what}"),
                [first, .., last] => format!("{} trainers {what}: {first} to {last}", taken.len()),
                [] => "no trainers in the file".to_owned(),
            }
        }
    };
    output::print(&text)
}
