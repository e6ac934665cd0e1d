//! `lacuna events`: what external schedulers say, from the sender's side.

mod input;
mod publish;
mod schema;
mod tail;
mod validate;

use clap::Subcommand;

use crate::error::Result;

/// What to do with events.
#[derive(Debug, Subcommand)]
pub(crate) enum EventsCommand {
    /// Publish events, as a scheduler's hook or adapter does
    Publish(publish::PublishArgs),
    /// Check events without publishing them
    Validate(validate::ValidateArgs),
    /// Say what an event looks like, as JSON Schema too
    Schema(schema::SchemaArgs),
    /// Watch numbered events as ingest sends them, or what programs publish
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
