//! The figures of a replay as a table for people.

use std::path::PathBuf;

use serde_json::{Value, json};

use lacuna_model::{RuleGain, Span};
use lacuna_planner::objective::Objective;
use lacuna_sim::pool_stats::PoolStats;
use lacuna_sim::{Apart, Dedicated, PracticeFigures, RulesFollowed, Settings, Summary};
use lacuna_trainer::measure;

use super::verified;
use crate::log::LogSummary;
use crate::output::{iso, latency, percent, short};
use crate::table::key_values;

/// Rows of the table: label and value.
type Rows = Vec<(&'static str, String)>;

/// The table.
pub(super) fn text(
    summary: &Summary,
    pool: &PoolStats,
    log: &LogSummary,
    written: &[(&'static str, Option<&PathBuf>)],
) -> String {
    let mut rows = log.headline(pool);
    rows.extend(harvest(summary));
    rows.extend(losses(summary));
    rows.extend(summary.apart.iter().flat_map(distance));
    rows.extend(run(summary));
    rows.extend(also(&summary.settings));
    rows.extend(decisions(summary));
    rows.extend(log.rows());
    rows.push(("wall time", latency(Some(summary.wall_seconds))));
    let megabytes = summary.peak_rss_bytes / 1_000_000;
    rows.push(("memory", format!("{megabytes} MB")));
    let path = |(what, path): &(&'static str, Option<&PathBuf>)| {
        Some((*what, path.as_ref()?.display().to_string()))
    };
    rows.extend(written.iter().filter_map(path));
    key_values(&rows)
}

/// What was trained.
fn harvest(summary: &Summary) -> Rows {
    // Of no idle node nothing can be a share.
    let of_idle = |fraction: f64| match summary.equivalent_nodes > 0.0 {
        true => percent(fraction),
        false => "-".to_owned(),
    };
    let mut rows = vec![
        ("efficiency U", of_idle(summary.efficiency)),
        ("hours", format!("{:.2}", summary.hours)),
        (
            "harvested",
            format!("{} node-hours", short(summary.harvested_node_hours)),
        ),
        ("idle share used", of_idle(summary.idle_share_used)),
        ("samples", short(summary.samples)),
    ];
    if let Some(fraction) = summary.zero_cost_fraction {
        rows.push(("of zero-cost bound", percent(fraction)));
    }
    for milestone in &summary.milestones {
        let share = milestone.zero_cost_fraction;
        let share = share.map_or_else(String::new, |share| {
            format!(", {} of the zero-cost bound", percent(share))
        });
        let text = format!(
            "{} samples after {}{share}",
            short(milestone.samples),
            Span::from_secs_f64(milestone.hours * 3600.0)
        );
        rows.push(("milestone", text));
    }
    rows.extend(summary.beside.iter().map(beside));
    rows
}

/// What changes and preemptions cost.
fn losses(summary: &Summary) -> Rows {
    let of_samples = |fraction| match measure::share_lost(fraction, 1.0) {
        Some(fraction) => format!("{} of the samples done", percent(fraction)),
        None => "more samples than were done".to_owned(),
    };
    let rescaling = of_samples(summary.rescale_cost_fraction);
    let mut rows = vec![("lost to rescaling", rescaling)];
    if let Some(fraction) = summary.pilot_wait_fraction {
        rows.push(("of it, pilots", percent(fraction)));
    }
    rows.extend([
        (
            "lost to preemption",
            of_samples(summary.preempt_cost_fraction),
        ),
        ("preemptions", summary.preemptions.to_string()),
        ("rescales", summary.rescales.to_string()),
        ("events", summary.events.to_string()),
        ("trainers done", summary.trainers_done.to_string()),
    ]);
    if let Some(hours) = summary.mean_completion_hours {
        rows.push(("mean completion", format!("{hours:.2} h")));
    }
    for harvest in summary.kinds.iter().flatten() {
        let (harvested, offered) = (harvest.harvested_node_hours, harvest.offered_node_hours);
        let used = measure::idle_share_used(harvested, offered);
        let text = format!(
            "{} of {} node-hours ({}); {} of {} nodes that left were training",
            short(harvested),
            short(offered),
            used.map_or_else(|| "-".to_owned(), percent),
            harvest.taken_nodes,
            harvest.left_nodes
        );
        rows.push(("harvested by kind", format!("{}: {text}", harvest.kind)));
    }
    rows
}

/// The time, the nodes and the usual settings.
fn run(summary: &Summary) -> Rows {
    let (settings, solve) = (&summary.settings, &summary.solve_seconds);
    let mut rows = Rows::new();
    if summary.unfinished {
        let text = "the trace ended before the trainers did";
        rows.push(("unfinished", text.to_owned()));
    }
    rows.extend([
        ("nodes", summary.nodes.to_string()),
        (
            "replayed",
            format!("{} to {}", iso(summary.start), iso(summary.until())),
        ),
        ("history", format!("{} holes", summary.history_holes)),
        (
            "asked for",
            format!(
                "{}, horizon {}, {} in parallel, costs x{}, nodes {}, seed {}",
                word(&json!(settings.policy)),
                settings.horizon,
                settings.max_parallel,
                settings.cost_scale,
                word(&json!(settings.node_choice)),
                settings.seed
            ),
        ),
        (
            "decision",
            format!(
                "median {}, 99 % {}, longest {}, in all {}",
                latency(Some(solve.p50)),
                latency(Some(solve.p99)),
                latency(Some(solve.max)),
                latency(Some(solve.total))
            ),
        ),
    ]);
    rows
}

/// The unusual settings, if there are any.
fn also(settings: &Settings) -> Option<(&'static str, String)> {
    let mut also = Vec::new();
    if !settings.objectives.is_empty() || settings.objective != Objective::default() {
        also.push(format!("objective {}", settings.objective));
    }
    if !settings.objectives.is_empty() {
        also.push(format!("{} of its own", settings.objectives.len()));
    }
    if settings.charge_starts {
        also.push("starts charged".to_owned());
    }
    if let Some(start) = settings.pilot_start {
        also.push(format!("pilots of owners after {start}"));
    }
    if settings.dedicated != Dedicated::ByKind {
        also.push(format!("dedicated {}", word(&json!(settings.dedicated))));
    }
    if settings.endless {
        also.push("endless".to_owned());
    }
    (!also.is_empty()).then(|| ("also", also.join(", ")))
}

/// How decisions were made.
fn decisions(summary: &Summary) -> Rows {
    let mut rows = Rows::new();
    if !summary.shortcuts.is_empty() {
        let how = summary
            .shortcuts
            .iter()
            .map(|(how, count)| match how.as_ref() {
                "none" => format!("in full {count}"),
                other => format!("{other} {count}"),
            });
        rows.push(("solved by", how.collect::<Vec<_>>().join(", ")));
    }
    if let Some(rules) = &summary.rules {
        rows.push(("rules", followed(rules)));
    }
    if summary.unproven > 0 {
        rows.push(("not proven", format!("{} decisions", summary.unproven)));
    }
    if summary.clock_stops > 0 {
        let stops = summary.clock_stops;
        rows.push((
            "clock stops",
            format!("{stops} decisions, which may differ the next time"),
        ));
    }
    if let Some(verified) = summary.verified {
        let by_forecasts = summary.settings.policy.forecasts();
        rows.push(("verified", verified::in_words(&verified, by_forecasts)));
    }
    rows
}

/// A setting by its name in JSON.
fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A number of nodes, in words.
fn counted(nodes: u32) -> String {
    let unit = if nodes == 1 { "node" } else { "nodes" };
    format!("{nodes} {unit}")
}

/// The figures of a practice beside the policy, in words.
fn beside(figures: &PracticeFigures) -> (&'static str, String) {
    let mut text = format!(
        "{}: {} samples",
        figures.practice.name(),
        short(figures.samples)
    );
    let mut also = |part: String| {
        text.push_str(", ");
        text.push_str(&part);
    };
    if let Some(share) = figures.zero_cost_fraction {
        also(format!("{} of the zero-cost bound", percent(share)));
    }
    let (hours, nodes) = (figures.hours, short(figures.harvested_node_hours));
    also(format!("{nodes} node-hours in {hours:.2} h"));
    also(format!("{} restarts", figures.restarts));
    also(format!(
        "{} of the samples done again",
        percent(figures.redone_fraction)
    ));
    if let Some(nodes) = figures.nodes {
        let nodes = counted(nodes);
        also(format!("jobs of {nodes}, the best fixed size"));
    }
    if let Some(ratio) = figures.ratio {
        also(format!("the policy does {ratio:.2} times as much an hour"));
    }
    ("beside", text)
}

/// The rules that `auto` followed, in words.
fn followed(rules: &RulesFollowed) -> String {
    let time = rules.shares.iter();
    let time: Vec<String> = time
        .map(|(rule, share)| format!("{rule} {:.1} %", 100.0 * share))
        .collect();
    let gain = |gain: &RuleGain| format!("{} {:.3}", gain.rule.name(), gain.share);
    let gains: Vec<String> = rules.brought.iter().map(gain).collect();
    format!(
        "{} of the time, {} changes; of the idle node-time of the last hours each rule brought: {}",
        time.join(", "),
        rules.changes,
        gains.join(", ")
    )
}

/// What distance did, in words.
fn distance(apart: &Apart) -> Rows {
    let mut rows = vec![
        ("leaves", apart.leaves.to_string()),
        ("node-time by tier", by_tier(apart)),
        (
            "crossing trainers",
            format!(
                "{:.2} on average, at most {} on one leaf",
                apart.crossing, apart.most_crossing
            ),
        ),
    ];
    for quarter in apart.quarters.iter().filter(|quarter| quarter.hours > 0.0) {
        let (from, until) = quarter.pool;
        let samples = short(quarter.samples);
        rows.push((
            "quarter of time",
            format!("pool of {from} to {until} nodes: {samples} samples"),
        ));
    }
    rows
}

/// The shares of trainers' node-time by tier, in words.
fn by_tier(apart: &Apart) -> String {
    let all: f64 = apart.node_hours.iter().sum();
    if all <= 0.0 {
        return "-".to_owned();
    }
    let shares = apart.node_hours.iter().enumerate().map(|(tier, hours)| {
        let share = hours / all * 100.0;
        match tier {
            0 => format!("{share:.2} % on one leaf"),
            tier => format!("{share:.2} % at tier {tier}"),
        }
    });
    shares.collect::<Vec<_>>().join(", ")
}
