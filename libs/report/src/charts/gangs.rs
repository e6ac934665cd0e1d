//! Gangs: completion times of policies, and shares of GPUs in use over time.

use std::fmt::Write;

use crate::gangs_data::{GangSegment, GangsPolicy, Spread};
use crate::svg::{Frame, WIDTH, open, rect, span, text, time_axis};

/// Room for the names of rows.
const LEFT: f64 = 150.0;

/// Number of columns of a strip. Each shows the mean over its time.
const COLUMNS: usize = 240;

/// Height of a row of completion times.
const ROW: f64 = 22.0;

/// Ticks of completion times, seconds, with their labels.
const TICKS: [(f64, &str); 7] = [
    (60.0, "1 min"),
    (600.0, "10 min"),
    (3600.0, "1 h"),
    (36_000.0, "10 h"),
    (360_000.0, "100 h"),
    (3_600_000.0, "1,000 h"),
    (36_000_000.0, "10,000 h"),
];

fn frame(height: f64, x: (f64, f64)) -> Frame {
    Frame {
        left: LEFT,
        width: WIDTH - LEFT - 24.0,
        x,
        ..Frame::of((WIDTH, height), 1.0, 1.0)
    }
}

/// Completion times of policies on a logarithmic axis: quantiles, median and mean.
pub(crate) fn spreads(policies: &[GangsPolicy]) -> String {
    let log = |seconds: f64| seconds.max(1.0).log10();
    let all = || {
        policies
            .iter()
            .flat_map(|policy| &policy.completion_s)
            .copied()
    };
    let ends = all().fold((f64::INFINITY, 1.0_f64), |(least, most), s| {
        (s.min(least), s.max(most))
    });
    let height = ROW * policies.len() as f64 + 38.0;
    let frame = frame(height, (log(ends.0.min(ends.1)), log(ends.1)));
    let mut out = open(WIDTH, height, "time from arrival to end by policy");
    for (seconds, label) in TICKS {
        let x = log(seconds);
        if x >= frame.x.0 && x <= frame.x.1 {
            let x = frame.x(x);
            let _ = write!(
                out,
                "<line class='grid' x1='{x:.1}' y1='{:.1}' x2='{x:.1}' y2='{:.1}'/>",
                frame.top,
                frame.bottom()
            );
            text(
                &mut out,
                "tick",
                (x, frame.bottom() + 16.0),
                "middle",
                label,
            );
        }
    }
    for (at, policy) in policies.iter().enumerate() {
        let middle = frame.top + ROW * (at as f64 + 0.5);
        text(
            &mut out,
            "words",
            (LEFT - 8.0, middle + 4.0),
            "end",
            &policy.name,
        );
        let mut sorted = policy.completion_s.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let quantile = |share: f64| {
            let rank = (share * sorted.len() as f64).ceil() as usize;
            sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
        };
        if sorted.is_empty() {
            continue;
        }
        let mean = sorted.iter().sum::<f64>() / sorted.len() as f64;
        let x = |seconds: f64| frame.x(log(seconds));
        let [low, left, median, right, high] = [0.05, 0.25, 0.5, 0.75, 0.95].map(quantile);
        let _ = write!(
            out,
            "<line class='ideal' x1='{:.1}' y1='{middle:.1}' x2='{:.1}' y2='{middle:.1}'/>",
            x(low),
            x(high)
        );
        rect(
            &mut out,
            "pool",
            (x(left), middle - 6.0),
            x(right) - x(left),
            12.0,
        );
        rect(&mut out, "full", (x(median) - 1.0, middle - 7.0), 2.0, 14.0);
        let _ = write!(
            out,
            "<circle class='dot2' cx='{:.1}' cy='{middle:.1}' r='4'><title>mean {}, median {}, 95 % {}</title></circle>",
            x(mean),
            span(mean),
            span(median),
            span(high)
        );
    }
    out + "</svg>"
}

/// One row of shares over time.
pub(crate) struct Strip<'a> {
    label: String,
    whole: f64,
    segments: Vec<&'a GangSegment>,
}

impl<'a> Strip<'a> {
    /// A row of this many GPUs.
    pub(crate) fn new(
        label: &str,
        whole: f64,
        segments: impl Iterator<Item = &'a GangSegment>,
    ) -> Self {
        Self {
            label: label.to_owned(),
            whole,
            segments: segments.collect(),
        }
    }

    /// Mean shares of the GPUs in each column, by how far gangs are spread.
    fn shares(&self, until_s: f64) -> Vec<[f64; 3]> {
        let mut columns = vec![[0.0; 3]; COLUMNS];
        let width = until_s / COLUMNS as f64;
        for segment in &self.segments {
            let place = match segment.spread {
                Spread::Machine => 0,
                Spread::Rack => 1,
                Spread::Racks => 2,
            };
            let first = (segment.from_s / width).max(0.0) as usize;
            for (at, column) in columns.iter_mut().enumerate().skip(first) {
                let (left, right) = (at as f64 * width, (at + 1) as f64 * width);
                if left >= segment.until_s {
                    break;
                }
                let within = segment.until_s.min(right) - segment.from_s.max(left);
                let share = within.max(0.0) / width * f64::from(segment.gpus) / self.whole;
                if let Some(sum) = column.get_mut(place) {
                    *sum += share;
                }
            }
        }
        columns
    }
}

/// Rows of shares over time, one below the other.
pub(crate) fn strips(rows: &[Strip<'_>], until_s: f64, row_height: f64) -> String {
    let height = row_height * rows.len() as f64 + 38.0;
    let frame = frame(height, (0.0, until_s));
    let mut out = open(WIDTH, height, "GPUs in use over time");
    time_axis(&mut out, &frame);
    // One path a colour keeps the page small.
    let mut paths = [String::new(), String::new(), String::new()];
    for (at, row) in rows.iter().enumerate() {
        let bottom = frame.top + row_height * (at + 1) as f64 - 2.0;
        let tall = row_height - 3.0;
        rect(&mut out, "batch", (LEFT, bottom - tall), frame.width, tall);
        text(
            &mut out,
            "words",
            (LEFT - 8.0, bottom - tall / 2.0 + 4.0),
            "end",
            &row.label,
        );
        let width = frame.width / COLUMNS as f64;
        // Columns that look alike are one shape.
        let tops = row.shares(until_s).into_iter().map(|shares| {
            let mut top = 0.0;
            shares.map(|share| {
                top = (top + tall * share).min(tall);
                (top * 2.0).round() / 2.0
            })
        });
        let tops: Vec<[f64; 3]> = tops.collect();
        let mut from = 0;
        for alike in tops.chunk_by(|one, next| one == next) {
            let (x, wide) = (LEFT + width * from as f64, width * alike.len() as f64);
            from += alike.len();
            let mut low = 0.0;
            for (path, &top) in paths.iter_mut().zip(alike.first().into_iter().flatten()) {
                if top > low {
                    let (y, part) = (bottom - top, top - low);
                    let _ = write!(path, "M{x:.1} {y:.1}h{wide:.1}v{part:.1}h-{wide:.1}z");
                }
                low = top;
            }
        }
    }
    for (class, path) in ["used", "sky", "pale"].into_iter().zip(paths) {
        let _ = write!(out, "<path class='{class}' d='{path}'/>");
    }
    out + "</svg>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_means_over_columns() {
        let segment = GangSegment {
            machine: 0,
            gpus: 4,
            spread: Spread::Rack,
            from_s: 0.0,
            until_s: 60.0,
        };
        let segments = [segment];
        let strip = Strip::new("a", 8.0, segments.iter());
        let shares = strip.shares(240.0);
        assert_eq!(shares[0], [0.0, 0.5, 0.0]);
        assert_eq!(shares[COLUMNS - 1], [0.0; 3]);
        let sum: f64 = shares.iter().map(|share| share[1]).sum();
        // Half of the GPUs, for a quarter of the time.
        assert!((sum - 0.125 * COLUMNS as f64).abs() < 1e-9);
    }
}
