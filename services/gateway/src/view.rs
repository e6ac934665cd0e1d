//! The newest states from the bus.

use std::collections::{BTreeMap, HashMap, VecDeque};

use lacuna_model::{AgentStatus, NodeEvent, NodeId, Span, Timestamp, Topology, TrainerId};
use lacuna_runtime::Stopwatch;
use lacuna_wire::msg::{Controls, Leader, PlanState, PoolState, Progress, Totals, TrainersState};

use crate::history::{Code, History, code};
use crate::learnt::{Learnt, Line};
use crate::recent::Recent;
use crate::thinned::{At, Thinned};
use crate::watched::Watched;

/// Most nodes given back whose times are kept.
const GIVEN_BACK: usize = 1000;
/// Most readings of the pool that the page draws.
const READINGS: usize = 720;

/// A clock that goes back by at most this was corrected. Meanwhile the page's time does not
/// advance.
const JITTER: Span = Span::from_secs(60);

/// A value with the time of its arrival.
#[derive(Debug)]
pub(crate) struct Arrived<T> {
    pub(crate) value: T,
    pub(crate) arrived: Stopwatch,
}

impl<T> Arrived<T> {
    fn now(value: T) -> Self {
        Self {
            value,
            arrived: Stopwatch::start(),
        }
    }
}

/// A node that was wanted back and was given back.
#[derive(Debug, Clone)]
pub(crate) struct GivenBack {
    /// When the gateway received it, in the cluster's time.
    pub(crate) at: Timestamp,
    /// The node.
    pub(crate) node: NodeId,
    /// Real time from the request until no program ran there.
    pub(crate) took: Span,
}

/// The pool at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) at: Timestamp,
    pub(crate) idle: u32,
    pub(crate) training: u32,
}

impl At for Reading {
    fn at(&self) -> Timestamp {
        self.at
    }
}

/// The newest of all states.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) pool: Option<Arrived<PoolState>>,
    pub(crate) trainers: Option<Arrived<TrainersState>>,
    pub(crate) plan: Option<Arrived<PlanState>>,
    pub(crate) totals: Option<Arrived<Totals>>,
    /// The operator's controls.
    pub(crate) controls: Option<Controls>,
    /// Where nodes are.
    pub(crate) topology: Topology,
    /// The active instance of each service, from its newest message.
    pub(crate) leaders: BTreeMap<String, Arrived<Leader>>,
    pub(crate) progress: HashMap<TrainerId, Progress>,
    pub(crate) events: Recent,
    /// What others than the bus say.
    pub(crate) watched: Watched,
    pub(crate) given_back: VecDeque<GivenBack>,
    readings: Thinned<Reading>,
    /// What the present trainers learnt.
    learnt: HashMap<TrainerId, Learnt>,
    /// The present pool; nothing before the first one.
    pub(crate) present: Option<Reading>,
    pub(crate) history: History,
    /// Whether anything has changed since the last snapshot.
    changed: bool,
}

impl View {
    /// No states yet; `history` is how far back the history reaches.
    pub(crate) fn new(history: Span) -> Self {
        Self {
            pool: None,
            trainers: None,
            plan: None,
            totals: None,
            controls: None,
            topology: Topology::default(),
            leaders: BTreeMap::new(),
            progress: HashMap::new(),
            events: Recent::default(),
            watched: Watched::default(),
            given_back: VecDeque::new(),
            readings: Thinned::new(READINGS, Span::from_secs(1)),
            learnt: HashMap::new(),
            present: None,
            history: History::new(history),
            changed: false,
        }
    }

    /// Readings of the pool over time, oldest first.
    pub(crate) fn readings(&self) -> &[Reading] {
        self.readings.kept()
    }

    /// What a present trainer learnt over time.
    pub(crate) fn lines(&self, trainer: &TrainerId) -> Vec<Line> {
        self.learnt
            .get(trainer)
            .map_or_else(Vec::new, Learnt::lines)
    }

    pub(crate) fn take_pool(&mut self, state: PoolState) {
        self.pool = Some(Arrived::now(state));
        self.changed = true;
    }

    pub(crate) fn take_trainers(&mut self, state: TrainersState) {
        let present = |id: &TrainerId| state.trainers.iter().any(|t| t.spec.id == *id);
        self.progress.retain(|id, _| present(id));
        self.learnt.retain(|id, _| present(id));
        for record in &state.trainers {
            let learnt = self.learnt.entry(record.spec.id.clone());
            let learnt = learnt.or_insert_with(Learnt::new);
            learnt.take(state.as_of, record);
        }
        self.trainers = Some(Arrived::now(state));
        self.changed = true;
    }

    pub(crate) fn take_plan(&mut self, state: PlanState) {
        self.plan = Some(Arrived::now(state));
        self.changed = true;
    }

    pub(crate) fn take_totals(&mut self, totals: Totals) {
        self.totals = Some(Arrived::now(totals));
        self.changed = true;
    }

    pub(crate) fn take_controls(&mut self, controls: Controls) {
        self.controls = Some(controls);
        self.changed = true;
    }

    pub(crate) fn take_topology(&mut self, topology: Topology) {
        self.history.order_by(&topology);
        self.topology = topology;
        self.changed = true;
    }

    /// Whether the gateway is connected to nats-server now.
    pub(crate) fn connected(&mut self, connected: bool) {
        let before = std::mem::replace(&mut self.watched.connected, connected);
        self.changed |= before != connected;
    }

    /// Takes a renewal of a leadership. It comes every second; only another instance, or a
    /// resignation, counts as a change.
    pub(crate) fn take_leader(&mut self, service: String, leader: Leader) {
        let same = |known: &Arrived<Leader>| {
            let (known, new) = (&known.value, &leader);
            (&known.instance, known.resigned, &known.failing)
                == (&new.instance, new.resigned, &new.failing)
        };
        self.changed |= !self.leaders.get(&service).is_some_and(same);
        self.leaders.insert(service, Arrived::now(leader));
    }

    pub(crate) fn take_progress(&mut self, progress: Progress) {
        self.progress.insert(progress.trainer.clone(), progress);
        self.changed = true;
    }

    pub(crate) fn take_event(&mut self, event: &NodeEvent) {
        self.events.take(event, &self.topology);
        self.changed = true;
    }

    /// Takes the status of an agent. Only the last status of an agent whose node was wanted back is
    /// used here.
    pub(crate) fn take_agent(&mut self, status: AgentStatus, now: Timestamp) {
        let Some(took) = status.gave_back_in else {
            return;
        };
        if self.given_back.len() == GIVEN_BACK {
            self.given_back.pop_front();
        }
        self.given_back.push_back(GivenBack {
            at: now,
            node: status.node,
            took,
        });
        self.changed = true;
    }

    /// Updates the history to the newest states. Returns whether anything has changed.
    pub(crate) fn settle(&mut self) -> bool {
        if !std::mem::take(&mut self.changed) {
            return false;
        }
        let Some(pool) = &self.pool else {
            return true;
        };
        let pool = &pool.value.pool;
        let mut uses: BTreeMap<&NodeId, Code> = pool
            .holes
            .iter()
            .map(|pooled| (&pooled.hole.node, code::IDLE))
            .collect();
        let mut now = pool.as_of;
        if let Some(trainers) = &self.trainers {
            let state = &trainers.value;
            now = now.max(state.as_of);
            for node in &state.unusable {
                if let Some(slot) = uses.get_mut(node) {
                    *slot = code::UNUSABLE;
                }
            }
            for record in &state.trainers {
                let code = self.history.code_of(&record.spec.id);
                uses.extend(record.nodes.iter().map(|node| (node, code)));
            }
        }
        let before = self.history.until();
        if now < before && before.since(now).as_ms() <= JITTER.as_ms() {
            now = before;
        }
        let training = uses.values().filter(|&&c| c >= code::FIRST).count();
        let reading = Reading {
            at: now,
            idle: pool.holes.len() as u32,
            training: training as u32,
        };
        self.history.take(now, &uses);
        self.present = Some(reading);
        self.readings.push(reading);
        true
    }

    /// Removes data that the page no longer shows.
    pub(crate) fn tidy(&mut self) {
        let state = self.trainers.as_ref().map(|t| t.value.trainers.as_slice());
        let present: Vec<TrainerId> = state
            .unwrap_or_default()
            .iter()
            .map(|t| t.spec.id.clone())
            .collect();
        self.history.forget_trainers(&present);
    }
}

#[cfg(test)]
mod tests {
    use lacuna_testkit::{node, pool, record, spec};

    use super::*;

    fn pools(as_of: i64, names: &[&str]) -> PoolState {
        PoolState {
            pool: pool(1, as_of, names),
            predictor: "constant".to_owned(),
        }
    }

    fn trainers(as_of: i64, nodes: &[&str], unusable: &[&str]) -> TrainersState {
        TrainersState {
            version: 1,
            as_of: Timestamp::from_unix(as_of),
            trainers: vec![record(spec("t", 4), 1, nodes)],
            unusable: unusable.iter().map(|name| node(name)).collect(),
            pilot_s: 0.0,
            followed: lacuna_model::Generation(0),
        }
    }

    #[test]
    fn states_of_nodes_come_from_the_pool_and_the_trainers() {
        let mut view = View::new(Span::from_secs(3600));
        assert!(!view.settle());
        view.take_pool(pools(10, &["a", "b", "c"]));
        // `d` has left the pool and still has its trainer; `e` is quarantined and no hole.
        view.take_trainers(trainers(12, &["b", "d"], &["c", "e"]));
        assert!(view.settle());
        let t = view.history.code_of(&TrainerId::new("t").unwrap());
        let nodes: Vec<String> = view.history.nodes().1.map(ToString::to_string).collect();
        assert_eq!(nodes, ["a", "b", "c", "d"]);
        let present: Vec<Code> = view.history.present().collect();
        assert_eq!(present, [code::IDLE, t, code::UNUSABLE, t]);
        let reading = view.readings.kept().last().map(|r| (r.idle, r.training));
        assert_eq!(reading, Some((3, 2)));
        assert!(!view.settle(), "nothing new has come");
        // Too soon for another reading, and still the present state.
        view.take_trainers(trainers(12, &["b"], &[]));
        assert!(view.settle());
        assert_eq!(view.present.map(|r| (r.idle, r.training)), Some((3, 1)));
        assert_eq!(view.readings.kept().len(), 1);
    }

    #[test]
    fn a_corrected_clock_loses_no_history() {
        let mut view = View::new(Span::from_secs(3600));
        for (as_of, known) in [(1000, 1), (1500, 2), (1490, 3), (10, 4)] {
            let names: Vec<String> = (0..known).map(|i| format!("n{i}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            view.take_pool(pools(as_of, &names));
            view.settle();
        }
        // Only the jump to another time started the history again.
        assert_eq!(view.readings.kept().len(), 1);
        assert_eq!(view.history.until(), Timestamp::from_unix(10));
        view.take_pool(pools(600, &["n0"]));
        view.settle();
        view.take_pool(pools(560, &["n0"]));
        view.settle();
        assert_eq!(view.readings.kept().len(), 2);
        assert_eq!(view.history.until(), Timestamp::from_unix(600));
    }

    #[test]
    fn readings_get_sparser_and_never_more() {
        let mut view = View::new(Span::from_secs(3600));
        for s in 0..5000 {
            view.take_pool(pools(s, &["a"]));
            view.settle();
        }
        assert!(view.readings.kept().len() <= READINGS);
        assert!(view.readings.kept().len() >= READINGS / 2);
        let gap = |w: &[Reading]| w[1].at.since(w[0].at).as_ms();
        let gaps: Vec<i64> = view.readings.kept().windows(2).map(gap).collect();
        assert!(gaps.iter().all(|&g| g >= 4000), "{gaps:?}");
    }

    #[test]
    fn only_the_last_status_has_the_time_of_giving_back() {
        let mut view = View::new(Span::from_secs(3600));
        let mut status = AgentStatus {
            released: Some("wanted".to_owned()),
            leaving: true,
            ..lacuna_testkit::status("a")
        };
        view.take_agent(status.clone(), Timestamp::from_unix(1));
        assert!(view.given_back.is_empty());
        status.gave_back_in = Some(Span::from_ms(12));
        view.take_agent(status, Timestamp::from_unix(1));
        assert_eq!(view.given_back[0].took, Span::from_ms(12));
    }
}
