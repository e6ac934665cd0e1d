//! `lacuna forecast learn`: makes the model that forecasts start with, from the past of a machine.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;

use lacuna_forecast::{Choice, LearningStage};
use lacuna_model::Span;
use lacuna_sim::skill::{Evaluation, PredictorSkill, SampleTimes, SkillOptions, evaluate};
use lacuna_sim::{Forecasting, Lesson, PoolTrace, Settings, SimError, learn};

use crate::error::{CliError, Result};
use crate::files::{can_write, replace, spare};
use crate::log::{Bar, HoleSource, Input, LogSummary, WholeLogArgs, load, unreadable};
use crate::output::{JsonArg, iso, iso_short, print, print_json};
use crate::replay::order;
use crate::table::{Side, key_values, render};

/// The share of the log before the part on which forecasts are scored.
const TAUGHT: f64 = 0.8;

/// Moments of questions, and questions of a moment.
const MOMENTS: u32 = 500;
const HOLES: usize = 32;

/// The actions on forecasts.
#[derive(Debug, Subcommand)]
pub(crate) enum ForecastCommand {
    /// Learn from the past of a machine what forecasts start with
    Learn(LearnArgs),
}

/// Arguments of `forecast learn`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna forecast learn sacct.log -o model.lacuna
  lacuna forecast learn --from-slurm 90d
  lacuna forecast learn accounting.log --time-zone America/Chicago
  lacuna forecast learn holes.csv.gz --until 2021-02-15T00:00:00Z
  lacuna replay holes.csv.gz --from 2021-02-15T00:00:00Z --model model.lacuna

Takes any log that `lacuna replay` takes, and learns as a replay does. The forecast service starts
with the model that its setting forecast.model names, and learns on. A model is of one machine: it
is refused where none of its nodes is.
The skill is that of the last fifth of the log, each forecast made from what came before it: C is
Harrell's concordance of nodes that were idle at one moment (.5 is chance, 1 is perfect); the others
are one less the ratio of the Brier score to that of a constant share of nodes that stay idle.")]
pub(crate) struct LearnArgs {
    #[command(flatten)]
    json: JsonArg,
    /// The file of the model
    #[arg(long, short, value_name = "FILE", default_value = "model.lacuna")]
    out: PathBuf,
    /// The order in which the scheduler takes nodes: learnt, names, none, or a file with one name a
    /// line, first taken first
    #[arg(long, value_name = "ORDER", default_value = "learnt")]
    order: String,
    /// The planned starts of idle nodes, beside a log that names nodes: a CSV file, at,node,start
    #[arg(long, value_name = "FILE")]
    planned: Option<PathBuf>,
    // These arguments come last, since their headings apply to all that follow.
    #[command(flatten)]
    log: WholeLogArgs,
}

/// Runs `forecast`.
///
/// # Errors
/// The error of the command.
pub(crate) fn run(command: &ForecastCommand) -> Result<()> {
    match command {
        ForecastCommand::Learn(args) => run_learn(args),
    }
}

fn run_learn(args: &LearnArgs) -> Result<()> {
    let settings = Settings {
        forecast: Forecasting {
            order: order(&args.order)?,
            ..Forecasting::default()
        },
        ..Settings::default()
    };
    let mut log = args.log.options()?;
    log.finds_outages = true;
    log.planned.clone_from(&args.planned);
    log.planned_starts = true;
    spare([&args.out], log.files())?;
    // An unwritable place is found before a long run instead of after it.
    can_write(&args.out)?;
    let mut bar = Bar::new(args.json.json);
    let Input {
        summary: log,
        recording,
    } = load(&log, &mut bar)?;
    let recording = recording.as_ref();
    let simulated = log.kind == HoleSource::Simulated;
    let lesson = learn(recording, &settings, simulated, &mut |p| bar.walking(&p));
    let lesson = lesson.map_err(failed)?;
    let bytes = lesson.learnt.write();
    let bytes = bytes.ok_or_else(|| CliError::failed("the model cannot be encoded"))?;
    replace(&args.out, |half| std::fs::write(half, &bytes))?;
    let planned_starts = simulated || args.planned.is_some();
    let options = scoring(&settings, recording, planned_starts);
    let skill = evaluate(recording, &options, &mut |p| bar.forecasting(&p)).map_err(failed)?;
    bar.done();
    if args.json.json {
        return print_json(&value(args, &log, &lesson, &skill, bytes.len()));
    }
    if let Some(warning) = log.warning() {
        eprintln!("{warning}");
    }
    let mut rows = rows(args, &lesson, bytes.len());
    if skill.holes == 0 {
        rows.push(("skill", unscored(&skill)));
    }
    rows.extend(log.rows());
    let mut text = key_values(&rows);
    if skill.holes > 0 {
        text = format!("{}\n{text}", table(&skill));
    }
    print(&text)
}

fn failed(error: SimError) -> CliError {
    match error {
        SimError::Log(error) => unreadable(error),
        error => CliError::failed(error.to_string()),
    }
}

/// The model's predictor, and what it has to beat, on the last part of the log.
fn scoring(settings: &Settings, recording: &dyn PoolTrace, planned_starts: bool) -> SkillOptions {
    let order = settings.forecast.order.clone();
    let until = Span::from_secs_f64(recording.length_s() * TAUGHT);
    SkillOptions {
        predictors: vec![
            ("the model".to_owned(), Choice::hazard(order)),
            ("by age alone".to_owned(), Choice::survival()),
            ("as long again".to_owned(), Choice::Persistence),
        ],
        train_until: Some(recording.start() + until),
        planned_starts,
        moments: SampleTimes::Times(MOMENTS),
        holes: HOLES,
        ..SkillOptions::default()
    }
}

fn rows(args: &LearnArgs, lesson: &Lesson, bytes: usize) -> Vec<(&'static str, String)> {
    let from = lesson.learnt.from();
    let time = format!("{} to {}", iso_short(from.from), iso_short(from.until));
    let mut rows = vec![
        (
            "model",
            format!("{} ({} KiB)", args.out.display(), bytes.div_ceil(1024)),
        ),
        (
            "learnt from",
            format!(
                "{} {} that ended, on {} nodes, {time}",
                from.ended,
                if from.ended == 1 { "hole" } else { "holes" },
                from.nodes.len()
            ),
        ),
        ("forecasts", lesson.rests_on.clone()),
    ];
    if let LearningStage::Young { ended, needed } = lesson.learning {
        rows.push((
            "young",
            format!("{ended} of the {needed} holes that its model of ends needs: a longer log tells more"),
        ));
    }
    let order = lesson.order.as_ref();
    rows.extend(order.map(|order| ("order of nodes", order.rests_on.words().to_owned())));
    rows
}

fn value(
    args: &LearnArgs,
    log: &LogSummary,
    lesson: &Lesson,
    skill: &Evaluation,
    bytes: usize,
) -> serde_json::Value {
    let from = lesson.learnt.from();
    json!({
        "model": args.out,
        "bytes": bytes,
        "nodes": from.nodes.len(),
        "simulated": from.simulated,
        "from": iso(from.from),
        "until": iso(from.until),
        "ended": from.ended,
        "is_young": matches!(lesson.learning, LearningStage::Young { .. }),
        "forecasts": lesson.rests_on,
        "order": lesson.order,
        "skill": skill,
        "log": log,
    })
}

fn unscored(skill: &Evaluation) -> String {
    if skill.too_young > 0 {
        "not scored: too few holes had ended".to_owned()
    } else {
        "not scored: no node was idle in the last fifth of the log".to_owned()
    }
}

/// The scores on the last part of the log.
fn table(skill: &Evaluation) -> String {
    let digits = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| format!("{v:.3}"));
    let horizons = skill
        .predictors
        .first()
        .map_or(&[][..], |one| &one.horizons);
    let names: Vec<String> = horizons
        .iter()
        .map(|one| format!("SKILL {}", Span::from_secs_f64(one.horizon_s)).to_uppercase())
        .collect();
    let mut columns = vec![("ON THE LAST FIFTH", Side::Left), ("C", Side::Right)];
    columns.extend(names.iter().map(|name| (name.as_str(), Side::Right)));
    let row = |one: &PredictorSkill| {
        let figures = one.horizons.iter().map(|h| digits(h.skill_over_constant));
        let first = [one.label.clone(), digits(one.concordance.within)];
        first.into_iter().chain(figures).collect()
    };
    let rows: Vec<Vec<String>> = skill.predictors.iter().map(row).collect();
    render(&columns, &rows)
}
