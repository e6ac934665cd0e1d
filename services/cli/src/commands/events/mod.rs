//! `lacuna events`: events of external schedulers, for those who write senders.

mod input;
mod publish;
mod schema;
mod tail;
mod validate;

use clap::Subcommand;

use crate::error::Result;

/// The actions on events.
#[derive(Debug, Subcommand)]
pub(crate) enum EventsCommand {
    /// Publish events, as a scheduler's hook or adapter does
    Publish(publish::PublishArgs),
    /// Check events without publishing them
    Validate(validate::ValidateArgs),
    /// Show the fields of an event, also as JSON Schema
    Schema(schema::SchemaArgs),
    /// Watch numbered events of ingest, or messages of external programs
    Tail(tail::TailArgs),
}

/// Runs `events`.
///
/// # Errors
/// An event is malformed, or NATS does not answer.
pub(crate) async fn run(command: EventsCommand) -> Result<()> {
    match command {
        EventsCommand::Publish(args) => publish::run(args).await,
        EventsCommand::Validate(args) => validate::run(&args),
        EventsCommand::Schema(args) => schema::run(&args),
        EventsCommand::Tail(args) => tail::run(args).await,
    }
}
