//! `lacuna-lab bench solve`: the exact dynamic program, and HiGHS over counts
//! on the same instances. Each solve has a child process, which is killed if it hangs.

mod child;
mod show;

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use lacuna_cli::error::{CliError, Result, file_error};
use lacuna_cli::output::{self, JsonArg, parse_span, progress_bar};
use lacuna_model::Span;
use lacuna_planner::file::{self, Saved};
use lacuna_planner::instance::{self, Network, SIZES, Size, scarce};

use super::data;
use crate::solve::Solver;

/// Arguments of `bench solve`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna-lab bench solve
  lacuna-lab bench solve --instances 10x200,35x4734 --solvers dp,highs
  lacuna-lab bench solve --seed 7 --time-limit 10s --json

The instances are made from the seed. The pool is scarce: trainers could use half as many nodes
again as there are, and 95 % of it is held. Trainers take turns through the seven networks of the
paper, as recorded, or through synthetic ones if their file is missing. highs has no short cuts.
Times are those of the solve with building its program, measured in the child. A child that has
not ended ten seconds after the time limit is killed and reported as such.")]
pub(crate) struct SolveBenchArgs {
    /// Sizes, TRAINERSxNODES
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    instances: Vec<Size>,
    /// Names of the solvers
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_enum)]
    solvers: Vec<Solver>,
    /// Time limit of a solve
    #[arg(long, value_name = "SPAN", default_value = "30s", value_parser = parse_span)]
    time_limit: Span,
    /// Seed of the instances
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of solves of dp from scratch for each instance; its time is the median
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    repeat: u32,
    /// Take the networks from this list of trainers (JSON lines, plain or gzip)
    #[arg(long, value_name = "FILE")]
    trainers: Option<PathBuf>,
    #[command(flatten)]
    json: JsonArg,
}

/// The result of one solve; `--json` prints these keys.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Row {
    /// Size of the instance.
    pub(crate) instance: String,
    /// The solver.
    pub(crate) solver: &'static str,
    /// Time of the solve; of a killed child, its lifetime.
    pub(crate) seconds: f64,
    /// Objective, if there is an answer.
    pub(crate) objective: Option<f64>,
    /// Relative gap, if known.
    pub(crate) gap: Option<f64>,
    /// `optimal`, `feasible`, `no-incumbent`, `infeasible`, `failed` or `killed`.
    pub(crate) status: String,
}

/// Number of networks taken from a list of trainers.
const NETWORKS: usize = 7;

/// The solvers that run.
fn solvers(args: &SolveBenchArgs) -> impl Iterator<Item = Solver> {
    let wanted = |solver: &Solver| args.solvers.is_empty() || args.solvers.contains(solver);
    [Solver::Dp, Solver::Highs].into_iter().filter(wanted)
}

/// The networks, and their source in words.
fn networks(args: &SolveBenchArgs) -> Result<(Vec<Network>, String)> {
    let recorded = || data::file("summit-2021-02/mixed-1001-throughput.jsonl.gz");
    let Some(path) = args.trainers.clone().or_else(recorded) else {
        let synthetic = instance::networks(args.seed);
        let count = synthetic.len();
        let source = format!("{count} synthetic networks (no recorded ones found)");
        return Ok((synthetic, source));
    };
    let list = lacuna_trainer_file::read(&path, lacuna_trainer_file::Purpose::Replay);
    let trainers = list.map_err(|e| CliError::failed(e.to_string()))?.trainers;
    let mut networks: Vec<Network> = Vec::new();
    for trainer in trainers {
        if networks
            .iter()
            .all(|known| known.curve != trainer.throughput)
        {
            networks.push(Network {
                curve: trainer.throughput,
                up_s: trainer.rescale.up_s,
                down_s: trainer.rescale.down_s,
            });
        }
        if networks.len() == NETWORKS {
            break;
        }
    }
    let source = format!("{} networks of {}", networks.len(), path.display());
    Ok((networks, source))
}

/// Writes the instance to a file in the folder.
fn save(folder: &Path, size: Size, networks: &[Network], seed: u64) -> Result<PathBuf> {
    let mut saved = Saved::new(scarce(size, networks, seed));
    saved.note = Some(format!("scarce instance {size}, seed {seed}"));
    let text = file::write(&saved).map_err(|e| CliError::failed(format!("{size}: {e}")))?;
    let path = folder.join(format!("{size}.json"));
    std::fs::write(&path, text).map_err(|e| file_error("write", &path, &e))?;
    Ok(path)
}

/// Runs `bench solve`.
///
/// # Errors
/// A file cannot be read or written, or a child cannot be started.
pub(crate) async fn run(args: &SolveBenchArgs) -> Result<()> {
    let (networks, source) = networks(args)?;
    let sizes = if args.instances.is_empty() {
        SIZES.to_vec()
    } else {
        args.instances.clone()
    };
    let folder = tempfile::tempdir()
        .map_err(|e| CliError::failed(format!("cannot make a temporary folder: {e}")))?;
    let plan: Vec<(Size, Solver)> = sizes
        .iter()
        .flat_map(|&size| solvers(args).map(move |s| (size, s)))
        .collect();
    let template = "{msg:28} {wide_bar} {pos}/{len}  {elapsed}";
    let bar = progress_bar(args.json.json, plan.len() as u64, template);
    let mut rows = Vec::with_capacity(plan.len());
    let mut saved: Option<(Size, PathBuf)> = None;
    for (size, solver) in plan {
        bar.set_message(format!("{size} {}", solver.name()));
        let path = match &saved {
            Some((known, path)) if *known == size => path.clone(),
            _ => save(folder.path(), size, &networks, args.seed)?,
        };
        saved = Some((size, path.clone()));
        rows.push(child::solve(args, size, solver, &path).await?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    if args.json.json {
        return output::print_json(&rows);
    }
    let heading = format!("seed {}, {source}", args.seed);
    output::print(&show::table(&heading, &rows))
}
