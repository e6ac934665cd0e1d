//! The command line of `lacuna-lab`.

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use lacuna_cli::entry;
use lacuna_cli::error::Result;

use crate::{bench, compare, forecast, generate, play, replay, results, solve};

const AFTER: &str = "\
Examples:
  lacuna-lab bench bus                                   latencies, bursts and a steady load
  lacuna-lab compare forecast --quick                    what forecasts bring, beside BFTrainer
  lacuna-lab results --list                              the published tables
  lacuna-lab forecast eval sacct.log --train-until 50%   how well holes are forecast
  lacuna-lab generate --nodes 1024 --out machine.csv.gz  a machine, if there is no log

Exit codes are those of `lacuna`; `lacuna help` has the pages of error codes. Services and `lacuna`
itself are looked for beside this program and in PATH.";

/// Measures Lacuna, and makes the problems and machines to measure it with.
#[derive(Debug, Parser)]
#[command(name = "lacuna-lab", version, after_help = AFTER, max_term_width = 100)]
struct Lab {
    /// The command to run.
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure the speed of parts of Lacuna
    #[command(subcommand)]
    Bench(bench::BenchCommand),
    /// Compare Lacuna with other rules and with bounds, on recorded machines
    #[command(subcommand)]
    Compare(compare::CompareCommand),
    /// Make the published tables of RESULTS.md again
    Results(results::ResultsArgs),
    /// Evaluate forecasts of holes
    #[command(subcommand)]
    Forecast(Box<forecast::ForecastCommand>),
    /// Run a log in virtual time, as `lacuna replay` does, with the switches of experiments
    Replay(Box<replay::LabReplayArgs>),
    /// Solve a saved allocation problem
    Solve(solve::SolveArgs),
    /// Generate the trace of a machine
    Generate(generate::GenerateArgs),
    /// Simulate a machine or researchers for a running cluster
    #[command(subcommand)]
    Play(play::PlayCommand),
}

impl Lab {
    fn run(self) -> Result<()> {
        match self.command {
            Command::Bench(command) => entry::wait_for(bench::run(command)),
            Command::Compare(command) => compare::run(&command),
            Command::Results(args) => results::run(&args, &results::OWN),
            Command::Forecast(command) => forecast::run(&command),
            Command::Replay(args) => replay::run(&args),
            Command::Solve(args) => solve::run(&args),
            Command::Generate(args) => generate::run(&args),
            Command::Play(command) => entry::wait_for(play::run(command)),
        }
    }
}

/// The command line.
#[cfg(test)]
pub(crate) fn definition() -> clap::Command {
    Lab::command()
}

/// Parses the arguments, runs the command and reports an error in the requested form.
#[must_use]
pub fn main() -> ExitCode {
    entry::main(Lab::command(), Lab::run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_valid_and_every_command_has_examples() {
        Lab::command().debug_assert();
        assert_eq!(entry::without_examples(&Lab::command()), [""; 0]);
    }

    #[test]
    fn the_commands_of_the_guide_parse() {
        for line in [
            "lacuna-lab bench bus --seconds 5",
            "lacuna-lab forecast eval a.swf --train-until 50% --freeze --predictor age",
            "lacuna-lab replay holes.csv --policy milp --verify --leave-out-idle-above none",
            "lacuna-lab results theta forecast",
            "lacuna-lab compare forecast --quick",
            "lacuna-lab results --check",
            "lacuna-lab play machine --nodes 128 --rate 60",
            "lacuna-lab play trainers --at-a-time 8 --rate 60",
        ] {
            assert!(Lab::try_parse_from(line.split(' ')).is_ok(), "{line}");
        }
        for line in [
            "lacuna-lab",
            "lacuna-lab up",
            "lacuna-lab forecast eval a.swf --freeze",
        ] {
            assert!(Lab::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
    }
}
