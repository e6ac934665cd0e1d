//! What Lacuna and what one would have instead make of the same holes.

use crate::data::{BesideKind, BesideRow};
use crate::svg::{open, percent, rect, share, text, value};

/// The height of a bar with its words above it.
const ROW: f64 = 42.0;

/// A bar for each row: its share of the zero-cost bound or, without that bound, samples an hour.
pub(crate) fn beside(rows: &[BesideRow], width: f64) -> String {
    let mut out = open(
        width,
        ROW * rows.len() as f64 + 4.0,
        "Lacuna and what one would have instead",
    );
    let bounded = rows.iter().all(|row| row.share.is_some());
    let of = |row: &BesideRow| match row.share.filter(|_| bounded) {
        Some(share) => share,
        None => share(row.samples, row.hours),
    };
    let most = rows.iter().map(of).fold(0.0, f64::max);
    let most = if bounded { most.max(1.0) } else { most };
    let (left, right) = (4.0, width - 4.0);
    for (number, row) in rows.iter().enumerate() {
        let y = ROW * number as f64;
        let found = of(row);
        let words = match bounded {
            true => percent(found, 1),
            false => format!("{} samples an hour", value(found)),
        };
        text(&mut out, "words", (left, y + 14.0), "start", &row.name);
        text(&mut out, "words", (right, y + 14.0), "end", &words);
        if bounded {
            rect(&mut out, "whole", (left, y + 19.0), right - left, 17.0);
        }
        let length = (right - left) * share(found, most).clamp(0.0, 1.0);
        rect(&mut out, row.class(), (left, y + 19.0), length, 17.0);
    }
    out + "</svg>"
}

impl BesideRow {
    /// The class of its bar in the style sheet.
    const fn class(&self) -> &'static str {
        match self.kind {
            BesideKind::Policy => "full",
            BesideKind::Rule => "sky",
            BesideKind::Practice => "pale",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(samples: f64, share: Option<f64>) -> BesideRow {
        BesideRow {
            name: "<a>".to_owned(),
            samples,
            share,
            hours: 2.0,
            ..BesideRow::default()
        }
    }

    /// The widths of all bars.
    fn widths(drawn: &str) -> Vec<f64> {
        let of = |bar: &str| {
            bar.split("width='")
                .nth(1)?
                .split('\'')
                .next()?
                .parse()
                .ok()
        };
        drawn.split("<rect").skip(1).filter_map(of).collect()
    }

    #[test]
    fn bars_are_shares_of_the_bound_or_of_the_fastest() {
        let drawn = beside(&[row(1.0, Some(0.5)), row(1.0, Some(0.25))], 408.0);
        assert_eq!(widths(&drawn), [400.0, 200.0, 400.0, 100.0]);
        assert!(drawn.contains("&lt;a&gt;") && drawn.contains("50.0 %"));
        let drawn = beside(&[row(80.0, None), row(20.0, Some(0.9))], 408.0);
        assert_eq!(widths(&drawn), [400.0, 100.0]);
        assert!(drawn.contains("40.00 samples an hour"), "{drawn}");
        let drawn = beside(&[row(0.0, None), row(f64::NAN, None)], 408.0);
        assert_eq!(widths(&drawn), [0.0, 0.0]);
    }
}
