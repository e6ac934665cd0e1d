//! Measured cases: what each cause truly costs, and what each method says.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

use lacuna_stalls::Runs;

/// A cause counts as injected if it truly costs as many seconds.
const INJECTED: f64 = 0.005;
/// Seconds by which equal differences of equal runs may differ.
const SAME: f64 = 1e-9;
/// Causes in the order of a row. Differences of runs know no straggler.
const CAUSES: usize = 4;
const BY_DIFFERENCES: usize = 3;

/// Most per cent of a step by which one run may be wrong.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// In a cause of a case.
    cause: f64,
    /// On the mean over these.
    mean: f64,
    /// In the step itself, of a case.
    replay: f64,
}

const PAIR: Limits = Limits {
    cause: 5.0,
    mean: 2.0,
    replay: 4.0,
};
const MORE: Limits = Limits {
    cause: 8.0,
    mean: 3.0,
    replay: 6.0,
};

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
    /// Of a recorded case: what the prototype found by differences, and as coded.
    #[serde(skip)]
    recorded: Option<[f64; BY_DIFFERENCES + 1]>,
}

impl Case {
    /// Whether the differences are those that the prototype recorded, if it recorded some.
    pub(super) fn is_as_recorded(&self) -> bool {
        let own = self.differences.iter().chain([&self.fetch_as_coded]);
        let same = |recorded: &[f64; BY_DIFFERENCES + 1]| {
            own.zip(recorded)
                .all(|(own, other)| (own - other).abs() <= SAME)
        };
        self.recorded.as_ref().is_none_or(same)
    }
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

/// The recorded cases (`stash_lab.json`): what one run says is the prototype's figure there, since its
/// traced steps were not kept. Differences are computed from the recorded runs.
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
            recorded: Some(four(
                row.get("stash")?,
                ["prep", "fetch", "net", "fetch_as_coded"],
            )?),
        })
    });
    cases.collect()
}

/// Cases that `python3 -m benches stalls --json` has measured.
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
            recorded: None,
        })
    });
    cases
        .collect::<Option<Vec<_>>>()
        .filter(|all| !all.is_empty())
}

/// Per cent of a step, over causes that truly cost something, in all cases of one size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Errors {
    members: u64,
    one_run: Vec<f64>,
    differences: Vec<f64>,
    replay: Vec<f64>,
}

/// The errors by number of members.
pub(super) fn errors(all: &[Case]) -> Vec<Errors> {
    let sizes: BTreeSet<u64> = all.iter().map(|case| case.members).collect();
    let of = |members| Errors::of(members, all.iter().filter(|case| case.members == members));
    sizes.into_iter().map(of).collect()
}

fn mean(values: &[f64]) -> f64 {
    let count = u32::try_from(values.len()).unwrap_or(u32::MAX);
    values.iter().sum::<f64>() / f64::from(count.max(1))
}

fn worst(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

impl Errors {
    fn of<'a>(members: u64, cases: impl Iterator<Item = &'a Case>) -> Self {
        let mut found = Self {
            members,
            one_run: Vec::new(),
            differences: Vec::new(),
            replay: Vec::new(),
        };
        for case in cases {
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

    const fn limits(&self) -> Limits {
        if self.members <= 2 { PAIR } else { MORE }
    }

    /// Whether one run is within its limits, and on the mean better than differences.
    fn one_run_is_met(&self) -> bool {
        let limits = self.limits();
        let (own, other) = (mean(&self.one_run), mean(&self.differences));
        worst(&self.one_run) <= limits.cause
            && own <= limits.mean
            && (self.differences.is_empty() || own < other)
    }

    fn replay_is_met(&self) -> bool {
        worst(&self.replay) <= self.limits().replay
    }

    /// Whether one run and its replay are met.
    pub(super) fn is_met(&self) -> bool {
        self.one_run_is_met() && self.replay_is_met()
    }

    /// Lines of a table, the last two columns with what is asked for and whether it is met.
    pub(super) fn lines(&self) -> [Vec<String>; 3] {
        let limits = self.limits();
        let is_met = |met| if met { "yes" } else { "NO" };
        let line = |name: &str, values: &[f64], asked: String, met: &str| {
            vec![
                name.to_owned(),
                self.members.to_string(),
                values.len().to_string(),
                format!("{:.1}", mean(values)),
                format!("{:.1}", worst(values)),
                asked,
                met.to_owned(),
            ]
        };
        let asked = format!("{:.0} / {:.0}", limits.mean, limits.cause);
        let met = is_met(self.one_run_is_met());
        [
            line("one run, replayed", &self.one_run, asked, met),
            line(
                "differences of runs",
                &self.differences,
                "-".to_owned(),
                "-",
            ),
            line(
                "replay of the step itself",
                &self.replay,
                format!("- / {:.0}", limits.replay),
                is_met(self.replay_is_met()),
            ),
        ]
    }
}

/// The head of [`Errors::lines`].
pub(super) const ERRORS: [&str; 7] = [
    "errors, % of a step",
    "members",
    "of",
    "mean",
    "worst",
    "mean / worst at most",
    "met",
];

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
            "stash": { "prep": 0.015, "fetch": 0.0, "net": 0.044, "fetch_as_coded": 0.111 },
        });
        let mut all = recorded(&json!({ "members 2": [row], "members 4": [] })).unwrap();
        let found = errors(&all).remove(0);
        assert_eq!((found.one_run.len(), found.differences.len()), (2, 2));
        assert!(worst(&found.one_run) < 1.0 && worst(&found.differences) > 30.0);
        assert!(found.is_met() && all[0].is_as_recorded());
        let table = lines(&all);
        assert_eq!(table[1][5], "15 / 0 / 44");
        // The fetch stall as coded is about the whole step, without any fetching.
        assert_eq!(table[1][6], "111");
        assert_eq!(recorded(&json!({ "members 2": [{}] })), None);
        assert_eq!(measured(&json!({ "rows": [] })), None);
        all[0].differences[0] += 1e-6;
        assert!(!all[0].is_as_recorded());
    }

    #[test]
    fn a_size_has_limits_of_its_own() {
        let row = |nodes: u64, replayed: f64| {
            json!({
                "case": "prep-120", "config": { "nodes": nodes }, "step": 0.1, "replayed": replayed,
                "truth": { "preparation": 0.05, "fetch": null, "link": null, "straggler": null },
                "found": { "preparation": 0.0515, "fetch": 0.0, "link": 0.0, "straggler": 0.0 },
                "differences": { "preparation": 0.06, "fetch": 0.0, "link": 0.0 },
                "fetch_as_coded": 0.1,
            })
        };
        let met = |rows: Vec<Value>| -> Vec<bool> {
            let found = errors(&measured(&json!({ "rows": rows })).unwrap());
            found.iter().map(Errors::is_met).collect()
        };
        assert_eq!(met(vec![row(2, 0.1), row(4, 0.105)]), [true, true]);
        assert_eq!(met(vec![row(2, 0.105), row(4, 0.107)]), [false, false]);
        let wrong = json!({ "preparation": 0.0525, "fetch": 0.0, "link": 0.0, "straggler": 0.0 });
        let with = |mut row: Value| {
            row["found"] = wrong.clone();
            row
        };
        // 2.5 % on the mean are too much for two members.
        assert_eq!(
            met(vec![with(row(2, 0.1)), with(row(4, 0.1))]),
            [false, true]
        );
    }
}
