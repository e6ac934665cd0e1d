//! `lacuna-lab forecast eval`: the quality of forecasts of a log's holes.

use std::path::Path;

use lacuna_cli::error::{CliError, Result};
use lacuna_cli::files::spare;
use lacuna_cli::log::{Bar, HoleSource, Input, load, unreadable};
use lacuna_cli::output::iso_short;
use lacuna_cli::replay::Target;
use lacuna_report::{About, render_skill};
use lacuna_runtime::clock::Stopwatch;
use lacuna_sim::SimError;
use lacuna_sim::skill::{Evaluation, SkillOptions, evaluate};

use super::args::EvalArgs;
use super::output;

/// Runs `forecast eval`.
///
/// # Errors
/// The log cannot be read, an argument is invalid, no question could be scored, or a file cannot be
/// written.
pub(super) fn run(args: &EvalArgs) -> Result<()> {
    let watch = Stopwatch::start();
    let mut log = args.log.options()?;
    log.planned_starts = args.planned_starts;
    log.planned.clone_from(&args.planned);
    spare(&args.report, log.files().chain(&args.model.model))?;
    // An unwritable report is found before a long run instead of after it.
    let report = args.report.as_deref().map(Target::open).transpose()?;
    let mut options = args.options()?;
    let mut bar = Bar::new(args.json.json);
    let Input {
        summary: mut log_summary,
        recording,
    } = load(&log, &mut bar)?;
    if args.planned_starts && args.planned.is_none() && log_summary.kind != HoleSource::Simulated {
        return Err(CliError::failed(format!(
            "--planned-starts: {} has the history of its nodes, but no planned starts",
            log.file.display()
        ))
        .remedy("name its planned starts with --planned, or leave --planned-starts out"));
    }
    let recording = recording.as_ref();
    options.train_until = args.train_until(&log.file, recording)?;
    if let Some(model) = &options.model {
        let simulated = log_summary.kind == HoleSource::Simulated;
        let note = args.model.note(model, recording, simulated)?;
        log_summary.note(note);
    }
    let evaluation = evaluate(recording, &options, &mut |p| bar.forecasting(&p));
    let evaluation = evaluation.map_err(|error| match error {
        SimError::Log(error) => unreadable(error),
        SimError::Model(error) => args.model.unfit(&error),
        error => CliError::failed(error.to_string()),
    })?;
    bar.done();
    scored(&log.file, &options, &evaluation)?;
    let span = format!(
        "{} to {}",
        iso_short(recording.start()),
        iso_short(recording.end())
    );
    if let Some(target) = report {
        let (mut machine, notes) = log_summary.about();
        machine.push(("from, until".to_owned(), span.clone()));
        let about = About {
            name: &log_summary.file,
            machine: &machine,
            notes: &notes,
            ..About::default()
        };
        target.write(&render_skill(&evaluation, &about))?;
    }
    if args.json.json {
        return output::json(&evaluation, &log_summary, watch.seconds());
    }
    if let Some(warning) = log_summary.warning() {
        eprintln!("{warning}");
    }
    output::table(&evaluation, &log_summary, &span, watch.seconds())
}

/// Refuses an evaluation without a scored question, with the reason.
fn scored(log: &Path, options: &SkillOptions, evaluation: &Evaluation) -> Result<()> {
    if evaluation.holes > 0 {
        return Ok(());
    }
    let path = log.display();
    let (what, remedy) = if evaluation.too_young > 0 {
        let young = evaluation
            .predictors
            .iter()
            .find_map(|one| Some((one, output::young(one.learning)?)));
        let why = young.map_or_else(String::new, |(one, (ended, needed))| {
            format!(
                ": {} saw {ended} holes end of the {needed} that it needs",
                one.label
            )
        });
        (
            format!("a predictor was too young at every event{why}"),
            "take a longer log, or leave that --predictor out",
        )
    } else if options.train_until.is_some() {
        (
            "no node was idle at an event after --train-until".to_owned(),
            "give an earlier moment",
        )
    } else {
        (
            "no node was idle at any event".to_owned(),
            "look at the pool with lacuna holes",
        )
    };
    Err(CliError::failed(format!("{path}: nothing could be scored: {what}")).remedy(remedy))
}
