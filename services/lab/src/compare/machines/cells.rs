//! Shares of the zero-cost bound, and figures over all of them.

use serde_json::Value;

use super::column::{COLD, COLUMNS, Column, LEARNT, PRIOR, SIMPLE};

/// The costs from which on changes are dear.
const DEAR: f64 = 5.0;

/// The windows, each with its place in the milestones of a replay; the last is the whole replay.
pub(super) const WINDOWS: [(&str, Option<usize>); 4] = [
    ("first hour", Some(0)),
    ("first day", Some(1)),
    ("first week", Some(2)),
    ("all", None),
];

/// The cells of a machine, at one cost, until one moment.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cells {
    /// The machine.
    pub(super) machine: String,
    /// Factor on the costs of changes.
    pub(super) cost: f64,
    /// The window: a place in [`WINDOWS`].
    pub(super) window: usize,
    /// The share of each column of [`COLUMNS`], if it was run.
    pub(super) shares: Vec<Option<f64>>,
}

impl Cells {
    /// The share of a column.
    pub(super) fn share(&self, name: &str) -> Option<f64> {
        let mut columns = COLUMNS.iter().zip(&self.shares);
        columns.find_map(|(column, share)| share.filter(|_| column.name == name))
    }

    /// How far a column lies above the better simple rule.
    pub(super) fn above(&self, name: &str) -> Option<f64> {
        let simple = SIMPLE.iter().filter_map(|rule| self.share(rule));
        Some(self.share(name)? - simple.reduce(f64::max)?)
    }

    /// Whether changes are dear.
    const fn is_dear(&self) -> bool {
        self.cost >= DEAR
    }

    /// Their names in words.
    pub(super) fn words(&self) -> String {
        let window = WINDOWS.get(self.window).map_or("", |(name, _)| name);
        format!("{}, x{}, {window}", self.machine, self.cost)
    }
}

/// The share of a column in a window of a replay, whose output is given.
pub(super) fn share(column: &Column, window: usize, output: &Value) -> Option<f64> {
    let figures = match column.beside {
        None => output,
        Some(rule) => {
            let mut beside = output.get("beside")?.as_array()?.iter();
            beside.find(|figures| figures.get("practice").and_then(Value::as_str) == Some(rule))?
        }
    };
    let (_, milestone) = WINDOWS.get(window)?;
    let figures = match milestone {
        Some(at) => figures.get("milestones")?.get(at)?,
        None => figures,
    };
    figures.get("zero_cost_fraction")?.as_f64()
}

/// A figure over all cells.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Figure {
    /// Its name.
    pub(super) what: String,
    /// The figure.
    pub(super) found: f64,
    /// Where it was found, if it is one cell's.
    pub(super) at: Option<String>,
}

/// The figures over all cells.
pub(super) fn figures(cells: &[Cells]) -> Vec<Figure> {
    let mut figures = Vec::new();
    let mut figure = |what: String, found: Option<(f64, Option<String>)>| {
        figures.extend(found.map(|(found, at)| Figure { what, found, at }));
    };
    for name in [COLD, PRIOR, LEARNT] {
        let above = cells
            .iter()
            .filter_map(|cell| Some((cell, cell.above(name)?)));
        let worst = above.clone().min_by(|a, b| a.1.total_cmp(&b.1));
        figure(
            format!("`auto`, {name}: worst cell less the better of `dp` and equal share"),
            worst.map(|(cell, found)| (found, Some(cell.words()))),
        );
        let dear = above.filter_map(|(cell, above)| cell.is_dear().then_some(above));
        figure(
            format!("`auto`, {name}: mean above it at x5 and x10"),
            mean(dear).map(|found| (found, None)),
        );
    }
    let gain = |name: &str| {
        let gain = |cell: &Cells| Some(cell.share(name)? - cell.share(COLD)?);
        let with_prior = cells.iter().filter(|cell| cell.share(PRIOR).is_some());
        mean(with_prior.filter_map(gain))
    };
    if let (Some(prior), Some(learnt)) = (gain(PRIOR), gain(LEARNT)) {
        figure("mean of prior - cold".to_owned(), Some((prior, None)));
        figure("mean of learnt - cold".to_owned(), Some((learnt, None)));
        // Where learning brings nothing there is no part of it.
        let part = (learnt > 0.0).then(|| (prior / learnt, None));
        figure(
            "(prior - cold) / (learnt - cold), of the means".to_owned(),
            part,
        );
    }
    figures
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.fold((0_u32, 0.0), |(count, sum), value| (count + 1, sum + value));
    (count > 0).then(|| sum / f64::from(count))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cells(machine: &str, cost: f64, of: &[(&str, f64)]) -> Cells {
        let share = |column: &Column| {
            let mut of = of.iter();
            of.find_map(|(name, share)| (*name == column.name).then_some(*share))
        };
        Cells {
            machine: machine.to_owned(),
            cost,
            window: 3,
            shares: COLUMNS.iter().map(share).collect(),
        }
    }

    #[test]
    fn the_better_simple_rule_is_compared_and_the_worst_cell_named() {
        let all = [
            cells(
                "a",
                1.0,
                &[("dp", 0.9), ("equal-share", 0.95), (COLD, 0.94)],
            ),
            cells("b", 5.0, &[("dp", 0.8), ("equal-share", 0.7), (COLD, 0.83)]),
            cells("b", 10.0, &[("dp", 0.7), (COLD, 0.72)]),
            cells("b", 10.0, &[("dp", 0.7)]),
        ];
        let figures = figures(&all);
        let [worst, above] = figures.as_slice() else {
            panic!("{figures:?}")
        };
        assert!((worst.found + 0.01).abs() < 1e-12);
        assert_eq!(worst.at.as_deref(), Some("a, x1, all"));
        assert!((above.found - 0.025).abs() < 1e-12);
    }

    #[test]
    fn what_other_machines_teach_is_a_part_of_what_the_past_teaches() {
        let cell = |prior, learnt| {
            let shares = [("dp", 0.8), (COLD, 0.8), (PRIOR, prior), (LEARNT, learnt)];
            cells("a", 5.0, &shares)
        };
        let found = |of: &[Cells]| {
            let figures = figures(of).into_iter();
            let last = figures.filter(|figure| figure.what.contains("- cold"));
            last.map(|figure| (figure.found * 1e3).round())
                .collect::<Vec<_>>()
        };
        let two = [cell(0.81, 0.84), cell(0.82, 0.82)];
        assert_eq!(found(&two), [15.0, 30.0, 500.0]);
        assert_eq!(found(&[cell(0.81, 0.79)]), [10.0, -10.0]);
    }

    #[test]
    fn windows_are_milestones_and_the_whole() {
        let beside = json!({"practice": "requeue", "zero_cost_fraction": 0.4});
        let output = json!({
            "zero_cost_fraction": 0.9,
            "milestones": [{"hours": 1.0, "zero_cost_fraction": 0.8}],
            "beside": [beside],
        });
        let column = COLUMNS[0];
        let found = [0, 1, 3].map(|window| share(&column, window, &output));
        assert_eq!(found, [Some(0.8), None, Some(0.9)]);
        let requeue = Column {
            beside: Some("requeue"),
            ..column
        };
        assert_eq!(share(&requeue, 3, &output), Some(0.4));
        assert_eq!(share(&requeue, 0, &output), None);
    }
}
