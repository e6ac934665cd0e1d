//! Losses: the work of dedicated nodes, each loss, and the work done.

use std::fmt::Write;

use crate::data::LossPart;
use crate::svg::{WIDTH, escape, open, percent, rect, share, text, value};

const ROW: f64 = 27.0;

/// A waterfall: a bar for the whole, each loss from the end of the one before, and the rest. A
/// part below zero is a gain and extends to the right.
pub(crate) fn loss(whole: &LossPart, parts: &[LossPart], rest: &LossPart, width: f64) -> String {
    // Without room beside them, words stand above their bar.
    let above = if width < WIDTH { 15.0 } else { 0.0 };
    let row = ROW + above;
    let height = row * (parts.len() as f64 + 2.0) + 8.0;
    let mut out = open(
        width,
        height,
        "what dedicated nodes would have done, each loss, what was done",
    );
    let (left, right) = match above > 0.0 {
        true => (4.0, width - 4.0),
        false => (230.0, width - 170.0),
    };
    let mut level = whole.samples;
    let mut high = level;
    for part in parts {
        level -= part.samples;
        high = high.max(level);
    }
    // Without any node-time there is nothing to draw, and the divisor would be zero.
    let scale = if high > 0.0 {
        (right - left) / high
    } else {
        0.0
    };
    let mut y = 4.0;
    let mut bar = |part: &LossPart, from: f64, until: f64| {
        let (place, anchor) = match above > 0.0 {
            true => ((left, y + 11.0), "start"),
            false => ((left - 10.0, y + 15.0), "end"),
        };
        text(&mut out, "words", place, anchor, &part.label);
        let (a, b) = (from.min(until).max(0.0), from.max(until).max(0.0));
        rect(
            &mut out,
            part.class(),
            (left + a * scale, y + above),
            ((b - a) * scale).max(0.5),
            ROW - 7.0,
        );
        let of_whole = share(part.samples, whole.samples);
        let samples = match part.samples.abs() {
            s if s >= 1e6 => format!("{:.3e}", part.samples),
            _ => value(part.samples),
        };
        let words = format!("{} · {samples}", percent(of_whole, 2));
        let (place, anchor) = match above > 0.0 {
            true => ((right, y + 11.0), "end"),
            false => ((left + b * scale + 8.0, y + 15.0), "start"),
        };
        text(&mut out, "words", place, anchor, &words);
        y += row;
    };
    bar(whole, 0.0, whole.samples);
    let mut level = whole.samples;
    for part in parts {
        bar(part, level, level - part.samples);
        level -= part.samples;
    }
    bar(rest, 0.0, rest.samples);
    out + "</svg>"
}

/// One bar of the work done and the costs of changes, if only these are known.
pub(crate) fn simple(parts: &[LossPart], width: f64) -> String {
    let total: f64 = parts.iter().map(|part| part.samples.max(0.0)).sum();
    // The legend is a line, or a list where there is no room.
    let (across, down) = match width < WIDTH {
        true => (0.0, 18.0),
        false => (220.0, 0.0),
    };
    let height = 74.0 + down * parts.len().saturating_sub(1) as f64;
    let mut out = open(width, height, "work done and work lost");
    let (mut x, whole) = (8.0, width - 16.0);
    let (mut legend, mut y) = (8.0, 52.0);
    for part in parts {
        let width = whole * share(part.samples.max(0.0), total);
        let words = format!("{} {}", part.label, percent(share(part.samples, total), 2));
        let class = part.class();
        let _ = write!(
            out,
            "<rect class='{class}' x='{x:.1}' y='8' width='{width:.1}' height='30'/>\
             <rect class='{class}' x='{legend:.1}' y='{y:.1}' width='12' height='12'/>\
             <text class='tick' x='{:.1}' y='{:.1}'>{}</text>",
            legend + 18.0,
            y + 10.0,
            escape(&words)
        );
        x += width;
        legend += across;
        y += down;
    }
    out + "</svg>"
}
