//! `lacuna replay`: runs a log through the cores of the services in virtual time.

mod args;
mod builtin;
mod forecast;
mod model;
mod order;
mod output;
mod problem;
mod report;
mod topology;
mod window;

use std::path::{Path, PathBuf};

use lacuna_model::{Span, TrainerSpec};
use lacuna_planner::objective::Objective;
use lacuna_report::{Report, Source, drawing, from_replay, render};
use lacuna_runtime::clock::Stopwatch;
use lacuna_sim::pool_stats::{PoolOptions, pool_stats};
use lacuna_sim::{
    Annotated, Decision, History, Hooks, Kept, Lookahead, PoolTrace, Replayed, Settings, SimError,
    Summary, Verified, replay,
};
use lacuna_trace::{read_kinds, read_staged};

use crate::error::{CliError, Result};
use crate::files::spare;
use crate::log::{Bar, HoleSource, Input, LeftOut, LogSummary, load, unreadable};

pub(crate) use args::{ReplayArgs, USUAL};
pub use model::ModelArg;
pub use order::order;
pub use report::Target;

/// Replays the log, prints the results and writes the report.
///
/// # Errors
/// A file cannot be read or written, a setting is invalid, or verification failed.
pub(crate) fn run(args: &ReplayArgs) -> Result<()> {
    let watch = Stopwatch::start();
    let beside = [
        &args.trainers,
        &args.planned,
        &args.kinds,
        &args.forecast.model.model,
    ];
    let read = args.log.files().chain(beside.into_iter().flatten());
    spare([&args.report, &args.svg].into_iter().flatten(), read)?;
    // An unwritable report is found before a long run instead of after it.
    let open = |path: &Option<PathBuf>| path.as_deref().map(Target::open).transpose();
    let (page, picture) = (open(&args.report)?, open(&args.svg)?);
    let shown = page.is_some() || picture.is_some();
    let mut settings = args.settings()?;
    let given = args.trainers.as_deref().map(read_staged);
    let given = given.transpose().map_err(unreadable)?;
    let given = given.map(|(trainers, stages)| {
        settings.stages = stages;
        trainers
    });
    let changes = settings
        .stages
        .values()
        .any(|staged| !staged.later.is_empty());
    if args.save_problem.is_some() && changes {
        let message = "--save-problem: a trainer of the list has stages, and a saved problem knows \
                       one curve";
        return Err(CliError::failed(message).remedy("leave stages out of the list"));
    }
    let submitted = given.iter().flatten().map(|trainer| trainer.submit).min();
    let mut bar = Bar::new(args.json);
    let mut log = args.log.clone().leave_out_outages();
    // A policy that knows all ends of holes needs no planned starts.
    log.planned.clone_from(&args.planned);
    log.planned_starts = settings.policy.forecasts()
        && settings.forecast.hints
        && settings.lookahead != Lookahead::All;
    let Input {
        summary: mut log_summary,
        recording,
    } = load(&log, submitted, &mut bar)?;
    let mut recording = Annotated::new(recording.as_ref());
    if let Some(topology) = args.located.topology(&recording)? {
        recording = recording.with_topology(topology);
    }
    if let Some(file) = &args.kinds {
        let kinds = read_kinds(file).map_err(unreadable)?;
        recording = recording.with_kinds(&kinds).map_err(failed)?;
    }
    let recording = Kept::new(&recording, args.keep_idle);
    let recording: &dyn PoolTrace = &recording;
    if args.keep_idle > 0 {
        log_summary.notes.push(format!(
            "{} idle nodes stay free (--keep-idle): figures of idle nodes are of the others",
            args.keep_idle
        ));
    }
    if let Some(model) = &settings.forecast.model {
        let simulated = log_summary.kind == HoleSource::Simulated;
        let note = args.forecast.model.note(model, recording, simulated)?;
        log_summary.notes.push(if settings.policy.forecasts() {
            note
        } else {
            format!(
                "--model changes nothing: {} forecasts no hole",
                settings.policy.name()
            )
        });
    }
    let mut trainers = match given {
        Some(trainers) => trainers,
        None => {
            settings.endless = true;
            if args.max_parallel.is_none() {
                settings.max_parallel = builtin::parallel(recording.nodes());
            }
            log_summary.notes.push(format!(
                "no --trainers: {}, {} at a time",
                builtin::WHAT,
                settings.max_parallel
            ));
            builtin::trainers(recording.start())?
        }
    };
    args.located.charge(&mut trainers)?;
    log_summary.notes.extend(args.located.note());
    if args.kinds.is_some() && trainers.iter().all(|trainer| trainer.kinds.is_any()) {
        let note = "--kinds changes nothing, since no trainer has `kinds`: a trainer states its rates by kind";
        log_summary.notes.push(note.to_owned());
    }
    check_names(args, &settings, &trainers)?;
    let own = matches!(settings.objective, Objective::AsGiven | Objective::Fair);
    if !settings.policy.maximises() && !own {
        log_summary.notes.push(format!(
            "{} ignores all objectives but fair: only the runs that it is measured by, the same \
             trainers on dedicated nodes, use it",
            settings.policy.name().replace('-', " ")
        ));
    }
    if shown {
        let part = args.gantt(recording.start())?;
        if part.from_s >= recording.length_s() {
            return Err(CliError::failed(format!(
                "--gantt: it begins after the replay has ended, {:.1} h after its start",
                recording.length_s() / 3600.0
            )));
        }
        settings.gantt = Some(part);
    }
    let mut recorder = args
        .save_problem
        .as_ref()
        .map(|wanted| problem::ProblemRecorder::new(wanted, &trainers));
    let mut save = |decision: &Decision<'_>| {
        if let Some(recorder) = &mut recorder {
            recorder.observe(decision);
        }
    };
    let mut hooks = Hooks {
        stopwatch: &|| watch.seconds(),
        progress: &mut |progress| bar.walking(&progress),
        save: args.save_problem.is_some().then_some(&mut save),
    };
    let history = shown.then(History::default);
    let mut replayed = replay(recording, &trainers, &settings, history, &mut hooks).map_err(
        |error| match error {
            SimError::Model(error) => args.forecast.model.unfit(&error),
            error => failed(error),
        },
    )?;
    log_summary.ends(replayed.summary.until());
    log_summary
        .notes
        .extend(unreached(&settings.milestones, &replayed.summary));
    if let Some(recorder) = recorder {
        let policy = serde_json::json!(settings.policy);
        let policy = policy.as_str().unwrap_or_default();
        let how = format!("{policy}, objective {}", settings.objective);
        recorder.write(&log_summary.file, &how)?;
    }
    if shown {
        let report = report_of(args, &log_summary, recording, &trainers, &replayed)?;
        if let Some(target) = page {
            target.write(&render(&report))?;
        }
        if let Some(target) = picture {
            target.write(&drawing(&report))?;
        }
    }
    let options = PoolOptions {
        until: Some(replayed.summary.until()),
        ..pool_options(args, &log_summary, recording)
    };
    let pool = pool_stats(recording, options).map_err(failed)?;
    bar.done();
    replayed.summary.wall_seconds = watch.seconds();
    replayed.summary.peak_rss_bytes = peak_rss_bytes();
    let disagreement = disagreement(&replayed, &settings);
    if args.json {
        // The output is exactly one JSON value: with a disagreement it is the error.
        disagreement?;
        return output::json(&replayed.summary, &pool, &log_summary);
    }
    if let Some(warning) = log_summary.warning() {
        eprintln!("{warning}");
    }
    let written = [("report", &args.report), ("drawing", &args.svg)];
    output::table(&replayed.summary, &pool, &log_summary, &written)?;
    disagreement
}

/// The milestones that the replay has not reached, as a note.
fn unreached(milestones_s: &[f64], summary: &Summary) -> Option<String> {
    let beyond = milestones_s.get(summary.milestones.len()..)?.iter();
    let names: Vec<String> = beyond
        .map(|&at| Span::from_secs_f64(at).to_string())
        .collect();
    (!names.is_empty()).then(|| {
        format!(
            "--milestones {}: left out, the replay ends {} after its start",
            names.join(","),
            summary.until().since(summary.start)
        )
    })
}

/// Refuses an objective for an unknown trainer. Without an error the replay would silently ignore
/// it.
fn check_names(args: &ReplayArgs, settings: &Settings, trainers: &[TrainerSpec]) -> Result<()> {
    let names = trainers.iter().map(|trainer| &trainer.id);
    let Some(name) = settings.objectives.unmatched(names).next() else {
        return Ok(());
    };
    let file = args.objective_file.as_deref().unwrap_or(Path::new(""));
    let some = trainers.first().map_or("", |trainer| trainer.id.as_str());
    Err(CliError::failed(format!(
        "{}: no trainer is named {name}: expected a name such as {some}, or the beginning of names \
         and *",
        file.display()
    )))
}

fn failed(error: SimError) -> CliError {
    match error {
        SimError::Log(error) => unreadable(error),
        error @ SimError::Setting { what: "beside", .. } => CliError::failed(error.to_string())
            .remedy("leave out --beside, or give --trainers without kinds and no --kinds"),
        error => CliError::failed(error.to_string()),
    }
}

/// The report of the replay.
fn report_of(
    args: &ReplayArgs,
    log_summary: &LogSummary,
    recording: &dyn PoolTrace,
    trainers: &[TrainerSpec],
    replayed: &Replayed,
) -> Result<Report> {
    let (machine, notes) = log_summary.about();
    let source = Source {
        pool: pool_options(args, log_summary, recording),
        simulated: log_summary.kind == HoleSource::Simulated,
        machine: &machine,
        left_out: log_summary.left_out.as_ref().map(LeftOut::words),
        notes: &notes,
        ..Source::new(&log_summary.file, recording, trainers)
    };
    from_replay(&source, replayed).map_err(failed)
}

/// The options for the statistics of the pool.
fn pool_options(
    args: &ReplayArgs,
    log_summary: &LogSummary,
    recording: &dyn PoolTrace,
) -> PoolOptions {
    PoolOptions {
        machine_nodes: log_summary.machine_nodes,
        until: None,
        utc_offset_s: args.log.utc_offset_s(recording.start()),
    }
}

fn disagreement(replayed: &Replayed, settings: &Settings) -> Result<()> {
    let Some(verified) = replayed.summary.verified.filter(|_| settings.verify) else {
        return Ok(());
    };
    if verified.is_good() {
        return Ok(());
    }
    let unproven = format!("{} solves were not proven optimal", verified.unproven);
    Err(CliError::failed(if settings.policy.forecasts() {
        format!(
            "verify: {} of {} plans by forecasts are wrong: not worth what they say (to 1e-6), worth \
             less than keeping all, or short of the program over patterns by more than {}; in sum \
             plans fall short by {}, allowed {}; {unproven}",
            verified.disagreements,
            verified.decisions,
            percent(Verified::SHORT_OF_ONE),
            percent(verified.shortfall),
            percent(Verified::SHORT_OF_ALL),
        )
    } else {
        format!(
            "verify: dp and milp disagree at {} of {} events (worst relative difference {:.3e}, \
             allowed 1e-6); {unproven}",
            verified.disagreements, verified.decisions, verified.worst_difference
        )
    }))
}

fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

/// The largest resident memory of the process so far.
fn peak_rss_bytes() -> u64 {
    use nix::sys::resource::{UsageWho, getrusage};
    let usage = getrusage(UsageWho::RUSAGE_SELF);
    // Linux reports KiB.
    usage.map_or(0, |usage| usage.max_rss().unsigned_abs() * 1024)
}
