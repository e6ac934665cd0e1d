//! Measured cases: what each cause truly costs, and what each method says.

use std::collections::BTreeSet;

use serde_json::Value;

use lacuna_lab::table::{Cell, Column, Table};

/// A cause counts as injected if it truly costs as many seconds.
const INJECTED: f64 = 0.005;
/// Causes in the order of a row. Differences of runs know no straggler.
const CAUSES: usize = 4;
const BY_DIFFERENCES: usize = 3;

/// Seconds of a step in one case: preparation, fetch, link, straggler.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Case {
    name: String,
    members: u64,
    step: f64,
    replayed: f64,
    truth: [f64; CAUSES],
    one_run: [f64; CAUSES],
    differences: [f64; BY_DIFFERENCES],
    fetch_as_coded: f64,
}

fn four(value: &Value, names: [&str; CAUSES]) -> Option<[f64; CAUSES]> {
    let mut found = [0.0; CAUSES];
    for (place, name) in found.iter_mut().zip(names) {
        // A cause that was not injected costs nothing.
        *place = match value.get(name)? {
            Value::Null => 0.0,
            number => number.as_f64()?,
        };
    }
    Some(found)
}

/// Cases that the benchmark of stalls of lacuna-py has measured, as JSON.
pub(super) fn measured(found: &Value) -> Option<Vec<Case>> {
    let names = ["preparation", "fetch", "link", "straggler"];
    let cases = found.get("rows")?.as_array()?.iter().map(|row| {
        let number = |value: &Value, name: &str| value.get(name)?.as_f64();
        let differences = row.get("differences")?;
        Some(Case {
            name: row.get("case")?.as_str()?.to_owned(),
            members: row.pointer("/config/nodes")?.as_u64()?,
            step: number(row, "step")?,
            replayed: number(row, "replayed")?,
            truth: four(row.get("truth")?, names)?,
            one_run: four(row.get("found")?, names)?,
            differences: [
                number(differences, "preparation")?,
                number(differences, "fetch")?,
                number(differences, "link")?,
            ],
            fetch_as_coded: number(row, "fetch_as_coded")?,
        })
    });
    cases
        .collect::<Option<Vec<_>>>()
        .filter(|all| !all.is_empty())
}

/// The cases in milliseconds of a step.
pub(super) fn table(all: &[Case]) -> Table {
    let columns = [
        Column::words("case", "case"),
        Column::figures("members", "members"),
        Column::figures("step_s", "step"),
        Column::figures("truth_s", "truth"),
        Column::figures("one_run_s", "one run"),
        Column::figures("differences_s", "differences"),
        Column::figures("fetch_as_coded_s", "fetch as coded"),
    ];
    let mut table = Table::new(
        "Milliseconds: preparation / fetch / link / straggler",
        columns,
    );
    let words = |seconds: &f64| format!("{:.0}", (1e3 * seconds).round() + 0.0);
    let ms = |seconds: f64| Cell::new(words(&seconds), seconds);
    let several = |values: &[f64]| {
        let texts: Vec<String> = values.iter().map(words).collect();
        Cell::new(texts.join(" / "), values)
    };
    for case in all {
        table.push([
            Cell::words(&case.name),
            Cell::count(case.members),
            ms(case.step),
            several(&case.truth),
            several(&case.one_run),
            several(&case.differences),
            ms(case.fetch_as_coded),
        ]);
    }
    table
}

/// Errors of each method, over the causes that truly cost something, in all cases of one size.
pub(super) fn errors(all: &[Case]) -> Table {
    let columns = [
        Column::words("method", "errors, % of a step"),
        Column::figures("members", "members"),
        Column::figures("count", "of"),
        Column::figures("mean", "mean"),
        Column::figures("worst", "worst"),
    ];
    let mut table = Table::new("Errors", columns);
    let sizes: BTreeSet<u64> = all.iter().map(|case| case.members).collect();
    for members in sizes {
        let (mut one_run, mut differences, mut replay) = (Vec::new(), Vec::new(), Vec::new());
        for case in all.iter().filter(|case| case.members == members) {
            let percent = |seconds: f64| 100.0 * seconds.abs() / case.step;
            replay.push(percent(case.replayed - case.step));
            let causes = case.truth.iter().zip(&case.one_run).enumerate();
            for (place, (truth, one)) in causes.filter(|(_, (truth, _))| **truth > INJECTED) {
                one_run.push(percent(one - truth));
                let other = case.differences.get(place);
                differences.extend(other.map(|other| percent(other - truth)));
            }
        }
        for (name, values) in [
            ("one run, replayed", one_run),
            ("differences of runs", differences),
            ("replay of the step itself", replay),
        ] {
            let count = u32::try_from(values.len()).unwrap_or(u32::MAX);
            let mean = values.iter().sum::<f64>() / f64::from(count.max(1));
            table.push([
                Cell::words(name),
                Cell::count(members),
                Cell::count(count),
                Cell::number(Some(mean), 1),
                Cell::number(Some(values.iter().copied().fold(0.0, f64::max)), 1),
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_cause_that_hides_counts_by_what_its_removal_saves() {
        let row = json!({
            "case": "slow link, hidden", "config": { "nodes": 2 }, "step": 0.126, "replayed": 0.123,
            "truth": { "preparation": 0.012, "fetch": null, "link": 0.006, "straggler": 0.0 },
            "found": { "preparation": 0.012, "fetch": 0.0, "link": 0.005, "straggler": 0.0 },
            "differences": { "preparation": 0.015, "fetch": 0.0, "link": 0.044 },
            "fetch_as_coded": 0.111,
        });
        let all = measured(&json!({ "rows": [row] })).unwrap();
        let found = errors(&all).json();
        let worst = |at: usize| found[at]["worst"].as_f64().unwrap();
        assert_eq!(
            (&found[0]["count"], &found[1]["count"]),
            (&json!(2), &json!(2))
        );
        assert!(
            worst(0) < 1.0 && worst(1) > 30.0 && worst(2) < 3.0,
            "{found}"
        );
        // The fetch stall as coded is about the whole step, without any fetching.
        let text = table(&all).markdown();
        assert!(text.contains("| 15 / 0 / 44 |            111 |"), "{text}");
        assert_eq!(measured(&json!({ "rows": [] })), None);
        assert_eq!(measured(&json!({ "rows": [{}] })), None);
    }
}
