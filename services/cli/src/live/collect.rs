//! Collects messages of the bus for the live view.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;

use lacuna_model::{EventKind, NodeEvent, NodeId, Phase, Timestamp, TrainerId, TrainerRecord};
use lacuna_runtime::clock::Stopwatch;
use lacuna_wire::address;
use lacuna_wire::msg::{Progress, Reply, Request, Totals, TrainersState};

use super::view_model::{LiveTrainer, ViewModel};
use crate::client::{Client, unexpected};
use crate::error::Result;
use crate::output::quantile;
use crate::view::trainer_row;

/// The number of plans whose latency is kept.
const LATENCIES: usize = 1024;
/// The length of the window for the rate of events, seconds.
const RATE_WINDOW: f64 = 5.0;

#[derive(Default)]
struct Received {
    events: u64,
    trainers: Option<TrainersState>,
    progress: HashMap<TrainerId, Progress>,
    /// The number of plans received.
    plans: u64,
    latencies: VecDeque<f64>,
    messages: VecDeque<String>,
    sizes: HashMap<TrainerId, Vec<(Timestamp, u32)>>,
    open: HashMap<NodeId, Timestamp>,
    holes_s: Vec<f64>,
}

impl Received {
    fn push_message(&mut self, line: String) {
        if self.messages.len() == 8 {
            self.messages.pop_front();
        }
        self.messages.push_back(line);
    }

    /// Counts an event, and records the length of a hole that it ends.
    fn take_event(&mut self, event: NodeEvent) {
        match event.kind {
            EventKind::Snapshot { .. } => return,
            EventKind::NodeIdle { node } => {
                self.open.insert(node, event.at);
            }
            EventKind::NodeBusy { node } | EventKind::NodeDown { node, .. } => {
                if let Some(since) = self.open.remove(&node) {
                    self.holes_s.push(event.at.since(since).as_secs_f64());
                }
            }
            _ => {}
        }
        self.events += 1;
    }

    /// Records the trainers that came and went, their sizes, and their losses of nodes.
    fn take_trainers(&mut self, state: TrainersState) {
        let before = self.trainers.take();
        for record in &state.trainers {
            let name = &record.spec.id;
            let (nodes, sizes) = (
                record.nodes.len() as u32,
                self.sizes.entry(name.clone()).or_default(),
            );
            if sizes.last().map_or(nodes > 0, |last| last.1 != nodes) {
                sizes.push((state.as_of, nodes));
            }
            let old = before
                .as_ref()
                .and_then(|b| b.trainers.iter().find(|t| t.spec.id == *name));
            if let Some(old) = old.filter(|old| record.preemptions > old.preemptions) {
                let lost: Vec<&str> = old
                    .nodes
                    .iter()
                    .filter(|n| !record.nodes.contains(n))
                    .map(|n| n.as_str())
                    .take(3)
                    .collect();
                self.push_message(format!(
                    "{name} went from {} to {} nodes: batch jobs took {}",
                    old.nodes.len(),
                    record.nodes.len(),
                    lost.join(" ")
                ));
            }
        }
        for old in before.iter().flat_map(|b| &b.trainers) {
            if !state.trainers.iter().any(|t| t.spec.id == old.spec.id) {
                if let Some(sizes) = self.sizes.get_mut(&old.spec.id) {
                    sizes.push((state.as_of, 0));
                }
                self.progress.remove(&old.spec.id);
                self.push_message(format!("{} has left: done or cancelled", old.spec.id));
            }
        }
        self.trainers = Some(state);
    }
}

/// Receives messages and makes view models.
pub(crate) struct Collector {
    client: Client,
    received: Arc<Mutex<Received>>,
    _tasks: JoinSet<()>,
    title: String,
    watch: Stopwatch,
    events_at: VecDeque<(f64, u64)>,
    readings: Vec<Totals>,
}

impl Collector {
    /// Subscribes to all subjects of the view.
    ///
    /// # Errors
    /// NATS does not answer.
    pub(crate) async fn start(client: Client, title: String) -> Result<Self> {
        let received = Arc::new(Mutex::new(Received::default()));
        let mut tasks = JoinSet::new();
        let cluster = client.cluster().clone();
        macro_rules! on {
            ($subject:expr, $source:ident, |$state:ident, $message:ident| $what:expr) => {{
                let mut stream = client.$source(&$subject).await?;
                let received = Arc::clone(&received);
                tasks.spawn(async move {
                    while let Some($message) = stream.next().await {
                        let mut $state = received.lock().unwrap_or_else(PoisonError::into_inner);
                        $what
                    }
                });
            }};
        }
        on!(address::event(&cluster), listen, |h, event| h
            .take_event(event));
        on!(address::trainers(&cluster), follow, |h, state| h
            .take_trainers(state));
        on!(address::plan(&cluster), follow, |h, plan| {
            h.plans += 1;
            if h.latencies.len() == LATENCIES {
                h.latencies.pop_front();
            }
            h.latencies.push_back(plan.latency_s);
        });
        on!(address::progress_all(&cluster), listen, |h, progress| {
            h.progress.insert(progress.trainer.clone(), progress);
        });
        Ok(Self {
            client,
            received,
            _tasks: tasks,
            title,
            watch: Stopwatch::start(),
            events_at: VecDeque::new(),
            readings: Vec::new(),
        })
    }

    /// Seconds since the subscription.
    #[must_use]
    pub(crate) fn seconds(&self) -> f64 {
        self.watch.seconds()
    }

    /// All totals that were read so far, oldest first.
    #[must_use]
    pub(crate) fn readings(&self) -> &[Totals] {
        &self.readings
    }

    /// Latencies of the last plans, seconds, sorted.
    #[must_use]
    pub(crate) fn latencies(&self) -> Vec<f64> {
        let received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        let mut list: Vec<f64> = received.latencies.iter().copied().collect();
        list.sort_by(f64::total_cmp);
        list
    }

    /// The sizes of each trainer, with their first moments.
    #[must_use]
    pub(crate) fn sizes(&self) -> HashMap<TrainerId, Vec<(Timestamp, u32)>> {
        self.received
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .sizes
            .clone()
    }

    /// Lengths of the holes that opened and ended since the subscription, seconds.
    #[must_use]
    pub(crate) fn holes_s(&self) -> Vec<f64> {
        self.received
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .holes_s
            .clone()
    }

    /// Asks control for the totals and makes the present view model.
    ///
    /// # Errors
    /// Control does not answer.
    pub(crate) async fn view_model(&mut self, wall_total: Option<Duration>) -> Result<ViewModel> {
        let totals = match self.client.ask(Request::Totals).await? {
            Reply::Totals(totals) => totals,
            other => return Err(unexpected(other)),
        };
        let subject = lacuna_wire::address::use_state(self.client.cluster());
        // The limits are optional; the view is drawn without them as well.
        let used = self.client.newest(&subject).await.ok().flatten();
        let limits = used.and_then(|used| crate::view::in_force(&used));
        self.readings.push(totals.clone());
        let wall_s = self.watch.seconds();
        let latencies = self.latencies();
        let received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        self.events_at.push_back((wall_s, received.events));
        while self
            .events_at
            .front()
            .is_some_and(|f| f.0 < wall_s - RATE_WINDOW)
            && self.events_at.len() > 2
        {
            self.events_at.pop_front();
        }
        let events_per_s = match (self.events_at.front(), self.events_at.back()) {
            (Some(a), Some(b)) if b.0 > a.0 => (b.1 - a.1) as f64 / (b.0 - a.0),
            _ => 0.0,
        };
        let trainers = received.trainers.iter().flat_map(|s| &s.trainers);
        let trainers = trainers
            .filter(|t| t.phase == Phase::Active)
            .map(|t| live(t, received.progress.get(&t.spec.id), &totals))
            .collect();
        let history = |of: fn(&Totals) -> u32| {
            let step = (self.readings.len() / 72).max(1);
            self.readings.iter().step_by(step).map(of).collect()
        };
        Ok(ViewModel {
            title: self.title.clone(),
            wall_s,
            wall_total_s: wall_total.map(|w| w.as_secs_f64()),
            totals,
            limits,
            events_per_s,
            events: received.events,
            plan_latency: quantile(&latencies, 0.5).zip(quantile(&latencies, 0.99)),
            plans: received.plans,
            pool_history: history(|t| t.pool_nodes),
            leased_history: history(|t| t.leased_nodes),
            trainers,
            messages: received.messages.iter().cloned().collect(),
        })
    }
}

/// A trainer with its newest progress, which is newer than control's record.
fn live(record: &TrainerRecord, progress: Option<&Progress>, totals: &Totals) -> LiveTrainer {
    let mut record = record.clone();
    if let Some(p) = progress.filter(|p| record.is_reported_by(p)) {
        record.samples_run = record.samples_run.max(p.samples);
        record.owed = p.owed;
    }
    let row = trainer_row(&record, totals.now);
    LiveTrainer {
        nodes: record.nodes.len() as u32,
        name: row.trainer,
        max_nodes: row.max_nodes,
        share: row.progress,
        rate: row.rate,
        remaining_s: row.remaining_s,
        state: row.state,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::tests::record;
    use lacuna_model::RunId;

    #[test]
    fn newer_progress_of_the_same_incarnation_is_shown() {
        let mut r = record("a", Phase::Active, 2);
        r.run = RunId(4);
        r.samples_run = 100_000.0;
        let progress = |run, samples| {
            let (node, trainer) = (r.nodes[0].clone(), TrainerId::new("a").unwrap());
            Progress::new(node, trainer, RunId(run), Timestamp::default(), samples)
        };
        let share = |p: &Progress| live(&r, Some(p), &Totals::default()).share.unwrap();
        assert_eq!(share(&progress(4, 500_000.0)), 0.5);
        assert_eq!(
            share(&progress(3, 900_000.0)),
            0.1,
            "a report of a closed incarnation is ignored"
        );
        assert_eq!(
            share(&progress(4, 10.0)),
            0.1,
            "an older report does not lower the progress"
        );
    }

    #[test]
    fn a_preemption_and_an_end_are_messages() {
        let mut received = Received::default();
        let state = |trainers| TrainersState {
            version: 1,
            as_of: Timestamp::default(),
            trainers,
            unusable: Vec::new(),
            pilot_s: 0.0,
            followed: lacuna_model::Generation(0),
        };
        received.take_trainers(state(vec![
            record("a", Phase::Active, 3),
            record("b", Phase::Active, 1),
        ]));
        assert!(received.messages.is_empty());
        let mut hit = record("a", Phase::Active, 3);
        hit.preemptions = 1;
        hit.nodes.retain(|n| *n != NodeId::new("node-001").unwrap());
        received.take_trainers(state(vec![hit]));
        let messages: Vec<String> = received.messages.into();
        assert_eq!(
            messages[0],
            "a went from 3 to 2 nodes: batch jobs took node-001"
        );
        assert!(messages[1].starts_with("b has left"), "{}", messages[1]);
    }
}
