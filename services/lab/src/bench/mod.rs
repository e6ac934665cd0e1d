//! `lacuna-lab bench`: measurements on this machine, with real processes.

mod bus;
mod data;
mod forecast_plan;
mod parse;
mod profile;
mod replay;
mod solve;

use clap::Subcommand;

use lacuna_cli::error::Result;

/// What to measure.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// From event to command, bursts, a thousand events a second, memory; beside plain NATS
    Bus(bus::BusArgs),
    /// The allocation problem: dynamic programme, HiGHS, and the published formulation
    Solve(solve::SolveBenchArgs),
    /// Decisions by forecasts: dynamic programme, and HiGHS over patterns
    ForecastPlan(forecast_plan::ForecastPlanArgs),
    /// Replays: events a second
    Replay(replay::ReplayBenchArgs),
    /// Reading logs: MB a second
    Parse(parse::ParseBenchArgs),
    /// Curves measured while training: their error, and what measuring costs
    Profile(profile::ProfileArgs),
}

/// Runs `bench`.
///
/// # Errors
/// A program is missing or a service does not answer.
pub(crate) async fn run(command: BenchCommand) -> Result<()> {
    match command {
        BenchCommand::Bus(args) => bus::run(args).await,
        BenchCommand::Solve(args) => solve::run(&args).await,
        BenchCommand::ForecastPlan(args) => forecast_plan::run(&args),
        BenchCommand::Replay(args) => replay::run(&args),
        BenchCommand::Parse(args) => parse::run(&args),
        BenchCommand::Profile(args) => profile::run(&args),
    }
}
