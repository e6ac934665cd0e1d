//! The commands of `lacuna-lab compare`.

use clap::Subcommand;

use lacuna_cli::error::Result;

use super::distance::{self, DistanceArgs};
use super::forecast::{self, ForecastTableArgs};
use super::goodput::{self, GoodputArgs};
use super::kinds::{self, KindsArgs};
use super::machines::{self, MachinesArgs};

/// What is compared.
#[derive(Debug, Subcommand)]
pub(crate) enum CompareCommand {
    /// The value of forecasts of holes, beside BFTrainer's policy and an oracle
    Forecast(ForecastTableArgs),
    /// What it is worth to know where nodes are
    Distance(DistanceArgs),
    /// The value of mixing two kinds of nodes, beside one kind each
    Kinds(KindsArgs),
    /// Machines that Lacuna was not built on, from their first hour on, beside simple rules and what
    /// centres run today
    Machines(MachinesArgs),
    /// Plans by learning per second, beside scaling efficiency with the user's batch
    Goodput(GoodputArgs),
}

/// Runs `compare`.
///
/// # Errors
/// The trace is missing, a file cannot be written, or a replay failed.
pub(crate) fn run(command: &CompareCommand) -> Result<()> {
    match command {
        CompareCommand::Forecast(args) => forecast::run(args),
        CompareCommand::Distance(args) => distance::run(args),
        CompareCommand::Kinds(args) => kinds::run(args),
        CompareCommand::Machines(args) => machines::run(args),
        CompareCommand::Goodput(args) => goodput::run(args),
    }
}
