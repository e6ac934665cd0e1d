//! The pool: its size over time, the time at each size, and its mean by hour of the week.

use std::fmt::Write;

use lacuna_sim::pool_stats::{PoolColumn, PoolStats, SizeBin};

use super::bars::{Pair, paired};
use crate::style::STEPS;
use crate::svg::{Frame, count, every, open, rect, text, time_axis, value_axis};

/// Mean pool over time, with its smallest and largest size.
pub(crate) fn over_time(stats: &PoolStats, width: f64) -> String {
    let columns = &stats.timeline;
    let top = columns.iter().map(|c| f64::from(c.max)).fold(1.0, f64::max);
    let frame = Frame::of((width, 260.0), stats.hours * 3600.0, top * 1.04);
    let mut out = open(width, 260.0, "idle nodes over time");
    value_axis(&mut out, &frame, count);
    time_axis(&mut out, &frame);
    let width = frame.width / columns.len().max(1) as f64;
    let x = |at: usize| frame.left + width * at as f64;
    band(&mut out, &frame, columns, x, width);
    out.push_str("<path class='line' d='");
    for (at, column) in columns.iter().enumerate() {
        let command = if at == 0 { 'M' } else { 'L' };
        let y = frame.y(column.mean);
        let _ = write!(out, "{command}{:.1} {y:.1}H{:.1}", x(at), x(at) + width);
    }
    out.push_str("'/>");
    let y = frame.y(stats.equivalent_nodes);
    let _ = write!(
        out,
        "<path class='ideal' d='M{:.1} {y:.1}H{:.1}'/>",
        frame.left,
        frame.right()
    );
    let words = format!("dashed: mean, {:.1}", stats.equivalent_nodes);
    let corner = (frame.right() - 4.0, frame.top + 10.0);
    text(&mut out, "over", corner, "end", &words);
    out + "</svg>"
}

fn band(
    out: &mut String,
    frame: &Frame,
    columns: &[PoolColumn],
    x: impl Fn(usize) -> f64,
    width: f64,
) {
    out.push_str("<path class='range' d='");
    for (at, column) in columns.iter().enumerate() {
        let (low, high) = (
            frame.y(f64::from(column.min)),
            frame.y(f64::from(column.max)),
        );
        let _ = write!(
            out,
            "M{:.1} {high:.1}h{width:.1}V{low:.1}h-{width:.1}z",
            x(at)
        );
    }
    out.push_str("'/>");
}

/// Two bars for each range of pool sizes: share of the time, share of the node-time.
pub(crate) fn sizes(bins: &[SizeBin], width: f64) -> String {
    let pairs: Vec<Pair> = bins
        .iter()
        .map(|bin| Pair {
            label: if bin.from == bin.to {
                bin.from.to_string()
            } else {
                format!("{}-{}", bin.from, bin.to)
            },
            pale: bin.time,
            full: bin.node_time,
        })
        .collect();
    paired(
        &pairs,
        "share of time and of node-time by size of the pool",
        width,
    )
}

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// Mean pool by hour of the day and day of the week, as colour, and as number if there is room.
pub(crate) fn week(stats: &PoolStats, width: f64) -> String {
    let hours = || stats.week.iter().flatten().flatten().copied();
    let most = hours().fold(1.0, f64::max);
    let least = hours().fold(most, f64::min);
    // Colours span the values, and at least a factor of two, so that small differences stay small.
    let (low, range) = ((least + 1.0).ln(), ((most + 1.0) / (least + 1.0)).ln());
    let range = range.max(std::f64::consts::LN_2);
    let (cell, row) = (((width - 64.0) / 24.0).floor(), 22.0);
    let height = row * 7.0 + 28.0;
    let mut out = open(
        width,
        height,
        "mean idle nodes by hour of day and day of week",
    );
    for (day, (name, hours)) in DAYS.iter().zip(&stats.week).enumerate() {
        let y = 4.0 + row * day as f64;
        text(&mut out, "words", (48.0, y + 15.0), "end", name);
        for (hour, mean) in hours.iter().enumerate() {
            let x = 56.0 + cell * hour as f64;
            let Some(mean) = mean else {
                rect(&mut out, "batch", (x, y), cell - 1.5, row - 1.5);
                continue;
            };
            // Steps of equal ratio keep a few very idle hours from hiding all others.
            let place = ((mean + 1.0).ln() - low) / range;
            let step = ((place * STEPS as f64) as usize).min(STEPS - 1);
            rect(&mut out, &format!("v{step}"), (x, y), cell - 1.5, row - 1.5);
            if cell < 30.0 {
                continue;
            }
            let class = if step < 5 { "low" } else { "high" };
            let middle = (x + cell / 2.0, y + 14.5);
            let words = if *mean < 9.95 {
                format!("{mean:.1}")
            } else {
                count(*mean)
            };
            text(&mut out, class, middle, "middle", &words);
        }
    }
    for hour in (0..24_u32).step_by(2 * every(2.0 * cell, 40.0)) {
        let x = 56.0 + cell * (f64::from(hour) + 0.5);
        text(
            &mut out,
            "tick",
            (x, height - 8.0),
            "middle",
            &format!("{hour} h"),
        );
    }
    out + "</svg>"
}
