//! `lacuna-lab bench`: measurements on this machine, with real processes.

mod bus;
mod data;
mod forecast_plan;
mod kinds;
mod parse;
mod profile;
mod replay;
mod solve;

use clap::Subcommand;

use lacuna_cli::error::Result;

/// The benchmarks.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Latency from event to command, bursts, a thousand events a second, memory; beside plain NATS
    Bus(bus::BusArgs),
    /// Time to solve the allocation problem: dynamic program, HiGHS, and the published formulation
    Solve(solve::SolveBenchArgs),
    /// Time of decisions by forecasts: dynamic program, and HiGHS over patterns
    ForecastPlan(forecast_plan::ForecastPlanArgs),
    /// Time of a decision over two kinds of nodes, beside one kind
    Kinds(kinds::KindsBenchArgs),
    /// Speed of replays, in events a second
    Replay(replay::ReplayBenchArgs),
    /// Speed of reading logs, in MB a second
    Parse(parse::ParseBenchArgs),
    /// Scaling curves measured while training: their error, and the cost of measuring
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
        BenchCommand::Kinds(args) => kinds::run(&args),
        BenchCommand::Replay(args) => replay::run(&args),
        BenchCommand::Parse(args) => parse::run(&args),
        BenchCommand::Profile(args) => profile::run(&args),
    }
}
