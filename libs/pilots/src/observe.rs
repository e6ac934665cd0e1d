//! What pilots would have brought, and whom they would have held up, where none is started.
//!
//! [`Observer`] hears which nodes are idle and which the newest plan would use. A node in the
//! plan counts as if a pilot had trained there from [`Assumed::start`] after it came into the
//! plan; a node that leaves the pool while it is in the plan would have been taken from a pilot,
//! and the batch job that took it would have waited for [`Assumed::delay`], once for all the
//! nodes that it took at that moment. Plans are made as if nothing ran yet, since none is
//! followed: restarts at changes of a trainer's size are not charged.

use std::collections::{BTreeMap, BTreeSet};

use lacuna_model::{NodeId, Span, Timestamp};

/// An hour, in milliseconds.
const HOUR_MS: i64 = 3_600_000;
/// A longer silence was not observed: the clock jumped, or nobody was there.
const LONGEST: Span = Span::from_secs(600);

/// What cannot be observed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Assumed {
    /// How long a batch job would have waited for nodes with pilots.
    pub delay: Span,
    /// How long a pilot would have taken until it trains.
    pub start: Span,
}

/// What was observed within one hour of the cluster's time. All sums.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Hour {
    /// Its first moment.
    pub start: Timestamp,
    /// Seconds of it that were observed.
    pub watched_s: f64,
    /// Node-seconds in the pool.
    pub idle_node_s: f64,
    /// Node-seconds in the pool and in the plan.
    pub planned_node_s: f64,
    /// Those of them in which a pilot would have trained.
    pub harvested_node_s: f64,
    /// Holes that opened.
    pub holes: u64,
    /// Pilots that would have been started.
    pub pilots: u64,
    /// Nodes that were taken while they were in the plan.
    pub wanted: u64,
    /// Moments at which that happened.
    pub moments: u64,
    /// Seconds that batch jobs would have waited, all together.
    pub delay_s: f64,
    /// Most nodes in the pool at a time.
    pub most_idle: u32,
    /// Most of them in the plan at a time.
    pub most_planned: u32,
}

impl Hour {
    fn new(start: Timestamp) -> Self {
        Self {
            start,
            ..Self::default()
        }
    }
}

/// The first moment of the hour of a moment.
#[must_use]
pub fn hour_of(at: Timestamp) -> Timestamp {
    Timestamp::from_unix_ms(at.unix_ms().div_euclid(HOUR_MS).saturating_mul(HOUR_MS))
}

/// Counts. See the module.
#[derive(Debug)]
pub struct Observer {
    assumed: Assumed,
    /// Up to when all is counted.
    at: Option<Timestamp>,
    idle: BTreeSet<NodeId>,
    /// Whether a pool has come: before that no hole opens.
    known: bool,
    /// What the newest plan uses.
    wanted: BTreeSet<NodeId>,
    /// Idle nodes of it, and since when.
    planned: BTreeMap<NodeId, Timestamp>,
    hour: Hour,
    done: Vec<Hour>,
}

impl Observer {
    /// One that has seen nothing.
    #[must_use]
    pub fn new(assumed: Assumed) -> Self {
        Self {
            assumed,
            at: None,
            idle: BTreeSet::new(),
            known: false,
            wanted: BTreeSet::new(),
            planned: BTreeMap::new(),
            hour: Hour::default(),
            done: Vec::new(),
        }
    }

    /// Goes on with an hour that an earlier observer has begun.
    pub fn resume(&mut self, hour: Hour) {
        if self.at.is_none() {
            self.hour = hour;
        }
    }

    /// All idle nodes at a moment.
    pub fn pool(&mut self, now: Timestamp, idle: BTreeSet<NodeId>) {
        self.pass(now);
        if self.known {
            let opened = idle.difference(&self.idle).count();
            self.hour.holes = self.hour.holes.saturating_add(count(opened));
        }
        self.known = true;
        let taken = self
            .planned
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

    /// The nodes that the newest plan uses.
    pub fn plan(&mut self, now: Timestamp, nodes: BTreeSet<NodeId>) {
        self.pass(now);
        self.wanted = nodes;
        self.match_plan(now);
    }

    /// Time has passed.
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

    /// The present hour, as far as it has come.
    #[must_use]
    pub const fn hour(&self) -> &Hour {
        &self.hour
    }

    /// Hours that are over, each once.
    pub fn take_done(&mut self) -> Vec<Hour> {
        std::mem::take(&mut self.done)
    }

    /// How many idle nodes the plan uses now.
    #[must_use]
    pub fn planned(&self) -> usize {
        self.planned.len()
    }

    fn open_hour(&mut self, at: Timestamp) {
        let start = hour_of(at);
        if self.hour.start == start {
            return;
        }
        let over = std::mem::replace(&mut self.hour, Hour::new(start));
        if over.watched_s > 0.0 {
            self.done.push(over);
        }
        self.note_most();
    }

    fn count(&mut self, from: Timestamp, until: Timestamp) {
        let seconds = until.since(from).as_secs_f64();
        let trained: f64 = self
            .planned
            .values()
            .map(|since| {
                let begins = (*since + self.assumed.start).max(from);
                until.since(begins).as_secs_f64().max(0.0)
            })
            .sum();
        self.hour.watched_s += seconds;
        self.hour.idle_node_s += seconds * self.idle.len() as f64;
        self.hour.planned_node_s += seconds * self.planned.len() as f64;
        self.hour.harvested_node_s += trained;
    }

    fn match_plan(&mut self, now: Timestamp) {
        let both: BTreeSet<&NodeId> = self.wanted.intersection(&self.idle).collect();
        self.planned.retain(|node, _| both.contains(node));
        for node in both {
            if !self.planned.contains_key(node) {
                self.planned.insert(node.clone(), now);
                self.hour.pilots = self.hour.pilots.saturating_add(1);
            }
        }
        self.note_most();
    }

    fn note_most(&mut self) {
        let idle = u32::try_from(self.idle.len()).unwrap_or(u32::MAX);
        let planned = u32::try_from(self.planned.len()).unwrap_or(u32::MAX);
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

    fn observer() -> Observer {
        Observer::new(Assumed {
            delay: Span::from_secs(2),
            start: Span::from_secs(10),
        })
    }

    /// Three idle nodes, two in the plan from 100 s on; one is taken at 200 s.
    #[test]
    fn what_is_planned_is_harvested_after_the_start_and_what_is_taken_is_harm() {
        let mut o = observer();
        let t = Timestamp::from_unix;
        o.pool(t(0), nodes(&["a", "b", "c"]));
        o.plan(t(100), nodes(&["a", "b", "z"]));
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
        o.plan(t(0), nodes(&["a", "b"]));
        o.pool(t(60), nodes(&["c", "d"]));
        o.pool(t(120), nodes(&["c"]));
        assert_eq!((o.hour().wanted, o.hour().moments), (2, 1));
        // A plan that gives nodes up wants nobody's patience.
        o.plan(t(130), nodes(&["c"]));
        o.plan(t(140), nodes(&[]));
        o.pool(t(150), nodes(&[]));
        assert_eq!((o.hour().wanted, o.hour().moments), (2, 1));
    }

    #[test]
    fn hours_are_kept_apart_and_can_be_resumed() {
        let mut o = observer();
        let t = Timestamp::from_unix;
        let hour = 3600;
        o.pool(t(hour - 100), nodes(&["a"]));
        o.plan(t(hour - 100), nodes(&["a"]));
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
        // What an earlier observer left unfinished is an hour of its own.
        let mut late = observer();
        late.resume(*o.hour());
        late.pass(t(3 * hour));
        assert_eq!(late.take_done()[0].watched_s, 100.0);
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
