//! A cluster with one trainer in virtual time: the real controller and the real agents, and a
//! program whose rate follows its true curve, with noise.
//!
//! It stays beside the loop of services in virtual time (`lacuna_runtime::virtual_time`): agents there
//! would start real programs, which know no virtual time.

use std::collections::{BTreeMap, VecDeque};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use lacuna_model::{
    Allocation, Assignment, Command, Distance, Elastic, Epoch, Generation, Hole, Launch, NodeId,
    Outcome, Plan, PlanReport, Progress, RescaleCost, RunId, ScalingCurve, Solve, Span, Timestamp,
    TrainerId, TrainerRecord, TrainerSpec, Work,
};
use lacuna_trainer::Now;
use lacuna_trainer::agent::{Agent, Effect as AgentEffect};
use lacuna_trainer::controller::{
    Controller, ControllerConfig, Effect, Input, LeaseResult, LeaseWrite, Note, TrainersView,
};

/// Seconds between two reports, the default of `agent.report_every`.
const REPORT_S: i64 = 5;

/// The true behaviour of the program.
#[derive(Debug, Clone)]
pub(super) struct Truth {
    /// Samples/s at 1, 2, ... nodes.
    pub(super) rates: Vec<f64>,
    /// Relative standard deviation of the rate in one report.
    pub(super) noise: f64,
    /// Seconds of training that growing and shrinking cost.
    pub(super) rescale: RescaleCost,
    /// Seconds that a program takes to start.
    pub(super) start_s: f64,
    /// The reaction of the program to a change of its nodes.
    pub(super) elastic: Elastic,
}

impl Truth {
    fn rate(&self, nodes: u32) -> f64 {
        let at = (nodes as usize).checked_sub(1);
        at.and_then(|at| self.rates.get(at)).copied().unwrap_or(0.0)
    }
}

/// The present incarnation of the program.
#[derive(Debug, Clone)]
struct Running {
    run: RunId,
    nodes: u32,
    /// The second from which on it trains.
    from: f64,
    samples: f64,
}

pub(super) struct VirtualCluster {
    truth: Truth,
    rng: ChaCha8Rng,
    name: TrainerId,
    book: Controller,
    nodes: Vec<NodeId>,
    agents: BTreeMap<NodeId, Agent>,
    leases: BTreeMap<NodeId, (Option<TrainerId>, Epoch)>,
    /// Programs that start in the background: their incarnation, and the second of readiness.
    starting: BTreeMap<NodeId, (RunId, f64)>,
    running: Option<Running>,
    inbox: VecDeque<Input>,
    view: Option<TrainersView>,
    seconds: i64,
    writes: u64,
    generation: u64,
    /// Sizes of the incarnations.
    pub(super) sizes: Vec<u32>,
}

impl VirtualCluster {
    /// A trainer on all the nodes of its curve. None if a name is invalid.
    pub(super) fn new(truth: Truth, config: ControllerConfig, seed: u64) -> Option<Self> {
        let all = truth.rates.len() as u32;
        let nodes: Option<Vec<NodeId>> = (0..all)
            .map(|n| NodeId::new(format!("n{n:03}")).ok())
            .collect();
        let (nodes, name) = (nodes?, TrainerId::new("profiled").ok()?);
        let lease_timeout = config.lease_timeout;
        let agent = |node: &NodeId| (node.clone(), Agent::new(node.clone(), lease_timeout));
        let mut cluster = Self {
            rng: ChaCha8Rng::seed_from_u64(seed),
            name: name.clone(),
            book: Controller::new(config),
            agents: nodes.iter().map(agent).collect(),
            nodes,
            leases: BTreeMap::new(),
            starting: BTreeMap::new(),
            running: None,
            inbox: VecDeque::new(),
            view: None,
            seconds: 1_000_000,
            writes: 0,
            generation: 0,
            sizes: Vec::new(),
            truth,
        };
        let spec = TrainerSpec {
            id: name,
            owner: None,
            priority: 0,
            weight: None,
            deadline: None,
            submit: cluster.now().cluster,
            min_nodes: 1,
            max_nodes: all,
            distance: Distance::default(),
            kinds: lacuna_model::KindRates::default(),
            throughput: ScalingCurve::linear(1.0, all).ok()?,
            objective: None,
            rescale: cluster.truth.rescale,
            work: Work::UntilExit,
            launch: Launch::Command {
                program: "train".to_owned(),
                args: Vec::new(),
                env: BTreeMap::new(),
                checkpoint_dir: None,
                profile: true,
                family: None,
                elastic: cluster.truth.elastic,
            },
        };
        cluster.input(Input::Submit {
            trainers: vec![spec],
            user: String::new(),
            tickets: std::collections::BTreeMap::new(),
            test_only: false,
        });
        let since = cluster.now().cluster;
        let hole = |node: &NodeId| Hole {
            node: node.clone(),
            since,
        };
        let idle = cluster.nodes.iter().map(hole).collect();
        cluster.input(Input::Snapshot {
            seq: 1,
            at: since,
            idle,
        });
        Some(cluster)
    }

    fn now(&self) -> Now {
        let at = Timestamp::from_unix(self.seconds);
        Now {
            cluster: at,
            wall: at,
        }
    }

    /// Control's record of the trainer.
    pub(super) fn record(&self) -> Option<&TrainerRecord> {
        self.book.record(&self.name)
    }

    /// Publishes a plan that gives the trainer the first `nodes` nodes.
    pub(super) fn give(&mut self, nodes: usize) {
        self.generation += 1;
        let (version, runs) = match &self.view {
            Some(view) => {
                let run = |t: &TrainerRecord| (t.spec.id.clone(), t.run);
                (view.version, view.trainers.iter().map(run).collect())
            }
            None => (0, Vec::new()),
        };
        let plan = Plan {
            generation: Generation(self.generation),
            as_of: self.now().cluster,
            seq: 1,
            allocations: vec![Allocation {
                trainer: self.name.clone(),
                nodes: self.nodes.iter().take(nodes).cloned().collect(),
            }],
            repooled: Vec::new(),
            report: PlanReport {
                solve: Solve {
                    outcome: Outcome::Found,
                    objective: 0.0,
                    solver: "bench".to_owned(),
                    shortcut: None,
                    stopped_by_clock: false,
                },
                trainers: Vec::new(),
                holes: Vec::new(),
                forecast: None,
            },
        };
        self.input(Input::Plan {
            plan,
            trainers_version: version,
            runs,
        });
    }

    /// Advances the time by a second.
    pub(super) fn second(&mut self) {
        let before = self.seconds as f64;
        self.seconds += 1;
        let seconds = self.seconds as f64;
        let ready: Vec<(NodeId, RunId)> = self
            .starting
            .iter()
            .filter(|(_, (_, at))| *at <= seconds)
            .map(|(node, (run, _))| (node.clone(), *run))
            .collect();
        for (node, run) in ready {
            self.starting.remove(&node);
            let effects = self.agents.get_mut(&node).map(|agent| agent.ready(run));
            self.apply_agent(&node, effects.unwrap_or_default());
        }
        let noise = self.noise();
        if let Some(running) = &mut self.running {
            let trained = (seconds - running.from.max(before)).max(0.0);
            running.samples += trained * self.truth.rate(running.nodes) * noise;
        }
        if self.seconds % REPORT_S == 0 {
            self.report();
        }
        self.deliver();
    }

    /// The factor on the rate in one second: its deviations add up to that of a report.
    fn noise(&mut self) -> f64 {
        // A sum of twelve uniform numbers is nearly normal, and bounded.
        let sum: f64 = (0..12).map(|_| self.rng.random_range(-0.5..0.5)).sum();
        (1.0 + sum * self.truth.noise * (REPORT_S as f64).sqrt()).max(0.0)
    }

    /// The agents report, leases are renewed, the program reports, the timer fires.
    fn report(&mut self) {
        let now = self.now();
        for lease in self.book.leases() {
            let agent = self.agents.get_mut(&lease.node);
            let effects = agent.map(|agent| agent.renewed(lease.epoch, now));
            self.apply_agent(&lease.node, effects.unwrap_or_default());
        }
        let statuses = self.agents.values().map(Agent::status);
        self.inbox
            .extend(statuses.map(|status| Input::Agents(vec![status])));
        let leader = self.book.record(&self.name).map(TrainerRecord::leaders);
        if let Some(running) = &self.running
            && let Some(node) = leader.and_then(<[NodeId]>::first)
        {
            self.inbox.push_back(Input::Progress(Progress {
                node: node.clone(),
                trainer: self.name.clone(),
                run: running.run,
                at: now.cluster,
                samples: running.samples,
                owed: 0.0,
                step: None,
                world_size: running.nodes,
                loss: None,
                checkpoint: None,
                saved: None,
                base: None,
                step_costs: None,
                learning: None,
            }));
        }
        self.inbox.push_back(Input::Timer);
    }

    fn input(&mut self, input: Input) {
        self.inbox.push_back(input);
        self.deliver();
    }

    fn deliver(&mut self) {
        while let Some(input) = self.inbox.pop_front() {
            let now = self.now();
            for effect in self.book.step(input, now) {
                self.apply(effect);
            }
        }
    }

    fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::PublishTrainers(view) => self.view = Some(view),
            Effect::WriteLeases(writes) => {
                let written = writes.into_iter().map(|write| self.write(write)).collect();
                self.inbox.push_front(Input::LeasesWritten(written));
            }
            Effect::Send(command) => self.handle_command(command),
            Effect::Note(Note::Run { after, .. }) => self.sizes.push(after),
            _ => {}
        }
    }

    fn write(&mut self, write: LeaseWrite) -> LeaseResult {
        self.writes += 1;
        let entry = (write.trainer, Epoch(self.writes));
        self.leases.insert(write.node.clone(), entry.clone());
        LeaseResult {
            node: write.node,
            entry: Some(entry),
            written: true,
        }
    }

    fn handle_command(&mut self, command: Command) {
        let (node, now) = (command.node.clone(), self.now());
        let agent = self.agents.get_mut(&node);
        let effects = agent.map(|agent| agent.command(command, now));
        self.apply_agent(&node, effects.unwrap_or_default());
    }

    fn apply_agent(&mut self, node: &NodeId, effects: Vec<AgentEffect>) {
        for what in effects {
            match what {
                AgentEffect::Start(part) => self.begin(&part),
                AgentEffect::Regroup { assignment, .. } => {
                    self.starting.remove(node);
                    self.begin(&assignment);
                }
                AgentEffect::Prepare(part) => {
                    let ready = self.seconds as f64 + self.truth.start_s;
                    self.starting.insert(node.clone(), (part.run, ready));
                }
                AgentEffect::Stop { run, .. } => {
                    self.starting.remove(node);
                    let agent = self.agents.get_mut(node);
                    let more = agent.map(|agent| agent.stopped(run));
                    self.apply_agent(node, more.unwrap_or_default());
                }
                AgentEffect::Report(status) => self.inbox.push_back(Input::Agents(vec![status])),
                AgentEffect::Refused { .. } | AgentEffect::Contradicted { .. } => {}
            }
        }
    }

    fn begin(&mut self, part: &Assignment) {
        if part.rank != 0 {
            return;
        }
        let nodes = part.nodes;
        let rescale = self.truth.rescale;
        let pause = match &self.running {
            None => self.truth.start_s,
            Some(before) if before.nodes < nodes => rescale.up_s,
            Some(_) => rescale.down_s,
        };
        self.running = Some(Running {
            run: part.run,
            nodes,
            from: self.seconds as f64 + pause,
            samples: 0.0,
        });
    }

    /// Seconds since the start of the cluster.
    pub(super) fn age(&self) -> Span {
        Timestamp::from_unix(self.seconds).since(Timestamp::from_unix(1_000_000))
    }
}
