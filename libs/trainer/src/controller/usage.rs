//! Node-time that was offered and used, and harm, summed over the cluster's time.

use std::collections::BTreeMap;

use lacuna_model::{Harm, KindName, KindUse, Span, Timestamp};

use crate::Now;
use crate::controller::Tally;
use crate::controller::nodes::{Count, Counts};
use crate::measure::Offered;

/// A step back of the cluster's clock by more than this begins another trace.
const OTHER_TRACE: Span = Span::from_secs(3600);
/// A wall clock that differs by more than this from real time, since the moment before, has jumped.
const JUMP_MS: i64 = 5_000;

/// The sums so far. The end never goes back, but to begin another trace.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Usage {
    since: Option<Timestamp>,
    upto: Option<Timestamp>,
    idle_node_s: f64,
    harvested_node_s: f64,
    kinds: BTreeMap<KindName, KindUse>,
    /// The time without control that counts.
    away: Span,
    /// The end of that time, while it waits for the pool.
    waits: Option<Timestamp>,
    /// The newest moment.
    before: Option<Now>,
    harm: BTreeMap<String, Harm>,
    unconfirmed: u64,
}

impl Usage {
    /// Continues from the sums that an earlier instance has stored. The time without control counts once
    /// the pool is known, for as long as agents have held their nodes. Returns what is left of it.
    pub(crate) fn resumed(tally: &Tally, held_for: Span, now: Now) -> (Self, Span) {
        let beyond = tally.upto.map_or(Span::ZERO, |upto| {
            now.cluster.since(upto + held_for).max(Span::ZERO)
        });
        let upto = tally.upto.map(|upto| upto + beyond);
        let start = upto.map(|upto| upto.max(now.cluster));
        let usage = Self {
            since: tally.since,
            upto,
            away: start
                .zip(upto)
                .map_or(Span::ZERO, |(start, upto)| start.since(upto)),
            waits: start,
            idle_node_s: tally.idle_node_s,
            harvested_node_s: tally.harvested_node_s,
            kinds: tally.kinds.clone(),
            before: None,
            harm: tally.harm.clone(),
            unconfirmed: tally.unconfirmed,
        };
        (usage, beyond)
    }

    /// The pool is known after a start. The time without control counts with the first numbers of nodes,
    /// the time since with the others.
    pub(crate) fn catch_up(&mut self, now: Now, [before, since]: &[Counts; 2]) {
        if let Some(start) = self.waits.take() {
            let start = Now {
                cluster: start,
                ..now
            };
            self.advance(start, before.0, &before.1);
            self.advance(now, since.0, &since.1);
        }
    }

    /// A node under a lease was not held in the time without control. Returns that time.
    pub(crate) fn not_held(&mut self, kind: Option<&KindName>) -> Span {
        // Else it is not among those that count once the pool is known.
        if self.waits.is_none() {
            let seconds = self.away.as_secs_f64();
            self.harvested_node_s -= seconds;
            if let Some(kind) = kind {
                self.of_kind(kind).harvested_node_s -= seconds;
            }
        }
        self.away
    }

    /// Finds a jump of the wall clock by real time, if it is the cluster's clock. Beginning and end of
    /// the sums move with it, so that only real time counts. Returns the jump.
    pub(crate) fn find_jump(&mut self, now: Now, is_wall: bool) -> Option<Span> {
        let before = self.before.replace(now).filter(|_| is_wall)?;
        let shown = now.cluster.since(before.cluster).as_ms();
        let jump = shown.saturating_sub(now.since(before.wall).as_ms());
        if jump.abs() <= JUMP_MS {
            return None;
        }
        let jump = Span::from_ms(jump);
        self.since = self.since.map(|since| since + jump);
        self.upto = self.upto.map(|upto| upto + jump);
        self.waits = self.waits.map(|start| start + jump);
        Some(jump)
    }

    /// Sums up to `now` with these numbers of nodes, of all kinds and of each. A lease that outlives
    /// its hole harvests nothing more. Returns the cluster's time, which is never before the end of
    /// the sums.
    pub(crate) fn advance(
        &mut self,
        now: Now,
        all: Count,
        of_kinds: &BTreeMap<KindName, Count>,
    ) -> Timestamp {
        if self
            .upto
            .is_some_and(|upto| now.cluster + OTHER_TRACE < upto)
        {
            self.upto = Some(now.cluster);
            self.waits = None;
            self.away = Span::ZERO;
        }
        let cluster = self.end_by(now.cluster);
        if self.waits.is_some() {
            return cluster;
        }
        if let Some(upto) = self.upto {
            let seconds = cluster.since(upto).as_secs_f64();
            self.idle_node_s += f64::from(all.in_pool) * seconds;
            self.harvested_node_s += f64::from(all.harvested) * seconds;
            for (kind, count) in of_kinds {
                let sums = self.of_kind(kind);
                sums.idle_node_s += f64::from(count.in_pool) * seconds;
                sums.harvested_node_s += f64::from(count.harvested) * seconds;
            }
        }
        // The cluster's time is unknown before its first event.
        if cluster > Timestamp::default() {
            self.upto = Some(cluster);
        }
        cluster
    }

    /// The sums of a kind.
    pub(crate) fn of_kind(&mut self, kind: &KindName) -> &mut KindUse {
        self.kinds.entry(kind.clone()).or_default()
    }

    /// A node was given back after the main scheduler had waited for it.
    pub(crate) fn give_back(&mut self, cause: &str, wait: Span, now: Timestamp) {
        let harm = self.harm.entry(cause.to_owned()).or_default();
        harm.give_back(wait, now);
    }

    /// No agent has confirmed a release.
    pub(crate) const fn miss(&mut self) {
        self.unconfirmed += 1;
    }

    /// An event has happened: the sums begin with the first.
    pub(crate) fn begin(&mut self, at: Timestamp) {
        // A state before the first event has no time.
        if at > Timestamp::default() {
            self.since.get_or_insert(at);
        }
    }

    /// A trainer has waited since this moment: the sums begin there, if not before.
    pub(crate) fn begin_by(&mut self, submit: Timestamp) {
        self.since = Some(self.since.map_or(submit, |since| since.min(submit)));
    }

    /// The end of the sums, not before `cluster`.
    pub(crate) fn end_by(&self, cluster: Timestamp) -> Timestamp {
        self.upto.map_or(cluster, |upto| upto.max(cluster))
    }

    /// The end of the sums.
    pub(crate) const fn upto(&self) -> Option<Timestamp> {
        self.upto
    }

    /// The sums as a tally.
    pub(crate) fn tally(&self) -> Tally {
        Tally {
            since: self.since,
            upto: self.upto,
            idle_node_s: self.idle_node_s,
            harvested_node_s: self.harvested_node_s,
            kinds: self.kinds.clone(),
            harm: self.harm.clone(),
            unconfirmed: self.unconfirmed,
            ..Tally::default()
        }
    }

    /// The node-time offered to trainers, of which `max_parallel` may be active.
    pub(crate) fn offered(&self, max_parallel: u32) -> Offered {
        let ends = self.upto.zip(self.since);
        let lasted = ends.map(|(upto, since)| upto.since(since));
        Offered {
            seconds: lasted.map_or(0.0, Span::as_secs_f64),
            idle_node_s: self.idle_node_s,
            harvested_node_s: self.harvested_node_s,
            max_parallel,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIVE: Count = Count {
        in_pool: 5,
        harvested: 2,
    };

    fn none() -> BTreeMap<KindName, Count> {
        BTreeMap::new()
    }

    fn at(second: i64) -> Now {
        Now {
            cluster: Timestamp::from_unix(second),
            wall: Timestamp::default(),
        }
    }

    #[test]
    fn sums_go_by_the_clusters_time_and_never_back() {
        let mut usage = Usage::default();
        usage.advance(at(1000), FIVE, &none());
        assert_eq!(usage.advance(at(1010), FIVE, &none()), at(1010).cluster);
        assert_eq!(usage.advance(at(1005), FIVE, &none()), at(1010).cluster);
        let tally = usage.tally();
        assert_eq!((tally.idle_node_s, tally.harvested_node_s), (50.0, 20.0));
    }

    #[test]
    fn a_wall_clock_that_jumps_adds_and_hides_nothing() {
        let mut usage = Usage::default();
        let mut clock = 0;
        for second in 1..=60 {
            // Two hours forward, back again, and an hour less.
            clock += match second {
                20 => 7200,
                40 => -7200,
                50 => -3000,
                _ => 0,
            };
            let now = Now {
                cluster: Timestamp::from_unix(100_000 + second + clock),
                wall: Timestamp::from_unix(second),
            };
            usage.begin(now.cluster);
            assert_eq!(
                usage.find_jump(now, true).is_some(),
                [20, 40, 50].contains(&second)
            );
            assert_eq!(usage.advance(now, FIVE, &none()), now.cluster);
        }
        let tally = usage.tally();
        assert_eq!((tally.idle_node_s, tally.harvested_node_s), (295.0, 118.0));
        assert_eq!(usage.offered(1).seconds, 59.0);
        // Time of a recording may pass at any pace.
        assert_eq!(usage.find_jump(at(1_000_000), false), None);
    }

    #[test]
    fn waits_of_the_main_scheduler_are_kept_by_cause_over_a_restart() {
        let mut usage = Usage::default();
        usage.give_back("taken", Span::from_ms(20), at(5).cluster);
        usage.give_back("taken", Span::from_ms(900), at(6).cluster);
        usage.give_back("preempted", Span::ZERO, at(7).cluster);
        usage.miss();
        let (mut usage, _) = Usage::resumed(&usage.tally(), Span::ZERO, at(8));
        usage.give_back("preempted", Span::from_ms(30), at(8).cluster);
        let tally = usage.tally();
        let counts = tally
            .harm
            .iter()
            .map(|(cause, of)| (cause.as_str(), of.given_back, of.late));
        assert_eq!(
            counts.collect::<Vec<_>>(),
            [("preempted", 2, 0), ("taken", 2, 1)]
        );
        assert_eq!(tally.unconfirmed, 1);
    }

    #[test]
    fn a_large_step_back_is_another_trace_and_adds_nothing() {
        let mut usage = Usage::default();
        usage.advance(at(100_000), FIVE, &none());
        assert_eq!(usage.advance(at(1000), FIVE, &none()), at(1000).cluster);
        assert_eq!(usage.tally().idle_node_s, 0.0);
    }

    #[test]
    fn the_first_event_or_an_earlier_submission_begins_the_sums() {
        let mut usage = Usage::default();
        usage.begin(Timestamp::default());
        assert_eq!(usage.tally().since, None);
        usage.begin(at(50).cluster);
        usage.begin(at(60).cluster);
        usage.begin_by(at(40).cluster);
        usage.begin_by(at(70).cluster);
        assert_eq!(usage.tally().since, Some(at(40).cluster));
    }
}
