//! `lacuna-lab play`: a simulated machine and simulated researchers, for demonstrations and tests
//! of an installation. They use its interfaces as the real ones do, each with its own rights.

mod machine;
mod trainers;

use clap::Subcommand;

use lacuna_cli::error::Result;

/// The part to simulate.
#[derive(Debug, Subcommand)]
pub(crate) enum PlayCommand {
    /// Publish the events of a machine, as its scheduler does
    Machine(machine::MachineArgs),
    /// Submit simulated trainers without end, as researchers do
    Trainers(trainers::TrainersArgs),
}

/// Runs `play`.
///
/// # Errors
/// A trace cannot be read, NATS or control does not answer, or a trainer is refused.
pub(crate) async fn run(command: PlayCommand) -> Result<()> {
    match command {
        PlayCommand::Machine(args) => machine::run(args).await,
        PlayCommand::Trainers(args) => trainers::run(args).await,
    }
}
