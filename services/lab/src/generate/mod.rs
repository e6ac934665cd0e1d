//! `lacuna-lab generate`: the trace of a synthetic machine.

mod swf;

use std::path::{Path, PathBuf};

use clap::Args;

use lacuna_batchsim::workload::{Workload, generated_machine, generated_trace};
use lacuna_cli::error::{CliError, Result};
use lacuna_cli::files::{write_holes, write_whole};
use lacuna_cli::log::Bar;
use lacuna_cli::output::{self, JsonArg, iso};
use lacuna_model::{PlannedStart, Timestamp};
use lacuna_trace::PlannedWriter;

/// Arguments of `generate`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna-lab generate --nodes 1024 --days 3 --out machine.csv.gz
  lacuna replay machine.csv.gz --trainers trainers.jsonl.gz
  lacuna-lab generate --out machine.csv --planned planned.csv
  lacuna-lab replay machine.csv --planned planned.csv --policy auto
  lacuna-lab generate --nodes 4096 --swf workload.swf.gz --jobs 100000
  lacuna replay workload.swf.gz

The batch workload is drawn from the model of Lublin and Feitelson (JPDC 63, 2003), calibrated
so that about 7 % of the machine stays idle, and run through first-come-first-served with EASY
backfill. The same seed gives the same machine. --swf writes the workload itself, before it is
scheduled, in Standard Workload Format; of any length, in constant memory.")]
pub(crate) struct GenerateArgs {
    /// Nodes of the machine
    #[arg(long, default_value_t = 1024)]
    nodes: u32,
    /// Days of the trace
    #[arg(long, default_value_t = 3)]
    days: u32,
    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Share of the machine that jobs are to use
    #[arg(long, value_name = "SHARE", default_value_t = 0.93, requires = "swf")]
    utilisation: f64,
    /// File of the hole list; compressed if its name ends in .gz
    #[arg(long, short, value_name = "FILE", required_unless_present = "swf")]
    out: Option<PathBuf>,
    /// File of the planned starts of its batch scheduler; compressed if its name ends in .gz
    #[arg(long, value_name = "FILE", requires = "out")]
    planned: Option<PathBuf>,
    /// Write the workload instead, in Standard Workload Format; compressed if the name ends in .gz
    #[arg(long, value_name = "FILE", conflicts_with = "out")]
    swf: Option<PathBuf>,
    /// Number of jobs of the workload [default: those of --days]
    #[arg(long, value_name = "N", requires = "swf")]
    jobs: Option<u64>,
    #[command(flatten)]
    json: JsonArg,
}

/// Writes planned starts as [`write_holes`] writes holes.
fn write_planned(path: &Path, planned: &[PlannedStart]) -> Result<()> {
    write_whole(path, |file, compression| {
        let mut writer = PlannedWriter::new(file, compression)?;
        planned.iter().try_for_each(|one| writer.write(one))?;
        writer.finish()
    })
}

/// Runs `generate`.
///
/// # Errors
/// The machine is invalid or the file cannot be written.
pub(crate) fn run(args: &GenerateArgs) -> Result<()> {
    match (&args.swf, &args.out) {
        (Some(path), _) => workload(args, path),
        (None, Some(path)) => machine(args, path),
        (None, None) => Err(CliError::failed("neither --out nor --swf is given")),
    }
}

fn workload(args: &GenerateArgs, path: &Path) -> Result<()> {
    let workload = Workload {
        nodes: args.nodes,
        days: args.days,
        seed: args.seed,
        utilisation: args.utilisation,
    };
    let mut bar = Bar::new(args.json.json);
    let written = swf::write(path, &workload, args.jobs, &mut bar)?;
    bar.done();
    let last = iso(Timestamp::from_unix(written.last_s));
    if args.json.json {
        return output::print_json(&serde_json::json!({
            "file": path,
            "jobs": written.jobs,
            "nodes": args.nodes,
            "last_submission": last,
            "seed": args.seed,
        }));
    }
    output::print(&format!(
        "{}: {} jobs for {} nodes, the last submitted at {last} (seed {})",
        path.display(),
        written.jobs,
        args.nodes,
        args.seed
    ))
}

fn machine(args: &GenerateArgs, path: &Path) -> Result<()> {
    let (nodes, days, seed) = (args.nodes, args.days, args.seed);
    let made = match &args.planned {
        Some(_) => generated_trace(nodes, days, seed),
        None => generated_machine(nodes, days, seed).map(|holes| (holes, Vec::new())),
    };
    let (holes, planned) = made.map_err(|e| CliError::failed(e.to_string()))?;
    write_holes(path, &holes)?;
    if let Some(path) = &args.planned {
        write_planned(path, &planned)?;
    }
    let idle: f64 = holes.iter().map(|h| h.length().as_secs_f64()).sum();
    let from = holes.iter().map(|h| h.from).min().unwrap_or_default();
    let until = holes.iter().map(|h| h.until).max().unwrap_or_default();
    let whole = until.since(from).as_secs_f64() * f64::from(args.nodes);
    let share = if whole > 0.0 { idle / whole } else { 0.0 };
    if args.json.json {
        return output::print_json(&serde_json::json!({
            "file": path,
            "holes": holes.len(),
            "planned_starts": args.planned.as_ref().map(|_| planned.len()),
            "from": iso(from),
            "until": iso(until),
            "idle_fraction": share,
            "seed": args.seed,
        }));
    }
    let beside = args.planned.as_ref().map_or_else(String::new, |path| {
        let path = path.display();
        format!("\n{path}: {} changes of planned starts", planned.len())
    });
    output::print(&format!(
        "{}: {} holes of {} nodes, {} to {}, {:.1}% idle (seed {}){beside}",
        path.display(),
        holes.len(),
        args.nodes,
        iso(from),
        iso(until),
        share * 100.0,
        args.seed
    ))
}
