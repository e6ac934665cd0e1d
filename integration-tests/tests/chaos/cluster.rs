//! A cluster under faults, of processes or simulated, and whether all its parts agree.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use lacuna_cli::Config;
use lacuna_model::{
    NodeId, RescaleCost, ScalingCurve, Span, Timestamp, TrainerId, TrainerSpec, Work,
};
use lacuna_runtime::clock::wall;
use lacuna_runtime::{Bus, Stopwatch};
use lacuna_wire::address;
use lacuna_wire::msg::{Activity, Reply, Request};

use super::history::{HistoryWriter, Observation};
use super::workload::{State, Workload};

/// Services of which one instance is active.
pub(super) const LED: [&str; 4] = ["ingest", "forecast", "planner", "control"];
pub(super) const TRAINERS: usize = 3;

/// A recovery longer than this, seconds, prints the reason of its wait.
const SLOW_S: f64 = 5.0;

/// The settings of all processes of a cluster.
pub(super) fn config(dir: &Path) -> Config {
    let mut config = Config::default();
    config.bus.request_limit = Span::from_secs(2);
    config.ingest.snapshot_every = Span::from_secs(1);
    config.control.renew_every = Span::from_secs(1);
    config.control.reconcile_every = Span::from_secs(1);
    config.control.silent_after = Span::from_secs(6);
    config.agent.lease_timeout = Span::from_secs(12);
    config.agent.report_every = Span::from_secs(1);
    config.agent.work_dir = dir.join("work");
    config.forecast.model_dir = Some(dir.join("models"));
    config.forecast.save_every = Span::from_secs(1);
    config
}

pub(super) fn trainer(n: usize) -> TrainerSpec {
    TrainerSpec {
        max_nodes: 16,
        rescale: RescaleCost::of(0.2, 0.1),
        work: Work::Samples(1e12),
        ..TrainerSpec::simulated(
            TrainerId::new(format!("t{n}")).unwrap(),
            ScalingCurve::new([(1, 100.0), (4, 370.0), (16, 1300.0)]).unwrap(),
        )
    }
}

/// A cluster under faults.
pub(super) trait Cluster {
    /// Restarts ended processes, as supervisors do.
    fn tend(&mut self);

    /// Whether each service has a leader that has published its lead since a moment.
    async fn led(&self, since: Timestamp) -> Result<(), String>;

    fn view(&self) -> View<'_>;

    /// Whether a slow recovery prints the reason of its wait.
    fn explains(&self) -> bool {
        true
    }
}

/// The parts of a cluster that an observer reads.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) bus: &'a Bus,
    pub(super) writer: &'a HistoryWriter,
    pub(super) workload: &'a Workload,
}

/// Submits the trainers, and waits until all has settled.
///
/// # Errors
/// The part that has not settled in time.
pub(super) async fn begin(cluster: &mut impl Cluster) -> Result<(), String> {
    let submit = lacuna_testkit::submission((0..TRAINERS).map(trainer).collect());
    let since = Stopwatch::start();
    loop {
        match cluster.view().ask(&submit).await {
            // The answer to the first may have been lost.
            Some(Reply::Accepted { .. } | Reply::Refused { .. }) => break,
            other if since.seconds() > 90.0 => return Err(format!("{other:?}")),
            _ => {}
        }
        cluster.tend();
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    converge(cluster, 90.0, true).await.map(drop)
}

/// Waits until control, agents, pool and plan agree with the workload; returns the seconds.
/// Meanwhile the workload takes one node that trains and gives another back, and changes nothing
/// else. Each leader must have renewed its lead since the start, and each agent must have reported,
/// since an agreement from before the fault proves nothing. After a fault that loses events for
/// good (`forgetful`) the workload publishes the state of all nodes again.
///
/// # Errors
/// The part that did not agree in time.
pub(super) async fn converge(
    cluster: &mut impl Cluster,
    limit_s: f64,
    forgetful: bool,
) -> Result<f64, String> {
    let (since, begun) = (Stopwatch::start(), wall());
    cluster.view().workload.pause(true).await;
    cluster.view().workload.probe().await;
    let mut said = 0.0;
    let mut waited_for = Vec::new();
    let outcome = loop {
        cluster.tend();
        match agree(cluster, begun, since.seconds()).await {
            Ok(()) => break Ok(since.seconds()),
            Err(why) if since.seconds() > limit_s => break Err(why),
            Err(why) => {
                if waited_for.last().is_none_or(|(_, last)| *last != why) {
                    waited_for.push((since.seconds(), why));
                }
            }
        }
        // As an adapter that polls the scheduler every few seconds.
        if forgetful && since.seconds() - said > 3.0 {
            said = since.seconds();
            cluster.view().workload.repeat().await;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    cluster.view().workload.pause(false).await;
    if since.seconds() > SLOW_S && cluster.explains() {
        for (at, why) in waited_for {
            println!("         waited at {at:.1} s: {why}");
        }
    }
    outcome
}

async fn agree(cluster: &impl Cluster, begun: Timestamp, elapsed_s: f64) -> Result<(), String> {
    cluster.led(begun).await?;
    cluster.view().agree(elapsed_s).await
}

/// Writes the counts of control into the history, for the checker.
pub(super) async fn record_counts(view: View<'_>) {
    view.workload.pause(true).await;
    // By then control has read the agents' reports, one a second.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let all = Request::Trainers { all: true };
    let before = view.writer.history().len();
    if let Some(Reply::Trainers { trainers, .. }) = view.ask(&all).await {
        // A record that was heard since may be newer than the answer.
        let meanwhile = view.writer.since(before);
        let heard = |id: &str| {
            let is_of = |(_, seen): &(f64, Observation)| matches!(seen, Observation::Trainer { trainer, .. } if trainer == id);
            meanwhile.iter().any(is_of)
        };
        let trainers = trainers.into_iter();
        for record in trainers.filter(|record| !heard(record.spec.id.as_str())) {
            view.writer.note(Observation::Trainer {
                trainer: record.spec.id.to_string(),
                run: record.run.0,
                since: record.run_since.unix_ms(),
                samples: record.samples(),
            });
        }
    }
    // By then the recorder has heard control's counts too.
    tokio::time::sleep(Duration::from_secs(1)).await;
}

impl View<'_> {
    pub(super) async fn ask(&self, request: &Request) -> Option<Reply> {
        let subject = address::requests_of(self.bus.cluster(), "tester");
        let limit = Duration::from_secs(1);
        self.bus.request(&subject, request, limit).await.ok()
    }

    async fn agree(&self, elapsed_s: f64) -> Result<(), String> {
        let Some(Reply::Nodes { nodes, .. }) = self.ask(&Request::Nodes).await else {
            return Err("control does not answer".to_owned());
        };
        let states = self.workload.states();
        let mut held: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (name, state) in &states {
            let Some(node) = nodes.iter().find(|n| n.node.as_str() == name) else {
                return Err(format!("control does not know {name}"));
            };
            if node.silent_s.is_none_or(|silent_s| silent_s > elapsed_s) {
                return Err(format!("the agent of {name} has not spoken since"));
            }
            let idle = *state == State::Idle;
            if node.idle_since.is_some() != idle {
                return Err(format!("{name} is {state:?}, not as control knows it"));
            }
            let trains = match &node.activity {
                Some(Activity::Running { trainer, .. }) => Some(trainer),
                _ => None,
            };
            if trains != node.trainer.as_ref() {
                return Err(format!(
                    "{name} is leased to {:?}, trains {trains:?}",
                    node.trainer
                ));
            }
            if let Some(trainer) = &node.trainer {
                if !idle {
                    return Err(format!("{name} is {state:?} and leased to {trainer}"));
                }
                let of = held.entry(trainer.to_string()).or_default();
                of.insert(name.clone());
            }
        }
        let lost = |e: lacuna_runtime::BusError| e.to_string();
        let pool = self
            .bus
            .last(&address::pool(self.bus.cluster()))
            .await
            .map_err(lost)?;
        let pool = pool.ok_or("no pool")?.message.pool;
        let plan = self
            .bus
            .last(&address::plan(self.bus.cluster()))
            .await
            .map_err(lost)?;
        let plan = plan.ok_or("no plan")?.message.plan;
        let in_pool: BTreeSet<&str> = pool.holes.iter().map(|h| h.hole.node.as_str()).collect();
        let is_idle = |(_, state): &(&String, &State)| **state == State::Idle;
        let idle: BTreeSet<&str> = states
            .iter()
            .filter(is_idle)
            .map(|(n, _)| n.as_str())
            .collect();
        if in_pool != idle {
            return Err(format!("the pool is {in_pool:?}, idle are {idle:?}"));
        }
        let names = |nodes: &[NodeId]| nodes.iter().map(ToString::to_string).collect();
        let planned: BTreeMap<String, BTreeSet<String>> = plan
            .allocations
            .iter()
            .map(|a| (a.trainer.to_string(), names(&a.nodes)))
            .collect();
        if planned != held {
            return Err(format!("planned {planned:?}, held {held:?}"));
        }
        if !idle.is_empty() && held.is_empty() {
            return Err("no trainer has a node".to_owned());
        }
        // Control decides by the leases that it knows, and the next one by those in the bucket.
        let kept = self.bus.bucket(address::leases_bucket(self.bus.cluster()));
        let kept = kept.list().await.map_err(lost)?;
        for node in &nodes {
            let lease = kept.iter().find(|lease| lease.key == node.node.as_str());
            let owner = lease.and_then(|lease| lease.value.trainer.as_ref());
            if owner != node.trainer.as_ref() {
                let (name, known) = (&node.node, &node.trainer);
                return Err(format!(
                    "{name} is leased to {owner:?}, control says to {known:?}"
                ));
            }
        }
        Ok(())
    }
}
