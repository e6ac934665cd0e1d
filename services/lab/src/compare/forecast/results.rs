//! The results of all cells.

use serde_json::Value;

use super::case::Case;
use super::column::{Column, FORECAST};
use super::measure::{Measure, median, of_seeds};
use crate::runs::Done;

/// The zero-cost bound does not depend on the policy; sums may differ in their last digits.
const SAME_BOUND: f64 = 1e-6;

/// All cells with their cases and columns.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Results {
    /// The cases.
    pub(super) cases: Vec<Case>,
    /// The columns.
    pub(super) columns: Vec<Column>,
    /// The cells of one case after another, each with all columns.
    pub(super) cells: Vec<Done>,
    /// The note on the seeds.
    pub(super) seeds: String,
}

impl Results {
    /// The cells of a case with their columns.
    pub(super) fn of_case(&self, case: usize) -> impl Iterator<Item = (&Column, &Done)> {
        let from = case.saturating_mul(self.columns.len());
        self.columns.iter().zip(self.cells.iter().skip(from))
    }

    /// One cell.
    pub(super) fn cell(&self, case: usize, name: &str) -> Option<&Done> {
        let mut cells = self.of_case(case);
        cells.find_map(|(column, done)| (column.name == name).then_some(done))
    }

    /// A figure of a cell: the median of the seeds.
    pub(super) fn median(&self, case: usize, name: &str, measure: Measure) -> Option<f64> {
        median(self.cell(case, name)?, measure)
    }

    /// Whether a column was run.
    pub(super) fn has(&self, name: &str) -> bool {
        self.columns.iter().any(|column| column.name == name)
    }

    /// Failed cells, each with the reason.
    pub(super) fn failures(&self) -> impl Iterator<Item = (&Done, &str)> {
        let failed = |done| Done::failure(done).map(|why| (done, why));
        self.cells.iter().filter_map(failed)
    }

    /// Whether the zero-cost bounds of a case differ between columns, which is an error.
    pub(super) fn bounds_differ(&self, case: usize) -> bool {
        let bounds = self
            .of_case(case)
            .map(|(_, done)| of_seeds(done, Measure::Bound));
        let bounds: Vec<Vec<f64>> = bounds.filter(|bounds| !bounds.is_empty()).collect();
        let Some((first, others)) = bounds.split_first() else {
            return false;
        };
        let same = |(a, b): (&f64, &f64)| (a - b).abs() <= SAME_BOUND * a.abs().max(b.abs());
        !others.iter().all(|other| first.iter().zip(other).all(same))
    }

    /// The observed order in which nodes are taken, as the replay reports it.
    fn order(&self, case: usize) -> Option<&Value> {
        let run = self.cell(case, FORECAST)?.outputs().first()?;
        run.get("order").filter(|order| order.is_object())
    }

    /// That order in words.
    pub(super) fn order_in_words(&self, case: usize) -> Option<String> {
        let order = self.order(case)?;
        let verdict = match order.get("rests_on")?.as_str()? {
            "released" => "no order was found, so nodes are kept together by release",
            "taken" => "nodes are taken in an order, learnt from what was taken",
            "reversed" => "nodes are taken in the order of their names, backwards",
            _ => "nodes are taken in the order of their names, or as given",
        };
        let seen = |name: &str, which: &str| {
            let at = |field: &str| order.get(which)?.get(field)?.as_f64();
            let place = at("place")?;
            let z = at("z").map_or_else(|| "too few events".to_owned(), |z| format!("z = {z:.1}"));
            let events = at("events").unwrap_or(0.0);
            Some(format!("{place:.3} {name} ({z}, {events} events)"))
        };
        let seen: Vec<String> = [("by names", "given"), ("as learnt", "learnt")]
            .into_iter()
            .filter_map(|(name, which)| seen(name, which))
            .collect();
        if seen.is_empty() {
            return Some(verdict.to_owned());
        }
        Some(format!(
            "{verdict}; mean place of taken nodes among the idle ones: {}",
            seen.join(", ")
        ))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::super::case::Choice;
    use super::super::column::chosen;
    use super::*;
    use crate::runs::Outcome;

    /// Two cases; each column keeps .9 of the bound and rescales ten times
    /// an hour.
    pub(in super::super) fn alike() -> Results {
        let choice = Choice {
            nodes: vec![1024],
            parallel: vec![10],
            costs: vec![1.0, 5.0],
            ..Choice::default()
        };
        let cases = choice.summit(std::path::Path::new("/d"));
        let columns = chosen(&[], false, false);
        let run = json!({
            "hours": 1.0, "rescales": 10, "rescales_at_hits": 4, "preemptions": 5,
            "samples": 90.0, "zero_cost_fraction": 0.9, "idle_share_used": 0.97,
            "preempt_cost_fraction": 0.08, "rescale_cost_fraction": 0.01,
            "solve_seconds": { "p50": 0.001, "p99": 0.01 },
            "order": {
                "rests_on": "given",
                "given": { "events": 900, "place": 0.2, "z": 25.0 },
                "learnt": { "events": 900, "place": 0.3, "z": null },
            },
        });
        let cell = |case: &Case, column: &Column| Done {
            row: case.row(column),
            outcome: Outcome::Done(vec![run.clone()]),
        };
        let cells = cases
            .iter()
            .flat_map(|case| columns.iter().map(move |c| (case, c)));
        let cells = cells.map(|(case, column)| cell(case, column)).collect();
        Results {
            cases,
            columns,
            cells,
            seeds: "Seed 1.".to_owned(),
        }
    }

    #[test]
    fn cells_are_found_and_bounds_compared() {
        let mut results = alike();
        assert_eq!(results.median(1, FORECAST, Measure::Share), Some(0.9));
        assert_eq!(results.median(2, FORECAST, Measure::Share), None);
        assert!(!results.bounds_differ(0) && !results.bounds_differ(1));
        let last = results.cells.last_mut().unwrap();
        last.outcome = Outcome::Done(vec![json!({"samples": 91.0, "zero_cost_fraction": 0.9})]);
        assert!(!results.bounds_differ(0) && results.bounds_differ(1));
        results.cells[0].outcome = Outcome::Failed("gone".to_owned());
        assert_eq!(
            results.failures().map(|(_, why)| why).collect::<Vec<_>>(),
            ["gone"]
        );
    }

    #[test]
    fn the_order_is_named_in_words() {
        let words = alike().order_in_words(0).unwrap();
        assert!(words.starts_with("nodes are taken in the order of their names"));
        assert!(
            words.contains("0.200 by names (z = 25.0, 900 events)"),
            "{words}"
        );
        assert!(words.contains("0.300 as learnt (too few events"), "{words}");
    }
}
