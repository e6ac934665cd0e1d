//! The answer of a replay in words: gain, certainty and harm.

use std::fmt::Write;

use lacuna_sim::Summary;
use lacuna_sim::pool_stats::PoolStats;

use super::data::{Answer, Tile};
use super::svg::{count, escape, percent, span};

/// Length of time from which it is written in days.
const DAYS_FROM_H: f64 = 48.0;

/// Draws the answer in words, and its caveats.
pub(super) fn draw(out: &mut String, answers: &[Answer], tiles: &[Tile], caveats: &[String]) {
    if answers.is_empty() && caveats.is_empty() {
        return;
    }
    out.push_str("<div class='answer'>");
    for (number, answer) in answers.iter().enumerate() {
        if number == 1 {
            shown(out, tiles);
        }
        let _ = write!(
            out,
            "<h2>{}</h2><p>{}</p>",
            escape(&answer.question),
            escape(&answer.text)
        );
    }
    if !caveats.is_empty() {
        out.push_str("<h2>Caveats</h2><ul>");
        for caveat in caveats {
            let _ = write!(out, "<li>{}</li>", escape(caveat));
        }
        out.push_str("</ul>");
    }
    out.push_str("</div>\n");
}

/// Draws the figures of the answer.
fn shown(out: &mut String, tiles: &[Tile]) {
    if tiles.is_empty() {
        return;
    }
    out.push_str("<dl class='tiles'>");
    for tile in tiles {
        let texts = [&tile.value, &tile.unit, &tile.range].map(|text| escape(text));
        let [value, unit, range] = texts;
        let _ = write!(
            out,
            "<div><dd>{value}</dd><dt>{unit}</dt><dd class='range'>{range}</dd></div>"
        );
    }
    out.push_str("</dl>");
}

/// Hours of a year.
const YEAR_H: f64 = 8766.0;

/// The answer in figures: what the machine's idle nodes are worth. Each has its range over the
/// quarters of the time, and is rounded to half of it.
pub(super) fn tiles(summary: &Summary, pool: &PoolStats) -> Vec<Tile> {
    let low = pool.quarters.into_iter().fold(f64::MAX, f64::min);
    let high = pool.quarters.into_iter().fold(0.0, f64::max);
    let machine = f64::from(pool.nodes).max(1.0);
    let rows = [
        ("node-hours a year", YEAR_H, ""),
        ("nodes of their own do as much", 1.0, ""),
        ("of the machine", 100.0 / machine, " %"),
    ];
    let tile = |(unit, times, sign): (&str, f64, &str)| {
        let scaled = |nodes: f64| nodes * summary.efficiency * times;
        let [value, low, high] = [pool.equivalent_nodes, low, high].map(scaled);
        let step = step((high - low) / 2.0, value);
        Tile {
            value: rounded(value, step) + sign,
            unit: unit.to_owned(),
            range: format!(
                "{} to {}{sign} by quarter of the time",
                rounded(low, step),
                rounded(high, step)
            ),
        }
    };
    rows.map(tile).to_vec()
}

/// The power of ten to which a figure of this uncertainty is rounded; at least a hundredth of it.
fn step(uncertainty: f64, value: f64) -> f64 {
    let least = (value / 100.0).max(1e-3);
    10_f64.powf(uncertainty.max(least).log10().floor())
}

fn rounded(value: f64, step: f64) -> String {
    let value = (value / step).round() * step;
    match step {
        step if step >= 1.0 => count(value),
        step if step >= 0.1 => format!("{value:.1}"),
        step if step >= 0.01 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// The answer to the questions of a centre's planner.
pub(super) fn of(
    summary: &Summary,
    pool: &PoolStats,
    simulated: bool,
    left_out: Option<&str>,
) -> Vec<Answer> {
    vec![
        gain(summary, pool, left_out),
        certainty(pool, simulated),
        harm(pool, simulated),
    ]
}

fn gain(summary: &Summary, pool: &PoolStats, left_out: Option<&str>) -> Answer {
    let offered = pool.equivalent_nodes * pool.hours;
    let held = if offered > 0.0 {
        percent(summary.harvested_node_hours / offered, 1)
    } else {
        "-".to_owned()
    };
    let text = format!(
        "{} That is {} node-hours. Trainers would have held {held} of them and done as much as {} nodes \
         of their own would have done in the same time, never taken away and never rescaled: an \
         efficiency of {}.",
        how_many(pool, left_out),
        count(offered),
        nodes(pool.equivalent_nodes * summary.efficiency),
        efficiency(summary, 1)
    );
    Answer {
        question: "What would Lacuna have gained here?".to_owned(),
        text,
    }
}

/// Efficiency with this number of digits; none without idle nodes.
pub(super) fn efficiency(summary: &Summary, digits: usize) -> String {
    match summary.equivalent_nodes > 0.0 {
        true => percent(summary.efficiency, digits),
        false => "-".to_owned(),
    }
}

/// Number of idle nodes in words, the median beside the mean, and what counts as busy.
fn how_many(pool: &PoolStats, left_out: Option<&str>) -> String {
    let left_out = left_out.map_or_else(String::new, |words| format!(" {words}."));
    format!(
        "Over {} the machine's {} nodes left {} idle on average ({}), half of the time no more than \
         {}.{left_out}",
        length(pool.hours),
        count(f64::from(pool.nodes)),
        nodes(pool.equivalent_nodes),
        percent(pool.share, 1),
        count(f64::from(pool.idle.p50))
    )
}

/// The answer about the certainty of the number of idle nodes.
fn certainty(pool: &PoolStats, simulated: bool) -> Answer {
    let source = if simulated {
        "It is an estimate: a simulated scheduler placed the batch jobs, so the holes are its own, and \
         not those of the machine."
    } else {
        "The log tells where batch jobs ran, or which nodes were idle."
    };
    Answer {
        question: "How sure is that?".to_owned(),
        text: format!(
            "{source} Means of the four quarters of the time: {} idle nodes. The farther these are \
             apart, the less is known of another such time.",
            pool.quarters.map(nodes).join(", ")
        ),
    }
}

fn harm(pool: &PoolStats, simulated: bool) -> Answer {
    let left = pool.leaves_per_hour * pool.hours * pool.nodes_per_leave;
    let machine_hours = pool.hours * f64::from(pool.nodes);
    let second_hours = left / 3600.0;
    let starts = if simulated {
        "when the simulated scheduler starts them"
    } else {
        "when they did"
    };
    let text = format!(
        "No batch job in the replay: all start {starts}, as a node that is wanted goes back in the \
         same moment. On a real machine each second that giving back takes costs batch jobs at \
         most {} node-hours over the whole trace, {} of the machine.",
        nodes(second_hours),
        percent(second_hours / machine_hours.max(f64::MIN_POSITIVE), 4)
    );
    Answer {
        question: "Would it have harmed batch jobs?".to_owned(),
        text,
    }
}

/// The answer about the number of idle nodes and the lengths of holes.
pub(super) fn idle(stats: &PoolStats, left_out: Option<&str>) -> Answer {
    let text = format!(
        "{} That is {} node-hours. Half of the holes were over within {}; holes of an hour and \
         more held {} of the idle node-time.",
        how_many(stats, left_out),
        count(stats.holes.node_hours),
        span(stats.holes.p50_s.round()),
        percent(1.0 - stats.holes.under_1_h.node_time, 0)
    );
    Answer {
        question: "How much was idle?".to_owned(),
        text,
    }
}

/// Nodes or node-hours, with one decimal below 100.
fn nodes(value: f64) -> String {
    if value < 99.95 {
        format!("{value:.1}")
    } else {
        count(value)
    }
}

fn length(hours: f64) -> String {
    if hours < DAYS_FROM_H {
        format!("{hours:.1} hours")
    } else {
        format!("{:.1} days", hours / 24.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_are_rounded_to_what_their_range_supports() {
        for (value, uncertainty, expected) in [
            (1_024_370.0, 210_000.0, "1,000,000"),
            (111.5, 34.0, "110"),
            (2.54, 0.3, "2.5"),
            (0.0, 0.0, "0.000"),
            (74.123, 0.0, "74.1"),
        ] {
            assert_eq!(rounded(value, step(uncertainty, value)), expected);
        }
    }

    #[test]
    fn figures_have_one_decimal_while_they_are_small() {
        assert_eq!(
            (nodes(35.56), nodes(1081.8)),
            ("35.6".into(), "1,082".into())
        );
        assert_eq!(length(24.0), "24.0 hours");
        assert_eq!(length(8729.05), "363.7 days");
    }
}
