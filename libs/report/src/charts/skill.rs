//! Figures of several predictors side by side: one bar each, from the value without knowledge.

use std::fmt::Write;

use crate::svg::{WIDTH, open, rect, text};

/// Width of the predictors' names.
const NAMES: f64 = 176.0;
/// Height of a row.
const ROW: f64 = 24.0;
/// Height above the first row.
const HEAD: f64 = 30.0;
/// Most characters of a name.
const FITS: usize = 27;
/// Least width of the bar of a figure.
const THIN: f64 = 1.0;

/// One figure of all predictors.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Panel {
    /// Name of the figure.
    pub(crate) title: String,
    /// The figure without knowledge, where bars begin.
    pub(crate) base: f64,
    /// Both ends of the axis.
    pub(crate) range: (f64, f64),
    /// Values by predictor, if they exist.
    pub(crate) values: Vec<Option<f64>>,
}

/// A row for each predictor, a column for each figure; better is further right. A bar that would
/// leave its column is cut, and its end is marked.
pub(crate) fn skill(names: &[&str], panels: &[Panel]) -> String {
    let height = HEAD + ROW * names.len() as f64 + 8.0;
    let mut out = open(WIDTH, height, "skill of predictors by horizon");
    for (row, name) in names.iter().enumerate() {
        let y = HEAD + ROW * row as f64 + 15.0;
        text(&mut out, "words", (NAMES - 10.0, y), "end", &fitted(name));
    }
    let slot = (WIDTH - NAMES) / panels.len().max(1) as f64;
    for (at, panel) in panels.iter().enumerate() {
        let left = NAMES + slot * at as f64;
        column(&mut out, panel, (left, slot), height);
    }
    out + "</svg>"
}

fn column(out: &mut String, panel: &Panel, (left, slot): (f64, f64), height: f64) {
    // The value is beside its bar, on either side.
    let (from, width) = (left + 42.0, slot - 90.0);
    let (low, high) = panel.range;
    let span = (high - low).max(f64::MIN_POSITIVE);
    let x = |value: f64| from + width * (value.clamp(low, high) - low) / span;
    let zero = x(panel.base);
    text(
        out,
        "strong",
        (left + slot / 2.0, 16.0),
        "middle",
        &panel.title,
    );
    let _ = write!(
        out,
        "<path class='base' d='M{zero:.1} {:.1}V{:.1}'/>",
        HEAD - 6.0,
        height - 4.0
    );
    for (row, value) in panel.values.iter().enumerate() {
        let y = HEAD + ROW * row as f64 + 3.0;
        let Some(value) = value.filter(|value| value.is_finite()) else {
            text(out, "value", (zero + 4.0, y + 12.0), "start", "-");
            continue;
        };
        let end = x(value);
        let class = if value >= panel.base { "full" } else { "pale" };
        let length = (end - zero).abs().max(THIN);
        rect(out, class, (end.min(zero), y), length, 14.0);
        let cut = value < low || value > high;
        let words = format!("{value:.3}");
        let (place, anchor) = if value >= panel.base {
            (end + 4.0, "start")
        } else {
            (end - 4.0, "end")
        };
        text(out, "tick", (place, y + 11.0), anchor, &words);
        if cut {
            let inner = if value < low { end + 5.0 } else { end - 5.0 };
            let _ = write!(out, "<path class='cut' d='M{inner:.1} {y:.1}v14'/>");
        }
    }
}

/// A name cut to its width.
fn fitted(name: &str) -> String {
    if name.chars().count() <= FITS {
        return name.to_owned();
    }
    let kept: String = name.chars().take(FITS - 1).collect();
    kept + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_stay_in_their_columns_and_names_are_escaped() {
        let panel = |value| Panel {
            title: "5 min".to_owned(),
            base: 0.0,
            range: (-0.1, 0.3),
            values: vec![Some(value), None, Some(f64::NAN)],
        };
        let drawn = skill(
            &["<a>", "b", "a name that is far too long for its room"],
            &[panel(0.2), panel(-7.0), panel(9.0)],
        );
        assert!(drawn.contains("&lt;a&gt;") && drawn.contains("…"));
        assert!(drawn.contains("0.200") && drawn.contains("-7.000"));
        assert!(!drawn.contains("NaN"), "{drawn}");
        assert_eq!(drawn.matches("class='cut'").count(), 2);
        for x in drawn.split("<rect").skip(1) {
            let x: f64 = x
                .split("x='")
                .nth(1)
                .unwrap()
                .split('\'')
                .next()
                .unwrap()
                .parse()
                .unwrap();
            assert!((NAMES..WIDTH).contains(&x), "{x}");
        }
    }
}
