//! Bar charts: holes by length, days, decisions by time.

use std::fmt::Write;

use lacuna_sim::pool_stats::HoleBin;

use crate::data::{DayRow, SolveBin};
use crate::svg::{Frame, count, every, open, percent, rect, share, text, value_axis};

/// Holes by length: for each bin its share of all holes, and its share of their node-time.
pub(crate) fn holes(bins: &[HoleBin], width: f64) -> String {
    let holes: u64 = bins.iter().map(|bin| bin.count).sum();
    let hours: f64 = bins.iter().map(|bin| bin.node_hours).sum();
    let pairs: Vec<Pair> = bins
        .iter()
        .map(|bin| Pair {
            label: bin.label.clone(),
            pale: share(bin.count as f64, holes as f64),
            full: share(bin.node_hours, hours),
        })
        .collect();
    paired(
        &pairs,
        "holes by length: share of number and of node-time",
        width,
    )
}

/// Two shares of one bin.
pub(super) struct Pair {
    pub(super) label: String,
    /// Share of the left bar.
    pub(super) pale: f64,
    /// Share of the right bar.
    pub(super) full: f64,
}

/// Two bars for each pair, with their percentages above if there is room.
pub(super) fn paired(pairs: &[Pair], name: &str, width: f64) -> String {
    let top = pairs
        .iter()
        .fold(0.05, |top: f64, pair| top.max(pair.pale).max(pair.full));
    let frame = Frame::of((width, 220.0), pairs.len() as f64, top * 1.12);
    let mut out = open(width, 220.0, name);
    value_axis(&mut out, &frame, |v| percent(v, 0));
    let slot = frame.width / pairs.len().max(1) as f64;
    for (at, pair) in pairs.iter().enumerate() {
        let left = frame.left + slot * at as f64;
        for (class, value, offset) in [("pale", pair.pale, 0.12), ("full", pair.full, 0.5)] {
            let (x, y) = (left + slot * offset, frame.y(value));
            rect(&mut out, class, (x, y), slot * 0.36, frame.bottom() - y);
            let words = match value * 100.0 {
                0.0 => "0".to_owned(),
                v if v < 0.95 => format!("{v:.1}"),
                v => format!("{v:.0}"),
            };
            let middle = (x + slot * 0.18, y - 3.0);
            if slot > 56.0 {
                text(&mut out, "value", middle, "middle", &words);
            }
        }
        let middle = (left + slot / 2.0, frame.bottom() + 16.0);
        if at % every(slot, 62.0) == 0 {
            text(&mut out, "tick", middle, "middle", &pair.label);
        }
    }
    out + "</svg>"
}

/// One bar of efficiency for each day. Its width is the day's share of the offered node-time, so
/// a day with few nodes weighs less.
pub(crate) fn days(days: &[DayRow], width: f64) -> String {
    let offered = |day: &DayRow| day.offered_node_hours.max(0.0);
    let total: f64 = days.iter().map(offered).sum();
    let top = days
        .iter()
        .filter_map(|day| day.efficiency)
        .fold(1.0, f64::max);
    let frame = Frame::of((width, 220.0), total.max(f64::MIN_POSITIVE), top);
    let mut out = open(width, 220.0, "efficiency by day");
    value_axis(&mut out, &frame, |v| percent(v, 0));
    let (mut before, mut free) = (0.0, 0.0);
    for day in days {
        let (left, right) = (frame.x(before), frame.x(before + offered(day)));
        before += offered(day);
        let width = right - left;
        let Some(efficiency) = day.efficiency else {
            continue;
        };
        let y = frame.y(efficiency.max(0.0));
        let _ = write!(
            out,
            "<rect class='full' x='{:.1}' y='{y:.1}' width='{:.1}' height='{:.1}'><title>{}: {} of {} node-hours</title></rect>",
            left + 0.5,
            (width - 1.0).max(0.3),
            frame.bottom() - y,
            crate::svg::escape(&day.label),
            percent(efficiency, 1),
            count(day.offered_node_hours),
        );
        let middle = left + width / 2.0;
        if width >= 24.0 {
            text(
                &mut out,
                "value",
                (middle, y - 3.0),
                "middle",
                &format!("{:.0}", efficiency * 100.0),
            );
        }
        // Only the end of the date fits, of days that are apart; the table below has all of it.
        if middle - 17.0 >= free {
            free = middle + 17.0;
            let short = day.label.get(5..).unwrap_or(&day.label);
            text(
                &mut out,
                "tick",
                (middle, frame.bottom() + 16.0),
                "middle",
                short,
            );
        }
    }
    out + "</svg>"
}

/// Number of decisions by wall-clock time, on a logarithmic scale.
pub(crate) fn solves(bins: &[SolveBin], width: f64) -> String {
    let top = bins.iter().map(|bin| bin.count).max().unwrap_or(1) as f64;
    let frame = Frame::of((width, 190.0), bins.len() as f64, top * 1.12);
    let mut out = open(width, 190.0, "decisions by the time that they took");
    value_axis(&mut out, &frame, count);
    let slot = frame.width / bins.len().max(1) as f64;
    for (at, bin) in bins.iter().enumerate() {
        let (x, y) = (frame.left + slot * at as f64, frame.y(bin.count as f64));
        rect(
            &mut out,
            "full",
            (x + slot * 0.06, y),
            slot * 0.88,
            frame.bottom() - y,
        );
        if bin.count > 0 && slot > 26.0 {
            let middle = (x + slot / 2.0, y - 3.0);
            text(
                &mut out,
                "value",
                middle,
                "middle",
                &count(bin.count as f64),
            );
        }
        if at % every(slot, 46.0) == 0 {
            text(
                &mut out,
                "tick",
                (x, frame.bottom() + 16.0),
                "middle",
                &edge(bin.from_s),
            );
        }
    }
    out + "</svg>"
}

/// The edge of a bin of decisions, with two significant digits.
fn edge(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s < 0.999e-6 => (s * 1e9, "ns"),
        s if s < 0.999e-3 => (s * 1e6, "µs"),
        s if s < 0.999 => (s * 1e3, "ms"),
        s => (s, "s"),
    };
    if value < 9.95 {
        format!("{value:.1} {unit}")
    } else {
        format!("{value:.0} {unit}")
    }
}
