//! Our figures beside published ones: lines over a swept setting, or a line of dots for each row.

use std::fmt::Write;

use crate::comparison::{ComparedFigure, Group};
use crate::svg::{Frame, open, round_step, text, ticks, value, value_axis};

/// Half the width of other charts: two of them are side by side.
const HALF: f64 = 520.0;
const HEIGHT: f64 = 250.0;
const ROW: f64 = 26.0;

/// One figure of all rows of a group.
pub(crate) fn figure(group: &Group, name: &str) -> String {
    let rows: Vec<(&str, Option<f64>, &ComparedFigure)> = group
        .rows
        .iter()
        .filter_map(|row| Some((row.label.as_str(), row.x, row.figure(name)?)))
        .collect();
    let mut swept: Vec<(f64, &ComparedFigure)> = rows
        .iter()
        .filter_map(|(_, x, figure)| Some((x.filter(|x| x.is_finite())?, *figure)))
        .collect();
    swept.sort_by(|a, b| a.0.total_cmp(&b.0));
    let distinct = swept.windows(2).all(|pair| match pair {
        [a, b] => a.0 < b.0,
        _ => true,
    });
    if swept.len() == rows.len() && swept.len() > 1 && distinct {
        lines(&swept, name, &group.x_label)
    } else {
        dots(&rows, name)
    }
}

/// The smallest range that holds all values with some room.
fn range<'a>(figures: impl Iterator<Item = &'a ComparedFigure>) -> (f64, f64) {
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for figure in figures {
        let room = figure.tolerance.unwrap_or(0.0);
        let published = figure.published.map(|p| [p - room, p + room]);
        let values = published.into_iter().flatten().chain([figure.ours]);
        for value in values.filter(|value| value.is_finite()) {
            (low, high) = (low.min(value), high.max(value));
        }
    }
    if low > high {
        return (0.0, 1.0);
    }
    let room = ((high - low) * 0.08).max(high.abs() * 1e-3).max(1e-9);
    (low - room, high + room)
}

/// The scale of a swept setting, which is logarithmic for a large range.
#[derive(Clone, Copy)]
enum Scale {
    Linear,
    Logarithmic,
}

impl Scale {
    fn of(low: f64, high: f64) -> Self {
        if low > 0.0 && high / low >= 8.0 {
            Self::Logarithmic
        } else {
            Self::Linear
        }
    }

    fn at(self, x: f64) -> f64 {
        match self {
            Self::Linear => x,
            Self::Logarithmic => x.log10(),
        }
    }
}

fn lines(swept: &[(f64, &ComparedFigure)], name: &str, x_label: &str) -> String {
    let low = swept.first().map_or(0.0, |row| row.0);
    let high = swept.last().map_or(1.0, |row| row.0);
    let scale = Scale::of(low, high);
    let room = (scale.at(high) - scale.at(low)) * 0.05;
    let frame = Frame {
        left: 58.0,
        top: 10.0,
        width: HALF - 58.0 - 12.0,
        height: HEIGHT - 10.0 - 42.0,
        x: (scale.at(low) - room, scale.at(high) + room),
        y: range(swept.iter().map(|row| row.1)),
    };
    let mut out = open(HALF, HEIGHT, &format!("{name} over {x_label}"));
    value_axis(&mut out, &frame, plain(&frame.y));
    let mut last = f64::NEG_INFINITY;
    for &(x, _) in swept {
        let at = frame.x(scale.at(x));
        let _ = write!(
            out,
            "<line class='grid' x1='{at:.1}' y1='{:.1}' x2='{at:.1}' y2='{:.1}'/>",
            frame.top,
            frame.bottom()
        );
        if at - last > 26.0 {
            text(
                &mut out,
                "tick",
                (at, frame.bottom() + 16.0),
                "middle",
                &short(x),
            );
            last = at;
        }
    }
    let middle = (frame.left + frame.right()) / 2.0;
    text(&mut out, "words", (middle, HEIGHT - 6.0), "middle", x_label);
    out.push_str("<polyline class='line' points='");
    for (x, figure) in swept.iter().filter(|row| row.1.ours.is_finite()) {
        let _ = write!(
            out,
            "{:.1},{:.1} ",
            frame.x(scale.at(*x)),
            frame.y(figure.ours)
        );
    }
    out.push_str("'/>");
    for (x, figure) in swept {
        let at = frame.x(scale.at(*x));
        if let Some(published) = figure.published {
            let room = figure.tolerance.unwrap_or(0.0);
            let _ = write!(
                out,
                "<path class='whisker' d='M{at:.1} {:.1}V{:.1}'/>",
                frame.y(published - room),
                frame.y(published + room)
            );
            diamond(&mut out, (at, frame.y(published)));
        }
        if figure.ours.is_finite() {
            dot(&mut out, (at, frame.y(figure.ours)), figure);
        }
    }
    out + "</svg>"
}

fn dots(rows: &[(&str, Option<f64>, &ComparedFigure)], name: &str) -> String {
    let height = ROW * rows.len() as f64 + 40.0;
    let frame = Frame {
        left: 172.0,
        top: 6.0,
        width: HALF - 172.0 - 18.0,
        height: ROW * rows.len() as f64,
        x: range(rows.iter().map(|row| row.2)),
        y: (0.0, 1.0),
    };
    let mut out = open(HALF, height, name);
    let write = plain(&frame.x);
    for at in ticks(frame.x, round_step(frame.x.1 - frame.x.0, 5.0)) {
        let x = frame.x(at);
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
            &write(at),
        );
    }
    for (at, (label, _, figure)) in rows.iter().enumerate() {
        let y = frame.top + ROW * (at as f64 + 0.5);
        let label: String = label.chars().take(28).collect();
        text(&mut out, "tick", (frame.left - 8.0, y + 4.0), "end", &label);
        let _ = write!(
            out,
            "<path class='base' d='M{:.1} {y:.1}H{:.1}'/>",
            frame.left,
            frame.right()
        );
        if let Some(published) = figure.published {
            let room = figure.tolerance.unwrap_or(0.0);
            let _ = write!(
                out,
                "<path class='whisker' d='M{:.1} {y:.1}H{:.1}'/>",
                frame.x(published - room),
                frame.x(published + room)
            );
            diamond(&mut out, (frame.x(published), y));
        }
        if figure.ours.is_finite() {
            dot(&mut out, (frame.x(figure.ours), y), figure);
        }
    }
    out + "</svg>"
}

fn diamond(out: &mut String, (x, y): (f64, f64)) {
    let _ = write!(
        out,
        "<path class='published' d='M{x:.1} {:.1}l6 6l-6 6l-6 -6z'/>",
        y - 6.0
    );
}

fn dot(out: &mut String, (x, y): (f64, f64), figure: &ComparedFigure) {
    let beside = figure
        .published
        .map_or_else(String::new, |p| format!(", published {}", value(p)));
    let _ = write!(
        out,
        "<circle class='ours' cx='{x:.1}' cy='{y:.1}' r='3.6'><title>{}{beside}</title></circle>",
        value(figure.ours)
    );
}

/// Writes values with enough digits to distinguish the ticks of a range.
fn plain(&(low, high): &(f64, f64)) -> impl Fn(f64) -> String + use<> {
    let step = round_step(high - low, 6.0);
    let digits = (-step.log10().floor()).clamp(0.0, 6.0) as usize;
    move |value| format!("{value:.digits$}")
}

/// A number without needless digits.
fn short(x: f64) -> String {
    let text = format!("{x:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
