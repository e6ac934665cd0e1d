//! The command line of `lacuna`: its commands and exit codes.

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::commands::{
    audit, check, complete, config, controls, events, explain, forecast, help, holes, keys, logs,
    nodes, observe, place, plan, recommend, renew, report, stalls, submit, top, trainers, wait,
};
use crate::error::{CliError, Result};
use crate::{demo, entry, replay, up};

const AFTER: &str = "\
Examples:
  lacuna up                                    everything on this machine
  lacuna submit trainer.toml                   queue a trainer
  lacuna trainers --watch                      watch their progress
  lacuna wait hpo-12 && ./evaluate.sh          go on when its work is done
  lacuna explain hpo-12                        why it has these nodes, or none
  lacuna replay sacct.log --report out.html    what idle nodes would have trained
  lacuna demo                                  the whole system for two minutes

Exit codes:
  0   done
  1   refused, not found or failed (every error under --json)
  2   the command line is wrong
  64  a configuration is wrong
  69  NATS or a service does not answer
  70  a fault of lacuna's own
  124 the awaited state was not reached in time (lacuna wait)
  130 ended by Ctrl-C

Error codes have pages: lacuna help L0001";

/// Trains neural networks in the holes of a supercomputer's schedule.
#[derive(Debug, Parser)]
#[command(
    name = "lacuna",
    version,
    after_help = AFTER,
    disable_help_subcommand = true,
    max_term_width = 100
)]
pub struct Cli {
    /// The command to run.
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start all services and a nats-server on this machine
    Up(up::UpArgs),
    /// Queue trainers
    Submit(submit::SubmitArgs),
    /// Wait until trainers have ended, or train
    Wait(wait::WaitArgs),
    /// List trainers
    Trainers(trainers::TrainersArgs),
    /// List nodes
    Nodes(nodes::NodesArgs),
    /// Show the newest plan
    Plan(plan::PlanArgs),
    /// Explain the state of a trainer or a node
    Explain(explain::ExplainArgs),
    /// Sign again for trainers whose tickets end
    Renew(renew::RenewArgs),
    /// End a trainer
    Cancel(trainers::CancelArgs),
    /// Show the last lines of a trainer's output, or follow it
    Logs(logs::LogsArgs),
    /// Publish events of the main scheduler, or watch them
    #[command(subcommand)]
    Events(events::EventsCommand),
    /// Watch the cluster live
    #[command(visible_alias = "watch")]
    Top(top::TopArgs),
    /// Run any scheduler's log in virtual time, without NATS
    #[command(after_help = replay::EXAMPLES, after_long_help = replay::MORE)]
    Replay(Box<replay::ReplayArgs>),
    /// Report how much idle time the nodes of a machine have
    Holes(holes::HolesArgs),
    /// Learn from the past of a machine how long its nodes stay idle
    #[command(subcommand)]
    Forecast(forecast::ForecastCommand),
    /// Put the layers of a network on kinds of node, at the least cost
    Place(place::PlaceArgs),
    /// Say where the steps of a PyTorch program spend their time, without changing it
    Stalls(stalls::StallsArgs),
    /// Find the cheapest resource that ends a program's work in time
    Recommend(recommend::RecommendArgs),
    /// Check whether a scheduler lets pilots run without harm, or a file of where nodes are
    #[command(subcommand)]
    Check(check::CheckCommand),
    /// Report what was gained and what batch jobs waited, since Lacuna first ran
    Report(report::ReportArgs),
    /// Report what pilots would have harvested, before any is started
    #[command(subcommand)]
    Observe(observe::ObserveCommand),
    /// Stop all pilots, let them start again, or sign for some of your own
    #[command(subcommand)]
    Pilots(observe::PilotsCommand),
    /// Use fewer nodes, or none, until resumed
    Pause(controls::PauseArgs),
    /// Lift the pause
    Resume(controls::ResumeArgs),
    /// Give nodes back and stop using them
    Drain(controls::DrainArgs),
    /// Allow drained nodes to be used again
    Undrain(controls::UndrainArgs),
    /// Show or change the limits on the use of nodes
    Limits(controls::LimitsArgs),
    /// Show requests: who made them, and their outcome
    Audit(audit::AuditArgs),
    /// Check, print or explain configuration
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Make keys, which say who may use the bus, and certificates of nats-server
    #[command(subcommand)]
    Keys(keys::KeysCommand),
    /// Show the whole system at work: start it, replay a machine, report, stop
    Demo(demo::DemoArgs),
    /// Write completions for a shell
    Completions(help::CompletionsArgs),
    /// Explain an error code or a command
    Help(help::HelpArgs),
    /// Print the names that complete the last word of a command line
    #[command(hide = true)]
    Complete(complete::CompleteArgs),
    /// Become a program that ends when its parent does
    #[command(hide = true)]
    ChildOf(up::ChildOfArgs),
}

impl Command {
    fn run(self) -> Result<()> {
        match self {
            Self::Replay(args) => replay::run(&args.request()?),
            Self::Holes(args) => holes::run(&args),
            Self::Forecast(command) => forecast::run(&command),
            Self::Place(args) => place::run(&args),
            Self::Stalls(args) => stalls::run(&args),
            Self::Recommend(args) => recommend::run(&args),
            Self::Config(args) => config::run(&args),
            Self::Keys(command) => keys::run(&command),
            Self::Completions(args) => help::completions(&args, definition()),
            Self::Help(args) => help::help(&args, definition()),
            Self::ChildOf(args) => up::child_of(&args),
            other => on_the_bus(other),
        }
    }
}

fn on_the_bus(command: Command) -> Result<()> {
    entry::wait_for(async {
        match command {
            Command::Up(args) => up::run(args).await,
            Command::Submit(args) => submit::run(args).await,
            Command::Renew(args) => renew::run(args).await,
            Command::Wait(args) => wait::run(args).await,
            Command::Trainers(args) => trainers::run(args).await,
            Command::Cancel(args) => trainers::cancel(args).await,
            Command::Logs(args) => logs::run(args).await,
            Command::Nodes(args) => nodes::run(args).await,
            Command::Plan(args) => plan::run(args).await,
            Command::Explain(args) => explain::run(args).await,
            Command::Events(args) => events::run(args).await,
            Command::Top(args) => top::run(args).await,
            Command::Demo(args) => demo::run(args).await,
            Command::Check(command) => up::until_stopped(check::run(command)).await,
            Command::Report(args) => report::run(args).await,
            Command::Observe(command) => observe::run(command).await,
            Command::Pilots(command) => observe::pilots(command).await,
            Command::Pause(args) => controls::pause(args).await,
            Command::Resume(args) => controls::resume(args).await,
            Command::Drain(args) => controls::drain(args).await,
            Command::Undrain(args) => controls::undrain(args).await,
            Command::Limits(args) => controls::limits(args).await,
            Command::Complete(args) => complete::run(args, &definition()).await,
            Command::Audit(args) => audit::run(args).await,
            _ => Err(CliError::failed("this command does not use the bus")),
        }
    })
}

/// Parses the arguments, runs the command and reports an error in the requested form.
#[must_use]
pub fn main() -> ExitCode {
    entry::main(definition(), |cli: Cli| cli.command.run())
}

/// The command line as clap knows it, for parsing, help and completions.
#[must_use]
pub(crate) fn definition() -> clap::Command {
    help::grouped(Cli::command())
        .mut_subcommand("replay", |replay| help::shortened(replay, replay::USUAL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_valid_and_every_command_has_examples() {
        definition().debug_assert();
        assert_eq!(entry::without_examples(&definition()), [""; 0]);
    }

    #[test]
    fn the_commands_of_the_guide_parse() {
        for line in [
            "lacuna up --data-dir /tmp/x --nats-port 4222",
            "lacuna submit --test-only --json a.toml",
            "lacuna trainers --all --watch",
            "lacuna logs -f hpo-1 -n 5",
            "lacuna wait hpo-1 hpo-2 --for completed --timeout 2h --any --json",
            "lacuna events publish node.idle a01n01",
            "lacuna events publish node.wanted a01n01 --deadline 2026-01-31T12:00:00Z",
            "lacuna events tail",
            "lacuna explain hpo-1 --json",
            "lacuna demo --wall 20s --rate 600",
            "lacuna help L0007",
            "lacuna watch",
            "lacuna check slurm --config slurm.conf --partition filler --json",
            "lacuna check flux --answers queues.txt plugins.txt config.json --partition batch",
            "lacuna check topology nodes.json --keys switch,cabinet --json",
            "lacuna observe report --since 24h",
            "lacuna report --json",
            "lacuna place ctr.json --rate 500000 --limit cpu=40 --limit gpu=none --json",
            "lacuna stalls --save a.jsonl -- torchrun --nproc-per-node 2 train.py --json",
            "lacuna stalls a.jsonl b.jsonl --json",
            "lacuna recommend a.jsonl --prices p.toml --steps 2e4 --within 12h --margin 0.1",
            "lacuna pilots stop",
            "lacuna pause --now --for 2h",
            "lacuna drain a[01-16] b01 --reason fans",
            "lacuna limits",
            "lacuna limits set --max-nodes none --only a*",
            "lacuna limits add-window day --days mon-fri --from 08:00 --to 18:00 --no-growth",
            "lacuna limits remove-window day",
            "lacuna audit --since 24h --refused",
            "lacuna completions bash",
            "lacuna complete -- lacuna logs --lines 5 --",
        ] {
            assert!(Cli::try_parse_from(line.split(' ')).is_ok(), "{line}");
        }
        for line in [
            "lacuna",
            "lacuna no-such",
            "lacuna bench bus",
            "lacuna demo --wall 20",
            "lacuna submit",
            "lacuna logs -f hpo-1 --json",
            "lacuna wait",
            "lacuna wait hpo-1 --for training",
            "lacuna pause --now --max-nodes 3",
            "lacuna place ctr.json --rate 0",
            "lacuna place ctr.json --limit cpu",
            "lacuna stalls",
            "lacuna stalls a.jsonl -- torchrun",
            "lacuna limits add-window day --from 08:00 --to 18:00",
        ] {
            assert!(Cli::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
    }
}
