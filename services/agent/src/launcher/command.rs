//! Programs, one process per node, each under a guard.
//!
//! What the program finds in its environment:
//!
//! | Variable | Meaning |
//! |---|---|
//! | `LACUNA_TRAINER`, `LACUNA_RUN` | the trainer, and the number of this membership |
//! | `LACUNA_NODE`, `LACUNA_RANK`, `LACUNA_WORLD_SIZE` | this node, its place, how many there are |
//! | `LACUNA_MEMBERS`, `LACUNA_LEADER` | all nodes by rank, with commas between; the first |
//! | `LACUNA_PROGRESS_FILE` | append progress here, one JSON object a line; rank 0 is heard, of torchrun any |
//! | `LACUNA_CHECKPOINT_DIR`, `LACUNA_CHECKPOINT` | where checkpoints go; the newest reported |
//! | `LACUNA_SAMPLES_DONE`, `LACUNA_SAMPLES_TOTAL` | samples of all runs before; all there are to do |
//! | `LACUNA_DEADLINE_FILE` | appears when the program must stop: Unix seconds of the kill |
//! | `LACUNA_SOCKET` | of a program that regroups: where it hears of its runs (see `talk`) |
//!
//! SIGTERM: save and leave; after the grace comes SIGKILL, to the whole process group.
//!
//! Launcher `torchrun` starts one rendezvous a run, of a fixed membership and a name of its own.
//! torchrun's own elasticity is not used: its agents do not leave the rendezvous on SIGTERM, so
//! survivors wait for keep-alives, and it starts all workers again just the same.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lacuna_model::{Assignment, NodeId, RunId, Timestamp};
use lacuna_runtime::ClusterClock;
use tokio::sync::mpsc;

use super::files::{Files, last_lines, output};
use super::names::Names;
use super::run::{Order, Run};
use super::settings::Settings;
use super::talk::LastHeard;
use super::{Happened, Launcher, orphans};
use crate::metrics::Metrics;
use crate::safety::{Safety, Ward};

/// An agent does not speak for a program that regroups and has said nothing for so long, twice as
/// long as it may: perhaps it hangs.
const MUTE: Duration = Duration::from_secs(2);

/// A program that lives.
#[derive(Debug)]
struct Living {
    /// Where to say what it must do.
    orders: mpsc::UnboundedSender<Order>,
    /// Where to have it end.
    ward: Ward,
    /// When it last said anything.
    last: LastHeard,
}

/// Programs of this agent.
#[derive(Debug)]
pub struct Command {
    settings: Settings,
    names: Names,
    safety: Safety,
    clock: ClusterClock,
    metrics: Metrics,
    told: mpsc::UnboundedSender<Happened>,
    /// By the run under which each was started.
    runs: BTreeMap<(NodeId, RunId), Living>,
}

impl Command {
    /// A launcher that tells what happens through `told`; its programs learn by `names` who trains
    /// with them, and end through `safety`.
    #[must_use]
    pub fn new(
        settings: Settings,
        names: Names,
        safety: Safety,
        clock: ClusterClock,
        metrics: Metrics,
        told: mpsc::UnboundedSender<Happened>,
    ) -> Self {
        Self {
            settings,
            names,
            safety,
            clock,
            metrics,
            told,
            runs: BTreeMap::new(),
        }
    }

    /// Whether it has this run.
    #[must_use]
    pub fn has(&self, node: &NodeId, run: RunId) -> bool {
        self.runs.contains_key(&(node.clone(), run))
    }

    /// Whether this or an earlier agent has begun a run, or a later one, on a node.
    #[must_use]
    pub fn begun(&self, node: &NodeId, assignment: &Assignment) -> bool {
        let trainer = assignment.trainer.as_str();
        Files::new(&self.settings.agent.work_dir, trainer, node, assignment.run)
            .last_begun()
            .is_some_and(|run| run >= assignment.run)
    }

    /// Kills what an earlier agent of these nodes (all if `None`) has left behind: its guards
    /// are ending it already, but might take the grace for it, and work that nobody counts is
    /// not to run beside what follows. Returns of how many runs there was something.
    #[must_use]
    pub fn end_orphans(&self, nodes: Option<&BTreeSet<NodeId>>) -> usize {
        orphans::end(&self.settings.agent.work_dir, nodes)
    }

    /// Starts the program of a trainer that regroups, to be told of a run later.
    pub fn prepare(&mut self, node: &NodeId, assignment: Assignment) {
        self.begin(node, assignment, false);
    }

    /// Tells the program that was started under `started` of its next run.
    pub fn regroup(&mut self, node: &NodeId, started: RunId, assignment: Assignment) {
        if let Some(living) = self.runs.get(&(node.clone(), started)) {
            // If it has just ended, its exit is on the way.
            let _ = living.orders.send(Order::Run(Box::new(assignment)));
        }
    }

    /// How many programs live.
    #[must_use]
    pub fn living(&self) -> usize {
        self.runs.len()
    }

    /// Whether no program of the node that has ever spoken has been silent of late.
    #[must_use]
    pub fn vouches(&self, node: &NodeId) -> bool {
        let from = (node.clone(), RunId(0));
        let mut here = self.runs.range(from..).take_while(|((n, _), _)| n == node);
        here.all(|(_, living)| living.last.get().is_none_or(|last| last.elapsed() < MUTE))
    }

    /// Kills every program at once: the nodes are wanted.
    pub fn kill_all(&mut self) {
        for living in self.runs.values() {
            living.ward.kill();
        }
    }

    fn begin(&mut self, node: &NodeId, assignment: Assignment, member: bool) {
        let (orders, heard) = mpsc::unbounded_channel();
        let last = LastHeard::default();
        let ward = self.safety.ward(node);
        let living = Living {
            orders,
            ward: ward.clone(),
            last: last.clone(),
        };
        self.runs.insert((node.clone(), assignment.run), living);
        let run = Run {
            files: Files::new(
                &self.settings.agent.work_dir,
                assignment.trainer.as_str(),
                node,
                assignment.run,
            ),
            node: node.clone(),
            started: assignment.run,
            assignment,
            member,
            last,
            ward,
            settings: self.settings.clone(),
            names: self.names.clone(),
            clock: self.clock.clone(),
            metrics: self.metrics.clone(),
            told: self.told.clone(),
        };
        tokio::spawn(run.live(heard));
    }

    /// Forgets a run that has ended.
    pub fn forget(&mut self, node: &NodeId, run: RunId) {
        self.runs.remove(&(node.clone(), run));
    }
}

impl Launcher for Command {
    fn start(&mut self, node: &NodeId, assignment: Assignment, _: Timestamp) {
        self.begin(node, assignment, true);
    }

    fn stop(&mut self, node: &NodeId, run: RunId, _: Timestamp) {
        match self.runs.get(&(node.clone(), run)) {
            // The run tells when it has stopped, also if it was about to end by itself.
            Some(living) => {
                let deadline = lacuna_runtime::clock::wall() + self.settings.agent.grace;
                let _ = living.orders.send(Order::Leave(deadline));
                living.ward.stop();
            }
            None => {
                let node = node.clone();
                let _ = self.told.send(Happened::Stopped { node, run });
            }
        }
    }

    fn happened(&mut self) -> Vec<Happened> {
        Vec::new()
    }

    fn output(&self, node: &NodeId, trainer: &str, lines: usize) -> Vec<String> {
        last_lines(&output(&self.settings.agent.work_dir, trainer, node), lines)
    }
}
