//! What speaks against one node: programs that failed there and were sound elsewhere, by their
//! trainers and owners, and trainers that it keeps waiting. `quarantine.rs` has the rules.
//!
//! A member that keeps its trainer waiting may have more work than the others. Where the same node
//! keeps two trainers waiting, and not as rank 0 of both, the node is slow: it is closed to their
//! owners.

use std::collections::{BTreeMap, BTreeSet};

use lacuna_model::{Blame, Span, Timestamp, TrainerId, Trouble, TroubleKind};

use crate::Now;

/// Times that the length of a closure is doubled, at most.
const DOUBLINGS: u32 = 6;
/// For how long it counts that a trainer waited for the node, or failed there.
const COUNTS: Span = Span::from_secs(3600);

/// Why a node is closed to an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// Programs of the owner failed there: its trainers get the node last.
    Failed,
    /// It kept trainers of the owner waiting: they do not get it.
    Slow,
}

/// Closures of the node to one owner.
#[derive(Debug, Clone, PartialEq, Default)]
struct Record {
    /// How often the node was closed to the owner.
    times: u32,
    /// The present closure: why, and until when (real time).
    closed: Option<(Cause, Timestamp)>,
}

impl Record {
    /// Closes the node to the owner, twice as long as the last time. Returns for how long.
    fn close(&mut self, cause: Cause, first: Span, now: Now) -> Span {
        let doublings = self.times.min(DOUBLINGS);
        let length = Span::from_ms(first.as_ms().saturating_mul(1 << doublings));
        self.times += 1;
        self.closed = Some((cause, now.wall + length));
        length
    }

    fn is_closed_for(&self, cause: Cause) -> bool {
        self.closed.is_some_and(|(why, _)| why == cause)
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

/// A program that failed there and was sound elsewhere.
#[derive(Debug, Clone, PartialEq)]
struct Failed {
    owner: String,
    at: Timestamp,
    blame: Blame,
}

/// The owners to whom a node is closed from now on, and for how long.
pub(super) type Closed = Vec<(String, Span)>;

/// What speaks against one node.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Failures {
    by_owner: BTreeMap<String, Record>,
    /// Programs that failed there and were sound elsewhere, since programs were last sound there.
    failed: BTreeMap<TrainerId, Failed>,
    /// How long programs have made progress there since the last failure of any.
    sound_for: Span,
    quarantined: bool,
    /// Trainers that wait for this node, each with its owner and when it last said so (real time).
    waiting: BTreeMap<TrainerId, Wait>,
}

impl Failures {
    /// A program has failed there.
    pub(super) const fn count(&mut self) {
        self.sound_for = Span::ZERO;
    }

    /// A program has made progress there for `more`. With `enough` of it since the last failure
    /// nothing speaks against the node. Returns whether something did.
    pub(super) fn progress(&mut self, more: Span, enough: Span) -> bool {
        self.sound_for += more;
        self.sound_for >= enough && self.clear()
    }

    /// A program was sound there: failures say nothing against the node. Returns whether there were
    /// any.
    pub(super) fn clear(&mut self) -> bool {
        let failed = |record: &Record| record.is_closed_for(Cause::Failed);
        let any = !self.failed.is_empty() || self.by_owner.values().any(failed);
        self.failed.clear();
        self.by_owner.retain(|_, record| !failed(record));
        any
    }

    /// An operator opens the node. Returns whether anything spoke against it.
    pub(super) fn reopen(&mut self) -> bool {
        let any = self.is_closed() || !self.failed.is_empty();
        self.failed.clear();
        self.waiting.clear();
        self.by_owner.clear();
        any
    }

    /// A program of this owner failed there and is sound elsewhere. Returns to which owners the node
    /// is closed for it; `first` is the length of the first closure.
    pub(super) fn blame(&mut self, owner: &str, blame: Blame, first: Span, now: Now) -> Closed {
        self.failed
            .retain(|_, failed| now.wall < failed.at + COUNTS);
        let failed = Failed {
            owner: owner.to_owned(),
            at: now.wall,
            blame,
        };
        self.failed.insert(failed.blame.trainer.clone(), failed);
        if self.failed.len() < 2 {
            return Closed::new();
        }
        let mut programs: BTreeMap<&str, u32> = BTreeMap::new();
        for failed in self.failed.values() {
            *programs.entry(&failed.owner).or_default() += 1;
        }
        let several = programs.len() > 1;
        let mut closed = Closed::new();
        for (owner, programs) in programs {
            let record = self.by_owner.entry(owner.to_owned()).or_default();
            if record.closed.is_none() && (several || programs > 1) {
                closed.push((owner.to_owned(), record.close(Cause::Failed, first, now)));
            }
        }
        closed
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
    pub(super) fn close_slow(&mut self, first: Span, now: Now) -> Option<(Vec<TrainerId>, Closed)> {
        self.waiting.retain(|_, wait| now.wall < wait.at + COUNTS);
        if self.waiting.len() < 2 || self.waiting.values().all(|wait| wait.is_rank_0) {
            return None;
        }
        let waiting = std::mem::take(&mut self.waiting);
        let owners: BTreeSet<&String> = waiting.values().map(|wait| &wait.owner).collect();
        let mut closed = Closed::new();
        for owner in owners {
            let record = self.by_owner.entry(owner.clone()).or_default();
            closed.push((owner.clone(), record.close(Cause::Slow, first, now)));
        }
        Some((waiting.into_keys().collect(), closed))
    }

    /// Opens the node to owners whose closure is over. Returns whether there were any.
    pub(super) fn open_due(&mut self, now: Now) -> bool {
        let mut any = false;
        for (owner, record) in &mut self.by_owner {
            let over = record.closed.take_if(|(_, until)| *until <= now.wall);
            if over.is_some() {
                self.failed.retain(|_, failed| failed.owner != *owner);
                any = true;
            }
        }
        any
    }

    /// Puts the node into quarantine or takes it out, if these owners have trainers. Returns
    /// whether it is in quarantine, if that has changed.
    pub(super) fn judge(&mut self, owners: &BTreeSet<&str>) -> Option<bool> {
        let closed = self.by_owner.values().filter(|r| r.closed.is_some());
        let any_slow = self.by_owner.values().any(|r| r.is_closed_for(Cause::Slow));
        let bad =
            closed.count() > 1 || (any_slow && owners.iter().all(|owner| self.is_closed_to(owner)));
        (std::mem::replace(&mut self.quarantined, bad) != bad).then_some(bad)
    }

    /// Whether the node is closed to an owner at least.
    pub(super) fn is_closed(&self) -> bool {
        self.by_owner.values().any(|r| r.closed.is_some())
    }

    /// Whether trainers of this owner do not get the node.
    pub(crate) fn is_closed_to(&self, owner: &str) -> bool {
        let record = self.by_owner.get(owner);
        record.is_some_and(|record| record.is_closed_for(Cause::Slow))
    }

    /// Whether trainers of this owner get the node only if others do not suffice.
    pub(crate) fn is_last_for(&self, owner: &str) -> bool {
        let record = self.by_owner.get(owner);
        record.is_some_and(|record| record.is_closed_for(Cause::Failed))
    }

    /// Whether the node is unusable for all owners.
    pub(crate) const fn is_quarantined(&self) -> bool {
        self.quarantined
    }

    /// What speaks against the node, if anything does.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        let failed = self.failed.values().map(|failed| failed.blame.clone());
        let failed: Vec<Blame> = failed.collect();
        let closed_for = |cause| {
            let records = self.by_owner.iter();
            let closed = records.filter(move |(_, record)| record.is_closed_for(cause));
            closed.filter_map(|(owner, record)| Some((owner.clone(), record.closed?.1)))
        };
        let slow: Vec<(String, Timestamp)> = closed_for(Cause::Slow).collect();
        let last: Vec<(String, Timestamp)> = closed_for(Cause::Failed).collect();
        let (kind, closed) = if self.quarantined {
            (TroubleKind::Quarantined, Vec::new())
        } else if !slow.is_empty() {
            (TroubleKind::Slow, slow.clone())
        } else if !last.is_empty() {
            (TroubleKind::Last, last.clone())
        } else if failed.is_empty() {
            return None;
        } else {
            (TroubleKind::Suspect, Vec::new())
        };
        let mut ends: Vec<Timestamp> = slow.iter().chain(&last).map(|(_, end)| *end).collect();
        ends.sort();
        // It is in quarantine until one closure at most is left.
        let until = match kind {
            TroubleKind::Quarantined => ends.get(ends.len().saturating_sub(2)),
            _ => ends.last(),
        };
        Some(Trouble {
            kind,
            owners: closed.into_iter().map(|(owner, _)| owner).collect(),
            until: until.copied(),
            failed,
            perhaps: Vec::new(),
        })
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

    fn blame(failures: &mut Failures, owner: &str, trainer: &str, second: i64) -> Closed {
        let blame = Blame {
            trainer: TrainerId::new(trainer).unwrap(),
            reason: "no space left".to_owned(),
            sound_on: lacuna_model::NodeId::new("good").unwrap(),
        };
        failures.blame(owner, blame, FIRST, at(second))
    }

    fn kind(failures: &Failures) -> Option<TroubleKind> {
        failures.trouble().map(|trouble| trouble.kind)
    }

    #[test]
    fn two_programs_of_an_owner_make_a_node_the_last_for_that_owner() {
        let mut failures = Failures::default();
        let all = BTreeSet::from(["eve"]);
        assert_eq!(blame(&mut failures, "eve", "a", 0), []);
        assert_eq!(blame(&mut failures, "eve", "a", 1), [], "the same program");
        assert_eq!(kind(&failures), Some(TroubleKind::Suspect));
        assert_eq!(
            blame(&mut failures, "eve", "b", 2),
            [("eve".to_owned(), FIRST)]
        );
        assert!(failures.is_last_for("eve") && !failures.is_last_for("ann"));
        assert!(!failures.is_closed_to("eve"));
        assert_eq!(
            failures.judge(&all),
            None,
            "not closed, even to the only owner"
        );
        assert!(!failures.open_due(at(61)) && failures.open_due(at(62)));
        assert_eq!(kind(&failures), None);
        blame(&mut failures, "eve", "a", 70);
        let twice = Span::from_secs(120);
        assert_eq!(
            blame(&mut failures, "eve", "b", 71),
            [("eve".to_owned(), twice)]
        );
    }

    #[test]
    fn programs_of_two_owners_put_a_node_into_quarantine_until_one_is_sound_there() {
        let mut failures = Failures::default();
        let all = BTreeSet::from(["ann", "bob", "eve"]);
        blame(&mut failures, "eve", "a", 0);
        blame(&mut failures, "ann", "b", 3599);
        assert_eq!(failures.judge(&all), Some(true));
        let trouble = failures.trouble().unwrap();
        assert_eq!(trouble.kind, TroubleKind::Quarantined);
        assert_eq!(
            (trouble.until, trouble.failed.len()),
            (Some(at(3659).wall), 2)
        );
        assert!(!failures.progress(Span::from_secs(59), FIRST));
        failures.count();
        assert!(
            !failures.progress(Span::from_secs(59), FIRST),
            "failed since"
        );
        assert!(failures.progress(Span::from_secs(1), FIRST));
        assert_eq!((failures.judge(&all), kind(&failures)), (Some(false), None));
        blame(&mut failures, "eve", "a", 4000);
        assert_eq!(blame(&mut failures, "ann", "b", 7600), [], "an hour apart");
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
        assert!(failures.reopen() && !failures.is_closed() && !failures.reopen());
    }
}
