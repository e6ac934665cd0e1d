//! `lacuna-lab play`: a machine and its researchers that are not there, for demonstrations and trials
//! of an installation. They speak to it as the real ones would, each with rights of its own.

mod machine;
mod trainers;

use clap::Subcommand;

use lacuna_cli::error::Result;

/// What to play.
#[derive(Debug, Subcommand)]
pub(crate) enum PlayCommand {
    /// Publish the events of a machine, as its scheduler would
    Machine(machine::MachineArgs),
    /// Submit simulated trainers for ever, as researchers would
    Trainers(trainers::TrainersArgs),
}

/// Runs `play`.
///
/// # Errors
/// A recording cannot be read, NATS or control does not answer, or a trainer is refused.
pub(crate) async fn run(command: PlayCommand) -> Result<()> {
    match command {
        PlayCommand::Machine(args) => machine::run(args).await,
        PlayCommand::Trainers(args) => trainers::run(args).await,
    }
}
