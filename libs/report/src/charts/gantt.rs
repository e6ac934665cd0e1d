//! A window of time, node by node: batch jobs, trainers in holes, and idle holes.

use std::fmt::Write;

use crate::data::{Gantt, TrainerRow};
use crate::svg::{Frame, escape, open, rect, span, text, time_axis};

/// Number of colours over which trainers rotate.
const TURNS: u32 = 6;
/// Most rows, by the height of a page of paper.
const ROWS: usize = 72;

/// Number of rows, height of a row, and height of the drawing.
fn heights(gantt: &Gantt) -> (usize, f64, f64) {
    let rows = gantt.rows.len().min(ROWS);
    let of_row = if rows > 36 { 11.0 } else { 16.0 };
    (rows, of_row, of_row * rows as f64 + 38.0)
}

/// Height of the drawing.
pub(crate) fn gantt_height(gantt: &Gantt) -> f64 {
    heights(gantt).2
}

/// Draws the window. `trainers` gives the names of trainers by their places.
pub(crate) fn gantt(gantt: &Gantt, trainers: &[TrainerRow], width: f64) -> String {
    let (rows, row_height, height) = heights(gantt);
    let longest = gantt.rows.iter().map(|row| row.node.chars().count()).max();
    let left = (longest.unwrap_or(0) as f64 * 5.6 + 14.0).clamp(56.0, 180.0_f64.min(width / 4.0));
    // The end of a name tells nodes apart.
    let fits = ((left - 14.0) / 5.6) as usize;
    let frame = Frame {
        left,
        width: width - left - 24.0,
        x: (gantt.from_s, gantt.until_s),
        ..Frame::of((width, height), 1.0, 1.0)
    };
    let mut out = open(
        width,
        height,
        "nodes over time: batch jobs, trainers, wasted holes",
    );
    let mut shapes = Shapes::default();
    for (at, row) in gantt.rows.iter().take(rows).enumerate() {
        let y = frame.top + row_height * at as f64;
        let baseline = y + row_height * 0.5 + 2.6;
        let cut = row.node.chars().count().saturating_sub(fits);
        let name: String = row.node.chars().skip(cut).collect();
        text(&mut out, "name", (frame.left - 6.0, baseline), "end", &name);
        rect(
            &mut out,
            "batch",
            (frame.left, y),
            frame.width,
            row_height - 1.5,
        );
        for segment in &row.segments {
            let from = frame.x(segment.from_s.clamp(gantt.from_s, gantt.until_s));
            let until = frame.x(segment.until_s.clamp(gantt.from_s, gantt.until_s));
            if until > from {
                shapes.add(segment.trainer, (from, until), (y, row_height - 1.5));
                if let Some(place) = segment.trainer {
                    let name = trainers.get(place as usize).map(|row| row.name.as_str());
                    shapes.name(
                        name,
                        place,
                        (from, until),
                        baseline,
                        segment.until_s - segment.from_s,
                    );
                }
            }
        }
    }
    time_axis(&mut out, &frame);
    shapes.draw(&mut out);
    out + "</svg>"
}

/// Paths by colour: one path for all shapes of a colour keeps the page small.
#[derive(Default)]
struct Shapes {
    holes: String,
    wasted: String,
    turns: [String; TURNS as usize],
    cuts: String,
    names: String,
}

impl Shapes {
    fn add(&mut self, trainer: Option<u32>, (from, until): (f64, f64), (y, height): (f64, f64)) {
        // A hole has the ground of the page, so that it is visible without colours too.
        let _ = write!(
            self.holes,
            "M{from:.1} {y:.1}H{until:.1}v{height:.1}H{from:.1}z"
        );
        match trainer {
            Some(place) => {
                if let Some(path) = self.turns.get_mut((place % TURNS) as usize) {
                    let _ = write!(path, "M{from:.1} {y:.1}H{until:.1}v{height:.1}H{from:.1}z");
                }
                let _ = write!(self.cuts, "M{from:.1} {y:.1}v{height:.1}");
            }
            None => {
                // Idle holes are low, so that they differ without colours too.
                let (top, low) = (y + height * 0.55, height * 0.45);
                let _ = write!(
                    self.wasted,
                    "M{from:.1} {top:.1}H{until:.1}v{low:.1}H{from:.1}z"
                );
            }
        }
    }

    fn name(
        &mut self,
        name: Option<&str>,
        place: u32,
        (from, until): (f64, f64),
        baseline: f64,
        lasted_s: f64,
    ) {
        let number;
        let name = match name {
            Some(name) => name,
            None => {
                number = format!("trainer {place}");
                &number
            }
        };
        if until - from > name.chars().count() as f64 * 5.2 + 6.0 {
            let _ = write!(
                self.names,
                "<text class='on{}' x='{:.1}' y='{baseline:.1}'>{}<title>{}</title></text>",
                place % TURNS,
                from + 3.0,
                escape(name),
                span(lasted_s)
            );
        }
    }

    fn draw(&self, out: &mut String) {
        let _ = write!(
            out,
            "<path class='ground' d='{}'/><path class='hole' d='{}'/>",
            self.holes, self.wasted
        );
        for (at, path) in self.turns.iter().enumerate() {
            let _ = write!(out, "<path class='t{at}' d='{path}'/>");
        }
        let _ = write!(out, "<path class='cut' d='{}'/>{}", self.cuts, self.names);
    }
}
