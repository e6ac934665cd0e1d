//! Measured cases: what each cause truly costs, and what each method says.

use serde::Serialize;
use serde_json::Value;

use lacuna_stalls::Runs;

use super::super::table::aligned;

/// A cause counts as injected if it truly costs as many seconds.
const INJECTED: f64 = 0.005;
/// Per cent of a step by which one run may be wrong.
const MOST: f64 = 8.0;
/// Causes in the order of a row. Differences of runs know no straggler.
const CAUSES: usize = 4;
const BY_DIFFERENCES: usize = 3;

/// Seconds of a step in one case: preparation, fetch, link, straggler.
#[derive(Debug, Clone, PartialEq, Serialize)]
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

/// The recorded cases (`stash_lab.json`). Differences are computed from the recorded runs.
pub(super) fn recorded(lab: &Value) -> Option<Vec<Case>> {
    let names = ["prep", "fetch", "net", "skew"];
    let rows = ["members 2", "members 4"]
        .into_iter()
        .map(|key| lab.get(key)?.as_array());
    let rows: Vec<_> = rows
        .collect::<Option<Vec<_>>>()?
        .into_iter()
        .flatten()
        .collect();
    let cases = rows.into_iter().map(|row| {
        let number = |name: &str| row.get(name)?.as_f64();
        let runs = Runs {
            alone: number("T0")?,
            synthetic: number("T1")?,
            cold: number("T")?,
            warm: number("T3")?,
        };
        let found = runs.differences();
        Some(Case {
            name: row.get("name")?.as_str()?.to_owned(),
            members: row.get("n")?.as_u64()?,
            step: number("T")?,
            replayed: number("replayed")?,
            truth: four(row.get("truth")?, names)?,
            one_run: four(row.get("one_run")?, names)?,
            differences: [found.preparation, found.fetch, found.link],
            fetch_as_coded: runs.as_coded(2.0).fetch,
        })
    });
    cases.collect()
}

/// Cases that `python3 -m lacuna.bench stalls --json` has measured.
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

/// Per cent of a step, over causes that truly cost something.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Errors {
    one_run: Vec<f64>,
    differences: Vec<f64>,
    replay: Vec<f64>,
}

pub(super) fn errors(all: &[Case]) -> Errors {
    let mut found = Errors {
        one_run: Vec::new(),
        differences: Vec::new(),
        replay: Vec::new(),
    };
    for case in all {
        let percent = |seconds: f64| 100.0 * seconds.abs() / case.step;
        found.replay.push(percent(case.replayed - case.step));
        let causes = case.truth.iter().zip(&case.one_run).enumerate();
        for (place, (truth, one)) in causes.filter(|(_, (truth, _))| **truth > INJECTED) {
            found.one_run.push(percent(one - truth));
            if let Some(other) = case.differences.get(place) {
                found.differences.push(percent(other - truth));
            }
        }
    }
    found
}

fn mean(values: &[f64]) -> f64 {
    let count = u32::try_from(values.len()).unwrap_or(u32::MAX);
    values.iter().sum::<f64>() / f64::from(count.max(1))
}

fn worst(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

impl Errors {
    /// Whether one run is right in all cases, and better than differences.
    pub(super) fn is_met(&self) -> bool {
        worst(&self.one_run) <= MOST && mean(&self.one_run) < mean(&self.differences)
    }

    pub(super) fn markdown(&self) -> String {
        let head = ["errors, % of a step", "of", "mean", "worst"];
        let mut lines = vec![head.map(str::to_owned).to_vec()];
        for (name, values) in [
            ("one run, replayed", &self.one_run),
            ("differences of runs", &self.differences),
            ("replay of the step itself", &self.replay),
        ] {
            lines.push(vec![
                name.to_owned(),
                values.len().to_string(),
                format!("{:.1}", mean(values)),
                format!("{:.1}", worst(values)),
            ]);
        }
        aligned(&lines)
    }
}

/// The cases as lines of a table.
pub(super) fn lines(all: &[Case]) -> Vec<Vec<String>> {
    let head = [
        "case",
        "members",
        "step",
        "truth",
        "one run",
        "differences",
        "fetch as coded",
    ];
    let ms = |seconds: &f64| format!("{:.0}", 1e3 * seconds + 0.0);
    let several = |values: &[f64]| values.iter().map(ms).collect::<Vec<_>>().join(" / ");
    let line = |case: &Case| {
        vec![
            case.name.clone(),
            case.members.to_string(),
            ms(&case.step),
            several(&case.truth),
            several(&case.one_run),
            several(&case.differences),
            ms(&case.fetch_as_coded),
        ]
    };
    std::iter::once(head.map(str::to_owned).to_vec())
        .chain(all.iter().map(line))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_cause_that_hides_counts_by_what_its_removal_saves() {
        let row = json!({
            "name": "slow link, hidden", "n": 2, "T": 0.126, "replayed": 0.123,
            "T0": 0.067, "T1": 0.111, "T3": 0.126,
            "truth": { "prep": 0.012, "fetch": 0.0, "net": 0.006, "skew": 0.0 },
            "one_run": { "prep": 0.012, "fetch": 0.0, "net": 0.005, "skew": 0.0 },
        });
        let all = recorded(&json!({ "members 2": [row], "members 4": [] })).unwrap();
        let found = errors(&all);
        assert_eq!((found.one_run.len(), found.differences.len()), (2, 2));
        assert!(worst(&found.one_run) < 1.0 && worst(&found.differences) > 30.0);
        assert!(found.is_met());
        let table = lines(&all);
        assert_eq!(table[1][5], "15 / 0 / 44");
        // The fetch stall as coded is about the whole step, without any fetching.
        assert_eq!(table[1][6], "111");
        assert_eq!(recorded(&json!({ "members 2": [{}] })), None);
        assert_eq!(measured(&json!({ "rows": [] })), None);
    }
}
