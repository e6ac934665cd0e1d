//! A row of the published table, with the expected figures.

use lacuna_lab::runs::{Done, Row};
use serde_json::Value;

/// The tolerance of a comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Tolerance {
    /// A share of the published figure.
    Relative(f64),
    /// A distance, in the figure's own unit.
    Absolute(f64),
    /// No comparison: both figures are only shown.
    Shown,
}

/// One figure of a row.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Figure {
    /// Its name in tables and JSON.
    pub(super) name: &'static str,
    /// Its pointer in the JSON of the command.
    pub(super) pointer: &'static str,
    /// The factor to the unit of the table.
    pub(super) factor: f64,
    /// Digits after the point in tables.
    pub(super) digits: usize,
    /// The published figure, if there is one.
    pub(super) published: Option<f64>,
    /// The tolerance.
    pub(super) tolerance: Tolerance,
}

impl Figure {
    /// The figure in the command's JSON.
    pub(super) fn ours(&self, output: &Value) -> Option<f64> {
        let value = output.pointer(self.pointer)?.as_f64()?;
        Some(value * self.factor)
    }

    /// Whether a figure is within the tolerance; none if there is nothing to compare with.
    pub(super) fn agrees(&self, ours: f64) -> Option<bool> {
        let published = self.published?;
        let off = (ours - published).abs();
        match self.tolerance {
            Tolerance::Relative(share) => Some(off <= share * published.abs()),
            Tolerance::Absolute(most) => Some(off <= most),
            Tolerance::Shown => None,
        }
    }

    /// The largest accepted distance from the published figure, in its own unit.
    pub(super) fn room(&self) -> Option<f64> {
        match (self.published, self.tolerance) {
            (Some(published), Tolerance::Relative(share)) => Some(share * published.abs()),
            (Some(_), Tolerance::Absolute(most)) => Some(most),
            _ => None,
        }
    }
}

/// One row.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PaperRow {
    /// Its group.
    pub(super) group: &'static str,
    /// Its name within the group.
    pub(super) label: String,
    /// Its command: the arguments of `lacuna`, without `--json` and `--seed`.
    pub(super) command: Vec<String>,
    /// Whether its command takes a seed.
    pub(super) seeded: bool,
    /// The compared figures.
    pub(super) figures: Vec<Figure>,
    /// Whether `--quick` runs it.
    pub(super) quick: bool,
}

impl PaperRow {
    /// What is run for it.
    pub(super) fn to_run(&self) -> Row {
        Row {
            label: self.label.clone(),
            command: self.command.clone(),
            seeded: self.seeded,
        }
    }
}

/// A row with its result.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Compared {
    /// The row.
    pub(super) row: PaperRow,
    /// Its result.
    pub(super) done: Done,
}

impl Compared {
    /// The figure of each seed, sorted.
    fn of_seeds(&self, figure: &Figure) -> Vec<f64> {
        let outputs = self.done.outputs();
        let mut values: Vec<f64> = outputs.iter().filter_map(|o| figure.ours(o)).collect();
        if values.len() < outputs.len() {
            return Vec::new();
        }
        values.sort_by(f64::total_cmp);
        values
    }

    /// The median of a figure over seeds.
    pub(super) fn ours(&self, figure: &Figure) -> Option<f64> {
        let values = self.of_seeds(figure);
        let upper = *values.get(values.len() / 2)?;
        let lower = *values.get(values.len().saturating_sub(1) / 2)?;
        Some((lower + upper) / 2.0)
    }

    /// The least and the largest of several seeds.
    pub(super) fn spread(&self, figure: &Figure) -> Option<(f64, f64)> {
        let values = self.of_seeds(figure);
        match values.as_slice() {
            [least, .., most] => Some((*least, *most)),
            _ => None,
        }
    }

    /// Whether all compared figures are within their tolerances; none if no figure is compared. A
    /// row that failed or lacks a figure does not agree.
    pub(super) fn agrees(&self) -> Option<bool> {
        if self.failure().is_some() {
            return Some(false);
        }
        let judged = self
            .row
            .figures
            .iter()
            .filter(|figure| figure.room().is_some());
        judged
            .map(|figure| {
                self.ours(figure)
                    .and_then(|ours| figure.agrees(ours))
                    .unwrap_or(false)
            })
            .reduce(|all, one| all && one)
    }

    /// The reason of a failure, if there is one.
    pub(super) fn failure(&self) -> Option<&str> {
        self.done.failure()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lacuna_lab::runs::Outcome;
    use serde_json::json;

    fn figure(published: Option<f64>, tolerance: Tolerance) -> Figure {
        Figure {
            name: "hours",
            pointer: "/hours",
            factor: 1.0,
            digits: 2,
            published,
            tolerance,
        }
    }

    fn done(figures: Vec<Figure>, outcome: Outcome) -> Compared {
        let row = PaperRow {
            group: "g",
            label: "r".into(),
            command: Vec::new(),
            seeded: true,
            figures,
            quick: false,
        };
        let done = Done {
            row: row.to_run(),
            outcome,
        };
        Compared { row, done }
    }

    #[test]
    fn tolerances_are_those_of_the_published_figure() {
        let hours = figure(Some(200.0), Tolerance::Relative(0.01));
        assert_eq!(hours.agrees(201.9), Some(true));
        assert_eq!(hours.agrees(197.9), Some(false));
        assert_eq!(hours.room(), Some(2.0));
        let share = figure(Some(0.8), Tolerance::Absolute(0.01));
        assert_eq!(share.agrees(0.809), Some(true));
        assert_eq!(share.agrees(0.811), Some(false));
        let shown = figure(Some(0.8), Tolerance::Shown);
        assert_eq!((shown.agrees(9.0), shown.room()), (None, None));
        assert_eq!(figure(None, Tolerance::Absolute(1.0)).agrees(1.0), None);
    }

    #[test]
    fn a_row_agrees_only_if_all_compared_figures_do() {
        let near = figure(Some(200.0), Tolerance::Relative(0.01));
        let far = figure(Some(300.0), Tolerance::Relative(0.01));
        let shown = figure(Some(1.0), Tolerance::Shown);
        let output = || Outcome::Done(vec![json!({ "hours": 200.5 })]);
        assert_eq!(done(vec![near.clone()], output()).agrees(), Some(true));
        let both = done(vec![near.clone(), far], output());
        assert_eq!(both.agrees(), Some(false));
        assert_eq!(done(vec![shown], output()).agrees(), None);
        // A figure that is missing in the output is not within its tolerance.
        let nothing = done(vec![near.clone()], Outcome::Done(vec![json!({})]));
        assert_eq!(nothing.agrees(), Some(false));
        let failed = done(vec![near], Outcome::Failed("gone".into()));
        assert_eq!(failed.agrees(), Some(false));
        assert_eq!(failed.failure(), Some("gone"));
    }

    #[test]
    fn the_median_of_the_seeds_counts() {
        let figure = figure(Some(200.0), Tolerance::Relative(0.01));
        let of = |hours: &[f64]| {
            let outputs = hours.iter().map(|h| json!({ "hours": h })).collect();
            done(vec![figure.clone()], Outcome::Done(outputs))
        };
        let three = of(&[220.0, 199.0, 190.0]);
        assert_eq!(three.ours(&figure), Some(199.0));
        assert_eq!(three.spread(&figure), Some((190.0, 220.0)));
        assert_eq!(three.agrees(), Some(true));
        assert_eq!(of(&[201.0, 203.0]).ours(&figure), Some(202.0));
        assert_eq!(of(&[201.0]).spread(&figure), None);
    }
}
