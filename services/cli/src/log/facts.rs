//! What a log turned out to be, for people and for programs.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::{Map, Value};

use lacuna_schedlog::{Damage, Refused};

/// Where the holes of a log come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// The log is a list of holes, or of the states of nodes.
    Holes,
    /// The log has jobs with the nodes that they ran on.
    Placed,
    /// The log has jobs without nodes: the simulated batch scheduler placed them.
    Simulated,
}

impl Kind {
    /// It in words.
    #[must_use]
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Holes => "idle nodes",
            Self::Placed => "batch jobs with their nodes",
            Self::Simulated => "batch jobs, placed by the simulated scheduler",
        }
    }
}

/// How many damaged lines are named.
const NAMED: usize = 3;

/// What a log turned out to be.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Facts {
    /// The file.
    pub(crate) file: String,
    /// Its format.
    pub(crate) format: &'static str,
    /// Where the holes come from.
    pub(crate) kind: Kind,
    /// The machine's name, if the log says it.
    pub(crate) computer: Option<String>,
    /// How many nodes the machine has, as far as is known.
    pub(crate) machine_nodes: Option<u32>,
    /// Lines that were skipped because they are damaged.
    pub(crate) damaged_lines: u64,
    /// The first of them: where, and what is wrong.
    pub(crate) first_damaged: Vec<String>,
    /// Holes that contradict each other and were left out.
    pub(crate) refused_holes: Refused,
    /// What was counted of the jobs, by name.
    pub(crate) jobs: Map<String, Value>,
    /// What a reader of the figures should know.
    pub(crate) notes: Vec<String>,
}

impl Facts {
    /// A log of which nothing but its name and kind is known.
    #[must_use]
    pub(super) fn new(file: String, format: &'static str, kind: Kind) -> Self {
        Self {
            file,
            format,
            kind,
            computer: None,
            machine_nodes: None,
            damaged_lines: 0,
            first_damaged: Vec::new(),
            refused_holes: Refused::default(),
            jobs: Map::new(),
            notes: Vec::new(),
        }
    }

    /// Takes what was damaged.
    pub(super) fn damage(&mut self, damage: &Damage) {
        self.damaged_lines = damage.lines;
        self.first_damaged = damage
            .first
            .iter()
            .map(|one| format!("line {}, {}", one.line, one.at))
            .collect();
    }

    /// Counts something of the jobs; nothing is written down where there is nothing.
    pub(super) fn count(&mut self, name: &str, count: u64) {
        if count > 0 {
            self.jobs.insert(name.to_owned(), Value::from(count));
        }
    }

    /// The warning about damaged lines, if there were any.
    #[must_use]
    pub(crate) fn warning(&self) -> Option<String> {
        if self.damaged_lines == 0 {
            return None;
        }
        let lines = if self.damaged_lines == 1 {
            "line was"
        } else {
            "lines were"
        };
        let mut text = format!(
            "warning: {}: {} damaged {lines} skipped (--strict refuses them):",
            self.file, self.damaged_lines
        );
        for line in self.first_damaged.iter().take(NAMED) {
            let _ = write!(text, "\n  {line}");
        }
        let more = self.damaged_lines.saturating_sub(NAMED as u64);
        if more > 0 && self.first_damaged.len() > NAMED {
            let _ = write!(text, "\n  and {more} more");
        }
        Some(text)
    }

    /// Rows for a table.
    #[must_use]
    pub(crate) fn rows(&self) -> Vec<(&'static str, String)> {
        let mut rows = vec![("log", format!("{}: {}", self.format, self.kind.words()))];
        if let Some(computer) = &self.computer {
            rows.push(("machine", computer.clone()));
        }
        if let Some(nodes) = self.machine_nodes {
            rows.push(("machine's nodes", nodes.to_string()));
        }
        if !self.jobs.is_empty() {
            let counts: Vec<String> = self
                .jobs
                .iter()
                .map(|(name, value)| {
                    let name = name.replace('_', " ");
                    match (value.as_f64(), name.strip_suffix(" hours")) {
                        (Some(hours), Some(name)) => format!("{name} {hours:.2} h"),
                        (Some(share), None) if !value.is_u64() => {
                            format!("{name} {:.2} %", share * 100.0)
                        }
                        _ => format!("{name} {value}"),
                    }
                })
                .collect();
            rows.push(("batch jobs", counts.join(", ")));
        }
        if self.damaged_lines > 0 {
            rows.push(("damaged lines", self.damaged_lines.to_string()));
        }
        let refused = self.refused_holes;
        if refused.total() > 0 {
            rows.push((
                "refused holes",
                format!(
                    "{} (not positive {}, duplicate {}, overlapping {})",
                    refused.total(),
                    refused.not_positive,
                    refused.duplicates,
                    refused.overlaps
                ),
            ));
        }
        rows.extend(self.notes.iter().map(|note| ("note", note.clone())));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_said_with_its_places_and_counts_are_rows() {
        let mut facts = Facts::new("a.swf".into(), "swf", Kind::Simulated);
        assert_eq!(facts.warning(), None);
        facts.damaged_lines = 5;
        facts.first_damaged = (1..=4).map(|n| format!("line {n}, field 2")).collect();
        let warning = facts.warning().unwrap();
        assert!(
            warning.contains("5 damaged lines were skipped"),
            "{warning}"
        );
        assert!(
            warning.contains("line 3, field 2\n  and 2 more"),
            "{warning}"
        );
        facts.count("never_started", 3);
        facts.count("too_large", 0);
        facts.jobs.insert("utilisation".into(), Value::from(0.5));
        let rows = facts.rows();
        let jobs = rows.iter().find(|row| row.0 == "batch jobs").unwrap();
        assert_eq!(jobs.1, "never started 3, utilisation 50.00 %");
    }
}
