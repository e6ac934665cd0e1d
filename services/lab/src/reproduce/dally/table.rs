//! The results as Markdown.

use lacuna_gangs::Family;

use super::case::Case;
use super::figures::{Measure, Spread};
use super::reference::{AuthorsRuns, COMPARED, PUBLISHED};
use super::results::{Cell, Compared, Results, is_met};
use super::verdicts::{Table, verdicts};

/// Columns of the main table.
const COLUMNS: [(Measure, &str, usize); 6] = [
    (Measure::Makespan, "makespan h", 1),
    (Measure::Mean, "mean h", 1),
    (Measure::Median, "median h", 1),
    (Measure::P95, "95 % h", 1),
    (Measure::Communication, "comm h", 0),
    (Measure::Restarts, "restarts", 0),
];

/// All tables of all cases as one document.
pub(super) fn markdown(results: &Results, authors: &AuthorsRuns) -> String {
    let mut out = format!(
        "# Gangs on a cluster of one's own\n\n{}.\n\n",
        results.verdict()
    );
    for note in notes(results) {
        out.push_str(&format!("{note}\n\n"));
    }
    for case in &results.cases {
        for (title, head, rows) in tables(results, authors, case) {
            out.push_str(&format!(
                "## {}: {title}\n\n{}\n",
                case.label(),
                pipes(&head, &rows)
            ));
        }
    }
    for (title, head, rows) in overall(results, authors) {
        out.push_str(&format!("## {title}\n\n{}\n", pipes(&head, &rows)));
    }
    out
}

/// What holds for all tables, one paragraph each.
pub(super) fn notes(results: &Results) -> Vec<String> {
    let orders = match results.seeds.as_slice() {
        [one] => format!("One order of the machines (seed {one}): a single order means little."),
        all => format!(
            "Mean ± deviation over {} orders in which machines and racks are searched.",
            all.len()
        ),
    };
    let mut notes = vec![
        orders,
        format!(
            "Policies with leases: {:.0} s, chunks of 1,000 samples a GPU, a restart delays the next round. \
             Ours without leases: a restart stalls its gang. comm is wall-clock time lost to the network, \
             summed over jobs.",
            results.lease_s
        ),
        "Calibration authors computes about one sample between two reductions, so the network looks \
         worse than it is; batch computes one batch."
            .to_owned(),
        "No policy has a smaller mean than the bound where gangs are rigid and run consolidated at \
         best, though it knew all jobs from the start. Policies that resize gangs can."
            .to_owned(),
    ];
    notes.push(
        if results.as_searched {
            "Gangs over several machines take GPUs in the order of search, as in the prototype."
        } else {
            "Gangs over several machines take GPUs in the order of numbers."
        }
        .to_owned(),
    );
    if results.published {
        notes.push(
            "The published defect is on: running jobs of published policies bid too.".to_owned(),
        );
    }
    notes
}

/// The tables of a case: all policies, and the reductions by Dally.
pub(super) fn tables(results: &Results, authors: &AuthorsRuns, case: &Case) -> Vec<Table> {
    let mut tables = vec![policies(results, authors, case)];
    tables.extend(ratios(results, authors, case));
    tables
}

fn policies(results: &Results, authors: &AuthorsRuns, case: &Case) -> Table {
    let known = |cell: &Cell| {
        let setting = case.is_reference();
        let name = cell.policy.name;
        let found = authors.of(&case.trace, case.racks, name, results.published);
        found.filter(|_| setting)
    };
    let any = results.of(case).any(|cell| known(cell).is_some());
    let mut head = vec!["policy".to_owned(), "knows work".to_owned()];
    head.extend(COLUMNS.iter().map(|(_, name, _)| (*name).to_owned()));
    head.extend(any.then(|| "authors' simulator, one order".to_owned()));
    let row = |cell: &Cell| {
        let knows = match cell.policy.family {
            Family::Published if cell.policy.name.starts_with("dally") => "yes",
            Family::Published | Family::Unknown => "no",
            Family::Known | Family::Malleable => "yes",
        };
        let mut row = vec![cell.policy.name.to_owned(), knows.to_owned()];
        row.extend(
            COLUMNS
                .iter()
                .map(|(of, _, digits)| cell.spread(*of).words(*digits)),
        );
        row.extend(any.then(|| match known(cell) {
            Some([makespan, mean, lost]) => format!("{makespan:.1} / {mean:.1} / {lost:.0}"),
            None => "-".to_owned(),
        }));
        row
    };
    let mut rows: Vec<Vec<String>> = results.of(case).map(row).collect();
    let mut bounds = results.cases.iter().zip(&results.bounds_s);
    if let Some((_, bound_s)) = bounds.find(|(of, _)| *of == case) {
        let cell = |name: &String| match name.as_str() {
            "policy" => "bound, rigid gangs".to_owned(),
            "mean h" => format!("{:.1}", bound_s / 3600.0),
            _ => "-".to_owned(),
        };
        rows.push(head.iter().map(cell).collect());
    }
    ("policies".to_owned(), head, rows)
}

/// Reductions by Dally against each published policy, beside those of the authors' simulator.
fn ratios(results: &Results, authors: &AuthorsRuns, case: &Case) -> Option<Table> {
    let dally = results.cell(case, "dally")?;
    let saved = |(by, against): (f64, f64)| {
        // Adding zero turns a rounded minus zero into zero.
        format!("{:.0} %", ((1.0 - by / against) * 100.0).round() + 0.0)
    };
    let row = |name: &str, by: [f64; 3], against: [f64; 3]| {
        let saved = by.into_iter().zip(against).map(saved);
        std::iter::once(name.to_owned())
            .chain(saved)
            .collect::<Vec<_>>()
    };
    let ours = |cell: &Cell| COMPARED.map(|measure| cell.spread(measure).mean);
    let theirs = |name| {
        let known = authors.of(&case.trace, case.racks, name, results.published);
        known.filter(|_| case.is_reference())
    };
    let others = results
        .of(case)
        .filter(|cell| cell.policy.family == Family::Published);
    let mut rows: Vec<Vec<String>> = Vec::new();
    for cell in others.filter(|cell| cell.policy.name != dally.policy.name) {
        let name = cell.policy.name;
        rows.push(row(name, ours(dally), ours(cell)));
        if let Some((by, against)) = theirs("dally").zip(theirs(name)) {
            rows.push(row(&format!("{name}, authors' simulator"), by, against));
        }
    }
    if rows.is_empty() {
        return None;
    }
    let published = PUBLISHED.map(|share| 1.0 - share);
    rows.push(row("published, \"up to\"", published, [1.0; 3]));
    let head = [
        "Dally against",
        "makespan, less by",
        "mean completion, less by",
        "communication, less by",
    ];
    let head = head.map(str::to_owned).to_vec();
    Some(("what Dally saves".to_owned(), head, rows))
}

/// Tables over all cases: the prototype's cells, and the goals.
pub(super) fn overall(results: &Results, authors: &AuthorsRuns) -> Vec<Table> {
    let mut tables = Vec::new();
    let compared = results.compared();
    if !compared.is_empty() {
        let head = [
            "trace",
            "policy",
            "figure",
            "ours",
            "prototype",
            "standard errors apart",
            "authors' simulator, one order",
        ];
        let words = |spread: Spread, measure| spread.words(digits(measure));
        let known = |one: &Compared<'_>| {
            let case = &one.cell.case;
            let figures = authors.of(&case.trace, case.racks, one.cell.policy.name, false)?;
            let mut named = COMPARED.into_iter().zip(figures);
            named.find_map(|(measure, value)| (measure == one.measure).then_some(value))
        };
        let rows = compared.iter().map(|one| {
            vec![
                one.cell.case.trace.clone(),
                one.cell.policy.name.to_owned(),
                name(one.measure).to_owned(),
                words(one.ours, one.measure),
                words(one.theirs, one.measure),
                format!("{:.1}", one.ours.apart(one.theirs)),
                known(one).map_or_else(|| "-".to_owned(), |value| format!("{value:.0}")),
            ]
        });
        let head = head.map(str::to_owned).to_vec();
        tables.push((
            "beside the prototype's lease engine".to_owned(),
            head,
            rows.collect(),
        ));
    }
    let goals = results.goals();
    if !goals.is_empty() {
        let head = [
            "trace", "fabric", "policy", "figure", "at most", "found", "met",
        ];
        let rows = goals.iter().map(|one| {
            let (goal, found) = one;
            vec![
                goal.trace.to_owned(),
                goal.fabric.to_owned(),
                goal.policy.to_owned(),
                name(goal.measure).to_owned(),
                format!("{}", goal.most),
                format!("{found:.1}"),
                if is_met(one) { "yes" } else { "no" }.to_owned(),
            ]
        });
        let head = head.map(str::to_owned).to_vec();
        tables.push((
            "goals, met to the digit in which they were asked for".to_owned(),
            head,
            rows.collect(),
        ));
    }
    tables.extend(verdicts(results));
    tables
}

const fn digits(measure: Measure) -> usize {
    match measure {
        Measure::Mean => 1,
        _ => 0,
    }
}

/// The figure in words.
fn name(measure: Measure) -> &'static str {
    match measure {
        Measure::Makespan => "makespan, h",
        Measure::Mean => "mean completion, h",
        _ => "communication, h",
    }
}

/// A table with columns of equal width: the first left, the others right.
fn pipes(head: &[String], rows: &[Vec<String>]) -> String {
    let width = |at: usize| {
        let all = rows.iter().map(Vec::as_slice).chain([head]);
        let cells = all.filter_map(|row| row.get(at));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |row: &[String]| {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(|(at, (cell, &width))| match at {
            0 => format!(" {cell:<width$} |"),
            _ => format!(" {cell:>width$} |"),
        });
        format!("|{}\n", cells.collect::<String>())
    };
    let rule = widths.iter().enumerate().map(|(at, width)| match at {
        0 => format!("{}|", "-".repeat(width + 2)),
        _ => format!("{}:|", "-".repeat(width + 1)),
    });
    let rows: String = rows.iter().map(|row| line(row)).collect();
    format!("{}|{}\n{rows}", line(head), rule.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let head = ["a", "long"].map(str::to_owned);
        let rows = [["longer", "1"].map(str::to_owned).to_vec()];
        assert_eq!(
            pipes(&head, &rows),
            "| a      | long |\n|--------|-----:|\n| longer |    1 |\n"
        );
    }
}
