//! The cases: a pool, trainers and the factor on their costs.

use std::path::{Path, PathBuf};

use super::column::Column;
use super::reference::{self, Reference};
use crate::reproduce::row::Row;

/// The start of the reference measurements, Unix seconds; earlier holes are history to learn from.
pub(super) const FROM: &str = "1613347732";

/// One case.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Case {
    /// Its label.
    pub(super) label: String,
    /// Factor on the costs of trainers.
    pub(super) cost: f64,
    /// The arguments of `lacuna` without those of the policy.
    pub(super) command: Vec<String>,
    /// Its reference figures, if there are any.
    pub(super) reference: Option<&'static Reference>,
}

impl Case {
    /// The row of one of its cells: the command to run.
    pub(super) fn row(&self, column: &Column) -> Row {
        let mut command = self.command.clone();
        command.extend(column.arguments.iter().map(|word| (*word).to_owned()));
        Row {
            group: "forecast",
            label: format!("{}, {}", self.label, column.title),
            x: Some(self.cost),
            command,
            seeded: true,
            figures: Vec::new(),
            quick: true,
        }
    }
}

/// The chosen cases on the trace with reference figures.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Choice {
    /// Sizes of the pool; all with reference figures if empty.
    pub(super) nodes: Vec<u32>,
    /// Trainers in parallel; all with reference figures if empty.
    pub(super) parallel: Vec<u32>,
    /// Factors on costs.
    pub(super) costs: Vec<f64>,
    /// Whether starts are charged in all columns.
    pub(super) charge_starts: bool,
    /// Further arguments of each replay.
    pub(super) more: Vec<String>,
}

impl Choice {
    /// Pools with trainers: the chosen ones among those with reference figures, or, if both are
    /// given, each pool with each number of trainers.
    fn pairs(&self) -> Vec<(u32, u32)> {
        if !self.nodes.is_empty() && !self.parallel.is_empty() {
            let with = |&nodes: &u32| self.parallel.iter().map(move |&parallel| (nodes, parallel));
            return self.nodes.iter().flat_map(with).collect();
        }
        let asked = |list: &[u32], value: u32| list.is_empty() || list.contains(&value);
        let mut pairs = reference::pairs();
        pairs.retain(|&(n, j)| asked(&self.nodes, n) && asked(&self.parallel, j));
        pairs
    }

    fn tail(&self, cost: f64, command: &mut Vec<String>) {
        command.extend(["--cost-scale".to_owned(), cost.to_string()]);
        if self.charge_starts {
            command.push("--charge-starts".to_owned());
        }
        command.extend_from_slice(&self.more);
    }

    /// Whether the reference figures answer the same question.
    fn is_as_reference(&self) -> bool {
        !self.charge_starts && self.more.is_empty()
    }

    /// The cases on the trace with reference figures, which is in this folder.
    pub(super) fn reference_machine(&self, folder: &Path) -> Vec<Case> {
        let file = |name: &str| folder.join(name).display().to_string();
        let mut cases = Vec::new();
        for (nodes, parallel) in self.pairs() {
            for &cost in &self.costs {
                let mut command = vec![
                    "replay".to_owned(),
                    "--leave-out-idle-above=none".to_owned(),
                    file("holes.csv.gz"),
                ];
                command.extend(["--trainers".to_owned(), file("hpo-1000.jsonl.gz")]);
                command.extend(["--endless", "--from", FROM].map(str::to_owned));
                command.extend(["--first-nodes".to_owned(), nodes.to_string()]);
                command.extend(["--max-parallel".to_owned(), parallel.to_string()]);
                self.tail(cost, &mut command);
                let reference =
                    reference::of(nodes, parallel, cost).filter(|_| self.is_as_reference());
                cases.push(Case {
                    label: format!("{} nodes, {parallel} trainers, x{cost}", thousands(nodes)),
                    cost,
                    command,
                    reference,
                });
            }
        }
        cases
    }

    /// The cases on any other log.
    pub(super) fn other_machine(&self, log: &Path, trainers: Option<&PathBuf>) -> Vec<Case> {
        let name = log.file_name().unwrap_or(log.as_os_str());
        let name = name.to_string_lossy();
        let parallel: Vec<Option<u32>> = match self.parallel.as_slice() {
            [] => vec![None],
            list => list.iter().copied().map(Some).collect(),
        };
        let mut cases = Vec::new();
        for parallel in parallel {
            for &cost in &self.costs {
                let mut command = vec![
                    "replay".to_owned(),
                    "--leave-out-idle-above=none".to_owned(),
                    log.display().to_string(),
                ];
                if let Some(trainers) = trainers {
                    command.extend(["--trainers".to_owned(), trainers.display().to_string()]);
                    command.push("--endless".to_owned());
                }
                let mut label = name.to_string();
                if let Some(parallel) = parallel {
                    command.extend(["--max-parallel".to_owned(), parallel.to_string()]);
                    label.push_str(&format!(", {parallel} trainers"));
                }
                label.push_str(&format!(", x{cost}"));
                self.tail(cost, &mut command);
                cases.push(Case {
                    label,
                    cost,
                    command,
                    reference: None,
                });
            }
        }
        cases
    }
}

/// A number with separated thousands.
fn thousands(number: u32) -> String {
    if number < 1000 {
        number.to_string()
    } else {
        format!("{},{:03}", number / 1000, number % 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::super::column::COLUMNS;
    use super::*;

    fn choice(nodes: &[u32], parallel: &[u32]) -> Choice {
        Choice {
            nodes: nodes.to_vec(),
            parallel: parallel.to_vec(),
            costs: vec![1.0, 5.0],
            ..Choice::default()
        }
    }

    #[test]
    fn reference_cases_are_the_default() {
        let cases = choice(&[], &[]).reference_machine(Path::new("/d"));
        assert_eq!(cases.len(), 6);
        assert!(cases.iter().all(|case| case.reference.is_some()));
        assert_eq!(cases[0].label, "1,024 nodes, 10 trainers, x1");
        assert_eq!(choice(&[4734], &[]).pairs(), [(4734, 10), (4734, 35)]);
        let other = choice(&[512], &[10, 3]).reference_machine(Path::new("/d"));
        assert_eq!(other.len(), 4);
        assert!(other.iter().all(|case| case.reference.is_none()));
        // Charged starts are another question.
        let charged = Choice {
            charge_starts: true,
            ..choice(&[], &[])
        };
        let charged = charged.reference_machine(Path::new("/d"));
        assert!(charged.iter().all(|case| case.reference.is_none()));
        let words = &charged[0].command;
        assert!(words.contains(&"--charge-starts".to_owned()), "{words:?}");
    }

    #[test]
    fn a_cell_is_a_command_that_can_be_run_by_hand() {
        let cases = choice(&[1024], &[10]).reference_machine(Path::new("/d"));
        let row = cases[1].row(&COLUMNS[0]);
        assert_eq!(
            row.command.join(" "),
            "replay --leave-out-idle-above=none /d/holes.csv.gz --trainers /d/hpo-1000.jsonl.gz \
             --endless --from 1613347732 --first-nodes 1024 --max-parallel 10 --cost-scale 5 --policy dp --horizon 120s \
             --nodes random"
        );
        let more = Choice {
            costs: vec![10.0],
            more: vec!["--machine-nodes".to_owned(), "4392".to_owned()],
            ..Choice::default()
        };
        let cases = more.other_machine(Path::new("/t/theta.swf"), None);
        assert_eq!(cases.len(), 1);
        assert_eq!(cases[0].label, "theta.swf, x10");
        assert_eq!(
            cases[0].command.join(" "),
            "replay --leave-out-idle-above=none /t/theta.swf --cost-scale 10 --machine-nodes 4392"
        );
    }
}
