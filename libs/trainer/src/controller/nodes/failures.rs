//! How programs fail on one node, by owner, and which trainers it keeps waiting.
//!
//! A program fails as its owner likes, so failures in a row are counted for each owner by itself.
//! Three in a row close the node to that owner for `control.quarantine`, twice as long each time.
//! The node is in quarantine, unusable for all, while it is closed to two owners, with no sound
//! incarnation of another owner between, or to all owners who have trainers.
//!
//! A member that keeps its trainer waiting may have more work than the others. Where the same node
//! keeps two trainers waiting, and not as rank 0 of both, the node is slow: it is closed to their
//! owners.

use std::collections::{BTreeMap, BTreeSet};

use lacuna_model::{Span, Timestamp, TrainerId};

use crate::Now;

/// Times that the length of a closure is doubled, at most.
const DOUBLINGS: u32 = 6;
/// For how long it counts that a trainer waited for the node.
const WAITED: Span = Span::from_secs(3600);

/// How the programs of one owner fail on the node.
#[derive(Debug, Clone, PartialEq, Default)]
struct Record {
    /// Failures in a row.
    failures: u32,
    /// How often the node was closed to the owner for it.
    times: u32,
    /// Until when it is closed to the owner, if it is (real time).
    until: Option<Timestamp>,
    /// Whether another owner's programs have been sound there since: then the failures say nothing
    /// against the node.
    refuted: bool,
}

impl Record {
    /// Closes the node to the owner, twice as long as the last time. Returns for how long.
    fn close(&mut self, first: Span, now: Now) -> Span {
        let doublings = self.times.min(DOUBLINGS);
        let length = Span::from_ms(first.as_ms().saturating_mul(1 << doublings));
        self.times += 1;
        self.until = Some(now.wall + length);
        self.refuted = false;
        length
    }
}

/// A trainer that waits for the node in each step.
#[derive(Debug, Clone, PartialEq)]
struct Wait {
    /// Its owner.
    owner: String,
    /// When it said so last (real time).
    at: Timestamp,
    /// Whether the node has its rank 0, which has work beside its steps.
    is_rank_0: bool,
}

/// The trainers that waited for a node, and for how long it is closed to each of their owners.
pub(super) type Waited = (Vec<TrainerId>, Vec<(String, Span)>);

/// Failures on one node. An owner without an entry has had none since its last sound time.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Failures {
    by_owner: BTreeMap<String, Record>,
    /// How long programs have made progress there since the last failure of any owner.
    sound_for: Span,
    quarantined: bool,
    /// Trainers that wait for this node, each with its owner and when it last said so (real time).
    waiting: BTreeMap<TrainerId, Wait>,
}

impl Failures {
    /// A program of this owner has failed there.
    pub(super) fn count(&mut self, owner: String) {
        self.by_owner.entry(owner).or_default().failures += 1;
        self.sound_for = Span::ZERO;
    }

    /// A program of this owner has made progress there for `more`. With `enough` of it since the
    /// last failure, the owner's failures are forgotten and the others' refuted.
    pub(super) fn progress(&mut self, owner: &str, more: Span, enough: Span) {
        self.sound_for += more;
        if self.sound_for < enough || self.by_owner.is_empty() {
            return;
        }
        self.by_owner.remove(owner);
        for other in self.by_owner.values_mut() {
            other.refuted = true;
        }
    }

    /// Closes the node to the owner if its programs have failed there `limit` times in a row.
    /// Returns for how long; `first` is the length of the first closure.
    pub(super) fn close(&mut self, owner: &str, limit: u32, first: Span, now: Now) -> Option<Span> {
        let record = self.by_owner.get_mut(owner)?;
        if record.failures < limit {
            return None;
        }
        Some(record.close(first, now))
    }

    /// A trainer of this owner waits for the node in each step, with whether it is that of rank 0;
    /// or it does not.
    pub(super) fn waits(
        &mut self,
        trainer: &TrainerId,
        owner: &str,
        for_rank_0: Option<bool>,
        now: Now,
    ) {
        if let Some(is_rank_0) = for_rank_0 {
            let wait = Wait {
                owner: owner.to_owned(),
                at: now.wall,
                is_rank_0,
            };
            self.waiting.insert(trainer.clone(), wait);
        } else {
            self.waiting.remove(trainer);
        }
    }

    /// Closes the node to the owners of trainers that wait for it, if these are two, and one of them
    /// for another rank than 0. Returns the
    /// trainers, and for how long it is closed to each owner; `first` is the length of the first
    /// closure.
    pub(super) fn close_slow(&mut self, first: Span, now: Now) -> Option<Waited> {
        self.waiting.retain(|_, wait| now.wall < wait.at + WAITED);
        if self.waiting.len() < 2 || self.waiting.values().all(|wait| wait.is_rank_0) {
            return None;
        }
        let waiting = std::mem::take(&mut self.waiting);
        let owners: BTreeSet<&String> = waiting.values().map(|wait| &wait.owner).collect();
        let mut closed = Vec::new();
        for owner in owners {
            let record = self.by_owner.entry(owner.clone()).or_default();
            closed.push((owner.clone(), record.close(first, now)));
        }
        Some((waiting.into_keys().collect(), closed))
    }

    /// Opens the node to owners whose closure is over. Returns whether there were any.
    pub(super) fn open_due(&mut self, now: Now) -> bool {
        let mut any = false;
        for record in self.by_owner.values_mut() {
            if record.until.is_some_and(|until| until <= now.wall) {
                record.until = None;
                record.failures = 0;
                any = true;
            }
        }
        any
    }

    /// Puts the node into quarantine or takes it out, if these owners have trainers. Returns
    /// whether it is in quarantine, if that has changed.
    pub(super) fn judge(&mut self, owners: &BTreeSet<&str>) -> Option<bool> {
        let closed = || self.by_owner.values().filter(|r| r.until.is_some());
        let bad = closed().filter(|record| !record.refuted).count() > 1
            || (self.is_closed() && owners.iter().all(|owner| self.is_closed_to(owner)));
        (std::mem::replace(&mut self.quarantined, bad) != bad).then_some(bad)
    }

    /// Whether the node is closed to an owner at least.
    pub(super) fn is_closed(&self) -> bool {
        self.by_owner.values().any(|record| record.until.is_some())
    }

    /// Whether this owner's programs have failed there too often, not long ago.
    pub(crate) fn is_closed_to(&self, owner: &str) -> bool {
        let record = self.by_owner.get(owner);
        record.is_some_and(|record| record.until.is_some())
    }

    /// Whether the node is unusable for all owners.
    pub(crate) const fn is_quarantined(&self) -> bool {
        self.quarantined
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Span = Span::from_secs(60);

    fn at(second: i64) -> Now {
        Now {
            cluster: Timestamp::default(),
            wall: Timestamp::from_unix(second),
        }
    }

    fn fail(failures: &mut Failures, owner: &str, times: u32) -> Option<Span> {
        for _ in 0..times {
            failures.count(owner.to_owned());
        }
        failures.close(owner, 3, FIRST, at(0))
    }

    #[test]
    fn three_failures_in_a_row_close_a_node_to_their_owner_longer_each_time() {
        let mut failures = Failures::default();
        assert_eq!(fail(&mut failures, "eve", 2), None);
        assert_eq!(fail(&mut failures, "eve", 1), Some(FIRST));
        assert!(failures.is_closed_to("eve") && !failures.is_closed_to("ann"));
        assert!(!failures.open_due(at(59)) && failures.open_due(at(60)));
        assert!(!failures.is_closed());
        assert_eq!(fail(&mut failures, "eve", 3), Some(Span::from_secs(120)));
    }

    #[test]
    fn a_node_is_in_quarantine_for_two_owners_or_for_all_who_have_trainers() {
        let mut failures = Failures::default();
        let all = BTreeSet::from(["ann", "eve"]);
        fail(&mut failures, "eve", 3);
        assert_eq!(failures.judge(&all), None);
        assert_eq!(failures.judge(&BTreeSet::from(["eve"])), Some(true));
        assert_eq!(failures.judge(&all), Some(false));
        fail(&mut failures, "bob", 3);
        assert_eq!(failures.judge(&all), Some(true));
        assert!(failures.is_quarantined());
    }

    #[test]
    fn a_node_that_keeps_two_trainers_waiting_is_closed_to_their_owners() {
        let trainer = |name| TrainerId::new(name).unwrap();
        let (a, b) = (trainer("a"), trainer("b"));
        let mut failures = Failures::default();
        failures.waits(&a, "ann", Some(false), at(0));
        failures.waits(&a, "ann", Some(false), at(10));
        assert_eq!(
            failures.close_slow(FIRST, at(10)),
            None,
            "one trainer twice"
        );
        failures.waits(&b, "bob", Some(false), at(3700));
        assert_eq!(failures.close_slow(FIRST, at(3700)), None, "an hour apart");
        failures.waits(&a, "ann", Some(false), at(3701));
        failures.waits(&b, "bob", None, at(3702));
        assert_eq!(failures.close_slow(FIRST, at(3702)), None, "taken back");
        failures.waits(&b, "bob", Some(false), at(3703));
        let (trainers, closed) = failures.close_slow(FIRST, at(3703)).unwrap();
        assert_eq!(trainers, [a.clone(), b.clone()]);
        assert_eq!(
            closed,
            [("ann".to_owned(), FIRST), ("bob".to_owned(), FIRST)]
        );
        assert_eq!(
            failures.judge(&BTreeSet::from(["ann", "bob", "eve"])),
            Some(true)
        );
        assert!(failures.open_due(at(3763)));
        // Two of one owner close it to that owner alone.
        failures.waits(&a, "ann", Some(false), at(3800));
        failures.waits(&trainer("c"), "ann", Some(false), at(3800));
        let (_, closed) = failures.close_slow(FIRST, at(3800)).unwrap();
        assert_eq!(closed, [("ann".to_owned(), Span::from_secs(120))]);
        assert!(!failures.is_closed_to("bob"));
        // What rank 0 does beside its steps is no fault of the node.
        failures.waits(&a, "ann", Some(true), at(3900));
        failures.waits(&b, "bob", Some(true), at(3900));
        assert_eq!(failures.close_slow(FIRST, at(3900)), None);
        failures.waits(&b, "bob", Some(false), at(3901));
        assert!(failures.close_slow(FIRST, at(3901)).is_some());
    }

    #[test]
    fn sound_programs_of_one_owner_refute_the_failures_of_others() {
        let mut failures = Failures::default();
        let all = BTreeSet::from(["ann", "bob", "eve"]);
        fail(&mut failures, "eve", 3);
        failures.progress("ann", FIRST, FIRST);
        fail(&mut failures, "bob", 3);
        assert_eq!(failures.judge(&all), None, "eve's failures were refuted");
        // A failure begins the sound time again.
        failures.progress("ann", Span::from_secs(59), FIRST);
        assert_eq!(fail(&mut failures, "eve", 1), Some(Span::from_secs(120)));
        assert_eq!(failures.judge(&all), Some(true));
    }
}
