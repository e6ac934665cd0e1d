//! How often an owner may enter beside others.
//!
//! Nodes are shared out between owners. An owner that enters takes nodes from others, and one that
//! leaves gives them back, and each time others' programs stop and start. An owner that submits and
//! cancels again and again could keep them from training at all. Therefore, while other owners have
//! admitted trainers, an owner enters [`BURST`] times at once, and once in each
//! `control.entry_every` after that: a token bucket for each owner.
//!
//! Trainers that are admitted in one step enter together. A trainer that takes over from another of
//! its owner which ended in the same step takes nothing from others, and counts nothing, if its
//! bounds lie within the other's: a sweep goes on as fast as its trainers end.
//!
//! Replay and lock step do not have this rule: it makes moments that no trace has.

use std::collections::BTreeMap;

use lacuna_model::{Span, Timestamp};

/// Entries at once.
const BURST: i64 = 3;

/// The minimum and the maximum of nodes of a trainer.
pub(super) type Bounds = (u32, u32);

/// When each owner entered.
#[derive(Debug, Clone, Default)]
pub(crate) struct Entries {
    /// Of each owner the newest entry, and the moment at which all of its entries are forgotten.
    owners: BTreeMap<String, (Timestamp, Timestamp)>,
    /// Trainers that have ended, and from which no other has taken over.
    left: Vec<(String, Bounds)>,
}

fn times(every: Span, count: i64) -> Span {
    Span::from_ms(every.as_ms().saturating_mul(count))
}

impl Entries {
    /// An admitted trainer has ended.
    pub(crate) fn leave(&mut self, owner: &str, bounds: Bounds) {
        self.left.push((owner.to_owned(), bounds));
    }

    /// Whether a trainer may enter; without bounds, whether any of its owner may.
    pub(crate) fn may_enter(
        &self,
        owner: &str,
        bounds: Option<Bounds>,
        every: Span,
        now: Timestamp,
    ) -> bool {
        let latest = now + times(every, BURST - 1);
        let entered = self.owners.get(owner);
        entered.is_none_or(|(at, until)| *at == now || *until <= latest)
            || self.predecessor(owner, bounds).is_some()
    }

    /// A trainer enters.
    pub(crate) fn enter(&mut self, owner: &str, bounds: Bounds, every: Span, now: Timestamp) {
        if let Some(place) = self.predecessor(owner, Some(bounds)) {
            self.left.swap_remove(place);
            return;
        }
        let (at, until) = self.owners.get(owner).copied().unwrap_or_default();
        if at != now {
            let until = until.max(now) + every;
            self.owners.insert(owner.to_owned(), (now, until));
        }
    }

    /// A step is over: trainers that ended in it have no successors any more. Entries that lie
    /// ahead were another trace's.
    pub(crate) fn settle(&mut self, every: Span, now: Timestamp) {
        self.left.clear();
        let latest = now + times(every, BURST);
        self.owners
            .retain(|_, (_, until)| now < *until && *until <= latest);
    }

    /// The ended trainer from which a trainer takes over.
    fn predecessor(&self, owner: &str, bounds: Option<Bounds>) -> Option<usize> {
        self.left.iter().position(|(of, (min, max))| {
            of == owner && bounds.is_none_or(|(low, high)| *min <= low && high <= *max)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Span = Span::from_secs(60);

    /// Enters at this second if that is allowed. Returns whether it was. The step is over then.
    fn tried(entries: &mut Entries, owner: &str, bounds: Bounds, second: i64) -> bool {
        let now = Timestamp::from_unix(second);
        let may = entries.may_enter(owner, Some(bounds), EVERY, now);
        if may {
            entries.enter(owner, bounds, EVERY, now);
        }
        entries.settle(EVERY, now);
        may
    }

    #[test]
    fn an_owner_enters_three_times_at_once_and_then_once_a_span() {
        let mut entries = Entries::default();
        let entered: Vec<i64> = (0..300)
            .filter(|second| tried(&mut entries, "eve", (1, 2), 1000 + second))
            .collect();
        assert_eq!(entered, [0, 1, 2, 60, 120, 180, 240]);
        // Other owners are counted by themselves, and all is forgotten in the end.
        assert!(tried(&mut entries, "ann", (1, 2), 1299));
        entries.settle(EVERY, Timestamp::from_unix(2000));
        assert!(entries.owners.is_empty());
    }

    #[test]
    fn trainers_of_one_moment_enter_together() {
        let mut entries = Entries::default();
        assert!((0..20).all(|_| tried(&mut entries, "eve", (1, 2), 1000)));
        assert!(tried(&mut entries, "eve", (1, 2), 1001));
        assert!(tried(&mut entries, "eve", (1, 2), 1002));
        assert!(!tried(&mut entries, "eve", (1, 2), 1003));
    }

    #[test]
    fn a_trainer_that_takes_over_from_its_owners_at_once_is_no_entry() {
        let mut entries = Entries::default();
        assert!((0..3).all(|second| tried(&mut entries, "eve", (1, 8), 1000 + second)));
        for second in 3..30 {
            entries.leave("eve", (1, 8));
            assert!(tried(&mut entries, "eve", (1, 8), 1000 + second));
        }
        // Not one that asks for more, nor another owner's, nor a step later, nor two for one.
        let now = Timestamp::from_unix(1030);
        let may = |entries: &Entries, bounds| entries.may_enter("eve", bounds, EVERY, now);
        entries.leave("ann", (1, 9));
        assert!(!may(&entries, None));
        entries.leave("eve", (2, 8));
        assert!(may(&entries, None) && may(&entries, Some((3, 8))));
        assert!(!may(&entries, Some((1, 8))) && !may(&entries, Some((2, 9))));
        entries.enter("eve", (2, 4), EVERY, now);
        assert!(!may(&entries, None));
        entries.leave("eve", (1, 8));
        entries.settle(EVERY, now);
        assert!(!may(&entries, None));
    }

    #[test]
    fn no_span_is_no_bound_and_a_clock_that_went_back_keeps_no_owner_out() {
        let mut entries = Entries::default();
        let now = Timestamp::from_unix;
        for second in 0..20 {
            assert!(entries.may_enter("eve", Some((1, 2)), Span::ZERO, now(second)));
            entries.enter("eve", (1, 2), Span::ZERO, now(second));
            entries.settle(Span::ZERO, now(second));
        }
        assert!(tried(&mut entries, "eve", (1, 2), 900_000));
        entries.settle(EVERY, now(1000));
        assert!(entries.owners.is_empty());
    }
}
