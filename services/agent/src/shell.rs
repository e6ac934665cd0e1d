//! All nodes of this process: handles commands, applies effects, sends statuses.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lacuna_model::{Action, Activity, Launch, Member, NodeId, Span};
use lacuna_runtime::{Received, Stopwatch};
use lacuna_trainer::Now;
use lacuna_trainer::agent::{Agent, Effect};
use lacuna_wire::msg::AgentStatus;

use crate::launcher::{Command, Launcher, LauncherEvent, Simulated, Wanted, output, text_of};
use crate::metrics::Metrics;
use crate::outbox::{Message, Outbox};
use crate::safety::Safety;
use crate::sections::Context;

/// Longest wait until the last messages are sent.
const FLUSH: Duration = Duration::from_millis(20);

/// The nodes that this process serves.
#[derive(Debug, Clone)]
pub(crate) enum Serves {
    /// These nodes.
    Nodes(BTreeSet<NodeId>),
    /// Every node that receives a command.
    All,
}

impl Serves {
    /// The named nodes; nothing if it serves all.
    pub(crate) const fn named(&self) -> Option<&BTreeSet<NodeId>> {
        match self {
            Self::Nodes(nodes) => Some(nodes),
            Self::All => None,
        }
    }
}

pub(crate) struct Shell {
    pub(crate) ctx: Context,
    pub(crate) metrics: Metrics,
    pub(crate) simulated: Simulated,
    pub(crate) programs: Command,
    agents: BTreeMap<NodeId, Agent>,
    serves: Serves,
    lease_timeout: Span,
    outbox: Outbox,
    safety: Safety,
}

impl Shell {
    pub(crate) fn new(
        ctx: Context,
        metrics: Metrics,
        serves: Serves,
        programs: Command,
        safety: Safety,
    ) -> Self {
        let (lease_timeout, grace) = (ctx.config.agent.lease_timeout, ctx.config.agent.grace);
        let agents = match &serves {
            Serves::Nodes(nodes) => nodes
                .iter()
                .map(|node| {
                    // The environment of a job names the place of one node.
                    let place = place().filter(|_| nodes.len() == 1);
                    let agent = Agent::new(node.clone(), lease_timeout)
                        .with_grace(grace)
                        .with_place(place)
                        .with_serves(programs.serves());
                    (node.clone(), agent)
                })
                .collect(),
            Serves::All => BTreeMap::new(),
        };
        Self {
            ctx,
            metrics,
            simulated: Simulated::default(),
            programs,
            agents,
            serves,
            lease_timeout,
            outbox: Outbox::default(),
            safety,
        }
    }

    /// The outbox of this process.
    pub(crate) fn outbox(&self) -> Outbox {
        self.outbox.clone()
    }

    /// Handles a command. Commands from before this process began are not obeyed again if they were
    /// obeyed then. Others are obeyed once control renews the lease.
    pub(crate) fn command(
        &mut self,
        received: Received<lacuna_model::Command>,
        old: bool,
        now: Now,
    ) {
        let correlation = received.envelope.correlation.to_string();
        let command = received.message;
        let node = command.node.clone();
        let agent = match &self.serves {
            Serves::Nodes(_) => match self.agents.get_mut(&node) {
                Some(agent) => agent,
                None => return,
            },
            Serves::All => self.agents.entry(node.clone()).or_insert_with(|| {
                let grace = self.ctx.config.agent.grace;
                Agent::new(node.clone(), self.lease_timeout).with_grace(grace)
            }),
        };
        let begun = match &command.action {
            // A simulated run has ended with its process.
            Action::Run(run) | Action::Prepare(run) => {
                matches!(*run.launch, Launch::Simulated) || self.programs.begun(&node, run)
            }
            Action::Release { .. } => true,
        };
        let outcome = match &command.action {
            _ if old && begun => "recovered",
            _ if old => "held",
            Action::Run(_) => "run",
            Action::Prepare(_) => "prepare",
            Action::Release { .. } => "release",
        };
        let effects = match (old, begun) {
            (true, true) => agent.recover(&command, now),
            (true, false) => agent.hold(command, now),
            (false, _) => agent.command(command, now),
        };
        let outcome = match effects.as_slice() {
            [Effect::Refused { epoch, seq }, ..] => {
                tracing::warn!(%node, epoch = epoch.0, seq, correlation, "older command refused");
                "refused"
            }
            [
                Effect::Contradicted {
                    epoch,
                    trainer,
                    holder,
                },
                ..,
            ] => {
                tracing::error!(%node, epoch = epoch.0, %trainer, %holder, correlation, "command refused: its epoch is another trainer's");
                "contradicted"
            }
            [Effect::Report(status)] if !old && outcome != "release" => {
                tracing::debug!(%node, epoch = status.epoch.0, correlation, "command repeated");
                "repeated"
            }
            _ => outcome,
        };
        self.metrics.commands.with_label_values(&[outcome]).inc();
        self.act(&node, effects, &correlation, now);
    }

    /// Applies the effects of an agent.
    pub(crate) fn act(&mut self, node: &NodeId, effects: Vec<Effect>, correlation: &str, now: Now) {
        for effect in effects {
            match effect {
                Effect::Start(assignment) => {
                    tracing::debug!(%node, trainer = %assignment.trainer,
                        run = assignment.run.0, rank = assignment.rank, correlation, "start");
                    match *assignment.launch {
                        Launch::Simulated => self.simulated.start(node, *assignment, now.cluster),
                        Launch::Command(_) => {
                            self.programs.start(node, *assignment, now.cluster);
                        }
                    }
                }
                Effect::Prepare(assignment) => {
                    tracing::debug!(%node, trainer = %assignment.trainer, correlation, "prepare");
                    self.programs.prepare(node, *assignment);
                }
                Effect::Regroup {
                    started,
                    assignment,
                } => {
                    tracing::debug!(%node, trainer = %assignment.trainer,
                        run = assignment.run.0, rank = assignment.rank, correlation, "regroup");
                    self.programs.regroup(node, started, *assignment);
                }
                Effect::Stop {
                    run, at, reason, ..
                } => {
                    tracing::debug!(%node, run = run.0, reason, correlation, "stop");
                    if self.programs.has(node, run) {
                        self.programs.stop(node, run, at);
                    } else {
                        self.simulated.stop(node, run, at);
                    }
                }
                Effect::Report(status) => self.send(&status, correlation),
                Effect::Refused { .. } | Effect::Contradicted { .. } => {}
            }
        }
        let events = self.simulated.events();
        self.handle_events(events, correlation, now);
        // Whatever happens to this side, the safety thread gives the node back when it is due.
        let due = self.agents.get(node).and_then(Agent::due);
        let due = due.map(|at| Stopwatch::start().instant() + at.since(now.wall).to_std());
        self.safety.due(node, due);
    }

    /// Handles events of programs: passes them to the agents, and progress to the bus.
    pub(crate) fn handle_events(
        &mut self,
        events: Vec<LauncherEvent>,
        correlation: &str,
        now: Now,
    ) {
        for one in events {
            let (node, effects) = match one {
                LauncherEvent::Progress(progress) => {
                    self.put(Message::Progress(progress), correlation);
                    continue;
                }
                LauncherEvent::Ready { node, run } => {
                    let effects = self.agents.get_mut(&node).map(|a| a.ready(run));
                    (node, effects)
                }
                LauncherEvent::Group {
                    node,
                    run,
                    of,
                    broken,
                } => {
                    tracing::info!(%node, run = of.0, broken, "state of a process group");
                    let effects = self.agents.get_mut(&node).map(|a| a.group(run, of, broken));
                    (node, effects)
                }
                LauncherEvent::Stopped { node, run } => {
                    self.programs.forget(&node, run);
                    if self.agents.get(&node).is_some_and(|a| a.due().is_some()) {
                        self.died(&node);
                    }
                    let effects = self.agents.get_mut(&node).map(|a| a.stopped(run));
                    (node, effects)
                }
                LauncherEvent::Suspended { node, run } => {
                    self.programs.forget(&node, run);
                    tracing::warn!(%node, "the agent was suspended, giving the node back");
                    let cause = "agent suspended";
                    self.metrics.released.with_label_values(&[cause]).inc();
                    let effects = self.agents.get_mut(&node).map(|a| a.suspended(run));
                    (node, effects)
                }
                LauncherEvent::Ends { node, run, ending } => {
                    tracing::debug!(%node, run = run.0, ?ending, "a program says how far it is");
                    let effects = self.agents.get_mut(&node).map(|a| a.ends(run, ending));
                    (node, effects)
                }
                LauncherEvent::Exited { node, run, exit } => {
                    tracing::info!(%node, run = run.0, code = exit.code, killed = exit.killed,
                        reason = exit.reason, "program ended");
                    self.metrics.exited(exit.code);
                    self.programs.forget(&node, run);
                    let effects = self.agents.get_mut(&node).map(|a| a.exited(run, exit));
                    (node, effects)
                }
            };
            if let Some(effects) = effects {
                self.act(&node, effects, correlation, now);
            }
        }
    }

    /// Reports the progress of simulated runs, as of `now` or of the end of their work.
    pub(crate) fn progress(&mut self, all: bool, correlation: &str, now: Now) {
        self.simulated.finished(now.cluster);
        if all {
            self.simulated.report_all(now.cluster);
        }
        let events = self.simulated.events();
        self.handle_events(events, correlation, now);
    }

    /// Handles a renewal: these leases are in force, and commands that waited for one are obeyed.
    pub(crate) fn renewed(&mut self, leases: &[Member], correlation: &str, now: Now) {
        for lease in leases {
            let effects = match self.agents.get_mut(&lease.node) {
                Some(agent) => agent.renewed(lease.epoch, now),
                None => continue,
            };
            self.act(&lease.node, effects, correlation, now);
        }
    }

    /// Gives nodes back whose lease timeout is over.
    pub(crate) fn tick(&mut self, now: Now) {
        let mut given_up = Vec::new();
        for (node, agent) in &mut self.agents {
            let effects = agent.tick(now);
            if !effects.is_empty() {
                given_up.push((node.clone(), effects));
            }
        }
        for (node, effects) in given_up {
            self.died(&node);
            self.act(&node, effects, "", now);
        }
        let nodes = i64::try_from(self.agents.len()).unwrap_or(i64::MAX);
        self.metrics.nodes.set(nodes);
        let running = self.agents.values().filter(|a| a.running().is_some());
        let running = i64::try_from(running.count()).unwrap_or(i64::MAX);
        self.metrics.running.set(running);
    }

    /// The lease timeout is over, here or in the safety thread.
    fn died(&self, node: &NodeId) {
        tracing::warn!(%node, "no renewal of the lease, giving the node back");
        self.metrics
            .released
            .with_label_values(&["lease timeout"])
            .inc();
    }

    /// Gives all nodes back, since this process ends.
    pub(crate) fn give_up_all(&mut self, now: Now) {
        for node in self.agents.keys().cloned().collect::<Vec<_>>() {
            let effects = self
                .agents
                .get_mut(&node)
                .map(|agent| agent.give_up("agent stopped", now))
                .unwrap_or_default();
            if !effects.is_empty() {
                let cause = "agent stopped";
                self.metrics.released.with_label_values(&[cause]).inc();
                self.act(&node, effects, "", now);
            }
        }
    }

    /// Ends a pilot's process now: control is informed, and every program is killed.
    pub(crate) fn leave(&mut self, cause: &str) {
        tracing::info!(cause, "leaving the node");
        let last: Vec<AgentStatus> = self.agents.values_mut().map(|a| a.leave(cause)).collect();
        for status in last {
            self.send(&status, "");
            self.metrics.released.with_label_values(&[cause]).inc();
        }
        self.programs.kill_all();
    }

    /// Sends the last status of this process when no program runs any more. The argument is the
    /// time since SIGTERM, if that was received.
    pub(crate) async fn gone(&mut self, gave_back_in: Option<Span>) {
        if let Some(span) = gave_back_in {
            for agent in self.agents.values() {
                self.send(&agent.gone(span), "");
            }
        }
        self.flush().await;
    }

    /// Waits briefly until all messages are sent, but not for a server that may be away.
    pub(crate) async fn flush(&self) {
        let flush = async {
            self.outbox.empty().await;
            self.ctx.bus.flush().await
        };
        if tokio::time::timeout(FLUSH, flush).await.is_err() {
            tracing::warn!("the server may not know that this agent leaves");
        }
    }

    /// Handles the end of a killed program.
    pub(crate) fn reaped(&mut self, event: LauncherEvent) {
        if let LauncherEvent::Exited { node, run, .. }
        | LauncherEvent::Stopped { node, run }
        | LauncherEvent::Suspended { node, run } = event
        {
            self.programs.forget(&node, run);
        }
    }

    /// Whether any program has not stopped yet.
    pub(crate) fn busy(&self) -> bool {
        self.agents
            .values()
            .any(|agent| !matches!(agent.status().activity, Activity::Free))
    }

    /// Sends statuses of the nodes that run something, or of the others.
    pub(crate) fn statuses(&self, running: bool) {
        for agent in self.agents.values() {
            if agent.running().is_some() == running {
                self.send(&agent.status(), "");
            }
        }
    }

    /// Sends a status, unless it would be for a program that may hang. Then control must see the
    /// silence.
    fn send(&self, status: &AgentStatus, correlation: &str) {
        let running = matches!(status.activity, Activity::Running { .. });
        if running && !self.programs.vouches(&status.node) {
            return;
        }
        self.put(Message::Status(status.clone()), correlation);
    }

    fn put(&self, message: Message, correlation: &str) {
        if self.outbox.put(message, correlation) {
            self.metrics.replaced.inc();
        }
    }

    /// The output of a trainer's program on a node, and where it ends.
    pub(crate) fn output_of(
        &self,
        node: &NodeId,
        trainer: &str,
        wanted: Wanted,
    ) -> Option<impl FnOnce() -> (String, u64) + Send + use<>> {
        self.agents.get(node)?;
        let path = output(&self.ctx.config.agent.work_dir, trainer, node);
        let simulated = self.simulated.output(node, trainer, wanted.lines);
        let node = node.clone();
        Some(move || {
            let (text, upto) = text_of(&path, &node, wanted);
            match text.is_empty() && wanted.after.is_none() {
                true => (simulated.join("\n"), upto),
                false => (text, upto),
            }
        })
    }
}

/// The place of the node that Slurm tells its jobs. A longer text is none of Slurm's.
fn place() -> Option<String> {
    let place = std::env::var("SLURM_TOPOLOGY_ADDR").ok()?;
    (!place.is_empty() && place.len() <= 1024).then_some(place)
}
