//! `lacuna-lab forecast`: how long holes last, and how well that is known beforehand.

mod args;
mod eval;
mod output;
mod predictor;

use clap::Subcommand;

use lacuna_cli::error::Result;

/// What is asked of forecasts.
#[derive(Debug, Subcommand)]
pub(crate) enum ForecastCommand {
    /// Say how good forecasts of a log's holes would have been
    Eval(args::EvalArgs),
}

/// Runs `forecast`.
///
/// # Errors
/// As the command says.
pub(crate) fn run(command: &ForecastCommand) -> Result<()> {
    match command {
        ForecastCommand::Eval(args) => eval::run(args),
    }
}
