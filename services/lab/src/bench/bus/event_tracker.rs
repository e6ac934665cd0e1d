//! The stages of each event: its number, the pool and the plan that include it, and the stop
//! command of the node that it takes.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lacuna_cli::client::from_bus;
use lacuna_cli::error::Result;
use lacuna_model::{Action, Command, EventKind, NodeEvent, NodeId};
use lacuna_runtime::Start;
use lacuna_runtime::clock::Stopwatch;
use lacuna_wire::address;
use lacuna_wire::msg::{PlanState, PoolState};
use tokio::task::JoinSet;

use super::cluster::TestCluster;
use super::quantiles::Quantiles;

/// The records of all events; clones share them.
#[derive(Clone)]
pub(crate) struct EventTracker {
    records: Arc<Mutex<EventRecords>>,
    clock: Stopwatch,
}

/// An event under way.
#[derive(Debug, Clone, Copy)]
struct Sent {
    at: f64,
    /// Whether it takes a node in training.
    hits: bool,
}

/// The observed stages of all events.
#[derive(Debug, Default)]
pub(crate) struct EventRecords {
    /// Number of events of ingest, without snapshots.
    pub(crate) numbered: u64,
    /// Number of gaps in their sequence.
    pub(crate) gaps: u64,
    /// Sequence number of the last event.
    pub(crate) last: u64,
    /// Sequence number of the last event in the newest pool.
    pub(crate) pool: u64,
    /// Sequence number of the last event in the newest plan.
    pub(crate) plan: u64,
    /// Number of plans published.
    pub(crate) plans: u64,
    /// Number of commands sent.
    pub(crate) commands: u64,
    /// Number of events that took a node in training.
    pub(crate) hits: u64,
    newest: Option<PoolState>,
    /// Nodes in training, by the commands.
    training: HashSet<NodeId>,
    sent: HashMap<NodeId, VecDeque<Sent>>,
    /// Events that are numbered, but not in a pool yet.
    unpooled: VecDeque<(u64, f64)>,
    /// Hits that no plan includes yet.
    unplanned: VecDeque<(u64, f64)>,
    /// Nodes that were hit and have no stop command yet.
    awaiting_stop: HashMap<NodeId, f64>,
    acked: Vec<f64>,
    to_number: Vec<f64>,
    to_pool: Vec<f64>,
    to_plan: Vec<f64>,
    to_command: Vec<f64>,
}

impl EventRecords {
    fn numbered(&mut self, event: &NodeEvent, now: f64) {
        let (EventKind::NodeIdle { node } | EventKind::NodeBusy { node }) = &event.kind else {
            return;
        };
        if self.last != 0 && event.seq != self.last + 1 {
            self.gaps += 1;
        }
        self.last = event.seq;
        self.numbered += 1;
        let Some(sent) = self.sent.get_mut(node).and_then(VecDeque::pop_front) else {
            return;
        };
        self.to_number.push(now - sent.at);
        if event.seq <= self.pool {
            self.to_pool.push(now - sent.at);
        } else {
            self.unpooled.push_back((event.seq, sent.at));
        }
        if sent.hits && event.seq <= self.plan {
            self.to_plan.push(now - sent.at);
        } else if sent.hits {
            self.unplanned.push_back((event.seq, sent.at));
        }
    }

    fn pooled(&mut self, state: PoolState, now: f64) {
        self.pool = state.pool.seq;
        let known = pop_until(&mut self.unpooled, self.pool);
        self.to_pool.extend(known.into_iter().map(|at| now - at));
        self.newest = Some(state);
    }

    /// The nodes of the newest pool.
    pub(crate) fn idle(&self) -> BTreeSet<NodeId> {
        let holes = self.newest.iter().flat_map(|state| &state.pool.holes);
        holes.map(|pooled| pooled.hole.node.clone()).collect()
    }

    fn planned(&mut self, state: &PlanState, now: f64) {
        self.plan = state.plan.seq;
        self.plans += 1;
        let known = pop_until(&mut self.unplanned, self.plan);
        self.to_plan.extend(known.into_iter().map(|at| now - at));
    }

    fn commanded(&mut self, command: &Command, now: f64) {
        self.commands += 1;
        if let Action::Run(_) = command.action {
            self.training.insert(command.node.clone());
        } else if let Action::Release { .. } = command.action {
            self.training.remove(&command.node);
            if let Some(at) = self.awaiting_stop.remove(&command.node) {
                self.to_command.push(now - at);
            }
        }
    }

    /// The numbers of events without a sequence number, of hits without a plan, and of hits
    /// without a stop command.
    pub(crate) fn open(&self) -> (usize, usize, usize) {
        let sent = self.sent.values().map(VecDeque::len).sum();
        (sent, self.unplanned.len(), self.awaiting_stop.len())
    }

    /// The latencies since the last call, which clears them.
    pub(crate) fn latencies(&mut self) -> Vec<Quantiles> {
        let mut take = |what, of: fn(&mut Self) -> &mut Vec<f64>| {
            Quantiles::of(what, std::mem::take(of(self)))
        };
        vec![
            take("event -> kept in the queue", |b| &mut b.acked),
            take("event -> numbered", |b| &mut b.to_number),
            take("event -> pool with forecasts", |b| &mut b.to_pool),
            take("event -> plan", |b| &mut b.to_plan),
            take("event -> command", |b| &mut b.to_command),
        ]
    }
}

/// Removes and returns the entries with sequence numbers up to `upto`.
fn pop_until(list: &mut VecDeque<(u64, f64)>, upto: u64) -> Vec<f64> {
    let count = list.partition_point(|(seq, _)| *seq <= upto);
    list.drain(..count).map(|(_, at)| at).collect()
}

impl EventTracker {
    /// Subscribes to the messages of all stages.
    ///
    /// # Errors
    /// NATS does not answer.
    pub(crate) async fn listen(bench: &TestCluster) -> Result<(Self, JoinSet<()>)> {
        let tracker = Self {
            records: Arc::default(),
            clock: Stopwatch::start(),
        };
        let (bus, cluster) = (bench.client.bus(), bench.client.cluster());
        let failed = |e| from_bus(&e);
        // Events are followed, since a burst is larger than the buffer of a subscription.
        let events = bus.follow(&address::event(cluster), Start::New).await;
        let commands = bus.subscribe(&address::commands(cluster)).await;
        let pools = bus.subscribe(&address::pool(cluster)).await;
        let plans = bus.subscribe(&address::plan(cluster)).await;
        // Each subject has its own task. Decoding a pool of thousands of nodes is slow, and events
        // must not wait for it: the server would drop them.
        let mut tasks = JoinSet::new();
        let (its, mut events) = (tracker.clone(), events.map_err(failed)?);
        tasks.spawn(async move {
            while let Ok(event) = events.next().await {
                let at = its.at(event.arrived);
                its.records().numbered(&event.message, at);
            }
        });
        let (its, mut commands) = (tracker.clone(), commands.map_err(failed)?);
        tasks.spawn(async move {
            while let Ok(command) = commands.next().await {
                let at = its.at(command.arrived);
                its.records().commanded(&command.message, at);
            }
        });
        let (its, mut plans) = (tracker.clone(), plans.map_err(failed)?);
        tasks.spawn(async move {
            while let Ok(plan) = plans.next().await {
                let at = its.at(plan.arrived);
                its.records().planned(&plan.message, at);
            }
        });
        let (its, mut pools) = (tracker.clone(), pools.map_err(failed)?);
        tasks.spawn(async move {
            while let Ok(pool) = pools.next().await {
                let at = its.at(pool.arrived);
                its.records().pooled(pool.message, at);
            }
        });
        Ok((tracker, tasks))
    }

    fn at(&self, arrived: Stopwatch) -> f64 {
        self.clock.seconds() - arrived.seconds()
    }

    /// The locked records.
    pub(crate) fn records(&self) -> MutexGuard<'_, EventRecords> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records an event that is sent now.
    pub(crate) fn sends(&self, node: &NodeId, idle: bool) {
        let at = self.clock.seconds();
        let mut records = self.records();
        let hits = !idle && records.training.contains(node);
        if hits {
            records.hits += 1;
            records.awaiting_stop.insert(node.clone(), at);
        }
        let sent = records.sent.entry(node.clone()).or_default();
        sent.push_back(Sent { at, hits });
    }

    /// Records that the queue of ingest has kept an event that was sent `after_s` seconds ago.
    pub(crate) fn kept(&self, after_s: f64) {
        self.records().acked.push(after_s);
    }
}

#[cfg(test)]
mod tests {
    use lacuna_model::{Epoch, Timestamp};

    use super::*;

    fn tracker() -> EventTracker {
        EventTracker {
            records: Arc::default(),
            clock: Stopwatch::start(),
        }
    }

    fn node(name: &str) -> NodeId {
        NodeId::new(name).unwrap()
    }

    fn busy(seq: u64, name: &str) -> NodeEvent {
        NodeEvent {
            seq,
            at: Timestamp::default(),
            kind: EventKind::NodeBusy { node: node(name) },
        }
    }

    #[test]
    fn an_event_without_number_plan_or_command_stays_open() {
        let tracker = tracker();
        tracker.records().training.insert(node("a"));
        for name in ["a", "b"] {
            tracker.sends(&node(name), false);
        }
        assert_eq!(tracker.records().open(), (2, 0, 1));
        tracker.records().numbered(&busy(7, "a"), 1.0);
        assert_eq!(tracker.records().open(), (1, 1, 1), "only a is in training");
        // Number 8 is lost.
        tracker.records().numbered(&busy(9, "b"), 1.0);
        let release = Command {
            node: node("a"),
            epoch: Epoch(1),
            seq: 1,
            action: Action::Release {
                reason: "wanted".to_owned(),
                at: None,
            },
        };
        tracker.records().commanded(&release, 2.0);
        let mut records = tracker.records();
        assert_eq!(records.open(), (0, 1, 0));
        assert_eq!((records.numbered, records.gaps, records.hits), (2, 1, 1));
        let of = |list: Vec<Quantiles>| -> Vec<usize> { list.iter().map(|q| q.samples).collect() };
        assert_eq!(of(records.latencies()), [0, 2, 0, 0, 1]);
        assert_eq!(of(records.latencies()), [0; 5]);
    }

    #[test]
    fn entries_up_to_a_number_are_removed_in_order() {
        let mut list = VecDeque::from([(3, 0.1), (4, 0.2), (6, 0.3)]);
        assert_eq!(pop_until(&mut list, 5), [0.1, 0.2]);
        assert_eq!(list, [(6, 0.3)]);
    }
}
