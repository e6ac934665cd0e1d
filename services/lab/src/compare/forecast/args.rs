//! The arguments of `lacuna-lab compare forecast`, and the command itself.

use std::path::PathBuf;

use clap::Args;

use lacuna_cli::error::{CliError, Result};
use lacuna_cli::output::JsonArg;

use super::case::{Case, Choice};
use super::column::{chosen, names};
use super::results::Results;
use super::table::findings;
use crate::runs::{Runner, SUMMIT, default_jobs, program, seeds, seeds_note};

/// Arguments of `compare forecast`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna-lab compare forecast
  lacuna-lab compare forecast --quick
  lacuna-lab compare forecast --nodes 4734 --costs 5,10 --columns bftrainer,forecast,clairvoyant
  lacuna-lab compare forecast --seeds 3 --out table.md
  lacuna-lab compare forecast --log theta.swf.gz -- --machine-nodes 4392
  lacuna-lab compare forecast --log sinfo.txt.gz --charge-starts -- --from 1647514797

Each cell is a `lacuna replay` in a process of its own; --json prints its command. Without --log,
the cells are of the recording of Summit. With --log, they are of any log that `lacuna replay`
takes, and the arguments after -- go to each replay. Look-ahead reveals the true ends of holes, and
clairvoyance all of them: both bound the value of better forecasts. --order none and the like switch
off one ingredient each. The table is Markdown. The exit code is 1 if a replay failed.")]
pub(crate) struct ForecastTableArgs {
    /// The folder of recorded data [default: LACUNA_DATA, else ../shared/data]
    #[arg(long, value_name = "DIR", conflicts_with = "log")]
    data: Option<PathBuf>,
    /// Any log, instead of the recording of Summit
    #[arg(long, value_name = "LOG")]
    log: Option<PathBuf>,
    /// The trainers of that log, repeated without end (JSON lines) [default: ShuffleNet on
    /// ImageNet]
    #[arg(long, value_name = "FILE", requires = "log")]
    trainers: Option<PathBuf>,
    /// Run one case only: 1,024 nodes, 10 trainers, costs x 5
    #[arg(long, conflicts_with_all = ["log", "nodes", "parallel", "costs"])]
    quick: bool,
    /// Only pools of the first N nodes
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with = "log", value_parser = clap::value_parser!(u32).range(1..))]
    nodes: Vec<u32>,
    /// Only this many trainers in parallel
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    parallel: Vec<u32>,
    /// Factors on the costs of trainers
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [1.0, 5.0, 10.0])]
    costs: Vec<f64>,
    /// Only these columns
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = names())]
    columns: Vec<String>,
    /// Charge trainers for starts from no nodes, in all columns
    #[arg(long)]
    charge_starts: bool,
    /// First seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Number of seeds of each cell; the median counts
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    seeds: u16,
    /// Number of replays at a time [default: the cores of this machine]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Write the table (Markdown) to a file instead of printing it
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    json: JsonArg,
    /// Further arguments of every `lacuna replay`
    #[arg(last = true, value_name = "REPLAY ARGUMENTS")]
    more: Vec<String>,
}

impl ForecastTableArgs {
    /// The cases.
    ///
    /// # Errors
    /// The trace is missing, or a factor is invalid.
    fn cases(&self) -> Result<Vec<Case>> {
        let bad = self.costs.iter().find(|c| !(c.is_finite() && **c >= 0.0));
        if let Some(bad) = bad {
            return Err(CliError::failed(format!(
                "--costs: {bad} is no factor on costs: expected a number from 0 on"
            )));
        }
        let mut choice = Choice {
            nodes: self.nodes.clone(),
            parallel: self.parallel.clone(),
            costs: self.costs.clone(),
            charge_starts: self.charge_starts,
            more: self.more.clone(),
        };
        if let Some(log) = &self.log {
            return Ok(choice.other_machine(log, self.trainers.as_ref()));
        }
        if self.quick {
            (choice.nodes, choice.parallel) = (vec![1024], vec![10]);
            choice.costs = vec![5.0];
        }
        let folder = SUMMIT.find(self.data.as_deref())?;
        let cases = choice.summit(&folder);
        if cases.is_empty() {
            return Err(CliError::failed(
                "no case is left: name both --nodes and --parallel for another pool",
            ));
        }
        Ok(cases)
    }
}

/// Runs `compare forecast`.
///
/// # Errors
/// The trace is missing, a file cannot be written, or a replay failed.
pub(in crate::compare) fn run(args: &ForecastTableArgs) -> Result<()> {
    let cases = args.cases()?;
    let columns = chosen(&args.columns, args.log.is_some(), args.charge_starts);
    let seeds = seeds(args.seed, args.seeds);
    let seeds_note = seeds_note(&seeds);
    let runner = Runner {
        program: program()?,
        jobs: args.jobs.map_or_else(default_jobs, usize::from),
        seeds,
        kept: None,
    };
    let of = |case: &Case| {
        columns
            .iter()
            .map(|column| case.row(column))
            .collect::<Vec<_>>()
    };
    let rows = cases.iter().flat_map(of).collect();
    let cells = runner.run_with_bar(rows, args.json.json)?;
    let results = Results {
        cases,
        columns,
        cells,
        seeds: seeds_note,
    };
    findings(&results).print(args.json.json, args.out.as_deref())?;
    match results.failures().next() {
        None => Ok(()),
        Some(_) => Err(CliError::already_printed()),
    }
}
