//! A replay becomes a report.

use lacuna_model::TrainerSpec;
use lacuna_sim::pool_stats::{PoolOptions, PoolStats, pool_stats};
use lacuna_sim::skill::{SkillOptions, evaluate};
use lacuna_sim::{
    Apart, HarvestOfKind, History, Loss, PoolTrace, PracticeFigures, Replayed, SimError, Summary,
    dedicated_samples,
};
use lacuna_trainer::measure;

use super::data::{BesideKind, BesideRow, LossKind, LossPart, LossSplit, Report, bin_solves};
use super::harm::{self, HarmInput};
use super::svg::{count, percent, span};
use super::{answer, from_history, learning};

/// Input of a replay, and settings of its report.
#[derive(Clone)]
pub struct Source<'a> {
    /// Name of the trace.
    pub name: &'a str,
    /// The trace of the replay.
    pub trace: &'a dyn PoolTrace,
    /// The trainers.
    pub trainers: &'a [TrainerSpec],
    /// Settings of the pool's statistics.
    pub pool: PoolOptions,
    /// Settings of forecast skill; without them forecasts are not scored.
    pub calibration: Option<SkillOptions>,
    /// Whether a simulated scheduler started the batch jobs. Otherwise holes are recorded.
    pub simulated: bool,
    /// The log and its machine: label and value.
    pub machine: &'a [(String, String)],
    /// What counts as an outage, in words; no figure counts its nodes as idle.
    pub left_out: Option<String>,
    /// Caveats of the trace, such as damage or an uncertain end.
    pub notes: &'a [String],
}

impl<'a> Source<'a> {
    /// The input of a replay of recorded holes, with scores of forecasts.
    #[must_use]
    pub fn new(name: &'a str, trace: &'a dyn PoolTrace, trainers: &'a [TrainerSpec]) -> Self {
        Self {
            name,
            trace,
            trainers,
            pool: PoolOptions::default(),
            calibration: Some(SkillOptions::default()),
            simulated: false,
            machine: &[],
            left_out: None,
            notes: &[],
        }
    }
}

/// Points of the efficiency curve. Each costs a static replay if trainers differ.
const POINTS: usize = 48;

/// Fills a report from a replay with a history. One walk over the trace takes the pool's
/// statistics, another scores forecasts.
///
/// # Errors
/// [`SimError`] of the static replays for dedicated samples, and of the walks.
pub fn from_replay(source: &Source<'_>, replayed: &Replayed) -> Result<Report, SimError> {
    let summary = &replayed.summary;
    let empty = History::default();
    let history = replayed.history.as_ref().unwrap_or(&empty);
    // All figures are of the time of the replay, also where the trainers end before the trace.
    let until = Some(summary.until());
    let pool = pool_stats(
        source.trace,
        PoolOptions {
            until,
            ..source.pool
        },
    )?;
    let calibration = match &source.calibration {
        Some(options) => Some(evaluate(source.trace, options, &mut |_| {})?),
        None => None,
    };
    let harm = harm::statement(HarmInput {
        pool: &pool,
        preemptions: summary.preemptions,
        preempt_fraction: summary.preempt_cost_fraction,
        kinds: summary.kinds.as_deref().unwrap_or_default(),
        simulated: source.simulated,
    });
    let notes = vec![
        "Time is recorded time since the start of the replay. Efficiency is work done over the \
         work of the same trainers on dedicated nodes that offer the same node-time; losses are \
         samples lost over samples done. Days are 24 hours from the start, named by the date on \
         which they begin. Losses: nodes without a trainer are valued at what a node-second brings \
         on dedicated nodes; what is left after all other losses is that sizes follow the pool, so \
         that trainers work elsewhere on their scaling curves."
            .to_owned(),
    ];
    Ok(Report {
        title: "Lacuna: what idle nodes would have trained".to_owned(),
        subtitle: format!(
            "{}: {} nodes, {:.1} hours from {}; {}; at most {} trainers at a time",
            source.name,
            count(f64::from(pool.nodes)),
            summary.hours,
            from_history::date(summary.start),
            if source.simulated {
                "batch jobs placed by a simulated scheduler"
            } else {
                "idle nodes as recorded"
            },
            summary.settings.max_parallel
        ),
        answer: answer::of(summary, &pool, source.simulated, source.left_out.as_deref()),
        tiles: answer::tiles(summary, &pool),
        beside: beside(summary),
        caveats: source.notes.to_vec(),
        figures: {
            let mut rows = figures(summary, &pool);
            rows.extend(learning::figures(history, summary.hours * 3600.0));
            rows
        },
        settings: settings(summary),
        pool: from_history::pool(history),
        efficiency: efficiency(source, replayed, history)?,
        learning: learning::lines(history, summary.hours * 3600.0, summary.samples),
        days: from_history::days(history, source.trace.start(), source.pool.utc_offset_s),
        trainers: from_history::trainers(history),
        trainers_left_out: history.lives_left_out,
        gantt: from_history::gantt(history),
        holes: pool.lengths.clone(),
        loss: Some(split(&summary.loss)),
        calibration,
        solves: bin_solves(
            replayed
                .solve_times
                .bins()
                .map(|(from, until, count)| (f64::midpoint(from, until), count)),
        ),
        pool_stats: Some(pool),
        machine: source.machine.to_vec(),
        harm,
        notes,
        ..Report::default()
    })
}

/// The policy and the practices beside it, if there are any.
fn beside(summary: &Summary) -> Vec<BesideRow> {
    if summary.beside.is_empty() {
        return Vec::new();
    }
    let policy = BesideRow {
        name: format!("Lacuna, {}", summary.settings.policy.name()),
        kind: BesideKind::Policy,
        samples: summary.samples,
        share: summary.zero_cost_fraction,
        hours: summary.hours,
        node_hours: summary.harvested_node_hours,
        restarts: summary.preemptions + summary.rescales - summary.rescales_at_hits,
        ratio: None,
    };
    let practice = |figures: &PracticeFigures| BesideRow {
        name: match figures.nodes {
            Some(1) => format!("{}, jobs of 1 node", figures.practice.name()),
            Some(nodes) => format!("{}, jobs of {nodes} nodes", figures.practice.name()),
            None if figures.practice.rule().is_some() => {
                format!("Lacuna, {}", figures.practice.name())
            }
            None => figures.practice.name().to_owned(),
        },
        kind: match figures.practice.rule() {
            Some(_) => BesideKind::Rule,
            None => BesideKind::Practice,
        },
        samples: figures.samples,
        share: figures.zero_cost_fraction,
        hours: figures.hours,
        node_hours: figures.harvested_node_hours,
        restarts: figures.restarts,
        ratio: figures.ratio,
    };
    std::iter::once(policy)
        .chain(summary.beside.iter().map(practice))
        .collect()
}

/// The headline figures.
fn figures(summary: &Summary, pool: &PoolStats) -> Vec<(String, String)> {
    let lost = |fraction| {
        let share = measure::share_lost(fraction, 1.0);
        share.map_or_else(|| "more than it".to_owned(), |share| percent(share, 2))
    };
    let row = |label: &str, value: String| (label.to_owned(), value);
    let mut figures = vec![
        row(
            "nodes idle on average",
            format!("{:.1}", pool.equivalent_nodes),
        ),
        row("median", count(f64::from(pool.idle.p50))),
        row("efficiency U", answer::efficiency(summary, 2)),
        row("hours replayed", format!("{:.2}", summary.hours)),
        row("harvested node-hours", count(summary.harvested_node_hours)),
        row("trainers done", count(summary.trainers_done as f64)),
        row("samples trained", format!("{:.3e}", summary.samples)),
        row(
            "rescaling, of work done",
            lost(summary.rescale_cost_fraction),
        ),
        row(
            "preemption, of work done",
            lost(summary.preempt_cost_fraction),
        ),
        row("preemptions", count(summary.preemptions as f64)),
        row("rescales", count(summary.rescales as f64)),
        row("events", count(summary.events as f64)),
        row(
            "time per decision (median)",
            span(summary.solve_seconds.p50),
        ),
    ];
    if let Some(fraction) = summary.zero_cost_fraction {
        figures.insert(3, row("of the zero-cost bound", percent(fraction, 2)));
    }
    figures.extend(summary.apart.iter().flat_map(distance));
    figures.extend(summary.kinds.iter().flatten().flat_map(of_kind));
    figures
}

/// What one kind of nodes offered and gave.
fn of_kind(of: &HarvestOfKind) -> Vec<(String, String)> {
    let kind = &of.kind;
    let used = measure::idle_share_used(of.harvested_node_hours, of.offered_node_hours);
    vec![
        (
            format!("{kind}: idle node-hours"),
            count(of.offered_node_hours),
        ),
        (
            format!("{kind}: harvested node-hours"),
            count(of.harvested_node_hours),
        ),
        (
            format!("{kind}: idle share used"),
            used.map_or_else(|| "-".to_owned(), |used| percent(used, 2)),
        ),
    ]
}

/// What distance did.
fn distance(apart: &Apart) -> Vec<(String, String)> {
    let all: f64 = apart.node_hours.iter().sum();
    let mut rows = vec![("leaves".to_owned(), count(f64::from(apart.leaves)))];
    for (tier, hours) in apart.node_hours.iter().enumerate() {
        let label = match tier {
            0 => "node-time of trainers on one leaf".to_owned(),
            tier => format!("node-time of trainers at tier {tier}"),
        };
        rows.push((label, percent(measure::share(*hours, all), 2)));
    }
    rows.push((
        "trainers that cross leaves (mean)".to_owned(),
        format!("{:.2}", apart.crossing),
    ));
    rows.push((
        "trainers that cross one leaf (most)".to_owned(),
        count(f64::from(apart.most_crossing)),
    ));
    rows
}

/// The split of dedicated samples, with labels.
fn split(loss: &Loss) -> LossSplit {
    let parts = [
        ("rescaling", LossKind::Rescale, loss.rescale),
        ("preemption", LossKind::Preempt, loss.preempt),
        ("nodes without a trainer", LossKind::Waiting, loss.waiting),
        (
            "nodes of trainers that were done",
            LossKind::Idling,
            loss.idling,
        ),
        ("scaling curve: sizes change", LossKind::Curve, loss.curve),
    ];
    LossSplit {
        dedicated: loss.dedicated,
        parts: parts
            .map(|(label, kind, samples)| LossPart {
                label: label.to_owned(),
                kind,
                samples,
            })
            .to_vec(),
        done: loss.done,
    }
}

/// The settings as labels and values.
fn settings(summary: &Summary) -> Vec<(String, String)> {
    let settings = &summary.settings;
    let row = |label: &str, value: String| (label.to_owned(), value);
    vec![
        row("policy", word(&settings.policy)),
        row("horizon", settings.horizon.to_string()),
        row("costs", format!("x {}", settings.cost_scale)),
        row("objective", word(&settings.objective)),
        row("trainers end", word(&settings.trainer_end)),
        row("which nodes", word(&settings.node_choice)),
        row("measured by", word(&settings.dedicated)),
        row(
            "starts",
            if settings.charge_starts {
                "charged"
            } else {
                "free"
            }
            .to_owned(),
        ),
        row("seed", settings.seed.to_string()),
    ]
}

/// Efficiency from the start until each of at most [`POINTS`] moments.
fn efficiency(
    source: &Source<'_>,
    replayed: &Replayed,
    history: &History,
) -> Result<Vec<(f64, f64)>, SimError> {
    let end_s = replayed.summary.hours * 3600.0;
    let mut curve = Vec::with_capacity(POINTS);
    let (mut offered, mut before) = (0.0, (0.0, 0.0));
    let mut due = 1;
    for point in &history.points {
        offered += before.1 * (point.at_s - before.0);
        before = (point.at_s, point.pool_mean);
        if point.at_s < end_s * due as f64 / POINTS as f64 || point.at_s <= 0.0 {
            continue;
        }
        due = (point.at_s * POINTS as f64 / end_s) as usize + 1;
        let dedicated = dedicated_samples(
            source.trainers,
            &replayed.summary.settings,
            source.trace.start(),
            point.at_s,
            offered / point.at_s,
        )?;
        if dedicated > 0.0 {
            curve.push((point.at_s, measure::efficiency(point.samples, dedicated)));
        }
    }
    curve.push((end_s, replayed.summary.efficiency));
    Ok(curve)
}

/// The name of a setting's value, as on the command line and in JSON.
fn word(setting: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(setting).unwrap_or_default();
    match value.as_str() {
        Some(word) => word.to_owned(),
        None => value.to_string(),
    }
}
