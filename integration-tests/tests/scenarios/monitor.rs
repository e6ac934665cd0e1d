//! An observer on the bus: it records commands to agents and their reports, and checks control's
//! counts by them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use lacuna_model::{Epoch, Generation, NodeId, RunId, Timestamp, TrainerId, TrainerRecord};
use lacuna_runtime::{Bus, Start};
use lacuna_wire::address;
use lacuna_wire::msg::Action;

/// Observations so far.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// The trainer that a command gives a node under an epoch.
    owners: BTreeMap<(NodeId, Epoch), TrainerId>,
    /// The reports of each incarnation by their time, in samples.
    reports: BTreeMap<(TrainerId, RunId), BTreeMap<Timestamp, f64>>,
    /// The start of each incarnation, which ends the one before: later work of that does not count.
    begun: BTreeMap<(TrainerId, RunId), Timestamp>,
    generation: Generation,
    pub(crate) plans: u64,
    pub(crate) commands: u64,
    pub(crate) violations: Vec<String>,
}

/// Listens until it is dropped.
pub(crate) struct Monitor {
    seen: Arc<Mutex<Seen>>,
    tasks: tokio::task::JoinSet<()>,
}

impl Monitor {
    pub(crate) async fn start(bus: &Bus) -> Self {
        let id = bus.cluster().clone();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let mut tasks = tokio::task::JoinSet::new();

        let mut commands = bus.subscribe(&address::commands(&id)).await.unwrap();
        let to = Arc::clone(&seen);
        tasks.spawn(async move {
            while let Ok(command) = commands.next().await {
                let command = command.message;
                let mut seen = to.lock().unwrap();
                seen.commands += 1;
                if let Action::Run(run) = command.action {
                    seen.begun.insert((run.trainer.clone(), run.run), run.since);
                    seen.owns(command.node, command.epoch, &run.trainer);
                }
            }
        });

        let mut progress = bus
            .follow(&address::progress_all(&id), Start::All)
            .await
            .unwrap();
        let to = Arc::clone(&seen);
        tasks.spawn(async move {
            while let Ok(report) = progress.next().await {
                let report = report.message;
                let mut seen = to.lock().unwrap();
                let run = seen
                    .reports
                    .entry((report.trainer, report.run))
                    .or_default();
                let best = run.entry(report.at).or_default();
                *best = best.max(report.samples);
            }
        });

        let mut plans = bus.subscribe(&address::plan(&id)).await.unwrap();
        let to = Arc::clone(&seen);
        tasks.spawn(async move {
            while let Ok(plan) = plans.next().await {
                let generation = plan.message.plan.generation;
                let mut seen = to.lock().unwrap();
                seen.plans += 1;
                if generation < seen.generation {
                    let text = format!("plan {generation:?} came after {:?}", seen.generation);
                    seen.violations.push(text);
                }
                seen.generation = generation;
            }
        });
        Self { seen, tasks }
    }

    /// Checks control's records by the observations.
    pub(crate) fn check(mut self, records: &[TrainerRecord]) -> Seen {
        self.tasks.abort_all();
        let mut seen = std::mem::take(&mut *self.seen.lock().unwrap());
        let mut holders: BTreeMap<&NodeId, &TrainerId> = BTreeMap::new();
        for record in records {
            let id = &record.spec.id;
            for node in &record.nodes {
                if let Some(other) = holders.insert(node, id) {
                    seen.violations
                        .push(format!("{node} is counted for {other} and for {id}"));
                }
            }
            let reported = seen.bounds(id).most;
            // Counted samples must have been reported. The last report of an incarnation may come
            // after its end, too late to count: then control counts less, never more.
            if record.samples() > reported * (1.0 + 1e-9) + 1e-6 {
                seen.violations.push(format!(
                    "{id}: {} samples counted, {reported} reported",
                    record.samples()
                ));
            }
        }
        seen
    }

    /// The samples that control must count for a trainer by the observations so far.
    pub(crate) fn bounds(&self, trainer: &TrainerId) -> Bounds {
        self.seen.lock().unwrap().bounds(trainer)
    }
}

/// The samples that control must count for a trainer.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Bounds {
    /// All reports but the last of each incarnation, whose end, or the end of control, may come
    /// before control reads it. So at most the work of one report interval is missing.
    pub(crate) least: f64,
    /// All reports of times before their incarnation's end.
    pub(crate) due: f64,
    /// All reports, whenever made.
    pub(crate) most: f64,
    pub(crate) runs: usize,
}

impl Seen {
    fn bounds(&self, trainer: &TrainerId) -> Bounds {
        let all = (trainer.clone(), RunId(0))..=(trainer.clone(), RunId(u64::MAX));
        let mut bounds = Bounds::default();
        for ((_, run), reports) in self.reports.range(all) {
            let next = (trainer.clone(), RunId(run.0 + 1));
            let last = (trainer.clone(), RunId(u64::MAX));
            // An incarnation without a command, since the trainer had no nodes, began no later than
            // the next one with a command.
            let end = self.begun.range(next..=last).next().map(|(_, at)| *at);
            let mut due: Vec<f64> = reports
                .iter()
                .filter(|(at, _)| end.is_none_or(|end| **at <= end))
                .map(|(_, samples)| *samples)
                .collect();
            due.sort_by(f64::total_cmp);
            bounds.due += due.pop().unwrap_or_default();
            bounds.least += due.pop().unwrap_or_default();
            bounds.most += reports.values().copied().fold(0.0, f64::max);
            bounds.runs += 1;
        }
        bounds
    }

    fn owns(&mut self, node: NodeId, epoch: Epoch, trainer: &TrainerId) {
        let key = (node, epoch);
        match self.owners.get(&key) {
            Some(other) if other != trainer => {
                let (node, epoch) = key;
                self.violations.push(format!(
                    "{node} belongs to {other} and to {trainer} under one epoch, {epoch:?}"
                ));
            }
            Some(_) => {}
            None => {
                self.owners.insert(key, trainer.clone());
            }
        }
    }
}
