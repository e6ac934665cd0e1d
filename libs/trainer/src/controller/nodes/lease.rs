//! The lease of one node: whose it is, and how it changes hands.
//!
//! - The bucket's entry is the truth: its owner, and its revision as the lease's epoch. Both change
//!   only by the outcome of a write.
//! - One write at a time is under way. It names the epoch that the entry must have.
//! - A node without an owner has an open release until its agent has confirmed that it is free.
//!   No trainer gets the node before that.

use lacuna_model::{Action, Epoch, NodeId, Span, Timestamp, TrainerId};

use crate::Now;
use crate::controller::LeaseWrite;

/// The purpose of a write under way.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Pending {
    Grant(TrainerId),
    Release,
}

/// A release without confirmation.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Release {
    since: Timestamp,
    /// From this moment of real time on, the agent has given up by itself.
    safe_at: Timestamp,
}

/// The result of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Written {
    /// The trainer that the lease was asked for has it.
    Granted(TrainerId),
    /// The node has no owner any more.
    Released,
    /// The entry had moved on and has an owner still: the release is to be written again.
    StillHeld,
    /// Another outcome, which asks for nothing.
    Other,
}

/// A release that was confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Confirmed {
    /// Since when the release was open (real time).
    pub(crate) since: Timestamp,
    /// Whether the node was unusable for want of it.
    pub(crate) was_overdue: bool,
}

/// The lease of one node.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Lease {
    owner: Option<TrainerId>,
    epoch: Epoch,
    pending: Option<Pending>,
    /// Why the pending or last release was made.
    reason: String,
    release: Option<Release>,
    /// Whether the release takes longer than others count on.
    overdue: bool,
    /// When the incarnation ended for which the node is released, if it was part of one.
    ended: Option<Timestamp>,
    /// Whether an agent may have been commanded to start a program under the present lease.
    used: bool,
}

impl Lease {
    /// The trainer that has the lease, by the bucket.
    pub(crate) const fn owner(&self) -> Option<&TrainerId> {
        self.owner.as_ref()
    }

    /// The revision of the bucket's entry.
    pub(crate) const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The trainer that has the lease and keeps it, or is about to get it.
    pub(crate) const fn holder(&self) -> Option<&TrainerId> {
        match &self.pending {
            Some(Pending::Grant(trainer)) => Some(trainer),
            Some(Pending::Release) => None,
            None => self.owner.as_ref(),
        }
    }

    /// Whether an agent may have been commanded to start a program under the present lease, or
    /// under the one that was just released.
    pub(crate) const fn is_used(&self) -> bool {
        self.used
    }

    pub(super) const fn used(&mut self) {
        self.used = true;
    }

    /// Whether the trainer has the lease and keeps it.
    pub(crate) fn is_kept_by(&self, trainer: &TrainerId) -> bool {
        self.owner.as_ref() == Some(trainer) && self.pending.is_none()
    }

    /// Whether a trainer has the lease and keeps it, or is about to get it.
    pub(crate) const fn is_held(&self) -> bool {
        match &self.pending {
            Some(Pending::Grant(_)) => true,
            Some(Pending::Release) => false,
            None => self.owner.is_some(),
        }
    }

    /// Whether a trainer has the lease, and no write is under way.
    pub(crate) const fn can_be_released(&self) -> bool {
        self.owner.is_some() && self.pending.is_none()
    }

    /// Whether the node is on its way back from a trainer.
    pub(crate) fn is_going_back(&self) -> bool {
        self.release.is_some() || self.pending == Some(Pending::Release)
    }

    /// Whether the lease can be given to a trainer at once.
    pub(crate) const fn is_free(&self) -> bool {
        self.owner.is_none() && self.pending.is_none() && self.release.is_none()
    }

    /// Whether a release waits for its confirmation, be it in vain.
    pub(crate) const fn is_released(&self) -> bool {
        self.release.is_some()
    }

    pub(crate) const fn is_overdue(&self) -> bool {
        self.overdue
    }

    pub(super) fn grant(&mut self, node: &NodeId, trainer: &TrainerId) -> LeaseWrite {
        self.pending = Some(Pending::Grant(trainer.clone()));
        self.used = false;
        self.write(node, Some(trainer.clone()))
    }

    /// `ended` is the moment up to which the node's incarnation counts (cluster time).
    pub(super) fn take_back(
        &mut self,
        node: &NodeId,
        reason: &str,
        ended: Option<Timestamp>,
    ) -> LeaseWrite {
        self.ended = ended;
        self.pending = Some(Pending::Release);
        reason.clone_into(&mut self.reason);
        self.write(node, None)
    }

    /// The write that is under way, once more.
    pub(super) fn write_again(&self, node: &NodeId) -> Option<LeaseWrite> {
        match self.pending.as_ref()? {
            Pending::Grant(trainer) => Some(self.write(node, Some(trainer.clone()))),
            Pending::Release => Some(self.write(node, None)),
        }
    }

    fn write(&self, node: &NodeId, trainer: Option<TrainerId>) -> LeaseWrite {
        LeaseWrite {
            node: node.clone(),
            trainer,
            expected: self.epoch,
        }
    }

    /// The entry as the bucket has it.
    pub(super) fn restore(&mut self, owner: Option<TrainerId>, epoch: Epoch) {
        self.owner = owner;
        self.epoch = epoch;
    }

    /// The write that was under way has ended, and this is the entry now.
    pub(super) fn written(&mut self, owner: Option<TrainerId>, epoch: Epoch) -> Written {
        let pending = self.pending.take();
        // Nothing is known of a lease that another has written.
        self.used |= match &pending {
            Some(Pending::Grant(trainer)) => owner.as_ref() != Some(trainer),
            _ => owner.is_some(),
        };
        self.restore(owner, epoch);
        match (pending, &self.owner) {
            (Some(Pending::Release), Some(_)) => Written::StillHeld,
            (Some(Pending::Release), None) => Written::Released,
            (Some(Pending::Grant(wanted)), Some(owner)) if wanted == *owner => {
                Written::Granted(wanted)
            }
            (Some(Pending::Grant(_)) | None, _) => Written::Other,
        }
    }

    /// Opens a release. Returns the command for the agent.
    pub(super) fn open_release(&mut self, now: Now, safe_after: Span) -> Action {
        self.release = Some(Release {
            since: now.wall,
            safe_at: now.wall + safe_after,
        });
        Action::Release {
            reason: self.reason.clone(),
            at: Some(self.ended.take().unwrap_or(now.cluster)),
        }
    }

    /// Why the node was released.
    pub(super) fn reason(&self) -> &str {
        &self.reason
    }

    pub(super) fn set_reason(&mut self, reason: &str) {
        reason.clone_into(&mut self.reason);
    }

    /// The agent may take as long as this after the release.
    pub(super) fn extend(&mut self, safe_after: Span) {
        if let Some(release) = &mut self.release {
            release.safe_at = release.safe_at.max(release.since + safe_after);
        }
    }

    /// Whether the open release has just become overdue.
    pub(super) fn becomes_overdue(&mut self, now: Now, wait: Span) -> bool {
        let release = self.release.as_ref();
        let late = release.is_some_and(|release| now.since(release.since) >= wait);
        let becomes = late && !self.overdue;
        self.overdue |= late;
        becomes
    }

    /// Whether the agent of an open release has given up by itself.
    pub(super) fn is_safe(&self, now: Now) -> bool {
        let release = self.release.as_ref();
        release.is_some_and(|release| release.safe_at <= now.wall)
    }

    pub(super) fn confirm(&mut self) -> Option<Confirmed> {
        let release = self.release.take()?;
        Some(Confirmed {
            since: release.since,
            was_overdue: std::mem::take(&mut self.overdue),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Now {
        let at = Timestamp::from_unix(second);
        Now {
            cluster: at,
            wall: at,
        }
    }

    fn names() -> (NodeId, TrainerId, TrainerId) {
        let trainer = |name| TrainerId::new(name).unwrap();
        (NodeId::new("n1").unwrap(), trainer("a"), trainer("b"))
    }

    #[test]
    fn a_lease_is_granted_released_and_free_only_after_the_confirmation() {
        let (node, a, _) = names();
        let mut lease = Lease::default();
        assert!(lease.is_free());
        let write = lease.grant(&node, &a);
        assert_eq!(
            (write.trainer.as_ref(), write.expected),
            (Some(&a), Epoch(0))
        );
        assert!(!lease.is_free() && lease.is_held() && !lease.is_kept_by(&a));
        assert_eq!(
            lease.written(Some(a.clone()), Epoch(1)),
            Written::Granted(a.clone())
        );
        assert!(lease.is_kept_by(&a));
        let write = lease.take_back(&node, "wanted", Some(at(50).cluster));
        assert_eq!((write.trainer, write.expected), (None, Epoch(1)));
        assert!(lease.is_going_back() && !lease.is_held());
        assert_eq!(lease.written(None, Epoch(2)), Written::Released);
        let Action::Release { at: ended, .. } = lease.open_release(at(60), Span::from_secs(10))
        else {
            panic!("not a release");
        };
        assert_eq!(ended, Some(at(50).cluster));
        assert!(!lease.is_free() && lease.is_released());
        let confirmed = lease.confirm().unwrap();
        assert_eq!(
            (confirmed.since, confirmed.was_overdue),
            (at(60).wall, false)
        );
        assert!(lease.is_free() && lease.confirm().is_none());
    }

    #[test]
    fn a_write_that_others_were_faster_than_is_known_by_its_entry() {
        let (node, a, b) = names();
        let mut lease = Lease::default();
        let _ = lease.grant(&node, &a);
        assert_eq!(lease.written(Some(b.clone()), Epoch(4)), Written::Other);
        assert!(lease.is_kept_by(&b) && lease.epoch() == Epoch(4));
        let _ = lease.take_back(&node, "wanted", None);
        let again = lease.write_again(&node).unwrap();
        assert_eq!((again.trainer, again.expected), (None, Epoch(4)));
        assert_eq!(lease.written(Some(b), Epoch(5)), Written::StillHeld);
        assert!(lease.write_again(&node).is_none());
    }

    #[test]
    fn a_release_becomes_overdue_once_and_safe_when_its_agent_has_given_up() {
        let mut lease = Lease::default();
        let _ = lease.open_release(at(100), Span::from_secs(65));
        let wait = Span::from_secs(10);
        assert!(!lease.becomes_overdue(at(109), wait));
        assert!(lease.becomes_overdue(at(110), wait) && !lease.becomes_overdue(at(111), wait));
        assert!(!lease.is_safe(at(164)) && lease.is_safe(at(165)));
        lease.extend(Span::from_secs(100));
        lease.extend(Span::from_secs(30));
        assert!(!lease.is_safe(at(199)) && lease.is_safe(at(200)));
        assert!(lease.confirm().unwrap().was_overdue && !lease.is_overdue());
    }
}
