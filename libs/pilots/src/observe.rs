//! Observe-only accounting: the harvest and the harm of pilots that are not started.
//!
//! [`Observer`] gets the idle nodes and the newest plan. A node in the plan counts as if a pilot
//! trained there, from [`Assumed::start`] after the node came into the plan. A node that leaves the
//! pool while it is in the plan counts as taken from a pilot. The batch job that took it would have
//! waited for [`Assumed::delay`], once for all nodes that it took at that moment.
//!
//! When the nodes of a trainer change, by a plan or by a batch job, all its nodes stall for the
//! rescale cost. No plan is followed, so each plan is made as if nothing ran, and may change more
//! than in a cluster that trains. So the accounting overestimates the costs.

use std::collections::{BTreeMap, BTreeSet};

use lacuna_model::pilots::Assumed;
use lacuna_model::{NodeId, ObservedHour, RescaleCost, Span, Timestamp, TrainerId};

/// An hour, in milliseconds.
const HOUR_MS: i64 = 3_600_000;
/// A longer interval is not counted: the clock jumped, or control did not run.
const LONGEST: Span = Span::from_secs(600);

/// One trainer in a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// Nodes of the trainer.
    pub nodes: BTreeSet<NodeId>,
    /// Cost of a change of its nodes.
    pub rescale: RescaleCost,
}

/// A node of the pool that the plan uses.
#[derive(Debug, Clone)]
struct PlannedNode {
    trainer: TrainerId,
    /// Time at which its pilot would be ready.
    up: Timestamp,
    /// Time until which its trainer is stalled.
    still: Timestamp,
}

/// Start of the hour that contains `at`.
#[must_use]
pub fn hour_of(at: Timestamp) -> Timestamp {
    Timestamp::from_unix_ms(at.unix_ms().div_euclid(HOUR_MS).saturating_mul(HOUR_MS))
}

/// The observe-only accounting; see the module.
#[derive(Debug)]
pub struct Observer {
    assumed: Assumed,
    /// Time up to which all is counted.
    at: Option<Timestamp>,
    idle: BTreeSet<NodeId>,
    /// Whether a pool has arrived; no hole opens before the first.
    known: bool,
    /// The newest plan.
    plan: BTreeMap<TrainerId, Planned>,
    /// Idle nodes of the plan.
    planned_nodes: BTreeMap<NodeId, PlannedNode>,
    hour: ObservedHour,
    done: Vec<ObservedHour>,
}

impl Observer {
    /// An observer without any input yet.
    #[must_use]
    pub fn new(assumed: Assumed) -> Self {
        Self {
            assumed,
            at: None,
            idle: BTreeSet::new(),
            known: false,
            plan: BTreeMap::new(),
            planned_nodes: BTreeMap::new(),
            hour: ObservedHour::default(),
            done: Vec::new(),
        }
    }

    /// Continues an hour of an earlier observer.
    pub fn resume(&mut self, hour: ObservedHour) {
        if self.at.is_none() {
            self.hour = hour;
        }
    }

    /// Takes all idle nodes at time `now`.
    pub fn pool(&mut self, now: Timestamp, idle: BTreeSet<NodeId>) {
        self.pass(now);
        if self.known {
            let opened = idle.difference(&self.idle).count();
            self.hour.holes = self.hour.holes.saturating_add(count(opened));
        }
        self.known = true;
        let taken = self
            .planned_nodes
            .keys()
            .filter(|node| !idle.contains(*node))
            .count();
        if taken > 0 {
            self.hour.wanted = self.hour.wanted.saturating_add(count(taken));
            self.hour.moments = self.hour.moments.saturating_add(1);
            self.hour.delay_s += self.assumed.delay.as_secs_f64();
        }
        self.idle = idle;
        self.match_plan(now);
    }

    /// Takes the newest plan.
    pub fn plan(&mut self, now: Timestamp, plan: BTreeMap<TrainerId, Planned>) {
        self.pass(now);
        self.plan = plan;
        self.match_plan(now);
    }

    /// Counts the time up to `now`.
    pub fn pass(&mut self, now: Timestamp) {
        let Some(mut from) = self.at else {
            self.at = Some(now);
            self.open_hour(now);
            return;
        };
        if now <= from {
            return;
        }
        if now.since(from) > LONGEST {
            from = now;
            self.open_hour(now);
        }
        while from < now {
            let end = (self.hour.start + Span::from_ms(HOUR_MS)).min(now);
            self.count(from, end);
            from = end;
            self.open_hour(end);
        }
        self.at = Some(now);
    }

    /// Counts of the present hour so far.
    #[must_use]
    pub const fn hour(&self) -> &ObservedHour {
        &self.hour
    }

    /// Counts of the hours that are over, each once.
    pub fn take_done(&mut self) -> Vec<ObservedHour> {
        std::mem::take(&mut self.done)
    }

    /// Number of idle nodes that the plan uses now.
    #[must_use]
    pub fn planned(&self) -> usize {
        self.planned_nodes.len()
    }

    fn open_hour(&mut self, at: Timestamp) {
        let start = hour_of(at);
        if self.hour.start == start {
            return;
        }
        let over = std::mem::replace(&mut self.hour, ObservedHour::new(start));
        if over.watched_s > 0.0 {
            self.done.push(over);
        }
        self.note_most();
    }

    fn count(&mut self, from: Timestamp, until: Timestamp) {
        let seconds = until.since(from).as_secs_f64();
        let after = |begin: Timestamp| until.since(begin.max(from)).as_secs_f64().max(0.0);
        let up: f64 = self
            .planned_nodes
            .values()
            .map(|place| after(place.up))
            .sum();
        let trained = |place: &PlannedNode| after(place.up.max(place.still));
        let trained: f64 = self.planned_nodes.values().map(trained).sum();
        self.hour.watched_s += seconds;
        self.hour.idle_node_s += seconds * self.idle.len() as f64;
        self.hour.planned_node_s += seconds * self.planned_nodes.len() as f64;
        self.hour.harvested_node_s += trained;
        self.hour.restart_node_s += up - trained;
    }

    /// Matches the newest plan with the present pool.
    fn match_plan(&mut self, now: Timestamp) {
        let mut planned_nodes = BTreeMap::new();
        for (trainer, planned) in &self.plan {
            let nodes = || planned.nodes.intersection(&self.idle);
            let had: BTreeSet<&NodeId> = self.nodes_of(trainer).collect();
            let grows = nodes().any(|node| !had.contains(node));
            let shrinks = had.iter().any(|node| !planned.nodes.contains(*node))
                || had.iter().any(|node| !self.idle.contains(*node));
            let up = if grows { planned.rescale.up_s } else { 0.0 };
            let down = if shrinks { planned.rescale.down_s } else { 0.0 };
            // The first nodes of a trainer interrupt no training.
            let cost = if had.is_empty() { 0.0 } else { up.max(down) };
            let still = now + Span::from_secs_f64(cost);
            let mut any = false;
            for node in nodes() {
                any = true;
                let before = self.planned_nodes.get(node);
                if before.is_none() {
                    self.hour.pilots = self.hour.pilots.saturating_add(1);
                }
                let of_it = before.filter(|place| place.trainer == *trainer);
                let place = PlannedNode {
                    trainer: trainer.clone(),
                    up: before.map_or(now + self.assumed.start, |place| place.up),
                    still: of_it.map_or(still, |place| place.still.max(still)),
                };
                planned_nodes.insert(node.clone(), place);
            }
            if cost > 0.0 && any {
                self.hour.restarts = self.hour.restarts.saturating_add(1);
            }
        }
        self.planned_nodes = planned_nodes;
        self.note_most();
    }

    fn nodes_of<'a>(&'a self, trainer: &'a TrainerId) -> impl Iterator<Item = &'a NodeId> {
        let of_it = self
            .planned_nodes
            .iter()
            .filter(move |(_, p)| p.trainer == *trainer);
        of_it.map(|(node, _)| node)
    }

    fn note_most(&mut self) {
        let idle = u32::try_from(self.idle.len()).unwrap_or(u32::MAX);
        let planned = u32::try_from(self.planned_nodes.len()).unwrap_or(u32::MAX);
        self.hour.most_idle = self.hour.most_idle.max(idle);
        self.hour.most_planned = self.hour.most_planned.max(planned);
    }
}

fn count(nodes: usize) -> u64 {
    u64::try_from(nodes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(names: &[&str]) -> BTreeSet<NodeId> {
        names.iter().map(|n| NodeId::new(n).unwrap()).collect()
    }

    /// A plan that runs one trainer on these nodes, to which a change costs nothing.
    fn plan(names: &[&str]) -> BTreeMap<TrainerId, Planned> {
        costly(&[("t", names)], 0.0, 0.0)
    }

    fn costly(
        trainers: &[(&str, &[&str])],
        up_s: f64,
        down_s: f64,
    ) -> BTreeMap<TrainerId, Planned> {
        let one = |(name, names): &(&str, &[&str])| {
            let planned = Planned {
                nodes: nodes(names),
                rescale: RescaleCost::of(up_s, down_s),
            };
            (TrainerId::new(name).unwrap(), planned)
        };
        trainers.iter().map(one).collect()
    }

    fn observer() -> Observer {
        Observer::new(Assumed {
            delay: Span::from_secs(2),
            start: Span::from_secs(10),
        })
    }

    /// Three idle nodes, two in the plan from 100 s on; one is taken at 200 s.
    #[test]
    fn planned_nodes_are_harvested_after_the_start_and_taken_nodes_are_harm() {
        let mut o = observer();
        let t = Timestamp::from_unix;
        o.pool(t(0), nodes(&["a", "b", "c"]));
        o.plan(t(100), plan(&["a", "b", "z"]));
        o.pool(t(200), nodes(&["b", "c"]));
        o.pass(t(300));
        let hour = o.hour();
        assert_eq!(hour.watched_s, 300.0);
        assert_eq!(hour.idle_node_s, 3.0 * 200.0 + 2.0 * 100.0);
        assert_eq!(hour.planned_node_s, 2.0 * 100.0 + 100.0);
        assert_eq!(hour.harvested_node_s, 2.0 * 90.0 + 100.0);
        assert_eq!((hour.pilots, hour.wanted, hour.moments), (2, 1, 1));
        assert_eq!(hour.delay_s, 2.0);
        assert_eq!((hour.most_idle, hour.most_planned), (3, 2));
    }

    #[test]
    fn nodes_that_one_job_takes_at_once_delay_it_once_and_unplanned_ones_not_at_all() {
        let mut o = observer();
        let t = Timestamp::from_unix;
        o.pool(t(0), nodes(&["a", "b", "c", "d"]));
        o.plan(t(0), plan(&["a", "b"]));
        o.pool(t(60), nodes(&["c", "d"]));
        o.pool(t(120), nodes(&["c"]));
        assert_eq!((o.hour().wanted, o.hour().moments), (2, 1));
        // A plan that releases nodes delays no batch job.
        o.plan(t(130), plan(&["c"]));
        o.plan(t(140), plan(&[]));
        o.pool(t(150), nodes(&[]));
        assert_eq!((o.hour().wanted, o.hour().moments), (2, 1));
    }

    #[test]
    fn hours_are_kept_apart_and_can_be_resumed() {
        let mut o = observer();
        let t = Timestamp::from_unix;
        let hour = 3600;
        o.pool(t(hour - 100), nodes(&["a"]));
        o.plan(t(hour - 100), plan(&["a"]));
        o.pass(t(hour + 100));
        let done = o.take_done();
        assert_eq!(done.len(), 1);
        assert_eq!((done[0].start, done[0].watched_s), (t(0), 100.0));
        assert_eq!(done[0].harvested_node_s, 90.0);
        assert_eq!(o.hour().harvested_node_s, 100.0);
        assert_eq!(o.take_done(), []);
        let mut again = observer();
        again.resume(*o.hour());
        again.pool(t(hour + 200), nodes(&["a"]));
        again.pass(t(hour + 300));
        assert_eq!(again.hour().watched_s, 200.0);
        assert_eq!(again.hour().idle_node_s, 200.0);
        // The unfinished hour of an earlier observer is an hour of its own.
        let mut late = observer();
        late.resume(*o.hour());
        late.pass(t(3 * hour));
        assert_eq!(late.take_done()[0].watched_s, 100.0);
    }

    #[test]
    fn a_trainer_whose_nodes_change_stalls() {
        let mut o = observer();
        let t = Timestamp::from_unix;
        let plan = |names: &[&str]| costly(&[("t", names)], 20.0, 5.0);
        o.pool(t(0), nodes(&["a", "b", "c"]));
        o.plan(t(0), plan(&["a", "b"]));
        o.pass(t(100));
        // The first nodes cost only the start of the pilots.
        assert_eq!(o.hour().harvested_node_s, 2.0 * 90.0);
        assert_eq!((o.hour().restarts, o.hour().restart_node_s), (0, 0.0));
        // Growing: both nodes stall for 20 s; the third is ready after 10 s and stalls for 10 more.
        o.plan(t(100), plan(&["a", "b", "c"]));
        o.pass(t(200));
        assert_eq!(o.hour().harvested_node_s, 2.0 * 90.0 + 3.0 * 80.0);
        assert_eq!(o.hour().restarts, 1);
        assert_eq!(o.hour().restart_node_s, 2.0 * 20.0 + 10.0);
        // The same plan again costs nothing.
        o.plan(t(200), plan(&["a", "b", "c"]));
        o.pass(t(250));
        assert_eq!(o.hour().restarts, 1);
        // A batch job takes one node. The next plan, which knows it, changes nothing more.
        o.pool(t(300), nodes(&["a", "b"]));
        o.plan(t(301), plan(&["a", "b"]));
        o.pass(t(400));
        assert_eq!(o.hour().restarts, 2);
        assert_eq!(o.hour().restart_node_s, 50.0 + 2.0 * 5.0);
        // The parts add up to the planned node time.
        let hour = *o.hour();
        let started = 3.0 * 10.0;
        assert_eq!(
            hour.planned_node_s,
            hour.harvested_node_s + hour.restart_node_s + started
        );
    }

    #[test]
    fn changes_in_a_row_are_one_stall_and_a_move_is_a_change_for_both() {
        let mut o = observer();
        let t = Timestamp::from_unix;
        let two = |one: &[&str], other: &[&str]| costly(&[("s", one), ("t", other)], 20.0, 20.0);
        o.pool(t(0), nodes(&["a", "b", "c"]));
        o.plan(t(0), two(&["a", "b"], &["c"]));
        o.plan(t(100), two(&["a"], &["b", "c"]));
        o.plan(t(110), two(&["a", "b"], &["c"]));
        o.pass(t(200));
        assert_eq!(o.hour().restarts, 4);
        assert_eq!(
            o.hour().pilots,
            3,
            "a node that changes hands keeps its pilot"
        );
        assert_eq!(o.hour().restart_node_s, 3.0 * 30.0);
        // A trainer without nodes has no node that stalls.
        o.plan(t(200), two(&[], &["c"]));
        o.pass(t(300));
        assert_eq!(o.hour().restart_node_s, 3.0 * 30.0);
    }

    #[test]
    fn a_jump_of_the_clock_is_not_counted() {
        let mut o = observer();
        o.pool(Timestamp::from_unix(0), nodes(&["a"]));
        o.pass(Timestamp::from_unix(100_000));
        o.pass(Timestamp::from_unix(100_060));
        o.pass(Timestamp::from_unix(50_000));
        assert_eq!(o.hour().watched_s, 60.0);
    }
}
