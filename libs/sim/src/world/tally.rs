//! What came of a replay so far: in all, and day by day.

use crate::Day;

/// Seconds of a day.
const DAY_S: f64 = 86_400.0;

/// What came of it so far.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Tally {
    pub(crate) samples: f64,
    pub(crate) rescale_cost: f64,
    pub(crate) preempt_cost: f64,
    pub(crate) preemptions: u64,
    pub(crate) rescales: u64,
    /// Those of trainers that were hit at the same event.
    pub(crate) rescales_at_hits: u64,
    pub(crate) events: u64,
    pub(crate) trainers_done: u64,
    /// What is counted until now, and until the newest trainer ended.
    pub(crate) offer: Offer,
    pub(crate) offer_at_last_end: Offer,
    /// Node-seconds that trained.
    pub(crate) used: f64,
    /// When the newest trainer to end did so, seconds since the start.
    pub(crate) last_end_s: f64,
    /// Seconds since the start.
    pub(crate) now_s: f64,
}

/// What the pool offered, and what of it nobody used.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Offer {
    /// Node-seconds in the pool.
    pub(crate) node_s: f64,
    /// Node-seconds in the pool without a trainer.
    pub(crate) waiting_node_s: f64,
    /// Samples that trainers did not do because they were done, on nodes that they still held.
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

/// What happened between two events.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Interval {
    pub(super) offer: Offer,
    pub(super) used: f64,
    pub(super) samples: f64,
}

/// The days of a replay; none are kept if nobody wants a history.
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

    /// Books an interval. One that crosses the end of a day is split in proportion to time.
    pub(super) fn book(&mut self, from_s: f64, until_s: f64, interval: &Interval) {
        if !self.wanted || until_s <= from_s {
            return;
        }
        let length = until_s - from_s;
        let mut at = from_s;
        while at < until_s {
            let day = self.day(at);
            let end = day.from_s + DAY_S;
            // A day too small to tell from the next by its seconds would never end.
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

    /// The day of a second, which never decreases. An interval that begins as a day ends is of
    /// the next.
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

    /// Books what changes cost.
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
        days.book(DAY_S - 100.0, DAY_S + 300.0, &interval);
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
