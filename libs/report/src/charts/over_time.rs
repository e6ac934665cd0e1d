//! Step functions over the time of a replay.

use std::fmt::Write;

use crate::data::{LearningLine, PoolPoint};
use crate::svg::{Frame, count, open, percent, time_axis, value_axis};

/// Number of columns of a long replay. Each shows the mean over its time.
pub(super) const COLUMNS: usize = 450;

/// Time means of a step function in equal columns of `[0, to)`. `steps` are in order of time.
pub(super) fn columns(
    steps: impl IntoIterator<Item = (f64, f64)>,
    to: f64,
    columns: usize,
) -> Vec<f64> {
    let mut means = vec![0.0; columns];
    let width = to / columns as f64;
    let mut add = |from: f64, until: f64, value: f64| {
        if value == 0.0 || until <= from || width <= 0.0 {
            return;
        }
        let first = (from / width) as usize;
        for (at, mean) in means.iter_mut().enumerate().skip(first) {
            let (left, right) = (at as f64 * width, (at + 1) as f64 * width);
            if left >= until {
                break;
            }
            *mean += value * (until.min(right) - from.max(left)).max(0.0) / width;
        }
    };
    let mut before: Option<(f64, f64)> = None;
    for (at, value) in steps {
        let at = at.clamp(0.0, to.max(0.0));
        if let Some((from, held)) = before {
            add(from, at, held);
        }
        before = Some((at, value));
    }
    if let Some((from, held)) = before {
        add(from, to, held);
    }
    means
}

/// A filled step curve over the columns, with the frame's baseline as its lower edge.
pub(super) fn area(out: &mut String, frame: &Frame, class: &str, means: &[f64]) {
    let width = frame.width / means.len().max(1) as f64;
    let _ = write!(
        out,
        "<path class='{class}' d='M{:.1} {:.1}",
        frame.left,
        frame.bottom()
    );
    for (at, mean) in means.iter().enumerate() {
        let x = frame.left + width * at as f64;
        let y = frame.y(*mean);
        let _ = write!(out, "L{x:.1} {y:.1}H{:.1}", x + width);
    }
    let _ = write!(out, "V{:.1}Z'/>", frame.bottom());
}

/// The height of the drawing of pool and use.
pub(crate) const POOL_HEIGHT: f64 = 260.0;

/// Nodes in the pool, and nodes with a trainer.
pub(crate) fn pool(points: &[PoolPoint], end_s: f64, width: f64) -> String {
    let idle = columns(
        points.iter().map(|p| (p.at_s, f64::from(p.pool))),
        end_s,
        COLUMNS,
    );
    let used = columns(
        points.iter().map(|p| (p.at_s, f64::from(p.used))),
        end_s,
        COLUMNS,
    );
    let top = idle.iter().copied().fold(1.0, f64::max);
    let frame = Frame::of((width, POOL_HEIGHT), end_s, top * 1.05);
    let mut out = open(
        width,
        POOL_HEIGHT,
        "nodes in the pool and nodes that train, over time",
    );
    value_axis(&mut out, &frame, count);
    time_axis(&mut out, &frame);
    area(&mut out, &frame, "pool", &idle);
    area(&mut out, &frame, "used", &used);
    out + "</svg>"
}

/// The height of a line of learning.
const LINE_HEIGHT: f64 = 130.0;

/// A figure of learning.
pub(crate) fn line(of: &LearningLine, end_s: f64, width: f64) -> String {
    let means = columns(of.steps.iter().copied(), end_s, COLUMNS);
    let top = means.iter().copied().fold(0.0, f64::max).max(1e-9);
    let frame = Frame::of((width, LINE_HEIGHT), end_s, top * 1.05);
    let mut out = open(width, LINE_HEIGHT, &format!("{} over time", of.name));
    value_axis(&mut out, &frame, |value| match top {
        top if top <= 2.0 => percent(value, 0),
        _ => count(value),
    });
    time_axis(&mut out, &frame);
    area(&mut out, &frame, "used", &means);
    out + "</svg>"
}

/// Efficiency from the start until each time.
pub(crate) fn efficiency(points: &[(f64, f64)], end_s: f64, width: f64) -> String {
    let top = points.iter().map(|p| p.1).fold(1.0, f64::max);
    let frame = Frame::of((width, 200.0), end_s, top);
    let mut out = open(width, 200.0, "efficiency over time");
    value_axis(&mut out, &frame, |v| percent(v, 0));
    time_axis(&mut out, &frame);
    out.push_str("<polyline class='line' points='");
    for (at_s, value) in points {
        let _ = write!(out, "{:.1},{:.1} ", frame.x(*at_s), frame.y(value.max(0.0)));
    }
    out.push_str("'/>");
    if let Some((at_s, value)) = points.last() {
        let y = frame.y(value.max(0.0)) + 20.0;
        let _ = write!(
            out,
            "<text class='mark' x='{:.1}' y='{:.1}' text-anchor='end'>{}</text>",
            frame.x(*at_s) - 4.0,
            y.min(frame.bottom() - 6.0),
            percent(*value, 1)
        );
    }
    out + "</svg>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_means_over_time() {
        let steps = [(0.0, 4.0), (1.0, 2.0), (3.0, 0.0)];
        assert_eq!(columns(steps, 4.0, 2), [3.0, 1.0]);
        assert_eq!(columns(steps, 4.0, 1), [2.0]);
        assert_eq!(columns([], 4.0, 2), [0.0, 0.0]);
    }
}
