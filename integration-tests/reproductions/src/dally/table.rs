//! The results as tables.

use lacuna_lab::findings::Findings;
use lacuna_lab::table::{Cell, Column, Table};

use super::case::Case;
use super::figures::Measure;
use super::reference::{AuthorsRuns, COMPARED, PUBLISHED};
use super::results::{self, Results};

/// What the figures are.
const ABOUT: &str = "Policies with leases: chunks of 1,000 samples a GPU, a restart delays the next \
    round. Ours without leases: a restart stalls its gang. comm is wall-clock time lost to the \
    network, summed over jobs. Calibration authors computes about one sample between two \
    reductions, so the network looks worse than it is; batch computes one batch. No policy has a \
    smaller mean than the bound where gangs are rigid and run consolidated at best, though it knew \
    all jobs from the start.";

/// Columns of the main table.
const COLUMNS: [(Measure, &str, usize); 6] = [
    (Measure::Makespan, "makespan h", 1),
    (Measure::Mean, "mean h", 1),
    (Measure::Median, "median h", 1),
    (Measure::P95, "95 % h", 1),
    (Measure::Communication, "comm h", 0),
    (Measure::Restarts, "restarts", 0),
];

/// All tables of all cases.
pub(super) fn findings(results: &Results, authors: &AuthorsRuns) -> Findings {
    let orders = match results.seeds.as_slice() {
        [one] => format!("One order of the machines (seed {one}): a single order means little."),
        all => format!(
            "Mean ± deviation over {} orders in which machines and racks are searched.",
            all.len()
        ),
    };
    let mut notes = Vec::new();
    if results.published {
        let defect = "The published defect is on: running jobs of published policies bid too.";
        notes.push(defect.to_owned());
    }
    let tables = results.cases.iter().flat_map(|case| {
        [
            policies(results, authors, case),
            saved(results, authors, case),
        ]
    });
    Findings {
        title: "Gangs on a cluster of one's own".to_owned(),
        about: format!("{orders} Leases are of {:.0} s. {ABOUT}", results.lease_s),
        tables: tables.collect(),
        notes,
        runs: runs(results),
    }
}

/// The published run of a policy in the authors' setting.
fn known(results: &Results, authors: &AuthorsRuns, case: &Case, name: &str) -> Option<[f64; 3]> {
    let found = authors.of(&case.trace, case.racks, name, results.published);
    found.filter(|_| case.is_reference())
}

fn policies(results: &Results, authors: &AuthorsRuns, case: &Case) -> Table {
    let figures = COLUMNS.map(|(_, name, _)| Column::figures(&name.replace(' ', "_"), name));
    let first = [
        Column::words("policy", "policy"),
        Column::figures("knows_work", "knows work"),
    ];
    let last = Column::figures("authors", "authors' simulator, one order");
    let columns = first.into_iter().chain(figures).chain([last]);
    let mut table = Table::new(format!("{}: policies", case.label()), columns);
    for cell in results.of(case) {
        let knows = if cell.policy.knows_work { "yes" } else { "no" };
        let first = [
            Cell::words(cell.policy.name),
            Cell::new(knows, cell.policy.knows_work),
        ];
        let figures = COLUMNS.map(|(measure, _, digits)| {
            let spread = cell.spread(measure);
            Cell::new(spread.words(digits), [spread.mean, spread.deviation])
        });
        let known = known(results, authors, case, cell.policy.name);
        let words =
            known.map(|[makespan, mean, lost]| format!("{makespan:.1} / {mean:.1} / {lost:.0}"));
        let last = Cell::new(words.unwrap_or_else(|| "-".to_owned()), known);
        table.push(first.into_iter().chain(figures).chain([last]));
    }
    let mut bounds = results.cases.iter().zip(&results.bounds_s);
    if let Some((_, bound_s)) = bounds.find(|(of, _)| *of == case) {
        let none = || Cell::number(None, 0);
        let figures = COLUMNS.map(|(measure, ..)| match measure {
            Measure::Mean => Cell::number(Some(bound_s / 3600.0), 1),
            _ => none(),
        });
        let first = [Cell::words("bound, rigid gangs"), none()];
        table.push(first.into_iter().chain(figures).chain([none()]));
    }
    table
}

/// Reductions by Dally against each published policy, beside those of the authors' simulator.
fn saved(results: &Results, authors: &AuthorsRuns, case: &Case) -> Table {
    let columns = [
        Column::words("against", "Dally against"),
        Column::figures("makespan", "makespan, less by"),
        Column::figures("mean_completion", "mean completion, less by"),
        Column::figures("communication", "communication, less by"),
    ];
    let mut table = Table::new(format!("{}: what Dally saves", case.label()), columns);
    let Some(dally) = results.cell(case, "dally") else {
        return table;
    };
    let mut row = |name: &str, by: [f64; 3], against: [f64; 3]| {
        let saved = by.into_iter().zip(against).map(|(by, against)| {
            let share = 1.0 - by / against;
            // Adding zero turns a rounded minus zero into zero.
            Cell::new(format!("{:.0} %", (share * 100.0).round() + 0.0), share)
        });
        table.push(std::iter::once(Cell::words(name)).chain(saved));
    };
    let ours = |cell: &results::Cell| COMPARED.map(|measure| cell.spread(measure).mean);
    let others = results.of(case).filter(|cell| cell.policy.is_published);
    for cell in others.filter(|cell| cell.policy.name != dally.policy.name) {
        let name = cell.policy.name;
        row(name, ours(dally), ours(cell));
        let known = |name| known(results, authors, case, name);
        if let Some((by, against)) = known("dally").zip(known(name)) {
            row(&format!("{name}, authors' simulator"), by, against);
        }
    }
    row(
        "published, \"up to\"",
        PUBLISHED.map(|share| 1.0 - share),
        [1.0; 3],
    );
    table
}

/// Each policy on each case with all its figures.
fn runs(results: &Results) -> Table {
    let first = ["case", "policy"].map(Column::in_json);
    let figures = Measure::NAMED.map(|(_, name)| Column::in_json(name));
    let mut table = Table::new("Runs", first.into_iter().chain(figures));
    for cell in &results.cells {
        let first = [
            Cell::words(cell.case.label()),
            Cell::words(cell.policy.name),
        ];
        let figures = Measure::NAMED.map(|(measure, _)| {
            let all: Vec<f64> = cell.runs.iter().map(|run| measure.of(run)).collect();
            Cell::new("", all)
        });
        table.push(first.into_iter().chain(figures));
    }
    table
}
