//! The arguments of `lacuna-lab reproduce`, and the command itself.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use lacuna_cli::error::{CliError, Result, file_error};
use lacuna_cli::output::{JsonArg, print, print_json};

use super::dally::{self, DallyArgs};
use super::data::SUMMIT;
use super::distance::{self, DistanceArgs};
use super::forecast::{self, ForecastTableArgs};
use super::goodput::{self, GoodputArgs};
use super::heterps::{self, HeterpsArgs};
use super::kinds::{self, KindsArgs};
use super::machines::{self, MachinesArgs};
use super::page::page;
use super::parcae::{self, ParcaeArgs};
use super::published::{GROUPS, rows};
use super::row::Row;
use super::run::{Runner, default_jobs, program, seeds, seeds_note};
use super::stash::{self, StashArgs};
use super::table;

/// The evaluation to repeat.
#[derive(Debug, Subcommand)]
pub(crate) enum ReproduceCommand {
    /// The evaluation of BFTrainer (arXiv 2106.12091)
    Bftrainer(BftrainerArgs),
    /// The value of forecasts of holes, beside BFTrainer's policy and an oracle
    Forecast(ForecastTableArgs),
    /// The value of knowing where nodes are, beside first fit by name and a bound
    Distance(DistanceArgs),
    /// Dally, Tiresias and Gandiva on a cluster of one's own (arXiv 2401.16492), beside ours
    Dally(DallyArgs),
    /// The schedulers of HeterPS (arXiv 2111.10635) for layers on kinds of node, beside the optimum
    Heterps(HeterpsArgs),
    /// The value of mixing two kinds of nodes, beside one kind each
    Kinds(KindsArgs),
    /// Machines that Lacuna was not built on, from their first hour on, beside simple rules and what
    /// centres run today
    Machines(MachinesArgs),
    /// The plans of Parcae (NSDI'24) for spot instances, beside ours
    Parcae(ParcaeArgs),
    /// Plans by learning per second, beside scaling efficiency with the user's batch
    Goodput(GoodputArgs),
    /// The method, instances and prices of Stash (arXiv 2208.14344), beside the replay of one run
    Stash(StashArgs),
}

/// Arguments of `reproduce bftrainer`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna-lab reproduce bftrainer
  lacuna-lab reproduce bftrainer --data ~/recordings --out table.md --report table.html
  lacuna-lab reproduce bftrainer --only horizon --only costs --json

Each row is a `lacuna replay` of the paper's trace, in a process of its own; --json prints its
command. The model leaves open which of several equal nodes, or equally good sizes, are chosen.
They are drawn by seed, so the median of several seeds is shown. The table is Markdown. The exit
code is 1 if a row failed, or does not agree with the published figures (hours within 1 %,
efficiency within .01).")]
pub(crate) struct BftrainerArgs {
    /// The folder of recorded data [default: LACUNA_DATA, else ../shared/data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Number of rows at a time [default: the cores of this machine]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Run only one row of each group
    #[arg(long)]
    quick: bool,
    /// Only this group of rows; may be repeated
    #[arg(long, value_name = "GROUP", value_parser = group_names())]
    only: Vec<String>,
    /// First seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Number of seeds of each row; the median counts [default: 5; with --quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    seeds: Option<u16>,
    /// Write the table (Markdown) to a file instead of printing it
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write the table as a self-contained HTML page with plots
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    #[command(flatten)]
    json: JsonArg,
}

fn group_names() -> Vec<&'static str> {
    GROUPS.iter().map(|group| group.name).collect()
}

/// Runs `reproduce`.
///
/// # Errors
/// The trace is missing, a file cannot be written, a row failed or does not agree.
pub(crate) fn run(command: &ReproduceCommand) -> Result<()> {
    match command {
        ReproduceCommand::Bftrainer(args) => bftrainer(args),
        ReproduceCommand::Forecast(args) => forecast::run(args),
        ReproduceCommand::Distance(args) => distance::run(args),
        ReproduceCommand::Dally(args) => dally::run(args),
        ReproduceCommand::Heterps(args) => heterps::run(args),
        ReproduceCommand::Kinds(args) => kinds::run(args),
        ReproduceCommand::Parcae(args) => parcae::run(args),
        ReproduceCommand::Machines(args) => machines::run(args),
        ReproduceCommand::Goodput(args) => goodput::run(args),
        ReproduceCommand::Stash(args) => stash::run(args),
    }
}

fn bftrainer(args: &BftrainerArgs) -> Result<()> {
    let variable = std::env::var_os("LACUNA_DATA").map(PathBuf::from);
    let folder = SUMMIT.find(args.data.as_deref(), variable)?;
    let wanted = |row: &Row| {
        (args.only.is_empty() || args.only.iter().any(|only| only == row.group))
            && (row.quick || !args.quick)
    };
    let chosen: Vec<Row> = rows(&folder).into_iter().filter(wanted).collect();
    let count = args.seeds.unwrap_or(if args.quick { 1 } else { 5 });
    let seeds = seeds(args.seed, count);
    let seeds_note = seeds_note(&seeds);
    let runner = Runner {
        program: program()?,
        jobs: args.jobs.map_or_else(default_jobs, usize::from),
        seeds,
        kept: None,
    };
    let done = runner.run_with_bar(chosen, args.json.json)?;
    let text = table::markdown(&done, &seeds_note);
    if let Some(path) = &args.out {
        std::fs::write(path, &text).map_err(|e| file_error("write the table to", path, &e))?;
    }
    if let Some(path) = &args.report {
        std::fs::write(path, page(&done, &seeds_note))
            .map_err(|e| file_error("write the report to", path, &e))?;
    }
    match (args.json.json, &args.out) {
        (true, _) => print_json(&table::json(&done))?,
        (false, Some(path)) => {
            print(&format!("{}\n{}", table::verdict(&done), path.display()))?;
        }
        (false, None) => print(&text)?,
    }
    if done.iter().any(|done| done.agrees() == Some(false)) {
        return Err(CliError::already_printed());
    }
    Ok(())
}
