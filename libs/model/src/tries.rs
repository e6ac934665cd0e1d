//! Where a trainer's programs failed, and when and where they are tried again.
//! All times are real ones. `libs/trainer/src/controller/elsewhere.rs` has the rules.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{NodeId, Span, Timestamp, is_default};

/// Times that the time is doubled for which a node is avoided, at most.
const DOUBLINGS: u32 = 6;

/// Nodes that are remembered, at most: the record of a long training stays small.
const REMEMBERED: usize = 64;

/// The failures of a trainer's programs by node, and its rest before the next try.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Tries {
    #[serde(default, skip_serializing_if = "is_default")]
    failed: BTreeMap<NodeId, FailedOn>,
    #[serde(default, skip_serializing_if = "is_default")]
    rest: Option<Rest>,
}

/// How a trainer's programs failed on one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FailedOn {
    /// How often.
    pub times: u32,
    /// How often its programs failed there; the other times their group broke, and they were silent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub failures: u32,
    /// When they last did.
    pub at: Timestamp,
    /// Until when the trainer avoids the node.
    pub until: Timestamp,
    /// Why they last did.
    pub reason: String,
    /// Whether this belongs to the present row of failures.
    pub in_row: bool,
    /// Whether they failed before they were sound there.
    pub at_once: bool,
    /// Whether it was held against the node.
    pub blamed: bool,
}

/// A trainer's wait after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rest {
    /// The time of the failure.
    pub since: Timestamp,
    /// When it may begin on any node; without it, only nodes count on which it has not failed.
    pub until: Option<Timestamp>,
    /// Whether such nodes are free: it may begin there at once.
    pub elsewhere: bool,
}

impl Tries {
    /// A program failed on this node, at once or after it had been sound there. The node is avoided
    /// for `first`, and twice as long each further time.
    pub fn fail_on(
        &mut self,
        node: &NodeId,
        reason: &str,
        at_once: bool,
        first: Span,
        now: Timestamp,
    ) {
        self.avoid(node, reason, at_once, first, now);
        if let Some(failed) = self.failed.get_mut(node) {
            failed.in_row = true;
            failed.failures += 1;
        }
    }

    /// The same of what is no failure of the program.
    pub fn avoid(
        &mut self,
        node: &NodeId,
        reason: &str,
        at_once: bool,
        first: Span,
        now: Timestamp,
    ) {
        let (times, failures, in_row) = match self.failed.get(node) {
            Some(failed) => (failed.times + 1, failed.failures, failed.in_row),
            None => (1, 0, false),
        };
        let length = first
            .as_ms()
            .saturating_mul(1 << (times - 1).min(DOUBLINGS));
        let failed = FailedOn {
            times,
            failures,
            at: now,
            until: now + Span::from_ms(length),
            reason: reason.to_owned(),
            in_row,
            at_once,
            blamed: false,
        };
        self.failed.insert(node.clone(), failed);
        if self.failed.len() > REMEMBERED {
            let others = self.failed.iter().filter(|(other, _)| *other != node);
            let first = others.map(|(other, failed)| (failed.until, other)).min();
            if let Some(first) = first.map(|(_, other)| other.clone()) {
                self.failed.remove(&first);
            }
        }
    }

    /// The next try waits.
    pub const fn rest_until(&mut self, until: Option<Timestamp>, now: Timestamp) {
        self.rest = Some(Rest {
            since: now,
            until,
            elsewhere: false,
        });
    }

    /// The wait before the next try, if there is one.
    #[must_use]
    pub const fn rest(&self) -> Option<Rest> {
        self.rest
    }

    /// Whether no node counts for it at present.
    #[must_use]
    pub const fn rests(&self) -> bool {
        matches!(self.rest, Some(rest) if !rest.elsewhere)
    }

    /// The next try begins.
    pub const fn end_rest(&mut self) {
        self.rest = None;
    }

    /// Says whether nodes are free on which it has not failed. Returns whether that, or the end of
    /// its rest, makes a difference.
    pub fn review(&mut self, elsewhere: bool, now: Timestamp) -> bool {
        let Some(rest) = &mut self.rest else {
            return false;
        };
        if rest.until.is_some_and(|until| until <= now) {
            self.rest = None;
            return true;
        }
        std::mem::replace(&mut rest.elsewhere, elsewhere) != elsewhere
    }

    /// A new control goes on with it. The clock of an earlier one may have been ahead: what has
    /// happened later than now has happened now, and lasts no longer for that.
    pub fn resume(&mut self, now: Timestamp) {
        for failed in self.failed.values_mut() {
            let ahead = failed.at.since(now).max(Span::ZERO);
            (failed.at, failed.until) = (failed.at - ahead, failed.until - ahead);
        }
        if let Some(rest) = &mut self.rest {
            let ahead = rest.since.since(now).max(Span::ZERO);
            rest.since = rest.since - ahead;
            rest.until = rest.until.map(|until| until - ahead);
        }
    }

    /// Nodes on which it has failed, with how.
    pub fn failed(&self) -> impl Iterator<Item = (&NodeId, &FailedOn)> {
        self.failed.iter()
    }

    /// Nodes of the present row of failures.
    pub fn row(&self) -> impl Iterator<Item = &NodeId> {
        let row = self.failed.iter().filter(|(_, failed)| failed.in_row);
        row.map(|(node, _)| node)
    }

    /// Whether this failure on the node is counted in the present row.
    #[must_use]
    pub fn has_failed(&self, node: &NodeId, reason: &str) -> bool {
        let failed = self.failed.get(node);
        failed.is_some_and(|failed| failed.in_row && failed.reason == reason)
    }

    /// The row of failures is over, and with it the rest.
    pub fn end_row(&mut self) {
        self.rest = None;
        for failed in self.failed.values_mut() {
            failed.in_row = false;
        }
    }

    /// Whether it uses the node only if others do not suffice.
    #[must_use]
    pub fn avoids(&self, node: &NodeId, now: Timestamp) -> bool {
        self.failed.get(node).is_some_and(|f| now < f.until)
    }

    /// Whether it does not use the node at all for now.
    #[must_use]
    pub fn refuses(&self, node: &NodeId, now: Timestamp) -> bool {
        self.rest.is_some() && self.avoids(node, now)
    }

    /// The node is lost to the main scheduler: a failure there not longer ago than `within` is
    /// explained by that. Returns whether there was one.
    pub fn forgive(&mut self, node: &NodeId, within: Span, now: Timestamp) -> bool {
        let failed = self.failed.get(node);
        let is_explained = failed.is_some_and(|f| f.in_row && now < f.at + within);
        if is_explained {
            self.failed.remove(node);
            self.rest = None;
        }
        is_explained
    }

    /// Its programs are sound on these nodes. Returns the nodes on which they failed at once, with
    /// the reasons, each once.
    pub fn sound_on(&mut self, nodes: &[NodeId]) -> Vec<(NodeId, String)> {
        self.failed.retain(|node, _| !nodes.contains(node));
        let open = self
            .failed
            .iter_mut()
            .filter(|(_, f)| f.at_once && !f.blamed);
        open.map(|(node, failed)| {
            failed.blamed = true;
            (node.clone(), failed.reason.clone())
        })
        .collect()
    }

    /// Nothing is held against the node any more.
    pub fn forget(&mut self, node: &NodeId) -> bool {
        self.failed.remove(node).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_unix(second)
    }

    fn node(name: &str) -> NodeId {
        NodeId::new(name).unwrap()
    }

    const FIRST: Span = Span::from_secs(300);

    #[test]
    fn a_node_is_avoided_twice_as_long_each_time_and_refused_during_the_rest() {
        let mut tries = Tries::default();
        let bad = node("bad");
        tries.fail_on(&bad, "bang", true, FIRST, at(0));
        assert!(tries.avoids(&bad, at(299)) && !tries.avoids(&bad, at(300)));
        tries.fail_on(&bad, "bang", true, FIRST, at(300));
        assert!(tries.avoids(&bad, at(899)) && !tries.refuses(&bad, at(899)));
        tries.rest_until(Some(at(310)), at(300));
        assert!(tries.rests() && tries.refuses(&bad, at(309)));
        assert!(tries.review(true, at(301)) && !tries.rests());
        assert!(!tries.review(true, at(302)) && tries.review(false, at(303)));
        assert!(tries.review(false, at(310)) && !tries.refuses(&bad, at(310)));
    }

    #[test]
    fn the_nodes_that_are_avoided_longest_are_remembered() {
        let mut tries = Tries::default();
        let (held, many) = (node("held"), 3 * REMEMBERED as i64);
        let long = Span::from_secs(86_400);
        tries.fail_on(&held, "bang", true, long, at(0));
        for second in 0..many {
            let bad = node(&format!("n{second}"));
            tries.fail_on(&bad, "bang", true, FIRST, at(second));
        }
        let newest = node(&format!("n{}", many - 1));
        assert_eq!(tries.failed().count(), REMEMBERED);
        assert!(tries.avoids(&held, at(many)) && tries.avoids(&newest, at(many)));
    }

    #[test]
    fn a_failure_is_forgiven_when_its_node_is_taken_soon_after() {
        let mut tries = Tries::default();
        let bad = node("bad");
        tries.fail_on(&bad, "bang", true, FIRST, at(0));
        tries.rest_until(Some(at(10)), at(0));
        assert!(!tries.forgive(&node("other"), Span::from_secs(10), at(1)));
        assert!(tries.forgive(&bad, Span::from_secs(10), at(1)));
        assert_eq!(tries, Tries::default());
        tries.fail_on(&bad, "bang", true, FIRST, at(20));
        assert!(
            !tries.forgive(&bad, Span::from_secs(10), at(30)),
            "too late"
        );
    }

    #[test]
    fn a_failure_by_a_clock_that_was_ahead_lasts_no_longer() {
        let mut tries = Tries::default();
        let bad = node("bad");
        tries.fail_on(&bad, "bang", true, FIRST, at(7200));
        tries.rest_until(Some(at(7210)), at(7200));
        tries.resume(at(50));
        assert!(tries.avoids(&bad, at(349)) && !tries.avoids(&bad, at(350)));
        assert!(!tries.review(false, at(59)) && tries.review(false, at(60)));
        let before = tries.clone();
        tries.resume(at(100));
        assert_eq!(tries, before, "a clock that goes right changes nothing");
    }

    #[test]
    fn silence_on_a_node_takes_no_failure_out_of_the_row() {
        let mut tries = Tries::default();
        let bad = node("bad");
        tries.fail_on(&bad, "bang", true, FIRST, at(0));
        assert!(tries.has_failed(&bad, "bang") && !tries.has_failed(&bad, "boom"));
        tries.avoid(&bad, "silent", true, FIRST, at(1));
        assert_eq!(tries.row().collect::<Vec<_>>(), [&bad]);
    }

    #[test]
    fn a_failure_is_held_against_its_node_once_and_only_if_it_came_at_once() {
        let mut tries = Tries::default();
        let (bad, late, good) = (node("bad"), node("late"), node("good"));
        tries.fail_on(&bad, "no space", true, FIRST, at(0));
        tries.fail_on(&late, "bang", false, FIRST, at(1));
        tries.fail_on(&good, "bang", true, FIRST, at(2));
        assert_eq!(tries.row().count(), 3);
        let blamed = tries.sound_on(std::slice::from_ref(&good));
        assert_eq!(blamed, [(bad.clone(), "no space".to_owned())]);
        assert!(tries.sound_on(std::slice::from_ref(&good)).is_empty());
        tries.end_row();
        assert_eq!((tries.row().count(), tries.failed().count()), (0, 2));
        assert!(tries.avoids(&bad, at(100)) && tries.forget(&bad));
        assert!(!tries.avoids(&bad, at(100)));
    }
}
