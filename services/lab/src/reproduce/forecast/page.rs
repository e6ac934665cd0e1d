//! The results as a page with plots.

use lacuna_report::{ComparedFigure, ComparedRow, Comparison, Group, render_comparison};

use super::column::{AHEAD_15M, BFTRAINER, CLAIRVOYANT, FORECAST};
use super::measure::{Measure, median};
use super::reference::Reference;
use super::results::Results;
use super::table;

/// The self-contained page.
#[must_use]
pub(super) fn page(results: &Results) -> String {
    render_comparison(&comparison(results))
}

/// One group of dots for each case: what is kept, what preemption takes, and churn.
fn comparison(results: &Results) -> Comparison {
    let group = |at: usize, label: &str| Group {
        title: match table::judged(results, at).as_str() {
            "-" => label.to_owned(),
            judged => format!("{label} ({judged})"),
        },
        x_label: "policy".to_owned(),
        rows: rows(results, at),
    };
    let mut notes = table::about(results);
    notes.extend(table::orders(results));
    let missed = table::missed(results).into_iter();
    notes.extend(missed.map(|missed| format!("Not met: {missed}.")));
    let failed = table::failures(results).into_iter();
    notes.extend(failed.map(|failed| format!("Failed: {failed}.")));
    Comparison {
        title: "What a forecast is worth".to_owned(),
        subtitle: results.verdict(),
        beside: "aimed at, or measured earlier".to_owned(),
        groups: results
            .cases
            .iter()
            .enumerate()
            .map(|(at, case)| group(at, &case.label))
            .collect(),
        notes,
    }
}

/// The reference of a column: the goal if there is one.
fn aim(name: &str, reference: &Reference) -> Option<f64> {
    match name {
        BFTRAINER => Some(reference.bftrainer),
        FORECAST => Some(reference.goal.unwrap_or(reference.best)),
        AHEAD_15M => reference.goal_15m,
        CLAIRVOYANT => Some(reference.clairvoyant),
        _ => None,
    }
}

fn rows(results: &Results, at: usize) -> Vec<ComparedRow> {
    let reference = results.cases.get(at).and_then(|case| case.reference);
    let row = |(column, done): (&super::column::Column, &_)| {
        let figure = |name: &str, measure, published| ComparedFigure {
            name: name.to_owned(),
            ours: median(done, measure).unwrap_or(f64::NAN),
            published,
            tolerance: None,
        };
        let aim = reference.and_then(|reference| aim(column.name, reference));
        ComparedRow {
            label: column.title.to_owned(),
            x: None,
            figures: vec![
                figure("share of the zero-cost bound", Measure::Share, aim),
                figure("lost to preemption", Measure::Preempt, None),
                figure("interruptions an hour", Measure::Interruptions, None),
            ],
        }
    };
    results.of_case(at).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::alike;
    use super::*;
    use crate::reproduce::row::Outcome;

    #[test]
    fn every_case_is_drawn_and_missed_goals_are_named() {
        let mut results = alike();
        results.cells[3].outcome = Outcome::Failed("no <room>".to_owned());
        let comparison = comparison(&results);
        assert_eq!(comparison.groups.len(), 2);
        assert!(comparison.groups.iter().all(|group| group.rows.len() == 11));
        let forecast = &comparison.groups[1].rows[1].figures[0];
        assert_eq!((forecast.ours, forecast.published), (0.9, Some(0.89)));
        let page = page(&results);
        assert!(page.starts_with("<!doctype html>"), "{page}");
        assert!(page.contains("no &lt;room&gt;") && !page.contains("no <room>"));
        assert!(page.contains("8 of 12 goals are met; 21 replays, 1 failed"));
        assert!(page.contains("Not met: 1,024 nodes, 10 trainers, x5: clairvoyant"));
    }
}
