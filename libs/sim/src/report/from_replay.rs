//! A report of a replay.

use std::collections::HashSet;

use lacuna_model::{HoleRecord, NodeId, TrainerSpec};

use super::data::{Losses, PoolPoint, Report, TrainerRow, bin_holes};
use super::svg::{count, span};
use crate::{History, Replayed, SimError, Trace, dedicated_samples};

/// What a replay was made from.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// Name of the recording.
    pub name: &'a str,
    /// Its holes, for the histogram.
    pub holes: &'a [HoleRecord],
    /// What was replayed of it.
    pub trace: &'a Trace,
    /// The trainers.
    pub trainers: &'a [TrainerSpec],
}

/// Points of the efficiency curve: each costs a static replay if trainers differ.
const POINTS: usize = 48;

/// Fills a report from a replay that remembered its history.
///
/// # Errors
/// [`SimError`] from the static replays that efficiency is measured by.
pub fn from_replay(source: Source<'_>, replayed: &Replayed) -> Result<Report, SimError> {
    let summary = &replayed.summary;
    let settings = &summary.settings;
    let percent = |fraction: f64| format!("{:.2} %", fraction * 100.0);
    let mut figures = vec![
        ("efficiency U".to_owned(), percent(summary.efficiency)),
        ("hours".to_owned(), format!("{:.2}", summary.hours)),
        (
            "equivalent nodes".to_owned(),
            format!("{:.1}", summary.equivalent_nodes),
        ),
        (
            "harvested node-hours".to_owned(),
            count(summary.harvested_node_hours),
        ),
        (
            "trainers done".to_owned(),
            count(summary.trainers_done as f64),
        ),
        ("samples".to_owned(), format!("{:.3e}", summary.samples)),
        (
            "lost to rescaling".to_owned(),
            percent(summary.rescale_cost_fraction),
        ),
        (
            "lost to preemption".to_owned(),
            percent(summary.preempt_cost_fraction),
        ),
        ("preemptions".to_owned(), count(summary.preemptions as f64)),
        ("rescales".to_owned(), count(summary.rescales as f64)),
        ("events".to_owned(), count(summary.events as f64)),
        (
            "per decision (median)".to_owned(),
            span(summary.solve_seconds.p50),
        ),
    ];
    if let Some(fraction) = summary.zero_cost_fraction {
        figures.insert(1, ("of the zero-cost bound".to_owned(), percent(fraction)));
    }
    let empty = History::default();
    let history = replayed.history.as_ref().unwrap_or(&empty);
    let trace = source.trace;
    let (from, to) = (trace.start(), trace.end());
    let nodes: HashSet<&NodeId> = trace.names().iter().collect();
    let within = source
        .holes
        .iter()
        .filter(|hole| !hole.censored && hole.from >= from && hole.until <= to)
        .filter(|hole| nodes.contains(&hole.node));
    Ok(Report {
        title: "Lacuna: replay of recorded holes".to_owned(),
        subtitle: format!(
            "{}: {} nodes, {} trainers at a time, {:.1} hours",
            source.name,
            count(f64::from(summary.nodes)),
            settings.max_parallel,
            summary.hours
        ),
        figures,
        settings: vec![
            ("policy".to_owned(), word(&settings.policy)),
            ("horizon".to_owned(), settings.horizon.to_string()),
            ("costs".to_owned(), format!("x {}", settings.cost_scale)),
            ("objective".to_owned(), word(&settings.objective)),
            ("trainers end".to_owned(), word(&settings.trainer_end)),
            ("which nodes".to_owned(), word(&settings.node_choice)),
            ("model".to_owned(), word(&settings.model)),
            ("seed".to_owned(), settings.seed.to_string()),
        ],
        pool: history
            .points
            .iter()
            .map(|point| PoolPoint {
                at_s: point.at_s,
                pool: point.pool,
                used: point.used,
            })
            .collect(),
        efficiency: efficiency(source, replayed, history)?,
        trainers: history
            .lives
            .iter()
            .map(|life| TrainerRow {
                name: life.name.to_string(),
                admitted_s: life.admitted_s,
                ended_s: life.ended_s,
                samples: life.samples,
                preemptions: life.preemptions,
                sizes: life.sizes.clone(),
            })
            .collect(),
        holes: bin_holes(within.map(|hole| hole.length().as_secs_f64())),
        losses: Some(Losses {
            samples: summary.samples,
            rescale: summary.rescale_cost_fraction * summary.samples,
            preempt: summary.preempt_cost_fraction * summary.samples,
        }),
        solve_seconds: replayed.solve_seconds.clone(),
        notes: vec![
            "Time is recorded time since the start of the replay. Efficiency is work done over \
             the work of the same trainers on dedicated nodes that offer the same node-time; \
             losses are samples lost over samples done. Holes are those of the replayed nodes \
             that both begin and end in the replayed part."
                .to_owned(),
        ],
        ..Report::default()
    })
}

/// Efficiency from the start until each of some moments.
fn efficiency(
    source: Source<'_>,
    replayed: &Replayed,
    history: &History,
) -> Result<Vec<(f64, f64)>, SimError> {
    let end_s = replayed.summary.hours * 3600.0;
    let mut curve = Vec::with_capacity(POINTS);
    let (mut offered, mut before) = (0.0, (0.0, 0_u32));
    let mut due = 1;
    for point in &history.points {
        offered += f64::from(before.1) * (point.at_s - before.0);
        before = (point.at_s, point.pool);
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
            curve.push((point.at_s, point.samples / dedicated));
        }
    }
    curve.push((end_s, replayed.summary.efficiency));
    Ok(curve)
}

/// The word that a setting has on the command line and in JSON.
fn word(setting: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(setting).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}
