//! All nodes of this process: commands in, effects carried out, statuses out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lacuna_model::{Action, Activity, Launch, Member, NodeId, Span};
use lacuna_runtime::{Context, Received, Stopwatch};
use lacuna_trainer::Now;
use lacuna_trainer::agent::{Agent, Effect};
use lacuna_wire::msg::AgentStatus;

use crate::launcher::{Command, Happened, Launcher, Simulated};
use crate::metrics::Metrics;
use crate::outbox::{Outbox, Word};
use crate::safety::Safety;

/// Longest wait for the last words to go out.
const FLUSH: Duration = Duration::from_millis(20);

/// Which nodes this process plays.
#[derive(Debug, Clone)]
pub(crate) enum Plays {
    /// These.
    Nodes(BTreeSet<NodeId>),
    /// Every one that it hears of.
    All,
}

impl Plays {
    /// The nodes, if not all.
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
    plays: Plays,
    dead_man: Span,
    outbox: Outbox,
    safety: Safety,
}

impl Shell {
    pub(crate) fn new(
        ctx: Context,
        metrics: Metrics,
        plays: Plays,
        programs: Command,
        safety: Safety,
    ) -> Self {
        let (dead_man, grace) = (ctx.config.agent.dead_man, ctx.config.agent.grace);
        let agents = match &plays {
            Plays::Nodes(nodes) => nodes
                .iter()
                .map(|node| {
                    let agent = Agent::new(node.clone(), dead_man).with_grace(grace);
                    (node.clone(), agent)
                })
                .collect(),
            Plays::All => BTreeMap::new(),
        };
        Self {
            ctx,
            metrics,
            simulated: Simulated::default(),
            programs,
            agents,
            plays,
            dead_man,
            outbox: Outbox::default(),
            safety,
        }
    }

    /// What says what this process has to say.
    pub(crate) fn outbox(&self) -> Outbox {
        self.outbox.clone()
    }

    /// A command. Of those that the bus has kept from before this process began, one that was
    /// obeyed then is not obeyed again, and any other only once control stands by it.
    pub(crate) fn command(
        &mut self,
        received: Received<lacuna_model::Command>,
        old: bool,
        now: Now,
    ) {
        let correlation = received.envelope.correlation;
        let command = received.message;
        let node = command.node.clone();
        let agent = match &self.plays {
            Plays::Nodes(_) => match self.agents.get_mut(&node) {
                Some(agent) => agent,
                None => return,
            },
            Plays::All => self.agents.entry(node.clone()).or_insert_with(|| {
                let grace = self.ctx.config.agent.grace;
                Agent::new(node.clone(), self.dead_man).with_grace(grace)
            }),
        };
        let begun = match &command.action {
            // A simulated run is gone with the process that it was in.
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

    /// Carries out what an agent wants, and what comes of it.
    pub(crate) fn act(&mut self, node: &NodeId, effects: Vec<Effect>, correlation: &str, now: Now) {
        for effect in effects {
            match effect {
                Effect::Start(assignment) => {
                    tracing::debug!(%node, trainer = %assignment.trainer,
                        run = assignment.run.0, rank = assignment.rank, correlation, "start");
                    match *assignment.launch {
                        Launch::Simulated => self.simulated.start(node, *assignment, now.cluster),
                        Launch::Command { .. } => {
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
                Effect::Report(status) => self.say(&status, correlation),
                Effect::Refused { .. } | Effect::Contradicted { .. } => {}
            }
        }
        let happened = self.simulated.happened();
        self.happened(happened, correlation, now);
        // Whatever becomes of this side, the thread gives the node back when it is due.
        let due = self.agents.get(node).and_then(Agent::due);
        let due = due.map(|at| Stopwatch::start().instant() + at.since(now.wall).to_std());
        self.safety.due(node, due);
    }

    /// Tells the agents what happened to their programs, and the bus what was achieved.
    pub(crate) fn happened(&mut self, happened: Vec<Happened>, correlation: &str, now: Now) {
        for one in happened {
            let (node, effects) = match one {
                Happened::Progress(progress) => {
                    self.put(Word::Progress(progress), correlation);
                    continue;
                }
                Happened::Ready { node, run } => {
                    let effects = self.agents.get_mut(&node).map(|a| a.ready(run));
                    (node, effects)
                }
                Happened::Group {
                    node,
                    run,
                    of,
                    broken,
                } => {
                    tracing::info!(%node, run = of.0, broken, "the program says this of its group");
                    let effects = self.agents.get_mut(&node).map(|a| a.group(run, of, broken));
                    (node, effects)
                }
                Happened::Stopped { node, run } => {
                    self.programs.forget(&node, run);
                    if self.agents.get(&node).is_some_and(|a| a.due().is_some()) {
                        self.died(&node);
                    }
                    let effects = self.agents.get_mut(&node).map(|a| a.stopped(run));
                    (node, effects)
                }
                Happened::Exited {
                    node,
                    run,
                    code,
                    reason,
                } => {
                    tracing::info!(%node, run = run.0, code, reason, "program ended");
                    self.metrics.exited(code);
                    self.programs.forget(&node, run);
                    let effects = self
                        .agents
                        .get_mut(&node)
                        .map(|a| a.exited(run, code, &reason));
                    (node, effects)
                }
            };
            if let Some(effects) = effects {
                self.act(&node, effects, correlation, now);
            }
        }
    }

    /// Where the simulated runs stand is told, by `now` or when the work was done.
    pub(crate) fn progress(&mut self, all: bool, correlation: &str, now: Now) {
        self.simulated.finished(now.cluster);
        if all {
            self.simulated.report_all(now.cluster);
        }
        let happened = self.simulated.happened();
        self.happened(happened, correlation, now);
    }

    /// These leases stand: no dead man for them, and what was held for one is obeyed.
    pub(crate) fn renewed(&mut self, leases: &[Member], correlation: &str, now: Now) {
        for lease in leases {
            let effects = match self.agents.get_mut(&lease.node) {
                Some(agent) => agent.renewed(lease.epoch, now),
                None => continue,
            };
            self.act(&lease.node, effects, correlation, now);
        }
    }

    /// Who has waited too long for a renewal gives up.
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

    /// The dead man's time is over, here or for the safety thread.
    fn died(&self, node: &NodeId) {
        tracing::warn!(%node, "no renewal of the lease, giving the node back");
        self.metrics.released.with_label_values(&["dead man"]).inc();
    }

    /// This process ends: everything is given back.
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

    /// This pilot's process ends, now: control hears of it, and every program is killed.
    pub(crate) fn leave(&mut self, cause: &str) {
        tracing::info!(cause, "leaving the node");
        let last: Vec<AgentStatus> = self.agents.values_mut().map(|a| a.leave(cause)).collect();
        for status in last {
            self.say(&status, "");
            self.metrics.released.with_label_values(&[cause]).inc();
        }
        self.programs.kill_all();
    }

    /// Nothing runs any more, so long after the nodes were asked for, if they were: the last word
    /// of this process.
    pub(crate) async fn gone(&mut self, gave_back_in: Option<Span>) {
        if let Some(span) = gave_back_in {
            for agent in self.agents.values() {
                self.say(&agent.gone(span), "");
            }
        }
        self.flush().await;
    }

    /// Waits a little until what was said has gone out, but not for the server: it may be what is
    /// gone.
    pub(crate) async fn flush(&self) {
        let flush = async {
            self.outbox.empty().await;
            self.ctx.bus.flush().await
        };
        if tokio::time::timeout(FLUSH, flush).await.is_err() {
            tracing::warn!("the server may not have heard that this agent leaves");
        }
    }

    /// A program that was killed has ended.
    pub(crate) fn reaped(&mut self, happened: Happened) {
        if let Happened::Exited { node, run, .. } | Happened::Stopped { node, run } = happened {
            self.programs.forget(&node, run);
        }
    }

    /// Whether any program has still to stop.
    pub(crate) fn busy(&self) -> bool {
        self.agents
            .values()
            .any(|agent| !matches!(agent.status().activity, Activity::Free))
    }

    /// Statuses of a part of the nodes: of those that run something, or of the others.
    pub(crate) fn statuses(&self, running: bool) {
        for agent in self.agents.values() {
            if agent.running().is_some() == running {
                self.say(&agent.status(), "");
            }
        }
    }

    /// Says it, unless it would be said for a program that may hang: then silence is true.
    fn say(&self, status: &AgentStatus, correlation: &str) {
        let running = matches!(status.activity, Activity::Running { .. });
        if running && !self.programs.vouches(&status.node) {
            return;
        }
        self.put(Word::Status(status.clone()), correlation);
    }

    fn put(&self, word: Word, correlation: &str) {
        if self.outbox.put(word, correlation) {
            self.metrics.replaced.inc();
        }
    }

    /// The last lines of a trainer's output on a node, if the node is played here.
    pub(crate) fn output(&self, node: &NodeId, trainer: &str, lines: usize) -> Option<String> {
        self.agents.get(node)?;
        let mut found = self.programs.output(node, trainer, lines);
        if found.is_empty() {
            found = self.simulated.output(node, trainer, lines);
        }
        Some(found.join("\n"))
    }
}
