//! The command line of `lacuna-reproduce`.

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use lacuna_cli::entry;
use lacuna_cli::error::Result;
use lacuna_lab::results::{self, ResultsArgs};

use crate::bftrainer::{self, BftrainerArgs};
use crate::dally::{self, DallyArgs};
use crate::heterps::{self, HeterpsArgs};
use crate::parcae::{self, ParcaeArgs};
use crate::published::PUBLISHED;
use crate::stash::{self, StashArgs};

const AFTER: &str = "\
Examples:
  make reproduce ARGS='bftrainer --only horizon'    a published evaluation, row by row
  make reproduce ARGS=parcae                        published plans beside ours
  make reproduce ARGS='results --list'              the published tables

`lacuna` is looked for beside this program and in PATH.";

/// Repeats what other people have published, and shows it beside Lacuna.
#[derive(Debug, Parser)]
#[command(name = "lacuna-reproduce", version, after_help = AFTER, max_term_width = 100)]
struct Reproduce {
    /// The command to run.
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The evaluation of BFTrainer (arXiv 2106.12091)
    Bftrainer(BftrainerArgs),
    /// Dally, Tiresias and Gandiva on a cluster of one's own (arXiv 2401.16492)
    Dally(DallyArgs),
    /// The schedulers of HeterPS (arXiv 2111.10635) for layers on kinds of node, beside the optimum
    Heterps(HeterpsArgs),
    /// The plans of Parcae (NSDI'24) for spot instances, beside ours
    Parcae(ParcaeArgs),
    /// The method, instances and prices of Stash (arXiv 2208.14344), beside the replay of one run
    Stash(StashArgs),
    /// Make the published tables again
    Results(ResultsArgs),
}

impl Reproduce {
    fn run(self) -> Result<()> {
        match self.command {
            Command::Bftrainer(args) => bftrainer::run(&args),
            Command::Dally(args) => dally::run(&args),
            Command::Heterps(args) => heterps::run(&args),
            Command::Parcae(args) => parcae::run(&args),
            Command::Stash(args) => stash::run(&args),
            Command::Results(args) => results::run(&args, &PUBLISHED),
        }
    }
}

/// Parses the arguments, runs the command and reports an error in the requested form.
pub(crate) fn main() -> ExitCode {
    entry::main(Reproduce::command(), Reproduce::run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_valid_and_every_command_has_examples() {
        Reproduce::command().debug_assert();
        assert_eq!(entry::without_examples(&Reproduce::command()), [""; 0]);
    }
}
