//! `lacuna submit`.

use std::path::{Path, PathBuf};

use clap::Args;

use lacuna_model::TrainerSpec;
use lacuna_wire::msg::{Reply, Request};

use crate::client::{Client, ConnectArgs};
use crate::commands::ListArgs;
use crate::error::{CliError, Exit, Result};
use crate::{output, submit_file};

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
  lacuna submit hpo-1000.jsonl.gz              a list, one JSON object a line")]
pub(crate) struct SubmitArgs {
    /// A trainer as TOML, or trainers as JSON lines (.jsonl, .jsonl.gz)
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Check the trainers without queueing them
    #[arg(long)]
    test_only: bool,
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Reads trainers from a file of either format.
///
/// # Errors
/// The file is wrong; the error names file, line and field.
pub(crate) fn read(path: &Path) -> Result<Vec<TrainerSpec>> {
    let name = path
        .file_name()
        .map(|n| n.to_string_lossy().into_owned())
        .unwrap_or_default();
    let lines = [".jsonl", ".jsonl.gz", ".json", ".ndjson"]
        .iter()
        .any(|end| name.ends_with(end));
    let wrong = |text: String| CliError::new("L0007", Exit::Config, text);
    if lines {
        lacuna_trace::read_trainers(path).map_err(|e| wrong(e.to_string()))
    } else {
        submit_file::read(path).map_err(|e| wrong(e.to_string()))
    }
}

/// Submits trainers in several requests; returns the names that control accepted.
///
/// # Errors
/// Control refuses one request or does not answer. Trainers of earlier requests stay queued.
pub async fn submit_all(
    client: &Client,
    trainers: Vec<TrainerSpec>,
    test_only: bool,
) -> Result<Vec<String>> {
    let mut taken = Vec::with_capacity(trainers.len());
    let mut rest = trainers;
    while !rest.is_empty() {
        let tail = rest.split_off(rest.len().min(AT_ONCE));
        let asked = Request::Submit {
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
    let taken = submit_all(&client, trainers, args.test_only).await?;
    if args.list.json() {
        return output::print_json(&serde_json::json!({
            "trainers": taken,
            "queued": !args.test_only,
        }));
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
