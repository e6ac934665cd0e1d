//! The charts of a report. Colours are those of Okabe and Ito, which the colour-blind can tell
//! apart; no chart depends on colour alone.

use std::fmt::Write;

use super::data::{HoleBin, Losses, PoolPoint, TrainerRow};
use super::svg::{Frame, count, escape, open, span, time_axis, value_axis};

const WIDTH: f64 = 1000.0;
/// Columns that a long run is drawn in; each shows the mean over its time.
const COLUMNS: usize = 450;

fn frame(height: f64, x_max: f64, y_max: f64) -> Frame {
    Frame {
        left: 56.0,
        top: 12.0,
        width: WIDTH - 56.0 - 24.0,
        height: height - 12.0 - 26.0,
        x_max,
        y_max,
    }
}

/// Time means of a step function in equal columns of `[from, to)`; `steps` in order of time.
fn columns(steps: impl IntoIterator<Item = (f64, f64)>, to: f64, columns: usize) -> Vec<f64> {
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
        let at = at.min(to);
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

/// A filled step curve over the columns; the frame's baseline is its lower edge.
fn area(out: &mut String, frame: &Frame, class: &str, means: &[f64]) {
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

/// Nodes in the pool, and those of them that train.
pub(super) fn pool(points: &[PoolPoint], end_s: f64) -> String {
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
    let frame = frame(260.0, end_s, top * 1.05);
    let mut out = open(
        WIDTH,
        260.0,
        "nodes in the pool and nodes that train, over time",
    );
    value_axis(&mut out, &frame, count);
    time_axis(&mut out, &frame);
    area(&mut out, &frame, "pool", &idle);
    area(&mut out, &frame, "used", &used);
    out + "</svg>"
}

/// Efficiency from the start until each time.
pub(super) fn efficiency(points: &[(f64, f64)], end_s: f64) -> String {
    let frame = frame(200.0, end_s, 1.0);
    let mut out = open(WIDTH, 200.0, "efficiency over time");
    value_axis(&mut out, &frame, |v| format!("{:.0} %", v * 100.0));
    time_axis(&mut out, &frame);
    out.push_str("<polyline class='line' points='");
    for (at_s, value) in points {
        let _ = write!(
            out,
            "{:.1},{:.1} ",
            frame.x(*at_s),
            frame.y(value.clamp(0.0, 1.0))
        );
    }
    out.push_str("'/>");
    if let Some((at_s, value)) = points.last() {
        let _ = write!(
            out,
            "<text class='mark' x='{:.1}' y='{:.1}' text-anchor='end'>{:.1} %</text>",
            frame.x(*at_s) - 4.0,
            (frame.y(value.clamp(0.0, 1.0)) - 8.0).max(frame.top + 10.0),
            value * 100.0
        );
    }
    out + "</svg>"
}

/// Whether trainers are named in the drawing (their titles always name them).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Names {
    Shown,
    Hidden,
}

/// Puts trainers into as few lanes as needed so that no two in a lane overlap.
fn lanes(trainers: &[TrainerRow], end_s: f64) -> Vec<Vec<&TrainerRow>> {
    let mut lanes: Vec<(f64, Vec<&TrainerRow>)> = Vec::new();
    for trainer in trainers {
        // A trainer that has ended is replaced at the next event, a little later.
        let until = trainer.ended_s.unwrap_or(end_s);
        match lanes
            .iter_mut()
            .find(|(free, _)| *free <= trainer.admitted_s)
        {
            Some((free, lane)) => {
                *free = until;
                lane.push(trainer);
            }
            None => lanes.push((until, vec![trainer])),
        }
    }
    lanes.into_iter().map(|(_, lane)| lane).collect()
}

/// One lane for each trainer that runs at a time; the height of a shape is the square root of
/// its size in nodes, so that small sizes can be seen beside large ones.
pub(super) fn trainers(rows: &[TrainerRow], end_s: f64) -> String {
    let lanes = lanes(rows, end_s);
    let most = rows.iter().flat_map(|r| r.sizes.iter().map(|s| s.1)).max();
    let most = f64::from(most.unwrap_or(1).max(1));
    // With more there would be more names than shapes to see.
    let names = if rows.len() <= 80 {
        Names::Shown
    } else {
        Names::Hidden
    };
    let lane_height = if lanes.len() > 20 { 16.0 } else { 26.0 };
    let height = lane_height * lanes.len() as f64 + 38.0;
    let whole = frame(height, end_s, 1.0);
    let mut out = open(WIDTH, height, "trainers and their sizes over time");
    time_axis(&mut out, &whole);
    for (at, lane) in lanes.iter().enumerate() {
        let frame = Frame {
            top: whole.top + lane_height * at as f64 + 2.0,
            height: lane_height - 3.0,
            y_max: most.sqrt(),
            ..whole
        };
        let _ = write!(
            out,
            "<text class='tick' x='{:.1}' y='{:.1}' text-anchor='end'>{}</text>\
             <line class='base' x1='{:.1}' y1='{y:.1}' x2='{:.1}' y2='{y:.1}'/>",
            frame.left - 8.0,
            frame.bottom(),
            at + 1,
            frame.left,
            frame.left + frame.width,
            y = frame.bottom(),
        );
        for (turn, row) in lane.iter().enumerate() {
            let shade = if turn % 2 == 0 { "even" } else { "odd" };
            life(&mut out, &frame, row, end_s, shade, names);
        }
    }
    out + "</svg>"
}

fn life(out: &mut String, frame: &Frame, row: &TrainerRow, end_s: f64, shade: &str, names: Names) {
    let until = row.ended_s.unwrap_or(end_s);
    let width = frame.x(until) - frame.x(row.admitted_s);
    // At most one column for each unit of the drawing.
    let parts = (width.ceil() as usize).clamp(1, COLUMNS);
    let sizes = row
        .sizes
        .iter()
        .map(|&(at, n)| (at - row.admitted_s, f64::from(n)));
    let means = columns(
        sizes,
        (until - row.admitted_s).max(f64::MIN_POSITIVE),
        parts,
    );
    let own = Frame {
        left: frame.x(row.admitted_s),
        width,
        ..*frame
    };
    let mean = means.iter().sum::<f64>() / parts as f64;
    let _ = write!(
        out,
        "<g><title>{}: {} on {mean:.1} nodes in the mean, {} preemptions</title>",
        escape(&row.name),
        span(until - row.admitted_s),
        row.preemptions
    );
    let heights: Vec<f64> = means.iter().map(|mean| mean.sqrt()).collect();
    area(out, &own, shade, &heights);
    let label = row.name.chars().count() as f64 * 6.0 + 8.0;
    if names == Names::Shown && width > label {
        let _ = write!(
            out,
            "<text class='name' x='{:.1}' y='{:.1}'>{}</text>",
            own.left + 3.0,
            frame.top + 9.0,
            escape(&row.name)
        );
    }
    out.push_str("</g>");
}

/// Two bars for each length of hole: share of all holes, share of their node-time.
pub(super) fn holes(bins: &[HoleBin]) -> String {
    let holes: u64 = bins.iter().map(|bin| bin.count).sum();
    let hours: f64 = bins.iter().map(|bin| bin.node_hours).sum();
    let share = |bin: &HoleBin| {
        (
            bin.count as f64 / holes.max(1) as f64,
            bin.node_hours / hours.max(f64::MIN_POSITIVE),
        )
    };
    let top = bins
        .iter()
        .map(share)
        .fold(0.05, |top, (a, b)| a.max(b).max(top));
    let frame = frame(220.0, bins.len() as f64, top * 1.12);
    let mut out = open(
        WIDTH,
        220.0,
        "holes by length: share of number and of node-time",
    );
    value_axis(&mut out, &frame, |v| format!("{:.0} %", v * 100.0));
    let slot = frame.width / bins.len().max(1) as f64;
    for (at, bin) in bins.iter().enumerate() {
        let left = frame.left + slot * at as f64;
        let (number, time) = share(bin);
        for (class, value, offset) in [("pale", number, 0.12), ("full", time, 0.5)] {
            let (x, y) = (left + slot * offset, frame.y(value));
            let _ = write!(
                out,
                "<rect class='{class}' x='{x:.1}' y='{y:.1}' width='{:.1}' height='{:.1}'/>\
                 <text class='value' x='{:.1}' y='{:.1}' text-anchor='middle'>{:.0}</text>",
                slot * 0.36,
                frame.bottom() - y,
                x + slot * 0.18,
                y - 3.0,
                value * 100.0
            );
        }
        let _ = write!(
            out,
            "<text class='tick' x='{:.1}' y='{:.1}' text-anchor='middle'>{}</text>",
            left + slot / 2.0,
            frame.bottom() + 16.0,
            escape(&bin.label)
        );
    }
    out + "</svg>"
}

/// One bar: what was done, and what changes cost.
pub(super) fn losses(losses: &Losses) -> String {
    let total = losses.samples + losses.rescale + losses.preempt;
    let total = total.max(f64::MIN_POSITIVE);
    let mut out = open(WIDTH, 74.0, "work done and work lost");
    let (mut x, whole) = (8.0, WIDTH - 16.0);
    let mut legend = 8.0;
    for (class, name, value) in [
        ("used", "done", losses.samples),
        ("rescale", "lost to rescaling", losses.rescale),
        ("preempt", "lost to preemption", losses.preempt),
    ] {
        let width = whole * value.max(0.0) / total;
        let text = format!("{name} {:.2} %", 100.0 * value / total);
        let _ = write!(
            out,
            "<rect class='{class}' x='{x:.1}' y='8' width='{width:.1}' height='30'/>\
             <rect class='{class}' x='{legend:.1}' y='52' width='12' height='12'/>\
             <text class='tick' x='{:.1}' y='62'>{text}</text>",
            legend + 18.0,
        );
        x += width;
        legend += 220.0;
    }
    out + "</svg>"
}

/// How long decisions took: their number by time, on a logarithmic scale.
pub(super) fn solves(seconds: &[f64]) -> String {
    const PER_DECADE: f64 = 4.0;
    let bin = |s: f64| ((s.max(1e-6)).log10() * PER_DECADE).floor() as i64;
    let low = seconds.iter().copied().map(bin).min().unwrap_or(0);
    let high = seconds.iter().copied().map(bin).max().unwrap_or(0);
    let mut counts = vec![0_u64; (high - low + 1) as usize];
    for &s in seconds {
        if let Some(count) = counts.get_mut((bin(s) - low) as usize) {
            *count += 1;
        }
    }
    let top = counts.iter().copied().max().unwrap_or(1) as f64;
    let frame = frame(190.0, counts.len() as f64, top * 1.12);
    let mut out = open(WIDTH, 190.0, "decisions by the time that they took");
    value_axis(&mut out, &frame, count);
    let slot = frame.width / counts.len() as f64;
    for (at, &number) in counts.iter().enumerate() {
        let (x, y) = (frame.left + slot * at as f64, frame.y(number as f64));
        let from = 10_f64.powf((low + at as i64) as f64 / PER_DECADE);
        let _ = write!(
            out,
            "<rect class='full' x='{:.1}' y='{y:.1}' width='{:.1}' height='{:.1}'/>\
             <text class='tick' x='{x:.1}' y='{:.1}' text-anchor='middle'>{}</text>",
            x + slot * 0.06,
            slot * 0.88,
            frame.bottom() - y,
            frame.bottom() + 16.0,
            edge(from)
        );
    }
    out + "</svg>"
}

/// The edge of a bin of decisions: two digits that count.
fn edge(seconds: f64) -> String {
    let (value, unit) = match seconds {
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

    #[test]
    fn trainers_that_overlap_get_lanes_of_their_own() {
        let row = |from: f64, to: f64| TrainerRow {
            name: String::new(),
            admitted_s: from,
            ended_s: Some(to),
            samples: 0.0,
            preemptions: 0,
            sizes: Vec::new(),
        };
        let rows = [row(0.0, 5.0), row(1.0, 9.0), row(5.0, 7.0), row(8.0, 9.0)];
        let lanes = lanes(&rows, 10.0);
        let sizes: Vec<_> = lanes.iter().map(Vec::len).collect();
        assert_eq!(sizes, [3, 1]);
    }
}
