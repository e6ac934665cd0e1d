//! `lacuna replay`: a recording through the same cores in virtual time, without services.

mod args;
mod output;
mod report;

use std::collections::HashSet;
use std::io::IsTerminal;
use std::path::Path;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use lacuna_model::{NodeId, Timestamp, TrainerSpec};
use lacuna_runtime::clock::Stopwatch;
use lacuna_schedlog::{HoleList, first_nodes, read_holes, read_nodes, read_trainers};
use lacuna_sim::report::{Source, from_replay, render};
use lacuna_sim::{History, Hooks, Progress, Replayed, Trace, replay};

use crate::output::iso;

pub use args::ReplayArgs;

/// An error with what caused it; its text names the file, the line and what was expected.
type Error = Box<dyn std::error::Error + Send + Sync>;

/// What can be wrong besides the files themselves.
#[derive(Debug, thiserror::Error)]
enum ReplayError {
    /// There is no hole in the list.
    #[error("{path}: there is no hole in it")]
    NoHoles {
        /// Which list.
        path: String,
    },
    /// The start lies after all that was recorded.
    #[error("nothing to replay: {source_of_start} is {start}, but {path} ends at {end}")]
    AfterTheEnd {
        /// What set the start.
        source_of_start: &'static str,
        /// The start.
        start: String,
        /// Which recording.
        path: String,
        /// Where it ends.
        end: String,
    },
    /// `--end` leaves nothing.
    #[error("nothing to replay: --end {end} is not after {source_of_start}, {start}")]
    EndBeforeStart {
        /// The end asked for.
        end: String,
        /// What set the start.
        source_of_start: &'static str,
        /// The start.
        start: String,
    },
    /// `--first-nodes` and the list of nodes do not fit.
    #[error("--first-nodes {wanted}: {source_of_order} has only {found}")]
    TooFewNodes {
        /// How many were asked for.
        wanted: usize,
        /// How many there are.
        found: usize,
        /// Which list.
        source_of_order: String,
    },
    /// `--verify` found that the exact methods do not agree.
    #[error(
        "verify: dp and milp disagree at {disagreements} of {decisions} events (worst relative \
         difference {worst:.3e}, allowed 1e-6); {unproven} solves were not proven optimal"
    )]
    Disagree {
        /// How many differ.
        disagreements: u64,
        /// Of how many.
        decisions: u64,
        /// By how much at most.
        worst: f64,
        /// How many the MILP solver did not prove.
        unproven: u64,
    },
}

/// Replays as asked, prints what came of it and writes the report.
///
/// # Errors
/// A file cannot be read or written, a setting makes no sense, or verification failed.
pub fn run(args: &ReplayArgs) -> Result<(), Error> {
    let watch = Stopwatch::start();
    // A report that cannot be written is better known before a long run than after it.
    let report = args
        .report
        .as_deref()
        .map(report::Target::open)
        .transpose()?;
    let settings = args.settings();
    let list = read_holes(&args.holes)?;
    let trainers = read_trainers(&args.trainers)?;
    let nodes = chosen_nodes(args, &list)?;
    let trace = Trace::new(
        &list.records,
        nodes.as_ref(),
        start(args, &list, &trainers)?,
        args.end,
    );
    let bar = bar(args, &trace);
    let mut hooks = Hooks {
        stopwatch: &|| watch.seconds(),
        progress: &mut |progress| show(&bar, &progress),
    };
    let history = report.is_some().then(History::default);
    let mut replayed = replay(&trace, &trainers, &settings, history, &mut hooks)?;
    bar.finish_and_clear();
    if let Some(target) = report {
        let source = Source {
            name: &name(&args.holes),
            holes: &list.records,
            trace: &trace,
            trainers: &trainers,
        };
        target.write(&render(&from_replay(source, &replayed)?))?;
    }
    replayed.summary.wall_seconds = watch.seconds();
    replayed.summary.peak_rss_bytes = peak_rss_bytes();
    let disagreement = disagreement(&replayed);
    if args.json {
        // Exactly one JSON value leaves: with a disagreement it is the error.
        disagreement?;
        return Ok(output::json(&replayed.summary, list.refused)?);
    }
    output::table(&replayed.summary, list.refused, args.report.as_deref())?;
    disagreement
}

/// The nodes that `--first-nodes` means; all if absent.
fn chosen_nodes(args: &ReplayArgs, list: &HoleList) -> Result<Option<HashSet<NodeId>>, Error> {
    let beside = args.holes.with_file_name("nodes.txt");
    let file = match &args.nodes_file {
        Some(file) => Some(file.clone()),
        None => beside.exists().then_some(beside),
    };
    let Some(count) = args.first_nodes else {
        return Ok(None);
    };
    let order = file.as_deref().map(read_nodes).transpose()?;
    let chosen = first_nodes(count, order.as_deref(), &list.records);
    if chosen.len() < count {
        let source = file.unwrap_or_else(|| args.holes.clone());
        return Err(Box::new(ReplayError::TooFewNodes {
            wanted: count,
            found: chosen.len(),
            source_of_order: source.display().to_string(),
        }));
    }
    Ok(Some(chosen))
}

/// The first submission, unless another time is asked for; never before the recording.
fn start(args: &ReplayArgs, list: &HoleList, trainers: &[TrainerSpec]) -> Result<Timestamp, Error> {
    let path = || args.holes.display().to_string();
    let (Some(first), Some(recorded)) = (list.records.first(), list.end()) else {
        return Err(Box::new(ReplayError::NoHoles { path: path() }));
    };
    let submitted = trainers.iter().map(|trainer| trainer.submit).min();
    let (source, start) = match args.start {
        Some(start) => ("--start", start),
        None => (
            "the first submission",
            submitted.unwrap_or(first.from).max(first.from),
        ),
    };
    match args.end {
        _ if start >= recorded => Err(Box::new(ReplayError::AfterTheEnd {
            source_of_start: source,
            start: iso(start),
            path: path(),
            end: iso(recorded),
        })),
        Some(end) if end <= start => Err(Box::new(ReplayError::EndBeforeStart {
            end: iso(end),
            source_of_start: source,
            start: iso(start),
        })),
        _ => Ok(start),
    }
}

/// A bar on a terminal, nothing elsewhere.
fn bar(args: &ReplayArgs, trace: &Trace) -> ProgressBar {
    if args.json || !std::io::stderr().is_terminal() {
        return ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    }
    let bar = ProgressBar::new(trace.length_s() as u64);
    if let Ok(style) = ProgressStyle::with_template("{prefix:16} {wide_bar} {percent:>3} %  {msg}")
    {
        bar.set_style(style);
    }
    bar
}

fn show(bar: &ProgressBar, progress: &Progress) {
    bar.set_prefix(progress.stage);
    bar.set_position(progress.done_s as u64);
    bar.set_message(format!(
        "{} events, {} trainers done",
        progress.events, progress.trainers_done
    ));
}

fn disagreement(replayed: &Replayed) -> Result<(), Error> {
    match replayed.summary.verified {
        Some(verified) if verified.disagreements > 0 => Err(Box::new(ReplayError::Disagree {
            disagreements: verified.disagreements,
            decisions: verified.decisions,
            worst: verified.worst_difference,
            unproven: verified.unproven,
        })),
        _ => Ok(()),
    }
}

/// The largest memory that the process ever had.
fn peak_rss_bytes() -> u64 {
    use nix::sys::resource::{UsageWho, getrusage};
    let usage = getrusage(UsageWho::RUSAGE_SELF);
    // Linux counts in KiB.
    usage.map_or(0, |usage| usage.max_rss().unsigned_abs() * 1024)
}

fn name(path: &Path) -> String {
    let folder = path.parent().and_then(Path::file_name);
    let file = path.file_name().unwrap_or(path.as_os_str());
    folder.map_or_else(
        || file.to_string_lossy().into_owned(),
        |folder| format!("{}/{}", folder.to_string_lossy(), file.to_string_lossy()),
    )
}
