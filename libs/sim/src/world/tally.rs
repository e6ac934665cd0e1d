//! Totals of a replay so far: in all, and day by day.

use lacuna_model::MOST_KINDS;

use crate::Day;

/// Seconds of a day.
const DAY_S: f64 = 86_400.0;

/// Totals so far.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Tally {
    pub(crate) samples: f64,
    pub(crate) rescale_cost: f64,
    pub(crate) preempt_cost: f64,
    /// What was lost to the wait for pilots; part of the cost of rescaling.
    pub(crate) pilot_wait: f64,
    /// Samples done again from a checkpoint; only under a rule beside the policy.
    pub(crate) redone: f64,
    pub(crate) preemptions: u64,
    /// Starts of trainers that had run before; only under a rule beside the policy.
    pub(crate) restarts: u64,
    pub(crate) rescales: u64,
    /// Rescales of trainers that were hit at the same event.
    pub(crate) rescales_at_hits: u64,
    pub(crate) events: u64,
    pub(crate) trainers_done: u64,
    /// Seconds from the submission of each of these, or the start, to its end; summed.
    pub(crate) completion_s: f64,
    /// Offer until now.
    pub(crate) offer: Offer,
    /// Offer until the newest end of a trainer.
    pub(crate) offer_at_last_end: Offer,
    /// Node-seconds that trained.
    pub(crate) used: f64,
    /// The node-time of each kind, where trainers tell kinds apart.
    pub(crate) of_kinds: [OfKind; MOST_KINDS],
    /// Time of the newest end of a trainer, seconds since the start.
    pub(crate) last_end_s: f64,
    /// The present moment, seconds since the start.
    pub(crate) now_s: f64,
}

impl Tally {
    /// The node-time of a kind.
    pub(crate) fn of_kind(&mut self, kind: u8) -> Option<&mut OfKind> {
        self.of_kinds.get_mut(usize::from(kind))
    }
}

/// The node-time of one kind of nodes, and what left it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct OfKind {
    /// Node-seconds in the pool.
    pub(crate) node_s: f64,
    /// Node-seconds that trained.
    pub(crate) used: f64,
    /// Nodes that left the pool, each time.
    pub(crate) left: u64,
    /// Those of them that a trainer had.
    pub(crate) taken: u64,
}

/// Node-time that the pool offered, and the unused parts of it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Offer {
    /// Node-seconds in the pool.
    pub(crate) node_s: f64,
    /// Node-seconds in the pool without a trainer.
    pub(crate) waiting_node_s: f64,
    /// Samples that trainers would have done on nodes which they held after their work was done.
    pub(crate) idling: f64,
}

impl Offer {
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            node_s: self.node_s + other.node_s,
            waiting_node_s: self.waiting_node_s + other.waiting_node_s,
            idling: self.idling + other.idling,
        }
    }
}

/// Totals between two events.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Interval {
    pub(super) offer: Offer,
    pub(super) used: f64,
    pub(super) samples: f64,
}

/// The days of a replay. They are kept only with a history.
#[derive(Debug, Clone, Default)]
pub(super) struct Days {
    wanted: bool,
    list: Vec<Day>,
}

impl Days {
    pub(super) fn new(wanted: bool) -> Self {
        Self {
            wanted,
            list: Vec::new(),
        }
    }

    /// Adds an interval. An interval over the end of a day is split in proportion to time.
    pub(super) fn add(&mut self, from_s: f64, until_s: f64, interval: &Interval) {
        if !self.wanted || until_s <= from_s {
            return;
        }
        let length = until_s - from_s;
        let mut at = from_s;
        while at < until_s {
            let day = self.day(at);
            let end = day.from_s + DAY_S;
            // Far from zero a float may not resolve the end of a day; the loop must end anyway.
            let upto = if end > at { end.min(until_s) } else { until_s };
            let share = (upto - at) / length;
            day.until_s = upto;
            day.offered += share * interval.offer.node_s;
            day.waiting += share * interval.offer.waiting_node_s;
            day.idling += share * interval.offer.idling;
            day.used += share * interval.used;
            day.samples += share * interval.samples;
            at = upto;
        }
    }

    /// The day of a second. Seconds never decrease. A moment at the end of a day belongs to the
    /// next.
    #[expect(
        clippy::indexing_slicing,
        reason = "the list has been filled to at least one day just above"
    )]
    fn day(&mut self, at_s: f64) -> &mut Day {
        let number = (at_s / DAY_S).floor().max(0.0) as usize;
        while self.list.len() <= number {
            let from_s = self.list.len() as f64 * DAY_S;
            self.list.push(Day {
                from_s,
                until_s: from_s,
                ..Day::default()
            });
        }
        let last = self.list.len() - 1;
        &mut self.list[last]
    }

    /// Adds the costs of changes, samples.
    pub(super) fn charge(&mut self, at_s: f64, rescale: f64, preempt: f64) {
        if self.wanted {
            let day = self.day(at_s);
            day.rescale += rescale;
            day.preempt += preempt;
        }
    }

    pub(super) fn take(&mut self) -> Vec<Day> {
        std::mem::take(&mut self.list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_over_midnight_is_split_in_proportion() {
        let mut days = Days::new(true);
        let interval = Interval {
            offer: Offer {
                node_s: 400.0,
                waiting_node_s: 100.0,
                idling: 8.0,
            },
            used: 300.0,
            samples: 40.0,
        };
        days.add(DAY_S - 100.0, DAY_S + 300.0, &interval);
        days.charge(DAY_S + 300.0, 5.0, 0.0);
        let days = days.take();
        assert_eq!(days.len(), 2);
        assert_eq!((days[0].offered, days[1].offered), (100.0, 300.0));
        assert_eq!((days[0].samples, days[1].samples), (10.0, 30.0));
        assert_eq!((days[0].idling, days[1].waiting), (2.0, 75.0));
        assert_eq!((days[0].until_s, days[1].until_s), (DAY_S, DAY_S + 300.0));
        assert_eq!((days[0].rescale, days[1].rescale), (0.0, 5.0));
    }
}
