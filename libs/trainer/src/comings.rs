//! How often an owner may come anew beside others.
//!
//! Nodes are shared out between owners. An owner that comes takes nodes from others, and one that
//! leaves gives them back, and each time others' programs stop and start. An owner that submits and
//! cancels again and again could keep them from training at all. Therefore, while other owners have
//! active trainers, an owner comes anew [`BURST`] times at once, and once in each
//! `control.anew_every` after that.
//!
//! Trainers that are admitted in one step come together. A trainer that takes over from another of
//! its owner which ended in the same step takes nothing from others, and counts nothing, if its
//! bounds lie within the other's: a sweep goes on as fast as its trainers end.
//!
//! Replay and lock step do not have this rule: it makes moments that no recording has.

use std::collections::BTreeMap;

use lacuna_model::{Span, Timestamp};

/// Comings at once.
const BURST: i64 = 3;

/// The least and the most nodes of a trainer.
pub(crate) type Bounds = (u32, u32);

/// When each owner came.
#[derive(Debug, Clone, Default)]
pub(crate) struct Comings {
    /// Of each owner the newest coming, and the moment at which all of its comings are forgotten.
    owners: BTreeMap<String, (Timestamp, Timestamp)>,
    /// Trainers that have ended, from which nobody has taken over.
    left: Vec<(String, Bounds)>,
}

/// So many of a span.
fn times(every: Span, count: i64) -> Span {
    Span::from_ms(every.as_ms().saturating_mul(count))
}

impl Comings {
    /// An admitted trainer has ended.
    pub(crate) fn leave(&mut self, owner: &str, bounds: Bounds) {
        self.left.push((owner.to_owned(), bounds));
    }

    /// Whether a trainer may come; without bounds, whether any of its owner may.
    pub(crate) fn may_come(
        &self,
        owner: &str,
        bounds: Option<Bounds>,
        every: Span,
        now: Timestamp,
    ) -> bool {
        let latest = now + times(every, BURST - 1);
        let come = self.owners.get(owner);
        come.is_none_or(|(at, until)| *at == now || *until <= latest)
            || self.predecessor(owner, bounds).is_some()
    }

    /// A trainer comes.
    pub(crate) fn come(&mut self, owner: &str, bounds: Bounds, every: Span, now: Timestamp) {
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

    /// A step is over: what left in it is no longer there. Comings that lie ahead were another
    /// recording's.
    pub(crate) fn settle(&mut self, every: Span, now: Timestamp) {
        self.left.clear();
        let latest = now + times(every, BURST);
        self.owners
            .retain(|_, (_, until)| now < *until && *until <= latest);
    }

    /// From which of those that have ended a trainer takes over.
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

    /// Comes at this second if that is allowed, and says whether it was; the step is over then.
    fn tried(comings: &mut Comings, owner: &str, bounds: Bounds, second: i64) -> bool {
        let now = Timestamp::from_unix(second);
        let may = comings.may_come(owner, Some(bounds), EVERY, now);
        if may {
            comings.come(owner, bounds, EVERY, now);
        }
        comings.settle(EVERY, now);
        may
    }

    #[test]
    fn an_owner_comes_three_times_at_once_and_then_once_a_span() {
        let mut comings = Comings::default();
        let came: Vec<i64> = (0..300)
            .filter(|second| tried(&mut comings, "eve", (1, 2), 1000 + second))
            .collect();
        assert_eq!(came, [0, 1, 2, 60, 120, 180, 240]);
        // Others come by their own count, and all is forgotten in the end.
        assert!(tried(&mut comings, "ann", (1, 2), 1299));
        comings.settle(EVERY, Timestamp::from_unix(2000));
        assert!(comings.owners.is_empty());
    }

    #[test]
    fn those_of_one_moment_come_together() {
        let mut comings = Comings::default();
        assert!((0..20).all(|_| tried(&mut comings, "eve", (1, 2), 1000)));
        assert!(tried(&mut comings, "eve", (1, 2), 1001));
        assert!(tried(&mut comings, "eve", (1, 2), 1002));
        assert!(!tried(&mut comings, "eve", (1, 2), 1003));
    }

    #[test]
    fn who_takes_over_from_its_own_at_once_does_not_come_anew() {
        let mut comings = Comings::default();
        assert!((0..3).all(|second| tried(&mut comings, "eve", (1, 8), 1000 + second)));
        for second in 3..30 {
            comings.leave("eve", (1, 8));
            assert!(tried(&mut comings, "eve", (1, 8), 1000 + second));
        }
        // Not who asks for more, nor another owner's, nor a step later, nor two for one.
        let now = Timestamp::from_unix(1030);
        let may = |comings: &Comings, bounds| comings.may_come("eve", bounds, EVERY, now);
        comings.leave("ann", (1, 9));
        assert!(!may(&comings, None));
        comings.leave("eve", (2, 8));
        assert!(may(&comings, None) && may(&comings, Some((3, 8))));
        assert!(!may(&comings, Some((1, 8))) && !may(&comings, Some((2, 9))));
        comings.come("eve", (2, 4), EVERY, now);
        assert!(!may(&comings, None));
        comings.leave("eve", (1, 8));
        comings.settle(EVERY, now);
        assert!(!may(&comings, None));
    }

    #[test]
    fn no_span_is_no_bound_and_a_clock_that_went_back_keeps_nobody_out() {
        let mut comings = Comings::default();
        let now = Timestamp::from_unix;
        for second in 0..20 {
            assert!(comings.may_come("eve", Some((1, 2)), Span::ZERO, now(second)));
            comings.come("eve", (1, 2), Span::ZERO, now(second));
            comings.settle(Span::ZERO, now(second));
        }
        assert!(tried(&mut comings, "eve", (1, 2), 900_000));
        comings.settle(EVERY, now(1000));
        assert!(comings.owners.is_empty());
    }
}
