//! A cluster with one trainer in virtual time: control and the agent of all nodes over a simulated
//! server. What ingest and planner would send comes from here: idle nodes, and a plan that gives
//! them all to the trainer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::{sleep, timeout};

use lacuna_agent_service::AgentArgs;
use lacuna_cli::Config;
use lacuna_cli::client::{from_bus, unexpected};
use lacuna_cli::error::{CliError, Result};
use lacuna_model::{
    Allocation, EventKind, Hole, Launch, NodeEvent, NodeId, Plan, Program, ScalingCurve, TrainerId,
    TrainerRecord, TrainerSpec,
};
use lacuna_runtime::clock::wall;
use lacuna_runtime::virtual_time::Host;
use lacuna_runtime::{
    Bus, BusError, Delays, Follow, NoArgs, SimulatedServer, Start, Stopwatch, simulate,
};
use lacuna_wire::address;
use lacuna_wire::msg::{PlanState, Reply, Request, TrainersState};

use super::program::{self, Truth};

/// Longest wait for the first state of the trainer.
const LIMIT: Duration = Duration::from_secs(60);

pub(super) struct Cluster {
    bus: Bus,
    nodes: Vec<NodeId>,
    states: Follow<TrainersState>,
    newest: TrainersState,
    generation: u64,
    /// Sizes of the incarnations.
    pub(super) sizes: Vec<u32>,
    /// Runs since the start.
    pub(super) age: Stopwatch,
    _dir: TempDir,
}

fn impossible(error: impl std::fmt::Display) -> CliError {
    CliError::failed(format!("the curve cannot be simulated: {error}"))
}

fn failed(error: BusError) -> CliError {
    from_bus(&error)
}

/// The trainer on all nodes of its true curve, which it does not know.
fn trainer(truth: &Truth) -> Result<TrainerSpec> {
    let all = truth.rates.len() as u32;
    Ok(TrainerSpec {
        submit: wall(),
        max_nodes: all,
        rescale: truth.rescale,
        launch: Launch::Command(Program {
            program: "train".to_owned(),
            checkpoint_dir: Some("/scratch".to_owned()),
            profile: true,
            elastic: truth.elastic,
            ..Program::default()
        }),
        ..TrainerSpec::simulated(
            TrainerId::new("profiled").map_err(impossible)?,
            ScalingCurve::linear(1.0, all).map_err(impossible)?,
        )
    })
}

impl Cluster {
    /// A trainer that is admitted to idle nodes, all of its curve. The settings are those of control.
    pub(super) async fn start(truth: &Truth, config: Config, seed: u64) -> Result<Self> {
        let started = timeout(LIMIT, Self::admitted(truth, config, seed)).await;
        started.map_err(|_| impossible("control does not admit the trainer"))?
    }

    async fn admitted(truth: &Truth, mut config: Config, seed: u64) -> Result<Self> {
        let names = (0..truth.rates.len()).map(|n| NodeId::new(format!("n{n:03}")));
        let nodes: std::result::Result<Vec<NodeId>, _> = names.collect();
        let nodes = nodes.map_err(impossible)?;
        let dir = tempfile::tempdir().map_err(impossible)?;
        config.agent.nodes.clone_from(&nodes);
        config.agent.work_dir = dir.path().to_owned();
        // Where members of torchrun would meet.
        config.control.store = Some("store:1".to_owned());
        let (least_ms, most_ms) = (1, 1);
        let server = SimulatedServer::new(seed, Delays { least_ms, most_ms });
        let control = |ctx| lacuna_control_service::run(ctx, NoArgs {});
        simulate(&Host::new("control"), "control", &server, &config, control);
        let program = Arc::new(program::Program::new(truth.clone(), seed));
        let agent = |ctx| lacuna_agent_service::run_with(ctx, AgentArgs::default(), program);
        simulate(&Host::new("agent"), "agent", &server, &config, agent);

        let id = &config.cluster.id;
        let bus = Bus::simulated_client(&server, id, "lab").await;
        let bus = bus.map_err(failed)?;
        let states = bus.follow(&address::trainers(id), Start::Last).await;
        let mut states = states.map_err(failed)?;
        // From its first state on control answers.
        let first = states.next().await.map_err(failed)?.message;
        let submit = Request::Submit {
            trainers: vec![trainer(truth)?],
            test_only: false,
            tickets: BTreeMap::new(),
        };
        let subject = address::requests_of(id, "lab");
        let reply = bus.request(&subject, &submit, LIMIT).await;
        match reply.map_err(failed)? {
            Reply::Accepted { .. } => {}
            other => return Err(unexpected(other)),
        }
        let since = wall();
        let hole = |node: NodeId| Hole { node, since };
        let snapshot = NodeEvent {
            seq: 1,
            at: since,
            kind: EventKind::Snapshot {
                idle: nodes.iter().cloned().map(hole).collect(),
            },
        };
        let stored = bus.store(&address::snapshot(id), &snapshot, "").await;
        stored.map_err(failed)?;
        let mut cluster = Self {
            bus,
            nodes,
            states,
            newest: first,
            generation: 0,
            sizes: Vec::new(),
            age: Stopwatch::start(),
            _dir: dir,
        };
        while cluster.record().is_err() {
            cluster.second().await;
        }
        Ok(cluster)
    }

    /// Control's record of the trainer.
    pub(super) fn record(&self) -> Result<&TrainerRecord> {
        let record = self.newest.trainers.first();
        record.ok_or_else(|| impossible("control has no such trainer"))
    }

    /// Publishes a plan that gives the trainer the first `nodes` nodes.
    pub(super) async fn give(&mut self, nodes: usize) -> Result<()> {
        self.generation += 1;
        let allocation = Allocation {
            trainer: self.record()?.spec.id.clone(),
            nodes: self.nodes.iter().take(nodes).cloned().collect(),
        };
        let state = PlanState {
            plan: Plan::by_hand(self.generation, wall(), 1, vec![allocation]),
            trainers_version: self.newest.version,
            runs: self.newest.runs(),
            latency_s: 0.0,
            judged: None,
        };
        let subject = address::plan(self.bus.cluster());
        let stored = self.bus.store(&subject, &state, "").await;
        stored.map(drop).map_err(failed)
    }

    /// Lets a second pass.
    pub(super) async fn second(&mut self) {
        sleep(Duration::from_secs(1)).await;
        while let Some(state) = self.states.try_next() {
            let before = self.record().map(|record| record.run).ok();
            self.newest = state.message;
            if let Some(record) = self.newest.trainers.first()
                && Some(record.run) != before
                && !record.nodes.is_empty()
            {
                // Nodes that a probe sets aside are still its own.
                let aside = (record.measured.as_deref()).map_or(0, |m| m.parked.len());
                let trains = record.nodes.len().saturating_sub(aside);
                self.sizes.push(trains as u32);
            }
        }
    }
}
