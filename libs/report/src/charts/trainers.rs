//! One lane for each trainer at a time, with its size as colour.

use std::fmt::Write;

use super::over_time::columns;
use crate::data::TrainerRow;
use crate::style::STEPS;
use crate::svg::{Frame, escape, open, span, text, time_axis};

/// Number of columns of time. Each shows the mean over its time.
const COLUMNS: usize = 400;
/// Most trainers of a chart with names.
const NAMED: usize = 600;
/// Most lanes, by the height of a page.
const LANES: usize = 60;

/// Least width of a trainer with a cut before it.
const CUT: f64 = 6.0;
/// An end and a beginning this close are one moment with different rounding, seconds.
const TOGETHER_S: f64 = 1e-3;

/// Puts trainers into the fewest lanes without overlaps.
fn lanes(trainers: &[TrainerRow], end_s: f64) -> Vec<Vec<&TrainerRow>> {
    let mut lanes: Vec<(f64, Vec<&TrainerRow>)> = Vec::new();
    for trainer in trainers {
        // A trainer that has ended is replaced at the next event, a little later.
        let until = trainer.ended_s.unwrap_or(end_s);
        match lanes
            .iter_mut()
            .find(|(free, _)| *free <= trainer.admitted_s + TOGETHER_S)
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

/// The step of colour of a size; none without nodes. Steps have equal ratios, since doubling a
/// small trainer matters as much as doubling a large one.
fn step(nodes: f64, most: f64) -> Option<usize> {
    if nodes < 0.05 {
        return None;
    }
    if most <= 1.0 {
        return Some(0);
    }
    let place = nodes.max(1.0).ln() / most.ln();
    Some(((place * STEPS as f64) as usize).min(STEPS - 1))
}

/// The smallest size of each step.
fn edges(most: f64) -> Vec<f64> {
    let steps = STEPS as f64;
    (0..STEPS)
        .map(|at| most.max(1.0).powf(at as f64 / steps))
        .collect()
}

/// The timeline of all trainers, with its scale of colours on top.
pub(crate) fn trainers(rows: &[TrainerRow], end_s: f64, width: f64) -> String {
    let all = lanes(rows, end_s);
    let shown = all.len().min(LANES);
    let most = rows.iter().flat_map(|r| r.sizes.iter().map(|s| s.1)).max();
    let most = f64::from(most.unwrap_or(1).max(1));
    let lane_height = if shown > 20 { 13.0 } else { 20.0 };
    let top = 44.0;
    let height = top + lane_height * shown as f64 + 26.0;
    let frame = Frame {
        top,
        height: lane_height * shown as f64,
        ..Frame::of((width, height), end_s, 1.0)
    };
    let mut out = open(width, height, "trainers and their sizes over time");
    scale(&mut out, &frame, most);
    time_axis(&mut out, &frame);
    let mut paths = vec![String::new(); STEPS];
    let mut cuts = String::new();
    let mut hot = String::new();
    for (at, lane) in all.iter().take(shown).enumerate() {
        let y = top + lane_height * at as f64 + 1.0;
        if at % if shown > 20 { 5 } else { 1 } == 0 {
            let number = (at + 1).to_string();
            text(
                &mut out,
                "tick",
                (frame.left - 8.0, y + lane_height * 0.65),
                "end",
                &number,
            );
        }
        strip(&mut paths, lane, &frame, (y, lane_height - 2.0), most);
        for row in lane {
            let (from, until) = (
                frame.x(row.admitted_s),
                frame.x(row.ended_s.unwrap_or(end_s)),
            );
            // Closer cuts would hide the trainers between them.
            if until - from >= CUT {
                let _ = write!(cuts, "M{from:.1} {y:.1}v{:.1}", lane_height - 2.0);
            }
            if rows.len() <= NAMED {
                life(
                    &mut hot,
                    row,
                    end_s,
                    (from, y),
                    (until - from, lane_height - 2.0),
                );
            }
        }
    }
    for (at, path) in paths
        .iter()
        .enumerate()
        .filter(|(_, path)| !path.is_empty())
    {
        let _ = write!(out, "<path class='v{at}' d='{path}'/>");
    }
    let _ = write!(out, "<path class='cut' d='{cuts}'/>{hot}");
    if shown < all.len() {
        let words = format!("{} further lanes are not drawn", all.len() - shown);
        text(&mut out, "tick", (frame.right(), 12.0), "end", &words);
    }
    out + "</svg>"
}

/// Draws a lane: consecutive columns of one colour are one shape.
fn strip(
    paths: &mut [String],
    lane: &[&TrainerRow],
    frame: &Frame,
    (y, height): (f64, f64),
    most: f64,
) {
    let sizes = lane.iter().flat_map(|row| {
        let sizes = row.sizes.iter().map(|&(at, n)| (at, f64::from(n)));
        sizes.chain(row.ended_s.map(|at| (at, 0.0)))
    });
    let means = columns(sizes, frame.x.1, COLUMNS);
    let width = frame.width / COLUMNS as f64;
    let steps: Vec<Option<usize>> = means.iter().map(|&mean| step(mean, most)).collect();
    let mut from = 0;
    for run in steps.chunk_by(|a, b| a == b) {
        if let Some(path) = run
            .first()
            .copied()
            .flatten()
            .and_then(|at| paths.get_mut(at))
        {
            let (x, length) = (frame.left + width * from as f64, width * run.len() as f64);
            let _ = write!(path, "M{x:.1} {y:.1}h{length:.1}v{height:.1}h-{length:.1}z");
        }
        from += run.len();
    }
}

/// The tooltip of a trainer.
fn life(out: &mut String, row: &TrainerRow, end_s: f64, (x, y): (f64, f64), size: (f64, f64)) {
    let until = row.ended_s.unwrap_or(end_s);
    let lasted = (until - row.admitted_s).max(f64::MIN_POSITIVE);
    let _ = write!(
        out,
        "<rect class='hot' x='{x:.1}' y='{y:.1}' width='{:.1}' height='{:.1}'>\
         <title>{}: {} on {:.1} nodes in the mean, {} preemptions</title></rect>",
        size.0.max(0.0),
        size.1,
        escape(&row.name),
        span(until - row.admitted_s),
        row.node_seconds(until) / lasted,
        row.preemptions
    );
}

/// The scale of colours.
fn scale(out: &mut String, frame: &Frame, most: f64) {
    let width = ((frame.width - 60.0) / STEPS as f64).min(42.0);
    text(out, "tick", (frame.left, 26.0), "start", "nodes:");
    let left = frame.left + 44.0;
    for (at, edge) in edges(most).iter().enumerate() {
        let x = left + width * at as f64;
        let _ = write!(
            out,
            "<rect class='v{at}' x='{x:.1}' y='6' width='{width:.1}' height='12'/>"
        );
        let words = if *edge < 9.95 && edge.fract() > 0.05 {
            format!("{edge:.1}")
        } else {
            format!("{edge:.0}")
        };
        text(out, "tick", (x, 32.0), "middle", &words);
    }
    let end = left + width * STEPS as f64;
    text(out, "tick", (end, 32.0), "middle", &format!("{most:.0}"));
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn colours_go_from_one_node_to_the_most() {
        assert_eq!(step(0.0, 64.0), None);
        assert_eq!(step(1.0, 64.0), Some(0));
        assert_eq!(step(64.0, 64.0), Some(9));
        assert_eq!(step(1.0, 1.0), Some(0));
        let edges = edges(1024.0);
        assert!((edges[1] - 2.0).abs() < 1e-9 && (edges[9] - 512.0).abs() < 1e-6);
    }
}
