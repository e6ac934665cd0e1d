//! Programs, one for each node, each under a guard: one process or, if it regroups, one for each
//! worker of the node.
//!
//! Environment of a program:
//!
//! | Variable | Meaning |
//! |---|---|
//! | `LACUNA_TRAINER`, `LACUNA_RUN` | the trainer, and the number of this incarnation |
//! | `LACUNA_NODE`, `LACUNA_RANK`, `LACUNA_WORLD_SIZE` | this node, its rank, the number of nodes |
//! | `LACUNA_MEMBERS`, `LACUNA_LEADER` | all nodes by rank, separated by commas; the first |
//! | `LACUNA_PROGRESS_FILE` | append progress, one JSON object per line; rank 0 counts, under torchrun any |
//! | `LACUNA_CHECKPOINT_DIR`, `LACUNA_CHECKPOINT` | where checkpoints go; the newest reported below it, or by a relative name |
//! | `LACUNA_SAMPLES_DONE`, `LACUNA_SAMPLES_TOTAL` | samples of earlier incarnations; the work |
//! | `LACUNA_DEADLINE_FILE` | appears when the program must stop: Unix seconds of the kill |
//! | `PET_RDZV_ID` | under torchrun: the token of this incarnation |
//! | `PYTHONUNBUFFERED` | 1, unless the submitter sets it: the output is there as it is printed |
//! | `LACUNA_SOCKET` | for a program that regroups: the socket of its agent (see `talk`) |
//! | `LACUNA_LOCAL_RANK`, `LACUNA_LOCAL_WORLD_SIZE` | with several workers on the node: this worker, and their number |
//!
//! Workers see all devices of the node. Each uses the one with the number of its local rank, as
//! under torchrun: so collectives find the paths between devices.
//!
//! On SIGTERM the program saves its state and ends. After the grace SIGKILL goes to the whole
//! process group.
//!
//! The launcher `torchrun` starts one rendezvous for each incarnation, of fixed membership and with
//! its token as the id. torchrun's own elasticity is not used. Its agents do not leave the rendezvous on
//! SIGTERM, so survivors wait for keep-alives, and it restarts all workers anyway.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use lacuna_model::{Assignment, NodeId, RunId, Timestamp, TrainerId};
use lacuna_runtime::{ClusterClock, task};
use tokio::sync::mpsc;

use super::crew::LastMessages;
use super::files::{Files, last_lines, output};
use super::names::Names;
use super::run::{Order, Run};
use super::settings::Settings;
use super::{Launcher, LauncherEvent, StandIn, orphans};
use crate::metrics::Metrics;
use crate::removal::Remover;
use crate::safety::{Safety, Ward};

/// After this silence of a program that regroups, its agent sends no status for it, since it may
/// hang. It is twice the longest pause between its messages.
const SILENT: Duration = Duration::from_secs(2);

/// A running program.
#[derive(Debug)]
struct Running {
    /// The channel of orders to its task.
    orders: mpsc::UnboundedSender<Order>,
    /// The handle that ends it.
    ward: Ward,
    /// The times of its workers' last messages.
    heard: LastMessages,
}

/// The programs of this agent.
#[derive(Debug)]
pub struct Command {
    settings: Settings,
    names: Names,
    safety: Safety,
    clock: ClusterClock,
    metrics: Metrics,
    events: mpsc::UnboundedSender<LauncherEvent>,
    stand_in: Option<Arc<dyn StandIn>>,
    /// By the incarnation under which each was started.
    runs: BTreeMap<(NodeId, RunId), Running>,
}

impl Command {
    /// A launcher that sends events through `events`. Its programs learn their members through
    /// `names`, and end through `safety`.
    #[must_use]
    pub fn new(
        settings: Settings,
        names: Names,
        safety: Safety,
        clock: ClusterClock,
        metrics: Metrics,
        events: mpsc::UnboundedSender<LauncherEvent>,
    ) -> Self {
        Self {
            settings,
            names,
            safety,
            clock,
            metrics,
            events,
            stand_in: None,
            runs: BTreeMap::new(),
        }
    }

    /// The same launcher, whose programs a stand-in plays, if there is one.
    #[must_use]
    pub fn with_stand_in(mut self, stand_in: Option<Arc<dyn StandIn>>) -> Self {
        self.stand_in = stand_in;
        self
    }

    /// The only trainer whose programs are started, if there is a ticket.
    #[must_use]
    pub fn serves(&self) -> Option<TrainerId> {
        let ticket = self.settings.ticket.as_ref();
        ticket.map(|ticket| ticket.trainer.clone())
    }

    /// Whether a program was started under this incarnation.
    #[must_use]
    pub fn has(&self, node: &NodeId, run: RunId) -> bool {
        self.runs.contains_key(&(node.clone(), run))
    }

    /// Whether this or an earlier agent has begun this incarnation, or a later one, on a node.
    #[must_use]
    pub fn begun(&self, node: &NodeId, assignment: &Assignment) -> bool {
        let trainer = assignment.trainer.as_str();
        Files::new(&self.settings.agent.work_dir, trainer, node, assignment.run)
            .last_begun()
            .is_some_and(|run| run >= assignment.run)
    }

    /// Kills the programs that an earlier agent of these nodes (all if `None`) has left behind.
    /// Their guards end them already, but may take the grace for it. Work that is not counted must
    /// not run beside the next program. Returns the number of incarnations with such a program.
    #[must_use]
    pub fn end_orphans(&self, nodes: Option<&BTreeSet<NodeId>>) -> usize {
        orphans::end(&self.settings.agent.work_dir, nodes)
    }

    /// Starts the program of a trainer that regroups, before it joins an incarnation.
    pub fn prepare(&mut self, node: &NodeId, assignment: Assignment) {
        self.begin(node, assignment, false);
    }

    /// Sends the next assignment to the program that was started under `started`.
    pub fn regroup(&mut self, node: &NodeId, started: RunId, assignment: Assignment) {
        if let Some(running) = self.runs.get(&(node.clone(), started)) {
            // If the program has just ended, its exit event follows.
            let _ = running.orders.send(Order::Run(Box::new(assignment)));
        }
    }

    /// The number of running programs.
    #[must_use]
    pub fn running(&self) -> usize {
        self.runs.len()
    }

    /// Whether no program of the node is silent, by any of its workers. Workers that have never sent
    /// a message do not count.
    #[must_use]
    pub fn vouches(&self, node: &NodeId) -> bool {
        let from = (node.clone(), RunId(0));
        let mut here = self.runs.range(from..).take_while(|((n, _), _)| n == node);
        here.all(|(_, running)| !running.heard.is_silent_for(SILENT))
    }

    /// Kills every program at once, since the nodes are wanted.
    pub fn kill_all(&mut self) {
        for running in self.runs.values() {
            running.ward.kill();
        }
    }

    fn begin(&mut self, node: &NodeId, assignment: Assignment, member: bool) {
        let (orders, receiver) = mpsc::unbounded_channel();
        let heard = LastMessages::new(assignment.launch.workers_per_node());
        let ward = self.safety.ward(node);
        let running = Running {
            orders,
            ward: ward.clone(),
            heard: heard.clone(),
        };
        self.runs.insert((node.clone(), assignment.run), running);
        let run = Run {
            files: Files::new(
                &self.settings.agent.work_dir,
                assignment.trainer.as_str(),
                node,
                assignment.run,
            ),
            remover: Remover::new(
                self.settings.guard.clone(),
                self.safety.clone(),
                node.clone(),
            ),
            node: node.clone(),
            started: assignment.run,
            assignment,
            member,
            heard,
            ward,
            settings: self.settings.clone(),
            names: self.names.clone(),
            clock: self.clock.clone(),
            metrics: self.metrics.clone(),
            events: self.events.clone(),
        };
        match self.stand_in.clone() {
            Some(stand_in) => task::spawn(run.be_played(stand_in, receiver)),
            None => task::spawn(run.live(receiver)),
        };
    }

    /// Removes an ended program.
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
            // The task sends the event, also if the program was about to end by itself.
            Some(running) => {
                let deadline = lacuna_runtime::clock::wall() + self.settings.agent.grace;
                let _ = running.orders.send(Order::Leave(deadline));
                running.ward.stop();
            }
            None => {
                let node = node.clone();
                let _ = self.events.send(LauncherEvent::Stopped { node, run });
            }
        }
    }

    fn events(&mut self) -> Vec<LauncherEvent> {
        Vec::new()
    }

    fn output(&self, node: &NodeId, trainer: &str, lines: usize) -> Vec<String> {
        last_lines(&output(&self.settings.agent.work_dir, trainer, node), lines)
    }
}
