//! The cases: a pool, trainers and the factor on their costs.

use std::path::{Path, PathBuf};

use super::column::Column;
use crate::runs::Row;

/// The start of the replays, Unix seconds; earlier holes are history to learn from.
const FROM: &str = "1613347732";

/// Sizes of the pool with trainers in parallel.
const POOLS: [(u32, u32); 3] = [(1024, 10), (4734, 10), (4734, 35)];

/// One case.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Case {
    /// Its label.
    pub(super) label: String,
    /// The pool in words: cases of one pool differ in their trainers.
    pub(super) pool: String,
    /// The arguments of `lacuna` without those of the policy.
    pub(super) command: Vec<String>,
}

impl Case {
    /// The row of one of its cells: the command to run.
    pub(super) fn row(&self, column: &Column) -> Row {
        let mut command = self.command.clone();
        command.extend(column.arguments.iter().map(|word| (*word).to_owned()));
        Row {
            label: format!("{}, {}", self.label, column.title),
            command,
            seeded: true,
        }
    }
}

/// The chosen cases on the trace of Summit.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Choice {
    /// Sizes of the pool; all of the table if empty.
    pub(super) nodes: Vec<u32>,
    /// Trainers in parallel; all of the table if empty.
    pub(super) parallel: Vec<u32>,
    /// Factors on costs.
    pub(super) costs: Vec<f64>,
    /// Whether starts are charged in all columns.
    pub(super) charge_starts: bool,
    /// Further arguments of each replay.
    pub(super) more: Vec<String>,
}

impl Choice {
    /// Pools with trainers: the chosen ones among those of the table, or, if both are given, each pool
    /// with each number of trainers.
    fn pairs(&self) -> Vec<(u32, u32)> {
        if !self.nodes.is_empty() && !self.parallel.is_empty() {
            let with = |&nodes: &u32| self.parallel.iter().map(move |&parallel| (nodes, parallel));
            return self.nodes.iter().flat_map(with).collect();
        }
        let asked = |list: &[u32], value: u32| list.is_empty() || list.contains(&value);
        let mut pairs = POOLS.to_vec();
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

    /// The cases on the trace of Summit, which is in this folder.
    pub(super) fn summit(&self, folder: &Path) -> Vec<Case> {
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
                let pool = format!("{} nodes", thousands(nodes));
                cases.push(Case {
                    label: format!("{pool}, {parallel} trainers, x{cost}"),
                    pool,
                    command,
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
                    pool: name.to_string(),
                    command,
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
    fn pools_of_the_table_are_the_default() {
        let cases = choice(&[], &[]).summit(Path::new("/d"));
        assert_eq!(cases.len(), 6);
        assert_eq!(cases[0].label, "1,024 nodes, 10 trainers, x1");
        assert_eq!(choice(&[4734], &[]).pairs(), [(4734, 10), (4734, 35)]);
        let other = choice(&[512], &[10, 3]).summit(Path::new("/d"));
        assert_eq!(other.len(), 4);
        let charged = Choice {
            charge_starts: true,
            ..choice(&[], &[])
        };
        let words = &charged.summit(Path::new("/d"))[0].command;
        assert!(words.contains(&"--charge-starts".to_owned()), "{words:?}");
    }

    #[test]
    fn a_cell_is_a_command_that_can_be_run_by_hand() {
        let cases = choice(&[1024], &[10]).summit(Path::new("/d"));
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
