//! What came of all faults, as a table.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use super::faults::{Fault, Target};

/// What came of one fault.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Outcome {
    pub(super) fault: Fault,
    pub(super) target: Target,
    /// Seconds from the end of the fault until everything agreed.
    pub(super) converged_s: f64,
    pub(super) violations: Vec<String>,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct Table {
    pub(super) seed: u64,
    outcomes: Vec<Outcome>,
    /// What was found only when all was over.
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
            seed,
            ..Self::default()
        }
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
        let mut text = format!(
            "seed {}: {} faults, {} changes by the workload, {} messages judged, {:.0} s\n\n\
             | fault | hits | times | violations | in order again after, median s | worst s |\n\
             |---|---|---|---|---|---|\n",
            self.seed,
            self.outcomes.len(),
            self.events,
            self.history,
            self.seconds
        );
        let all: Vec<&Outcome> = self.outcomes.iter().collect();
        for ((fault, target), outcomes) in &rows {
            line(&mut text, &name(*fault), target, outcomes);
        }
        line(&mut text, "all", "all", &all);
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
}

fn line(text: &mut String, fault: &str, target: &str, outcomes: &[&Outcome]) {
    let mut times: Vec<f64> = outcomes.iter().map(|o| o.converged_s).collect();
    times.sort_by(f64::total_cmp);
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    let worst = times.last().copied().unwrap_or_default();
    let wrong: usize = outcomes.iter().map(|o| o.violations.len()).sum();
    let _ = writeln!(
        text,
        "| {fault} | {target} | {} | {wrong} | {median:.1} | {worst:.1} |",
        outcomes.len()
    );
}
