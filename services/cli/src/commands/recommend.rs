//! `lacuna recommend`: the cheapest resource that ends a program's work in time.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use lacuna_model::Span;
use lacuna_stalls::{Candidate, Site, Steps, Work, answer, recommend};

use crate::commands::stalls::{readings, refused};
use crate::error::{CliError, Exit, Result, file_error};
use crate::output::{JsonArg, print, print_json};
use crate::table::{Side, render};

/// Candidates that are shown.
const SHOWN: usize = 12;

/// Arguments of `recommend`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna stalls --save run.jsonl -- torchrun --nproc-per-node 2 train.py
  lacuna recommend run.jsonl --prices prices.toml --steps 20000 --within 12h
  lacuna recommend run.jsonl --beside one-node.jsonl --prices prices.toml --steps 20000 --within 12h

The readings are of one run, in which several members train. The prices (TOML):
  start = 60                     # seconds until training begins
  fixed = 0.1                    # of computing, what follows neither samples nor device (default 0)
  [[kind]]
  name = \"v100\"
  price = 3.06                   # of a node and hour, in any unit
  nodes = [1, 2, 4, 8]
  workers = [1, 2, 4]            # of each loader
  speed = 2.5                    # of the device, over that of the run (default 1)
  link = 1.0                     # bandwidth of near nodes, over that of the run (default 1)
  spread = 0.4                   # of nodes far apart (default: there are none)

A node has one member. The batch of a step stays as it is, so more nodes have smaller shares. Times
of a share are taken as proportional to its samples, but for `fixed`, which --beside finds from a
short run on another number of nodes. The exit code is 1 if nothing is in time: the fastest is
shown.")]
pub(crate) struct RecommendArgs {
    /// Readings of `lacuna stalls --save`, the files of all nodes
    #[arg(value_name = "READINGS", required = true)]
    readings: Vec<PathBuf>,
    /// Readings of a short run with the same batch on another number of nodes, the files of all: they
    /// tell which part of computing follows the samples
    #[arg(long, value_name = "READINGS")]
    beside: Vec<PathBuf>,
    /// What the site offers, and its prices (TOML)
    #[arg(long, value_name = "FILE")]
    prices: PathBuf,
    /// Steps that are left
    #[arg(long, value_name = "N")]
    steps: f64,
    /// The time within which they are to be done, as in 12h
    #[arg(long, value_name = "SPAN")]
    within: Span,
    /// By which share a step may take longer than it is replayed
    #[arg(long, value_name = "SHARE", default_value_t = 0.05)]
    margin: f64,
    #[command(flatten)]
    json: JsonArg,
}

/// Runs `recommend`.
///
/// # Errors
/// `L0011` if a file cannot be read, or steps cannot be replayed as they were measured; nothing is in
/// time.
pub(crate) fn run(args: &RecommendArgs) -> Result<()> {
    let path = &args.prices;
    let text = std::fs::read_to_string(path).map_err(|e| file_error("read", path, &e))?;
    let mut site: Site = toml::from_str(&text).map_err(|e| {
        let text = format!("{}: {e}", path.display());
        CliError::new("L0011", Exit::Failed, text.trim_end())
    })?;
    let trace = readings(&args.readings)?;
    let steps = Steps::read(&trace).map_err(refused)?;
    if !answer(&steps).map_err(refused)?.trusted {
        return Err(CliError::failed(
            "the replayed step is not the measured one, so nothing can be recommended",
        )
        .remedy("`lacuna stalls READINGS` shows both"));
    }
    if !args.beside.is_empty() {
        let other = Steps::read(&readings(&args.beside)?).map_err(refused)?;
        let share = f64::from(steps.members()) / f64::from(other.members());
        site.fixed = steps.fixed_part(&other, share).map_err(refused)?;
    }
    let work = Work {
        steps: args.steps,
        budget: args.within.as_secs_f64(),
        margin: args.margin,
    };
    let all = recommend(&steps, &site, &work).map_err(refused)?;
    let is_in_time = all.first().is_some_and(|one| one.is_in_time);
    if args.json.json {
        print_json(&json!({ "is_in_time": is_in_time, "candidates": all }))?;
    } else {
        print(&words(&all, &work))?;
    }
    match is_in_time {
        true => Ok(()),
        false => Err(CliError::already_printed()),
    }
}

fn words(all: &[Candidate], work: &Work) -> String {
    let hours = |seconds: f64| Span::from_secs_f64(seconds).to_string();
    let Some(first) = all.first() else {
        return String::new();
    };
    let what = format!(
        "{} {} {}{} with {} loader {} each",
        first.nodes,
        match first.nodes {
            1 => "node of",
            _ => "nodes of",
        },
        first.kind,
        match first.spread {
            true => ", far apart,",
            false => "",
        },
        first.workers,
        match first.workers {
            1 => "worker",
            _ => "workers",
        }
    );
    let (took, budget) = (hours(first.seconds), hours(work.budget));
    let said = if first.is_in_time {
        format!(
            "the cheapest in time is {what}: {took} of {budget}, {:.2}",
            first.cost
        )
    } else {
        format!("nothing is in time; the fastest is {what}: {took}, and {budget} are asked for")
    };
    let row = |one: &Candidate| {
        vec![
            one.kind.clone(),
            one.nodes.to_string(),
            if one.spread { "far" } else { "near" }.to_owned(),
            one.workers.to_string(),
            format!("{:.1} ms", 1e3 * one.step),
            hours(one.seconds),
            format!("{:.2}", one.cost),
            if one.is_in_time { "yes" } else { "no" }.to_owned(),
            one.limit
                .map_or("computing".to_owned(), |(cause, seconds)| {
                    let name = cause.name();
                    format!("{name}, {:.0} %", 100.0 * seconds / one.step)
                }),
        ]
    };
    let columns = [
        ("KIND", Side::Left),
        ("NODES", Side::Right),
        ("PLACED", Side::Left),
        ("WORKERS", Side::Right),
        ("STEP", Side::Right),
        ("TIME", Side::Right),
        ("COST", Side::Right),
        ("IN TIME", Side::Left),
        ("LIMITED BY", Side::Left),
    ];
    let table = render(
        &columns,
        &all.iter().take(SHOWN).map(row).collect::<Vec<_>>(),
    );
    let more = match all.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!("\n{more} more; all of them: --json"),
    };
    format!("{said}\n\n{table}{more}")
}
