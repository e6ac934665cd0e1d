//! A small world for the controller: a bucket of leases, agents, and a bus that loses, repeats and
//! delays messages.
//!
//! It stays beside the services in virtual time (`integration-tests/tests/chaos/virtual_world.rs`): a
//! test sees every effect of every input here, and trainers have programs, which are simulated there.

mod acts;
mod build;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use lacuna_model::{
    Action, AgentStatus, Assignment, Command, Ending, Epoch, Hole, Launch, Members, NodeId, Plan,
    Progress, RunId, SlowMember, Span, StepCosts, Timestamp, TrainerId, TrainerRecord, Work,
};
use lacuna_trainer::agent::{Agent, Effect as AgentEffect, Exit};
use lacuna_trainer::controller::{
    Controller, ControllerConfig, Effect, Input, LeaseResult, LeaseWrite, TrainersView,
};
use lacuna_trainer::{Now, simulated};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub(crate) use build::{node, plan, plan_of, program, regrouping, said, spec, trainer};

fn runs_of(view: &TrainersView) -> Vec<(TrainerId, RunId)> {
    view.trainers
        .iter()
        .map(|t| (t.spec.id.clone(), t.run))
        .collect()
}

/// Probabilities of faults of the bus, in per cent.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Chaos {
    pub(crate) lose: u32,
    pub(crate) repeat: u32,
    pub(crate) reorder: u32,
}

#[derive(Debug, Clone)]
pub(crate) enum Letter {
    ToAgent(Command),
    Status(AgentStatus),
    Report(Progress),
}

pub(crate) struct World {
    pub(crate) rng: ChaCha8Rng,
    pub(crate) chaos: Chaos,
    pub(crate) now: Now,
    pub(crate) config: ControllerConfig,
    pub(crate) controller: Controller,
    pub(crate) leases: BTreeMap<NodeId, (Option<TrainerId>, Epoch)>,
    pub(crate) revision: u64,
    pub(crate) records: BTreeMap<TrainerId, TrainerRecord>,
    /// Last command per node, as the bus keeps it.
    pub(crate) commands: BTreeMap<NodeId, Command>,
    /// Published members of each run.
    pub(crate) members: Vec<Members>,
    /// Last report per trainer, as the bus keeps it.
    pub(crate) reports: BTreeMap<TrainerId, Progress>,
    pub(crate) agents: BTreeMap<NodeId, Agent>,
    /// The assignment of the program on each node.
    pub(crate) programs: BTreeMap<NodeId, Assignment>,
    /// Programs that wait for their first run, by the run under which they were started.
    pub(crate) prepared: BTreeMap<NodeId, RunId>,
    /// The run under which each node's program was started.
    pub(crate) started: BTreeMap<NodeId, RunId>,
    /// The newest run that was begun on each node. Its file outlives the agent.
    pub(crate) begun: BTreeMap<NodeId, (Epoch, u64)>,
    /// Programs that take their time to stop.
    pub(crate) stopping: Vec<(NodeId, RunId, Timestamp)>,
    pub(crate) mail: VecDeque<Letter>,
    pub(crate) pool: BTreeMap<NodeId, Timestamp>,
    pub(crate) seq: u64,
    pub(crate) generation: u64,
    pub(crate) view: Option<TrainersView>,
    /// The most samples that each run has reported.
    pub(crate) most: BTreeMap<(TrainerId, u64), f64>,
    pub(crate) replies: Vec<Result<Vec<TrainerId>, String>>,
    pub(crate) settled: Vec<(u64, bool)>,
    pub(crate) notes: Vec<lacuna_trainer::controller::Note>,
    pub(crate) answered: Vec<NodeId>,
    /// Nodes without an agent.
    pub(crate) absent: BTreeSet<NodeId>,
}

/// A longer `silent_after` and a shorter `retry_after` than the defaults.
pub(crate) fn config() -> ControllerConfig {
    let mut config = ControllerConfig::default();
    config.control.silent_after = Span::from_secs(60);
    config.control.max_failures = 5;
    config.control.retry_after = Span::from_secs(1);
    config
}

impl World {
    pub(crate) fn new(seed: u64, nodes: usize, config: ControllerConfig) -> Self {
        let lease_timeout = config.lease_timeout;
        Self {
            rng: ChaCha8Rng::seed_from_u64(seed),
            chaos: Chaos::default(),
            now: Now {
                cluster: Timestamp::from_unix(1000),
                wall: Timestamp::from_unix(1_000_000),
            },
            controller: Controller::new(config.clone()),
            config,
            leases: BTreeMap::new(),
            revision: 0,
            records: BTreeMap::new(),
            commands: BTreeMap::new(),
            members: Vec::new(),
            reports: BTreeMap::new(),
            agents: (0..nodes)
                .map(|n| (node(n), Agent::new(node(n), lease_timeout)))
                .collect(),
            programs: BTreeMap::new(),
            prepared: BTreeMap::new(),
            started: BTreeMap::new(),
            begun: BTreeMap::new(),
            stopping: Vec::new(),
            mail: VecDeque::new(),
            pool: BTreeMap::new(),
            seq: 0,
            generation: 0,
            view: None,
            most: BTreeMap::new(),
            replies: Vec::new(),
            settled: Vec::new(),
            notes: Vec::new(),
            answered: Vec::new(),
            absent: BTreeSet::new(),
        }
    }

    fn percent(&mut self, percent: u32) -> bool {
        percent > 0 && self.rng.random_range(0..100) < percent
    }

    pub(crate) fn input(&mut self, input: Input) {
        let effects = self.controller.step(input, self.now);
        self.apply_effects(effects);
    }

    fn apply_effects(&mut self, effects: Vec<Effect>) {
        let mut results = None;
        for effect in effects {
            match effect {
                Effect::PublishTrainers(view) => self.view = Some(view),
                Effect::WriteLeases(writes) => {
                    let done = writes.into_iter().map(|w| self.write(w)).collect();
                    assert!(results.replace(done).is_none(), "two batches of writes");
                }
                Effect::PutTrainer(record) => self.put(*record),
                Effect::Say(members) => self.members.push(members),
                Effect::Send(command) => {
                    self.check_members(&command);
                    self.commands.insert(command.node.clone(), command.clone());
                    self.post(Letter::ToAgent(command));
                }
                Effect::Reply(reply) => self.replies.push(reply.map_err(|r| r.reason)),
                Effect::Settled { step, complete } => self.settled.push((step, complete)),
                Effect::Note(note) => self.notes.push(note),
                Effect::AnswerReleased { node } => self.answered.push(node),
            }
        }
        if let Some(results) = results {
            self.input(Input::LeasesWritten(results));
        }
    }

    /// The members of a run of programs are published before its commands.
    fn check_members(&self, command: &Command) {
        let Action::Run(part) = &command.action else {
            return;
        };
        if *part.launch == Launch::Simulated {
            return;
        }
        let mut published = self.members.iter().rev();
        let newest = published
            .find(|members| members.trainer == part.trainer)
            .unwrap();
        assert!(newest.run >= part.run, "{newest:?} {part:?}");
        if newest.run == part.run {
            let place = newest.nodes.get(part.rank as usize);
            assert_eq!(place, Some(&command.node), "{newest:?} {part:?}");
            assert_eq!(newest.nodes.len() as u32, part.nodes);
        }
    }

    fn put(&mut self, record: TrainerRecord) {
        if let Work::Samples(work) = record.spec.work {
            assert!(
                record.samples() <= work * (1.0 + 1e-9),
                "work past the end: {} of {work}",
                record.samples()
            );
        }
        let old = self.records.insert(record.spec.id.clone(), record.clone());
        if let Some(old) = old {
            assert!(old.run <= record.run, "a run's number went back");
            let bytes = |record: &TrainerRecord| serde_json::to_vec(&record.spec).unwrap();
            assert_eq!(bytes(&old), bytes(&record), "the specification changed");
            if old.run == record.run {
                assert_eq!(old.nodes, record.nodes, "a run changed its members");
            }
            if old.phase.is_final() {
                assert_eq!(old.phase, record.phase, "a final phase changed");
            }
        }
    }

    fn write(&mut self, write: LeaseWrite) -> LeaseResult {
        let entry = self.leases.get(&write.node).cloned();
        let present = entry.as_ref().map_or(Epoch(0), |e| e.1);
        // Now and then the result of a write stays unknown, whether or not it was written.
        let unknown = self.percent(self.chaos.lose / 2);
        let comes_about = !unknown || self.rng.random_bool(0.5);
        let mut written = false;
        if present == write.expected && comes_about {
            if let Some(new) = &write.trainer {
                let owner = entry.and_then(|e| e.0);
                assert!(
                    owner.is_none(),
                    "{} given to {new} under {owner:?}",
                    write.node
                );
                let status = self.agents[&write.node].status();
                assert!(
                    !matches!(&status.activity, lacuna_model::Activity::Running { .. }),
                    "{} given to {new} while its agent says {status:?}",
                    write.node
                );
            }
            self.revision += 1;
            self.leases.insert(
                write.node.clone(),
                (write.trainer.clone(), Epoch(self.revision)),
            );
            written = true;
        }
        let entry = if unknown {
            None
        } else {
            Some(
                self.leases
                    .get(&write.node)
                    .cloned()
                    .unwrap_or((None, Epoch(0))),
            )
        };
        LeaseResult {
            node: write.node,
            entry,
            written: written && !unknown,
        }
    }

    fn post(&mut self, letter: Letter) {
        let (lose, repeat) = (self.chaos.lose, self.chaos.repeat);
        if self.percent(lose) {
            return;
        }
        if self.percent(repeat) {
            self.mail.push_back(letter.clone());
        }
        self.mail.push_back(letter);
    }

    /// Delivers up to `most` letters, now and then not the oldest.
    pub(crate) fn deliver(&mut self, most: usize) {
        for _ in 0..most {
            let reorder = self.chaos.reorder;
            let at = if self.percent(reorder) && !self.mail.is_empty() {
                self.rng.random_range(0..self.mail.len())
            } else {
                0
            };
            let Some(letter) = self.mail.remove(at) else {
                return;
            };
            match letter {
                Letter::ToAgent(command) => {
                    let id = command.node.clone();
                    if self.absent.contains(&id) {
                        continue;
                    }
                    let now = self.now;
                    let effects = self.agents.get_mut(&id).unwrap().command(command, now);
                    self.agent_does(&id, effects);
                }
                Letter::Status(status) => {
                    // Now and then several waiting statuses are delivered at once.
                    let mut statuses = vec![status];
                    while self.chaos.reorder > 0
                        && self.percent(50)
                        && let Some(Letter::Status(_)) = self.mail.front()
                        && let Some(Letter::Status(next)) = self.mail.pop_front()
                    {
                        statuses.push(next);
                    }
                    self.input(Input::Agents(statuses));
                }
                Letter::Report(report) => self.input(Input::Progress(report)),
            }
        }
    }

    pub(crate) fn agent_does(&mut self, id: &NodeId, effects: Vec<AgentEffect>) {
        for effect in effects {
            match effect {
                AgentEffect::Start(assignment) => {
                    let epoch = self.agents[id].status().epoch;
                    self.begun.insert(id.clone(), (epoch, assignment.run.0));
                    self.started.insert(id.clone(), assignment.run);
                    let old = self.programs.insert(id.clone(), *assignment);
                    assert!(old.is_none(), "{id} runs two programs");
                    self.report(id, self.now.cluster);
                }
                AgentEffect::Prepare(assignment) => {
                    let started = assignment.run;
                    let epoch = self.agents[id].status().epoch;
                    self.begun.insert(id.clone(), (epoch, started.0));
                    let old = self.prepared.insert(id.clone(), started);
                    assert!(
                        old.is_none() && !self.programs.contains_key(id),
                        "{id} runs two"
                    );
                    self.started.insert(id.clone(), started);
                }
                AgentEffect::Regroup {
                    started,
                    assignment,
                } => {
                    assert_eq!(self.started.get(id), Some(&started), "{id}");
                    // A node that no longer leads sends a last report of the run that ends.
                    self.report(id, assignment.since);
                    let epoch = self.agents[id].status().epoch;
                    self.begun.insert(id.clone(), (epoch, assignment.run.0));
                    self.prepared.remove(id);
                    self.programs.insert(id.clone(), *assignment);
                    self.report(id, self.now.cluster);
                }
                AgentEffect::Stop { run, at, .. } => {
                    if self.chaos.lose > 0 && self.rng.random_bool(0.3) {
                        self.stopping.push((id.clone(), run, at));
                    } else {
                        self.stop(id, run, at);
                    }
                }
                AgentEffect::Report(status) => self.post(Letter::Status(status)),
                AgentEffect::Refused { .. } => {}
                AgentEffect::Contradicted { epoch, .. } => {
                    panic!("{id}: two owners under {epoch:?}")
                }
            }
        }
    }

    fn stop(&mut self, id: &NodeId, run: RunId, at: Timestamp) {
        self.report(id, at);
        self.programs.remove(id);
        self.prepared.remove(id);
        let more = self.agents.get_mut(id).unwrap().stopped(run);
        self.agent_does(id, more);
    }

    /// The guard of a node's program ends it, since the agent was suspended.
    pub(crate) fn suspend(&mut self, id: &NodeId) {
        self.report(id, self.now.cluster);
        let run = self.programs.remove(id).unwrap().run;
        let more = self.agents.get_mut(id).unwrap().suspended(run);
        self.agent_does(id, more);
    }

    /// The program of a node ends by itself.
    pub(crate) fn exit(&mut self, id: &NodeId, code: i32) {
        self.exit_as(id, code, false);
    }

    /// The same, of one that its agent has perhaps killed.
    pub(crate) fn exit_as(&mut self, id: &NodeId, code: i32, killed: bool) {
        let exit = Exit {
            killed,
            ..Exit::new(code, "bang".to_owned(), None)
        };
        self.exit_for(id, exit);
    }

    /// The same, in this way.
    pub(crate) fn exit_for(&mut self, id: &NodeId, exit: Exit) {
        let ran = self.programs.remove(id).is_some() | self.prepared.remove(id).is_some();
        if ran && let Some(started) = self.started.remove(id) {
            let agent = self.agents.get_mut(id).unwrap();
            let effects = agent.exited(started, exit);
            self.agent_does(id, effects);
        }
    }

    /// The program of a node says how far its end has come.
    pub(crate) fn ends(&mut self, id: &NodeId, ending: Option<Ending>) {
        if let Some(started) = self.started.get(id).copied() {
            let effects = self.agents.get_mut(id).unwrap().ends(started, ending);
            self.agent_does(id, effects);
        }
    }

    /// Every prepared program reports that it is ready.
    pub(crate) fn all_ready(&mut self) {
        for (id, started) in self.prepared.clone() {
            let effects = self.agents.get_mut(&id).unwrap().ready(started);
            self.agent_does(&id, effects);
        }
    }

    /// Rank 0 reports the state of its run at `at`.
    fn report(&mut self, id: &NodeId, at: Timestamp) {
        let Some(program) = self.programs.get(id).filter(|p| p.rank == 0) else {
            return;
        };
        let state = simulated::state_at(program, at);
        let report = Progress {
            owed: state.owed,
            world_size: program.nodes,
            ..Progress::new(
                id.clone(),
                program.trainer.clone(),
                program.run,
                at,
                state.samples,
            )
        };
        let most = self
            .most
            .entry((report.trainer.clone(), report.run.0))
            .or_default();
        *most = most.max(report.samples);
        self.reports.insert(report.trainer.clone(), report.clone());
        self.post(Letter::Report(report));
    }

    pub(crate) fn report_all(&mut self) {
        let now = self.now.cluster;
        for id in self.agents.keys().cloned().collect::<Vec<_>>() {
            self.report(&id, now);
        }
    }

    pub(crate) fn statuses(&mut self) {
        let present = self
            .agents
            .iter()
            .filter(|(id, _)| !self.absent.contains(*id));
        let all: Vec<AgentStatus> = present.map(|(_, agent)| agent.status()).collect();
        for status in all {
            self.post(Letter::Status(status));
        }
    }
}

/// Where the time of a step goes, and the member that the others wait for.
pub(crate) fn step_costs(slow: Option<u32>) -> StepCosts {
    StepCosts {
        workers: 0,
        remote: 0,
        members: 4,
        follows: None,
        steps: 64,
        left_out: 0,
        measured: 0.12,
        replayed: 0.121,
        trusted: true,
        costs: Vec::new(),
        computes: 0.07,
        loaders: Vec::new(),
        elsewhere: Vec::new(),
        slow: slow.map(|rank| SlowMember { rank, behind: 0.02 }),
        advice: Vec::new(),
    }
}
