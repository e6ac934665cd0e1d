//! How a trainer's programs fare: failures that wait for their restart, broken groups, progress.
//!
//! A failure waits for a moment. Until then it may be explained by something else: a program that
//! dies just before its node is taken has not failed.

use lacuna_model::{Span, Timestamp};

use crate::Now;

/// An incarnation is not given up for a broken group before this age: what breaks at once may break
/// again and again.
const BETWEEN: Span = Span::from_secs(2);

/// A restart that waits.
#[derive(Debug, Clone, PartialEq)]
struct Restart {
    /// Real time.
    since: Timestamp,
    at: Timestamp,
    /// Whether a failure was counted for it.
    is_counted: bool,
    /// How long the trainer had made progress before it.
    healthy: Span,
    due: Due,
}

/// What a restart does once it is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// The incarnation restarts on its nodes.
    OnNodes,
    /// The nodes are given back.
    GivesBack,
    /// A member's program has exited, and others may before it is known which one is to blame: the
    /// failure is counted, then the nodes are given back.
    CountsAndGivesBack,
}

/// How a trainer's programs fare. All times are real ones.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Health {
    restart: Option<Restart>,
    /// When a member of the present incarnation first reported that its group is broken.
    broken: Option<Timestamp>,
    /// When the present incarnation began.
    begun: Timestamp,
    /// The present incarnation's newest progress, or its beginning.
    progressed: Timestamp,
    /// How long the trainer has made progress since its last failure.
    healthy: Span,
    /// Restarts without a failure since the trainer had more than `samples` for the first time.
    restarts: u32,
    samples: f64,
    /// When a member of the present incarnation first exited with code 0 before any word of an end.
    exited_early: Option<Timestamp>,
}

impl Health {
    /// An incarnation goes on, from now, as far as is known.
    pub(super) fn resumed(now: Now) -> Self {
        Self {
            restart: None,
            broken: None,
            begun: now.wall,
            progressed: now.wall,
            healthy: Span::ZERO,
            restarts: 0,
            samples: 0.0,
            exited_early: None,
        }
    }

    /// A new incarnation begins.
    pub(super) fn begin(&mut self, now: Now) {
        self.restart = None;
        self.broken = None;
        self.exited_early = None;
        self.begun = now.wall;
        self.progressed = now.wall;
    }

    /// Whether a restart waits.
    pub(crate) const fn is_restarting(&self) -> bool {
        self.restart.is_some()
    }

    /// The incarnation has made progress. Returns for how long, since it last did.
    pub(super) fn progress(&mut self, now: Now) -> Span {
        let more = now.since(self.progressed);
        self.progressed = now.wall;
        self.healthy += more;
        more
    }

    /// How long the trainer has made progress since its last failure.
    pub(super) const fn healthy(&self) -> Span {
        self.healthy
    }

    /// A failure was counted: after `wait` the whole incarnation is to restart, on its nodes if it
    /// keeps them.
    pub(super) fn restart_after_failure(&mut self, wait: Span, keeps_nodes: bool, now: Now) {
        let due = if keeps_nodes {
            Due::OnNodes
        } else {
            Due::GivesBack
        };
        self.restart = Some(Restart {
            since: now.wall,
            at: now.wall + wait,
            is_counted: true,
            healthy: std::mem::take(&mut self.healthy),
            due,
        });
    }

    /// The whole incarnation is to restart at once, without a failure of its program.
    pub(super) fn restart_at_once(&mut self, now: Now) {
        self.restart = Some(Restart {
            since: now.wall,
            at: now.wall,
            is_counted: false,
            healthy: Span::ZERO,
            due: Due::OnNodes,
        });
    }

    /// A member's program has exited: `wait` after the first that did, the incarnation gives its
    /// nodes back, for a failure that is counted then.
    pub(super) fn await_exits(&mut self, wait: Span, now: Now) {
        let before = self.restart.as_ref().map(|restart| restart.since);
        let since = before.unwrap_or(now.wall);
        self.restart = Some(Restart {
            since,
            at: since + wait,
            is_counted: false,
            healthy: Span::ZERO,
            due: Due::CountsAndGivesBack,
        });
    }

    /// Whether a restart waits that no exit of a program changes.
    pub(crate) fn is_decided(&self) -> bool {
        self.restart
            .as_ref()
            .is_some_and(|restart| restart.due != Due::CountsAndGivesBack)
    }

    /// Counts a restart without a failure, of a trainer with this number of samples. Returns how
    /// many in a row have brought no new ones.
    pub(super) fn count_restart(&mut self, samples: f64) -> u32 {
        if samples > self.samples {
            (self.samples, self.restarts) = (samples, 0);
        }
        self.restarts += 1;
        self.restarts
    }

    /// Whether the first early exit with code 0 was less than `limit` ago: this one, or an earlier.
    pub(super) fn waits_for_word(&mut self, limit: Span, now: Now) -> bool {
        now.since(*self.exited_early.get_or_insert(now.wall)) < limit
    }

    /// Progress before a failure counts no longer.
    pub(super) const fn forget_progress(&mut self) {
        self.healthy = Span::ZERO;
    }

    /// Takes back the restart that waits. Returns whether a failure was counted for it.
    pub(super) fn forgive(&mut self) -> bool {
        let counted = |restart: &Restart| restart.is_counted;
        let Some(restart) = self.restart.take().filter(counted) else {
            return false;
        };
        self.healthy += restart.healthy;
        true
    }

    /// Takes the restart that is due, if there is one.
    pub(super) fn take_due(&mut self, now: Now) -> Option<Due> {
        let restart = self.restart.take_if(|restart| restart.at <= now.wall)?;
        Some(restart.due)
    }

    /// When the nodes of a failed incarnation are given back.
    pub(crate) fn gives_back_at(&self) -> Option<Timestamp> {
        let gives_back = |restart: &&Restart| restart.due != Due::OnNodes;
        let restart = self.restart.as_ref().filter(gives_back);
        restart.map(|restart| restart.at)
    }

    /// Whether a member has reported that the group is broken.
    pub(crate) const fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// A member says that the group is broken. Returns whether it is the first, and since when
    /// the group is.
    pub(super) fn break_group(&mut self, now: Now) -> (bool, Timestamp) {
        let first = self.broken.is_none();
        (first, *self.broken.get_or_insert(now.wall))
    }

    /// Members meet although a restart waits for them: there is nothing to restart for.
    pub(super) fn meet_again(&mut self) {
        self.restart = None;
        self.broken = None;
    }

    /// No member reports a broken group any more.
    pub(super) const fn mend_group(&mut self) {
        self.broken = None;
    }

    /// When members without an answer have had `wait` to give one, or when the restart is due.
    pub(crate) fn judged_at(&self, wait: Span) -> Option<Timestamp> {
        let since = self.broken?;
        let restart = self.restart.as_ref().map(|restart| restart.at);
        Some(restart.unwrap_or((since + wait).max(self.begun + BETWEEN)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Now {
        Now {
            cluster: Timestamp::default(),
            wall: Timestamp::from_unix(second),
        }
    }

    #[test]
    fn a_failure_counts_when_its_restart_is_due_and_not_before() {
        let mut health = Health::resumed(at(0));
        assert_eq!(health.progress(at(30)), Span::from_secs(30));
        health.restart_after_failure(Span::from_secs(10), false, at(30));
        assert_eq!(health.healthy(), Span::ZERO);
        assert_eq!(health.take_due(at(39)), None);
        assert_eq!(health.gives_back_at(), Some(at(40).wall));
        assert!(health.forgive(), "something else explains it");
        assert_eq!(health.healthy(), Span::from_secs(30));
        health.restart_after_failure(Span::from_secs(10), true, at(40));
        assert_eq!(health.gives_back_at(), None);
        assert_eq!(health.take_due(at(50)), Some(Due::OnNodes));
        health.restart_at_once(at(60));
        assert!(
            !health.forgive() && !health.is_restarting(),
            "no failure was counted"
        );
    }

    #[test]
    fn exits_are_awaited_from_the_first_on() {
        let mut health = Health::resumed(at(0));
        health.await_exits(Span::from_secs(10), at(1));
        assert!(health.is_restarting() && !health.is_decided());
        health.await_exits(Span::from_secs(2), at(2));
        assert_eq!(health.gives_back_at(), Some(at(3).wall));
        assert_eq!(health.take_due(at(3)), Some(Due::CountsAndGivesBack));
        health.restart_at_once(at(4));
        assert!(health.is_decided());
    }

    #[test]
    fn a_broken_group_is_judged_after_the_wait_or_with_its_restart() {
        let mut health = Health::resumed(at(100));
        let wait = Span::from_secs(1);
        assert_eq!(health.judged_at(wait), None);
        assert_eq!(health.break_group(at(100)), (true, at(100).wall));
        assert_eq!(health.break_group(at(101)), (false, at(100).wall));
        assert_eq!(health.judged_at(wait), Some(at(102).wall), "not at once");
        assert_eq!(health.judged_at(Span::from_secs(5)), Some(at(105).wall));
        health.restart_after_failure(Span::from_secs(60), true, at(101));
        assert_eq!(health.judged_at(wait), Some(at(161).wall));
        health.mend_group();
        assert_eq!(health.judged_at(wait), None);
    }
}
