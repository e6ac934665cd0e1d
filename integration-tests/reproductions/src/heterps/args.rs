//! The arguments of `heterps`, and the command itself.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;

use lacuna_cli::error::Result;
use lacuna_cli::output::JsonArg;
use lacuna_lab::runs::seeds;

use super::family::FAMILIES;
use super::study::{SCHEDULERS, Scheduler, Study};
use super::table::findings;

/// Arguments of `heterps`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  heterps
  heterps --kinds 2,16 --networks CTRDNN-16,MATCHNET-16 --json
  heterps --schedulers greedy,local,rl-lstm --seeds 5

Networks and kinds are made up after the paper's, by seed. Schedulers run one after another in one
thread, since their times are compared. The table is Markdown.")]
pub(crate) struct HeterpsArgs {
    /// Only these networks
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = networks())]
    networks: Vec<String>,
    /// Numbers of kinds
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [2, 4, 16, 64], value_parser = clap::value_parser!(u16).range(2..=256))]
    kinds: Vec<u16>,
    /// Only these schedulers beside the exact one
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = schedulers())]
    schedulers: Vec<String>,
    /// Number of seeds of searches and learners
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    seeds: u16,
    /// First seed; the further kinds are drawn by it too
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write the table (Markdown) to a file instead of printing it
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    json: JsonArg,
}

fn networks() -> PossibleValuesParser {
    PossibleValuesParser::new(FAMILIES.iter().map(|family| family.label))
}

fn schedulers() -> PossibleValuesParser {
    PossibleValuesParser::new(SCHEDULERS.iter().map(|scheduler| scheduler.name))
}

/// Runs `heterps`.
///
/// # Errors
/// A file cannot be written, or an instance cannot be placed.
pub(crate) fn run(args: &HeterpsArgs) -> Result<()> {
    let wanted = |list: &[String], name: &str| list.is_empty() || list.iter().any(|n| n == name);
    let families = FAMILIES.iter().filter(|f| wanted(&args.networks, f.label));
    let chosen = |scheduler: &&Scheduler| wanted(&args.schedulers, scheduler.name);
    let study = Study {
        families: families.copied().collect(),
        kinds: args.kinds.iter().copied().map(usize::from).collect(),
        schedulers: SCHEDULERS.iter().filter(chosen).copied().collect(),
        seeds: seeds(args.seed, args.seeds),
        kinds_seed: args.seed,
    };
    let results = study.run(args.json.json)?;
    findings(&results).print(args.json.json, args.out.as_deref())
}
