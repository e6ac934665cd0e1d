//! The pool's statistics as a page and as a drawing.

use std::fmt::Write;

use lacuna_sim::pool_stats::PoolStats;

use super::shell::{self, Panel, Table};
use super::svg::{HALF, WIDTH, both, count, percent, share};
use super::{answer, charts};

/// Legends of the charts.
const OVER_TIME: &str = "line: mean; band: smallest and largest size in each part of the time";
const LENGTHS: &str = "<i class='pale'></i>% of all holes <i class='full'></i>% of their node-time";
const SIZES: &str = "<i class='pale'></i>% of the time <i class='full'></i>% of the node-time";

/// Source of the statistics. It keeps a reader from taking the holes of a simulated scheduler for
/// recorded ones.
#[derive(Debug, Clone, Copy, Default)]
pub struct About<'a> {
    /// The trace's name.
    pub name: &'a str,
    /// The log and its machine: label and value.
    pub machine: &'a [(String, String)],
    /// What counts as an outage, in words; no figure counts its nodes as idle.
    pub left_out: Option<&'a str>,
    /// Caveats, one paragraph each.
    pub notes: &'a [String],
}

/// Draws the statistics as one self-contained HTML page.
#[must_use]
pub fn render_pool(stats: &PoolStats, about: &About<'_>) -> String {
    let mut body = String::new();
    answer::draw(
        &mut body,
        &[answer::idle(stats, about.left_out)],
        &[],
        about.notes,
    );
    shell::pairs(&mut body, "figures", &headline(stats));
    shell::section(
        &mut body,
        "Idle nodes over time",
        OVER_TIME,
        &both(WIDTH, |width| charts::over_time(stats, width)),
        "",
    );
    size_section(&mut body, stats);
    length_section(&mut body, stats);
    week_section(&mut body, stats);
    shell::half(&mut body, "All figures", "", &figures(stats).html(), "");
    if !about.machine.is_empty() {
        let mut list = String::new();
        shell::pairs(&mut list, "settings", about.machine);
        shell::section(&mut body, "The log and its machine", "", &list, "");
    }
    let _ = write!(
        body,
        "<p class='note'>Sizes are weighted by time. Lengths of holes that were open at the start \
         or the end of the trace ({} and {} of {}) count as far as they lie in it, so they \
         are lower bounds.</p>",
        stats.holes.cut_at_start,
        stats.holes.cut_at_end,
        count(stats.holes.count as f64)
    );
    let subtitle = format!(
        "{}: {} nodes, {:.2} days",
        about.name,
        count(f64::from(stats.nodes)),
        stats.hours / 24.0
    );
    shell::page("Lacuna: the pool of idle nodes", &subtitle, &body)
}

fn headline(stats: &PoolStats) -> Vec<(String, String)> {
    let row = |label: &str, value: String| (label.to_owned(), value);
    vec![
        row(
            "idle nodes (mean)",
            format!("{:.1}", stats.equivalent_nodes),
        ),
        row("share of the machine", percent(stats.share, 2)),
        row("median", count(f64::from(stats.idle.p50))),
        row("holes", count(stats.holes.count as f64)),
        row("median hole", super::svg::span(stats.holes.p50_s.round())),
        row("node-hours idle", count(stats.holes.node_hours)),
        row(
            "in holes over 1 h",
            percent(1.0 - stats.holes.under_1_h.node_time, 0),
        ),
    ]
}

/// All figures as a table.
pub(super) fn figures(stats: &PoolStats) -> Table {
    let mut table = Table::new(&["figure", "value"]);
    for (label, value) in stats.headline().into_iter().chain(stats.figures()) {
        table.row([label.to_owned(), value]);
    }
    table
}

/// Section of holes by length.
pub(super) fn length_section(out: &mut String, stats: &PoolStats) {
    let mut table = Table::new(&["length", "holes", "of all", "node-hours", "of all"]);
    for bin in &stats.lengths {
        let number = bin.count as f64 / stats.holes.count.max(1) as f64;
        let time = share(bin.node_hours, stats.holes.node_hours);
        table.row([
            bin.label.clone(),
            count(bin.count as f64),
            percent(number, 1),
            count(bin.node_hours),
            percent(time, 1),
        ]);
    }
    shell::half(
        out,
        "Holes by length",
        LENGTHS,
        &both(HALF, |width| charts::holes(&stats.lengths, width)),
        &table.folded("as a table"),
    );
}

/// Section of the time at each size of the pool.
pub(super) fn size_section(out: &mut String, stats: &PoolStats) {
    let mut table = Table::new(&["idle nodes", "of the time", "of the node-time"]);
    for bin in &stats.sizes {
        table.row([
            if bin.from == bin.to {
                bin.from.to_string()
            } else {
                format!("{}-{}", bin.from, bin.to)
            },
            percent(bin.time, 1),
            percent(bin.node_time, 1),
        ]);
    }
    shell::half(
        out,
        "How many nodes are idle",
        SIZES,
        &both(HALF, |width| charts::sizes(&stats.sizes, width)),
        &table.folded("as a table"),
    );
}

/// Section of the mean pool by hour of the week.
pub(super) fn week_section(out: &mut String, stats: &PoolStats) {
    let zone = match stats.utc_offset_s {
        0 => "UTC".to_owned(),
        s => format!("UTC{:+.1} h", s as f64 / 3600.0),
    };
    shell::half(
        out,
        "Hours of the week",
        &format!("mean idle nodes, {zone}; a stronger colour is more, in equal ratios"),
        &both(HALF, |width| charts::week(stats, width)),
        "",
    );
}

/// Draws all charts of the pool's statistics as one SVG file.
#[must_use]
pub fn pool_drawing(stats: &PoolStats, about: &About<'_>) -> String {
    let panels = [
        Panel {
            title: "Idle nodes over time",
            legend: "line: mean; band: smallest and largest",
            chart: charts::over_time(stats, WIDTH),
            height: 260.0,
        },
        Panel {
            title: "How many nodes are idle",
            legend: "orange, left: % of the time; blue, right: % of the node-time",
            chart: charts::sizes(&stats.sizes, WIDTH),
            height: 220.0,
        },
        Panel {
            title: "Holes by length",
            legend: "orange, left: % of all holes; blue, right: % of their node-time",
            chart: charts::holes(&stats.lengths, WIDTH),
            height: 220.0,
        },
        Panel {
            title: "Hours of the week",
            legend: "mean idle nodes; a stronger colour is more",
            chart: charts::week(stats, WIDTH),
            height: 182.0,
        },
    ];
    let words = about
        .machine
        .iter()
        .map(|(label, value)| format!("{label}: {value}"))
        .chain(about.notes.iter().cloned());
    let headline = stats.headline().into_iter();
    let headline = headline.map(|(label, value)| format!("{label}: {value}"));
    let left_out = about.left_out.map(str::to_owned);
    let words: Vec<String> = headline.chain(left_out).chain(words).collect();
    let heading = format!(
        "{}, {:.2} days, {} holes",
        about.name,
        stats.hours / 24.0,
        count(stats.holes.count as f64)
    );
    shell::drawing(&heading, &words, &panels)
}
