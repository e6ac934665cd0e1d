//! The page around the charts.

use std::fmt::Write;

use super::charts;
use super::data::{Report, TrainerRow};
use super::svg::{count, escape, span};

const STYLE: &str = include_str!("style.css");

/// How many trainers the table lists.
const ROWS: usize = 30;

/// Draws a report as one HTML page that needs nothing else.
#[must_use]
pub fn render(report: &Report) -> String {
    let title = escape(&report.title);
    let mut out = format!(
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>\
         <meta name='viewport' content='width=device-width, initial-scale=1'>\
         <title>{title}</title><style>{STYLE}</style></head><body>\n\
         <header><h1>{title}</h1><p>{}</p></header>\n",
        escape(&report.subtitle)
    );
    out.push_str("<dl class='figures'>");
    for (label, value) in &report.figures {
        let (label, value) = (escape(label), escape(value));
        let _ = write!(out, "<div><dt>{label}</dt><dd>{value}</dd></div>");
    }
    out.push_str("</dl>\n");
    let end_s = end(report);
    if !report.pool.is_empty() {
        section(
            &mut out,
            "Pool",
            "<i class='pool'></i>nodes in the pool <i class='used'></i>nodes that train",
            &charts::pool(&report.pool, end_s),
        );
    }
    if !report.efficiency.is_empty() {
        section(
            &mut out,
            "Efficiency so far",
            "work done since the start, over that of the same trainers on as much dedicated node-time",
            &charts::efficiency(&report.efficiency, end_s),
        );
    }
    if let Some(losses) = &report.losses {
        section(
            &mut out,
            "Work done and lost",
            "in samples, as shares of all that was done and lost",
            &charts::losses(losses),
        );
    }
    if !report.trainers.is_empty() {
        section(
            &mut out,
            "Trainers",
            "one lane for each trainer at a time; height is the square root of its size in nodes, a change of shade is the next trainer",
            &charts::trainers(&report.trainers, end_s),
        );
    }
    if report.holes.iter().any(|bin| bin.count > 0) {
        section(
            &mut out,
            "Holes by length",
            "<i class='pale'></i>% of all holes <i class='full'></i>% of their node-time",
            &charts::holes(&report.holes),
        );
    }
    if report.solve_seconds.iter().any(|&s| s > 0.0) {
        section(
            &mut out,
            "Time per decision",
            "number of decisions by wall-clock time",
            &charts::solves(&report.solve_seconds),
        );
    }
    if !report.settings.is_empty() {
        out.push_str("<section><h2>Settings</h2><dl class='settings'>");
        for (label, value) in &report.settings {
            let _ = write!(
                out,
                "<div><dt>{}</dt><dd>{}</dd></div>",
                escape(label),
                escape(value)
            );
        }
        out.push_str("</dl></section>\n");
    }
    if !report.trainers.is_empty() {
        table(&mut out, &report.trainers, end_s);
    }
    for note in &report.notes {
        let _ = write!(out, "<p class='note'>{}</p>", escape(note));
    }
    out.push_str("</body></html>\n");
    out
}

/// The last moment of which the report says anything.
fn end(report: &Report) -> f64 {
    let pool = report.pool.last().map_or(0.0, |p| p.at_s);
    let efficiency = report.efficiency.last().map_or(0.0, |p| p.0);
    let ends = report.trainers.iter().filter_map(|row| row.ended_s);
    ends.fold(pool.max(efficiency), f64::max).max(1.0)
}

/// `legend` is HTML of this module, everything else is escaped where it enters.
fn section(out: &mut String, heading: &str, legend: &str, chart: &str) {
    let _ = writeln!(
        out,
        "<section><h2>{heading}</h2><p class='legend'>{legend}</p>{chart}</section>"
    );
}

fn table(out: &mut String, rows: &[TrainerRow], end_s: f64) {
    out.push_str(
        "<section class='table'><table><thead><tr><th>trainer<th>admitted<th>ended<th>ran for\
         <th>samples<th>samples/s<th>mean nodes<th>preemptions</tr></thead><tbody>",
    );
    for row in rows.iter().take(ROWS) {
        let until = row.ended_s.unwrap_or(end_s);
        let lasted = (until - row.admitted_s).max(f64::MIN_POSITIVE);
        let ended = row.ended_s.map_or_else(|| "-".to_owned(), span);
        let _ = write!(
            out,
            "<tr><td>{}<td>{}<td>{ended}<td>{}<td>{}<td>{}<td>{:.1}<td>{}</tr>",
            escape(&row.name),
            span(row.admitted_s),
            span(lasted),
            count(row.samples),
            count(row.samples / lasted),
            mean_nodes(row, until) / lasted,
            row.preemptions
        );
    }
    out.push_str("</tbody></table>");
    if rows.len() > ROWS {
        let _ = write!(out, "<p class='legend'>and {} more</p>", rows.len() - ROWS);
    }
    out.push_str("</section>\n");
}

/// Node-seconds until a moment.
fn mean_nodes(row: &TrainerRow, until: f64) -> f64 {
    let ends = row.sizes.iter().skip(1).map(|size| size.0).chain([until]);
    row.sizes
        .iter()
        .zip(ends)
        .map(|(&(from, nodes), to)| f64::from(nodes) * (to.min(until) - from).max(0.0))
        .sum()
}
