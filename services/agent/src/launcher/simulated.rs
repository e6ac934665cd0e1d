//! Simulated runs without processes: progress follows the scaling curve, and rescale costs are
//! stalls.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use lacuna_model::{Assignment, NodeId, Progress, RunId, Timestamp};
use lacuna_trainer::simulated::{finish, state_at};

use super::{Launcher, LauncherEvent};

/// Lines of output that are kept for each trainer.
const LINES: usize = 50;

/// All simulated runs of this process; rank 0 of each reports.
#[derive(Debug, Default)]
pub struct Simulated {
    runs: BTreeMap<NodeId, Assignment>,
    /// When each run with rank 0 here finishes its work.
    finishes: BTreeSet<(Timestamp, NodeId)>,
    events: Vec<LauncherEvent>,
    output: BTreeMap<String, VecDeque<String>>,
}

impl Simulated {
    /// Number of runs with a part here.
    #[must_use]
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Whether no run has a part here.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// When the next run finishes its work, if any does.
    #[must_use]
    pub fn next_finish(&self) -> Option<Timestamp> {
        self.finishes.first().map(|(at, _)| *at)
    }

    /// Reports all runs that have finished their work by `now`.
    pub fn finished(&mut self, now: Timestamp) {
        while let Some((at, _)) = self.finishes.first() {
            if *at > now {
                break;
            }
            let Some((at, node)) = self.finishes.pop_first() else {
                break;
            };
            self.report(&node, at);
        }
    }

    /// Reports the progress of every run at `now`.
    pub fn report_all(&mut self, now: Timestamp) {
        let leaders: Vec<NodeId> = self
            .runs
            .iter()
            .filter(|(_, run)| run.rank == 0)
            .map(|(node, _)| node.clone())
            .collect();
        for node in leaders {
            self.report(&node, now);
        }
    }

    fn report(&mut self, node: &NodeId, at: Timestamp) {
        let Some(run) = self.runs.get(node).filter(|run| run.rank == 0) else {
            return;
        };
        let state = state_at(run, at);
        let (trainer, samples) = (run.trainer.clone(), state.samples);
        self.events.push(LauncherEvent::Progress(Progress {
            owed: state.owed,
            world_size: run.nodes,
            ..Progress::new(node.clone(), trainer, run.run, at, samples)
        }));
    }

    fn print(&mut self, trainer: &str, line: String) {
        let lines = self.output.entry(trainer.to_owned()).or_default();
        if lines.len() == LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }
}

impl Launcher for Simulated {
    fn start(&mut self, node: &NodeId, assignment: Assignment, now: Timestamp) {
        if assignment.rank == 0 {
            if let Some(at) = finish(&assignment) {
                self.finishes.insert((at, node.clone()));
            }
            let line = format!(
                "{:.1} run {} of {} begins on {} nodes, {:.0} samples owed",
                now.unix_seconds(),
                assignment.run.0,
                assignment.trainer,
                assignment.nodes,
                assignment.owed
            );
            self.print(assignment.trainer.as_str(), line);
        }
        self.runs.insert(node.clone(), assignment);
        self.report(node, now);
    }

    fn stop(&mut self, node: &NodeId, run: RunId, at: Timestamp) {
        if self
            .runs
            .get(node)
            .is_some_and(|present| present.run == run)
        {
            self.report(node, at);
            if let Some(old) = self.runs.remove(node)
                && old.rank == 0
            {
                if let Some(finish) = finish(&old) {
                    self.finishes.remove(&(finish, node.clone()));
                }
                let line = format!(
                    "{:.1} run {} of {} ends after {:.0} samples",
                    at.unix_seconds(),
                    run.0,
                    old.trainer,
                    state_at(&old, at).samples
                );
                self.print(old.trainer.as_str(), line);
            }
        }
        self.events.push(LauncherEvent::Stopped {
            node: node.clone(),
            run,
        });
    }

    fn events(&mut self) -> Vec<LauncherEvent> {
        std::mem::take(&mut self.events)
    }

    fn output(&self, _: &NodeId, trainer: &str, lines: usize) -> Vec<String> {
        let Some(kept) = self.output.get(trainer) else {
            return Vec::new();
        };
        let skip = kept.len().saturating_sub(lines);
        kept.iter().skip(skip).cloned().collect()
    }
}
