//! The results as tables.

use super::column::{BFTRAINER, FORECAST};
use super::measure::{Measure, median, spread};
use super::results::Results;
use crate::findings::Findings;
use crate::table::{Cell, Column, Table};

/// What the figures are.
const ABOUT: &str = "Share of the zero-cost bound: samples done over those of the same trainers, re-optimised at \
    each event, if rescaling and preemption cost nothing. Look-ahead reveals true ends of holes, \
    clairvoyant all of them. A rescale stops a trainer that would have run on; one that is hit \
    and resized at once is interrupted once.";

/// All tables.
#[must_use]
pub(super) fn findings(results: &Results) -> Findings {
    Findings {
        title: "What a forecast is worth".to_owned(),
        about: format!("{ABOUT} {}", results.seeds),
        tables: vec![shares(results), paid(results), spreads(results)],
        notes: [orders(results), failures(results)].concat(),
        runs: runs(results),
    }
}

/// A table of the cases, with a column for each policy.
fn by_policy(
    results: &Results,
    title: &str,
    cell: impl Fn(usize, &super::column::Column) -> Cell,
) -> Table {
    let case = std::iter::once(Column::words("case", "case"));
    let policies = results.columns.iter();
    let policies = policies.map(|column| Column::figures(column.name, column.title));
    let mut table = Table::new(title, case.chain(policies));
    for (at, case) in results.cases.iter().enumerate() {
        let cells = results.columns.iter().map(|column| cell(at, column));
        table.push(std::iter::once(Cell::words(&case.label)).chain(cells));
    }
    table
}

/// The measured shares.
fn shares(results: &Results) -> Table {
    by_policy(results, "Share of the zero-cost bound", |at, column| {
        Cell::number(results.median(at, column.name, Measure::Share), 3)
    })
}

/// What forecasts pay, beside BFTrainer's policy.
fn paid(results: &Results) -> Table {
    let columns = [
        Column::words("case", "case"),
        Column::words("policy", "policy"),
        Column::figures("preempt_cost_fraction", "preempted"),
        Column::figures("rescale_cost_fraction", "rescaled"),
        Column::figures("rescales_per_hour", "rescales/h"),
        Column::figures("stopping_rescales_per_hour", "stopping/h"),
        Column::figures("interruptions_per_hour", "interrupted/h"),
        Column::figures("idle_share_used", "idle used"),
    ];
    let mut table = Table::new("What was paid", columns);
    let compared = [BFTRAINER, FORECAST];
    if !compared.iter().all(|name| results.has(name)) {
        return table;
    }
    for (at, case) in results.cases.iter().enumerate() {
        for column in &results.columns {
            if compared.contains(&column.name) {
                let figure = |measure| results.median(at, column.name, measure);
                table.push([
                    Cell::words(&case.label),
                    Cell::words(column.title),
                    Cell::percent(figure(Measure::Preempt), 2),
                    Cell::percent(figure(Measure::Rescale), 2),
                    Cell::number(figure(Measure::Rescales), 1),
                    Cell::number(figure(Measure::Stops), 1),
                    Cell::number(figure(Measure::Interruptions), 1),
                    Cell::percent(figure(Measure::IdleUsed), 2),
                ]);
            }
        }
    }
    table
}

/// The least and the largest share of several seeds.
fn spreads(results: &Results) -> Table {
    let of = |at, name| spread(results.cell(at, name)?, Measure::Share);
    let table = by_policy(results, "Least and largest of the seeds", |at, column| {
        let spread = of(at, column.name);
        let text = spread.map(|(least, most)| format!("{least:.3}-{most:.3}"));
        Cell::new(text.unwrap_or_else(|| "-".to_owned()), spread)
    });
    let cases = 0..results.cases.len();
    let names = |at| results.columns.iter().map(move |column| (at, column.name));
    if cases
        .flat_map(names)
        .any(|(at, name)| of(at, name).is_some())
    {
        table
    } else {
        Table::new("", [])
    }
}

/// Each replay with all its figures.
fn runs(results: &Results) -> Table {
    let first = ["case", "column", "failed"].map(Column::in_json);
    let measures = Measure::NAMED.map(|(name, _)| Column::in_json(name));
    let columns = first.into_iter().chain(measures);
    let mut table = Table::new("Replays", columns.chain([Column::in_json("command")]));
    for (at, case) in results.cases.iter().enumerate() {
        for (column, done) in results.of_case(at) {
            let first = [
                Cell::words(&case.label),
                Cell::words(column.name),
                Cell::new("", done.failure()),
            ];
            let measures = Measure::NAMED.map(|(_, measure)| Cell::new("", median(done, measure)));
            let command = Cell::words(done.row.command.join(" "));
            table.push(first.into_iter().chain(measures).chain([command]));
        }
    }
    table
}

/// In which order nodes are taken, of each pool.
fn orders(results: &Results) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for (at, case) in results.cases.iter().enumerate() {
        let words = results.order_in_words(at);
        let line = words.map(|words| format!("{}: {words}.", case.pool));
        lines.extend(line.filter(|line| !lines.contains(line)));
    }
    lines
}

/// The failed cells, and cells that cannot be compared.
fn failures(results: &Results) -> Vec<String> {
    let failed = results.failures();
    let mut lines: Vec<String> = failed
        .map(|(done, why)| format!("{} failed: {why}", done.row.label))
        .collect();
    for (at, case) in results.cases.iter().enumerate() {
        if results.bounds_differ(at) {
            lines.push(format!("{}: its columns have different bounds", case.label));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::alike;
    use super::*;
    use crate::runs::Outcome;

    #[test]
    fn shares_and_costs_are_shown_once_and_failures_are_named() {
        let mut results = alike();
        let text = findings(&results).markdown();
        assert!(
            text.contains("| 1,024 nodes, 10 trainers, x1 |     0.900 |"),
            "{text}"
        );
        assert!(text.contains("## What was paid"), "{text}");
        assert!(text.contains("- 1,024 nodes: nodes are taken"), "{text}");
        assert_eq!(text.matches("nodes are taken").count(), 1, "{text}");
        assert!(!text.contains("Least and largest"), "{text}");

        results.cells[1].outcome = Outcome::Failed("no room".to_owned());
        if let Outcome::Done(runs) = &mut results.cells[0].outcome {
            let mut other = runs[0].clone();
            other["zero_cost_fraction"] = 0.85.into();
            runs.push(other);
        }
        let found = findings(&results);
        let text = found.markdown();
        assert!(text.contains("- 1,024 nodes, 10 trainers, x1, forecast failed: no room"));
        assert!(text.contains("0.850-0.900"), "{text}");
        for run in found.runs.json().as_array().unwrap() {
            for (name, _) in Measure::NAMED {
                assert_eq!(run[name].is_null(), !run["failed"].is_null(), "{run}");
            }
        }
        // Costs are shown beside BFTrainer's alone.
        results.columns.remove(0);
        assert!(!findings(&results).markdown().contains("What was paid"));
    }
}
