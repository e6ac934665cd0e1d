//! `lacuna-lab bench replay`: the speed of a replay in events a second, and the gain of a planner
//! that keeps its work between events.

mod cases;
mod walk;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, FromArgMatches as _};

use lacuna_cli::error::{CliError, Result};
use lacuna_cli::log::{Bar, LogOptions, WholeLogArgs};
use lacuna_cli::output::{JsonArg, short};
use lacuna_model::Span;
use lacuna_runtime::clock::Stopwatch;
use lacuna_sim::{Hooks, Settings, replay};

use cases::Case;

use crate::table::{Cell, Column, Table};

/// Arguments of `bench replay`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna-lab bench replay
  lacuna-lab bench replay holes.csv.gz --trainers trainers.jsonl.gz --parallel 20
  lacuna-lab bench replay theta_2022.swf.gz --json -- --machine-nodes 4392

Without a log it replays the trace of Summit, if its files exist (LACUNA_DATA), at the paper's
scale (its first 1,024 nodes, a thousand trainers, 10 in parallel, to their end) and whole (4,734
nodes, 35 in parallel, all events); else generated machines of these sizes. The policy is dp.

TIME is that of the replay with the runs that it is measured by (the same trainers on dedicated
nodes). Reading the log is not included, but simulating its batch scheduler is. SOLVE and AFRESH
are the mean times of an allocation along the same events with trainers that never end: by the
solver that keeps its work, and by one that starts afresh each time. Their answers are compared.")]
pub(crate) struct ReplayBenchArgs {
    /// A log of any format
    log: Option<PathBuf>,
    /// Switches of `lacuna holes` for reading the log
    #[arg(last = true, value_name = "SWITCH")]
    reading: Vec<OsString>,
    /// Trainers (JSON lines, plain or gzip)
    #[arg(long, value_name = "FILE")]
    trainers: Option<PathBuf>,
    /// Number of trainers admitted at a time (with a log)
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    parallel: u32,
    /// Seed of generated machines and of the choice of nodes
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    json: JsonArg,
}

/// The arguments of the log, as all commands take them, if one is given.
fn log_options(args: &ReplayBenchArgs) -> Result<Option<LogOptions>> {
    let Some(log) = &args.log else {
        return Ok(None);
    };
    let words = args.reading.iter().cloned();
    let words = [OsString::from("log"), log.clone().into_os_string()]
        .into_iter()
        .chain(words);
    let log = WholeLogArgs::augment_args(clap::Command::new("log"))
        .try_get_matches_from(words)
        .and_then(|matches| WholeLogArgs::from_arg_matches(&matches))
        .map_err(|e| CliError::failed(format!("how to read the log: {e}")))?;
    log.options().map(Some)
}

fn measure(case: &Case, args: &ReplayBenchArgs, bar: &mut Bar) -> Result<Vec<Cell>> {
    let watch = Stopwatch::start();
    let settings = Settings {
        horizon: Span::from_secs(120),
        max_parallel: case.parallel,
        seed: args.seed,
        ..Settings::published()
    };
    let before = watch.seconds();
    let mut hooks = Hooks {
        stopwatch: &|| watch.seconds(),
        progress: &mut |progress| bar.walking(&progress),
        save: None,
    };
    let recording = case.recording.as_ref();
    let failed = |e: lacuna_sim::SimError| CliError::failed(e.to_string());
    let replayed =
        replay(recording, &case.trainers, &settings, None, &mut hooks).map_err(failed)?;
    let seconds = watch.seconds() - before;
    let solves = walk::solves(case, &|| watch.seconds())?;
    let summary = replayed.summary;
    let rate = summary.events as f64 / seconds;
    // A mean time of microseconds would be rounded to zero.
    let microseconds = |seconds: f64| Cell::new(format!("{:.2} us", seconds * 1e6), seconds);
    Ok(vec![
        Cell::words(&case.name),
        Cell::count(recording.nodes()),
        Cell::count(case.parallel),
        Cell::count(summary.trainers_done),
        Cell::count(summary.events),
        Cell::seconds(Some(seconds)),
        Cell::new(short(rate), rate),
        Cell::seconds(Some(summary.solve_seconds.max)),
        Cell::count(solves.count),
        microseconds(solves.kept_s),
        microseconds(solves.afresh_s),
        Cell::number(Some(solves.afresh_s / solves.kept_s), 2),
    ])
}

/// Runs `bench replay`.
///
/// # Errors
/// A file cannot be read, or the two solvers disagree.
pub(crate) fn run(args: &ReplayBenchArgs) -> Result<()> {
    let mut bar = Bar::new(args.json.json);
    let columns = [
        Column::words("case", "case"),
        Column::figures("nodes", "nodes"),
        Column::figures("parallel", "parallel"),
        Column::figures("trainers_done", "done"),
        Column::figures("events", "events"),
        Column::figures("seconds", "time"),
        Column::figures("events_per_s", "events/s"),
        Column::figures("longest_solve_s", "longest"),
        Column::figures("solves", "solves"),
        Column::figures("solve_kept_s", "solve"),
        Column::figures("solve_afresh_s", "afresh"),
        Column::figures("times_kept", "ratio"),
    ];
    let mut table = Table::new("Replays", columns);
    let log = log_options(args)?;
    for case in cases::all(
        log.as_ref(),
        args.trainers.as_deref(),
        args.parallel,
        args.seed,
        &mut bar,
    )? {
        table.push(measure(&case, args, &mut bar)?);
    }
    bar.done();
    table.print(args.json.json)
}
