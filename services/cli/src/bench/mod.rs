//! `lacuna bench`: measurements on this machine, with real processes.

mod bus;
mod echo;
mod latency;
mod scrape;
mod sustained;

use clap::Subcommand;

use crate::error::Result;

/// What to measure.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// From event to command, and a thousand events a second
    Bus(bus::BusArgs),
}

/// Runs `bench`.
///
/// # Errors
/// A program is missing or a service does not answer.
pub(crate) async fn run(command: BenchCommand) -> Result<()> {
    match command {
        BenchCommand::Bus(args) => bus::run(args).await,
    }
}
