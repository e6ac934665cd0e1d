//! `lacuna-lab forecast`: the quality of forecasts of holes.

mod args;
mod eval;
mod output;
mod predictor;
mod prior;

use clap::Subcommand;

use lacuna_cli::error::Result;

/// The actions on forecasts.
#[derive(Debug, Subcommand)]
pub(crate) enum ForecastCommand {
    /// Evaluate forecasts of a log's holes
    Eval(args::EvalArgs),
    /// Print what logs show of their machines, for the prior of a new one
    Prior(prior::PriorArgs),
}

/// Runs `forecast`.
///
/// # Errors
/// The error of the command.
pub(crate) fn run(command: &ForecastCommand) -> Result<()> {
    match command {
        ForecastCommand::Eval(args) => eval::run(args),
        ForecastCommand::Prior(args) => prior::run(args),
    }
}
