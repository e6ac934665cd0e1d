//! `lacuna renew`: another ticket in place of one that ends.

use std::path::PathBuf;

use clap::Args;
use lacuna_model::Span;
use lacuna_wire::msg::{Reply, Request};

use crate::client::{Client, ConnectArgs, unexpected};
use crate::commands::submit;
use crate::error::{CliError, Exit, Result};
use crate::output::{self, JsonArg};

/// Arguments of `renew`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  lacuna renew trainer.toml --ticket-valid 90d

Signs a ticket for each program of the files, which are those of `lacuna submit`, and hands it to
control in place of the present one. Control takes it only for the same program, arguments and
environment. Pilots that run go on; `lacuna explain TRAINER` says until when a ticket holds.")]
pub(crate) struct RenewArgs {
    /// Trainers as TOML, or as JSON lines, plain or compressed
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// How long your new signature lets Lacuna start pilots under your account
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = output::parse_span)]
    ticket_valid: Span,
    #[command(flatten)]
    json: JsonArg,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Runs `renew`.
///
/// # Errors
/// A file or the identity is wrong, control refuses, or NATS or control does not answer.
pub(crate) async fn run(args: RenewArgs) -> Result<()> {
    let mut trainers = Vec::new();
    for file in &args.files {
        trainers.extend(submit::read(file)?);
    }
    let client = Client::connect(&args.connect).await?;
    let tickets = submit::sign(&args.connect, args.ticket_valid, &trainers)?;
    if tickets.is_empty() {
        let said =
            "there is no ticket to sign: these are no programs of yours, or no identity is named";
        return Err(CliError::new("L0044", Exit::Config, said)
            .remedy("give your identity of `lacuna keys`: --identity FILE or LACUNA_IDENTITY"));
    }
    let mut renewed = Vec::new();
    for (trainer, ticket) in tickets {
        match client.ask(Request::Renew { trainer, ticket }).await? {
            Reply::Accepted { trainers } => renewed.extend(trainers),
            other => return Err(unexpected(other)),
        }
    }
    if args.json.json {
        return output::print_json(&serde_json::json!({ "renewed": renewed }));
    }
    let names: Vec<String> = renewed.iter().map(ToString::to_string).collect();
    output::print(&format!(
        "renewed for {}: {}",
        args.ticket_valid,
        names.join(" ")
    ))
}
