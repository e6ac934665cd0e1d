//! The arguments of `bftrainer`, and the command itself.

use std::path::PathBuf;

use clap::Args;

use lacuna_cli::error::{CliError, Result};
use lacuna_cli::output::JsonArg;
use lacuna_lab::runs::{Runner, SUMMIT, default_jobs, program, seeds, seeds_note};

use super::figure::{Compared, PaperRow};
use super::published::{GROUPS, rows};
use super::table::findings;

/// Arguments of `bftrainer`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bftrainer
  bftrainer --data ~/recordings --out table.md
  bftrainer --only horizon --only costs --json

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
    #[arg(long, value_name = "GROUP", value_parser = GROUPS.map(|(name, _)| name))]
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
    #[command(flatten)]
    json: JsonArg,
}

/// Runs `bftrainer`.
///
/// # Errors
/// The trace is missing, a file cannot be written, a row failed or does not agree.
pub(crate) fn run(args: &BftrainerArgs) -> Result<()> {
    let folder = SUMMIT.find(args.data.as_deref())?;
    let wanted = |row: &PaperRow| {
        (args.only.is_empty() || args.only.iter().any(|only| only == row.group))
            && (row.quick || !args.quick)
    };
    let chosen: Vec<PaperRow> = rows(&folder).into_iter().filter(wanted).collect();
    let count = args.seeds.unwrap_or(if args.quick { 1 } else { 5 });
    let seeds = seeds(args.seed, count);
    let seeds_note = seeds_note(&seeds);
    let runner = Runner {
        program: program()?,
        jobs: args.jobs.map_or_else(default_jobs, usize::from),
        seeds,
        kept: None,
    };
    let to_run = chosen.iter().map(PaperRow::to_run).collect();
    let done = runner.run_with_bar(to_run, args.json.json)?;
    let compared = chosen.into_iter().zip(done);
    let compared: Vec<Compared> = compared.map(|(row, done)| Compared { row, done }).collect();
    findings(&compared, &seeds_note).print(args.json.json, args.out.as_deref())?;
    if compared.iter().any(|row| row.agrees() == Some(false)) {
        return Err(CliError::already_printed());
    }
    Ok(())
}
