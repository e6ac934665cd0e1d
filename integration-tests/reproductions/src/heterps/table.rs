//! The results as tables.

use lacuna_lab::findings::Findings;
use lacuna_lab::table::{Cell, Column, Table};
use serde_json::json;

use super::results::{self, Figures, Results};
use super::study::VARIATIONS;

/// What the figures are.
const ABOUT: &str = "Costs are over that of the exact placement. All choices are provisioned exactly. \
    Networks, speeds and prices are ours, since the paper's (arXiv 2111.10635) are not public; \
    random, genetic, local and RL have 1,500 evaluations, Bayesian optimization 150. Times are \
    processor times of the whole search in one thread, the least of all runs, and of nine for the \
    exact one: a busy machine makes runs longer, none shorter. The last table says by how much the \
    rate of the cost model is above that of a simulated pipeline, at most over all instances, by \
    the coefficient of variation: either a whole stage varies at each batch, or each unit, and the \
    stage waits for the slowest.";

/// All tables.
pub(super) fn findings(results: &Results) -> Findings {
    Findings {
        title: "Layers on kinds of node, after HeterPS".to_owned(),
        about: format!("Medians of {} seeds. {ABOUT}", results.seeds.len()),
        tables: vec![
            costs(results),
            times(results),
            placements(results),
            optimism(results),
        ],
        notes: published(results),
        runs: runs(results),
    }
}

fn label(row: &Figures) -> Cell {
    Cell::words(format!("{}, {}", row.network, row.kinds))
}

const INSTANCE: &str = "network-layers, kinds";

/// A table of the instances with a column for each scheduler, and one more.
fn by_scheduler(
    results: &Results,
    title: &str,
    last: (&str, &str),
    cell: impl Fn(&Figures, &results::Column) -> Cell,
    of_exact: impl Fn(&Figures) -> Cell,
) -> Table {
    let first = results.rows.first();
    let schedulers = first.iter().flat_map(|row| &row.columns);
    let schedulers = schedulers.map(|column| Column::figures(column.name, column.name));
    let instance = std::iter::once(Column::words("instance", INSTANCE));
    let columns = instance
        .chain(schedulers)
        .chain([Column::figures(last.0, last.1)]);
    let mut table = Table::new(title, columns);
    for row in &results.rows {
        let cells = row.columns.iter().map(|column| cell(row, column));
        table.push(
            std::iter::once(label(row))
                .chain(cells)
                .chain([of_exact(row)]),
        );
    }
    table
}

fn costs(results: &Results) -> Table {
    by_scheduler(
        results,
        "Costs",
        ("exact_cost", "exact, $ for 1e9 samples"),
        |row, column| match row.ratio(column.name) {
            // Such a cost stands for a rate that is not met.
            Some(ratio) if ratio > 1e3 => Cell::new("none", ratio),
            ratio => Cell::number(ratio, 3),
        },
        |row| Cell::number(Some(row.exact.cost), 4),
    )
}

fn times(results: &Results) -> Table {
    by_scheduler(
        results,
        "Time",
        ("exact_s", "exact"),
        |_, column| Cell::seconds(column.seconds()),
        |row| Cell::seconds(Some(row.seconds)),
    )
}

fn placements(results: &Results) -> Table {
    let columns = [
        Column::words("instance", INSTANCE),
        Column::figures("rate", "samples/s"),
        Column::figures("gap", "gap"),
        Column::words("stages", "stages"),
    ];
    let mut table = Table::new("Placements", columns);
    for row in &results.rows {
        let stages = row.exact.stages.iter().map(|stage| {
            let kind = row.kind_names.get(stage.kind).map_or("?", String::as_str);
            let (from, to) = (stage.layers.start + 1, stage.layers.end);
            format!("{from}-{to} on {} {kind}", stage.units)
        });
        table.push([
            label(row),
            Cell::number(Some(row.exact.rate), 0),
            Cell::new(format!("{:.0e}", row.exact.gap()), row.exact.gap()),
            Cell::words(stages.collect::<Vec<_>>().join("; ")),
        ]);
    }
    table
}

fn optimism(results: &Results) -> Table {
    let variations = VARIATIONS.map(|v| Column::figures(&format!("{v}"), &format!("{v}")));
    let first = std::iter::once(Column::words("varies", "what varies"));
    let mut table = Table::new(
        "The cost model beside a simulated pipeline",
        first.chain(variations),
    );
    for (name, by_unit) in [("stages", false), ("units", true)] {
        let most = VARIATIONS.map(|variation| {
            let all = results.rows.iter().flat_map(|row| &row.optimism);
            let of = all.filter(|one| one.by_unit == by_unit && one.variation == variation);
            Cell::percent(Some(of.map(|one| one.share).fold(0.0, f64::max)), 1)
        });
        table.push(std::iter::once(Cell::words(name)).chain(most));
    }
    table
}

/// The abstract's two numbers beside what a scheduler alone can show.
fn published(results: &Results) -> Vec<String> {
    let two: Vec<&Figures> = results.rows.iter().filter(|row| row.kinds == 2).collect();
    let range = |name: &str| {
        let ratios: Vec<f64> = two.iter().filter_map(|row| row.ratio(name)).collect();
        let ratios = ratios.iter().filter(|ratio| **ratio < 1e3);
        let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
        ratios.for_each(|&ratio| (least, most) = (least.min(ratio), most.max(ratio)));
        (most > 0.0).then(|| format!("{least:.2} to {most:.2}"))
    };
    let mut notes = vec![
        "\"Throughput 14.5 times higher\" compares frameworks, so a scheduler cannot repeat it. \
         Within the model the ratio of rates at equal spend is the ratio of costs."
            .to_owned(),
        "\"Monetary cost 312.3 % smaller\" can only mean a baseline of 4.123 times the cost."
            .to_owned(),
    ];
    for (name, words) in [("gpu", "GPUs alone"), ("cpu", "CPUs alone")] {
        notes.extend(range(name).map(|range| {
            format!("At 2 kinds {words} cost {range} times the exact placement, at these prices.")
        }));
    }
    notes
}

/// Each scheduler on each instance with all its runs.
fn runs(results: &Results) -> Table {
    let names = [
        "network",
        "layers",
        "kinds",
        "min_rate",
        "scheduler",
        "ratio",
        "runs",
    ];
    let mut table = Table::new("Runs", names.map(Column::in_json));
    for row in &results.rows {
        for column in &row.columns {
            let runs = column.runs.iter().map(|run| {
                json!({ "cost": run.cost, "seconds": run.seconds, "evaluations": run.evaluations })
            });
            table.push([
                Cell::words(&row.network),
                Cell::new("", row.layers),
                Cell::new("", row.kinds),
                Cell::new("", row.min_rate),
                Cell::words(column.name),
                Cell::new("", row.ratio(column.name)),
                Cell::new("", runs.collect::<Vec<_>>()),
            ]);
        }
    }
    table
}
