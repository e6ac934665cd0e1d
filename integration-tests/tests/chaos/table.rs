//! The outcomes of all faults, as a table.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use super::faults::{Fault, Target};

/// The outcome of one fault.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Outcome {
    pub(super) seed: u64,
    pub(super) fault: Fault,
    pub(super) target: Target,
    /// Seconds from the end of the fault until everything agreed.
    pub(super) converged_s: f64,
    pub(super) violations: Vec<String>,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct Table {
    pub(super) seeds: Vec<u64>,
    outcomes: Vec<Outcome>,
    /// Violations that only the whole history shows.
    pub(super) late: Vec<String>,
    /// Changes by the workload.
    pub(super) events: u64,
    /// Messages in the history.
    pub(super) history: usize,
    pub(super) seconds: f64,
}

/// As in the JSON.
pub(super) fn name(fault: Fault) -> String {
    let value = serde_json::to_value(fault).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

impl Table {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            seeds: vec![seed],
            ..Self::default()
        }
    }

    /// The tables of several seeds as one.
    pub(super) fn joined(tables: Vec<Self>) -> Self {
        let mut all = Self::default();
        for table in tables {
            all.seeds.extend(table.seeds);
            all.outcomes.extend(table.outcomes);
            all.late.extend(table.late);
            all.events += table.events;
            all.history += table.history;
            all.seconds = all.seconds.max(table.seconds);
        }
        all
    }

    pub(super) fn add(&mut self, outcome: Outcome) {
        self.outcomes.push(outcome);
    }

    pub(super) fn sound(&self) -> bool {
        self.late.is_empty() && self.outcomes.iter().all(|o| o.violations.is_empty())
    }

    pub(super) fn json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    pub(super) fn text(&self) -> String {
        let mut rows: BTreeMap<(Fault, Target), Vec<&Outcome>> = BTreeMap::new();
        for outcome in &self.outcomes {
            let key = (outcome.fault, outcome.target);
            rows.entry(key).or_default().push(outcome);
        }
        let seeds: Vec<String> = self.seeds.iter().map(u64::to_string).collect();
        let mut text = format!(
            "seeds {}: {} faults, {} changes by the workload, {} messages checked, {:.0} s\n\n\
             | fault | hits |{} violations | median | worst |\n|---|---|{}---|---|---|\n",
            seeds.join(", "),
            self.outcomes.len(),
            self.events,
            self.history,
            self.seconds,
            seeds
                .iter()
                .map(|seed| format!(" seed {seed} |"))
                .collect::<String>(),
            "---|".repeat(seeds.len()),
        );
        let all: Vec<&Outcome> = self.outcomes.iter().collect();
        for ((fault, target), outcomes) in &rows {
            self.line(&mut text, &name(*fault), target, outcomes);
        }
        self.line(&mut text, "all", "all", &all);
        text.push_str("\nSeconds from a fault's end until all was in order again.\n");
        for wrong in self
            .outcomes
            .iter()
            .flat_map(|o| &o.violations)
            .chain(&self.late)
        {
            let _ = writeln!(text, "violation: {wrong}");
        }
        text
    }

    /// One row: seconds by seed, or the count if there are many.
    fn line(&self, text: &mut String, fault: &str, target: &str, outcomes: &[&Outcome]) {
        let cells = self.seeds.iter().map(|seed| {
            let times: Vec<String> = outcomes
                .iter()
                .filter(|outcome| outcome.seed == *seed)
                .map(|outcome| format!("{:.1}", outcome.converged_s))
                .collect();
            match times.len() {
                0..=4 => format!(" {} |", times.join(", ")),
                many => format!(" {many} times |"),
            }
        });
        let cells: String = cells.collect();
        let mut times: Vec<f64> = outcomes.iter().map(|o| o.converged_s).collect();
        times.sort_by(f64::total_cmp);
        let median = times.get(times.len() / 2).copied().unwrap_or_default();
        let worst = times.last().copied().unwrap_or_default();
        let wrong: usize = outcomes.iter().map(|o| o.violations.len()).sum();
        let _ = writeln!(
            text,
            "| {fault} | {target} |{cells} {wrong} | {median:.1} | {worst:.1} |"
        );
    }
}
