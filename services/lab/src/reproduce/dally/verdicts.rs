//! What several cases say together: dearer restarts, shared links, the frontier of two goals.

use super::case::{CalibrationArg, Case};
use super::figures::Measure;
use super::results::{Cell, Results};

/// A table: heading, heads of columns, rows.
pub(super) type Table = (String, Vec<String>, Vec<Vec<String>>);

/// The frontier on fabric hdr, hours: the makespan counts up to a mean, the mean up to a makespan.
const FRONTIER: [f64; 2] = [35.0, 240.0];

/// Makespan and mean completion of the prototype on fabric hdr, hours.
const PROTOTYPE: [(&str, f64, f64); 2] = [("dally", 271.0, 49.0), ("tiresias-all", 235.0, 50.1)];

/// The tables of what was run.
pub(super) fn verdicts(results: &Results) -> Vec<Table> {
    let mut tables = Vec::new();
    let dearer = results.dearer();
    if !dearer.is_empty() {
        let head = [
            "trace",
            "policy",
            "restarts",
            "mean completion longer by",
            "at most",
            "met",
        ];
        let rows = dearer.iter().map(|one| {
            vec![
                one.cell.case.trace.clone(),
                one.cell.policy.name.to_owned(),
                format!("x{}", one.cell.case.restart_s),
                format!("{:.1} %", one.worse * 100.0 + 0.0),
                format!("{:.0} %", one.at_most * 100.0),
                if one.is_met() { "yes" } else { "no" }.to_owned(),
            ]
        });
        tables.push(("dearer restarts".to_owned(), words(&head), rows.collect()));
    }
    tables.extend(
        results
            .cases
            .iter()
            .filter_map(|case| shared(results, case)),
    );
    tables.extend(
        results
            .cases
            .iter()
            .filter_map(|case| frontier(results, case)),
    );
    tables
}

/// Policies by mean completion with shared links, beside their order without.
fn shared(results: &Results, case: &Case) -> Option<Table> {
    case.contention?;
    let alone = Case {
        contention: None,
        ..case.clone()
    };
    let order = |case: &Case| {
        let mut all: Vec<(f64, &str)> = results
            .of(case)
            .map(|cell| (cell.spread(Measure::Mean).mean, cell.policy.name))
            .collect();
        all.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        all
    };
    let (before, after) = (order(&alone), order(case));
    let said = |(mean, name): &(f64, &str)| format!("{name}, {mean:.1} h");
    let rows: Vec<_> = (1..)
        .zip(before.iter().zip(&after))
        .map(|(place, (one, other))| {
            let same = if one.1 == other.1 { "" } else { "changed" };
            vec![format!("{place}"), said(one), said(other), same.to_owned()]
        })
        .collect();
    let head = ["place", "links of one's own", "shared links", ""];
    let title = format!("{}: order by mean completion", case.label());
    (!rows.is_empty()).then(|| (title, words(&head), rows))
}

/// The shortest makespan and the shortest mean completion, each while the other is short.
fn frontier(results: &Results, case: &Case) -> Option<Table> {
    let wanted = case.fabric == "hdr"
        && case.trace == "batch500"
        && case.calibration == CalibrationArg::Batch
        && case.racks == 2
        && case.restart_s == 1.0
        && case.contention.is_none();
    let figures = |cell: &Cell| {
        let of = |measure| cell.spread(measure).mean;
        (of(Measure::Makespan), of(Measure::Mean))
    };
    let all: Vec<_> = results
        .of(case)
        .filter(|_| wanted)
        .map(|cell| (cell.policy.name, figures(cell)))
        .collect();
    let row = |what: &str, name: &str, (makespan, mean): (f64, f64)| {
        vec![
            what.to_owned(),
            name.to_owned(),
            format!("{makespan:.1}"),
            format!("{mean:.1}"),
        ]
    };
    let [most_mean, most_makespan] = FRONTIER;
    let quick = all.iter().filter(|(_, (_, mean))| *mean <= most_mean);
    let quick = quick.min_by(|(_, a), (_, b)| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)))?;
    let short = all.iter().filter(|(_, (span, _))| *span <= most_makespan);
    let short = short.min_by(|(_, a), (_, b)| a.1.total_cmp(&b.1))?;
    let mut rows = vec![
        row(
            &format!("least makespan, mean at most {most_mean} h"),
            quick.0,
            quick.1,
        ),
        row(
            &format!("least mean, makespan at most {most_makespan} h"),
            short.0,
            short.1,
        ),
    ];
    for (name, makespan, mean) in PROTOTYPE {
        rows.extend(
            all.iter()
                .filter(|(ours, _)| *ours == name)
                .map(|(_, figures)| row("published, here", name, *figures)),
        );
        rows.push(row("published, prototype", name, (makespan, mean)));
    }
    let head = ["", "policy", "makespan h", "mean h"];
    Some((format!("{}: frontier", case.label()), words(&head), rows))
}

fn words(head: &[&str]) -> Vec<String> {
    head.iter().map(|word| (*word).to_owned()).collect()
}
