//! The agent of one node, as far as control knows it: its last status, its silence, and the newest
//! command that was sent to it.
//!
//! - An agent that leaves says so. From then on the node has no agent, until one speaks there
//!   again.
//! - A command without an acknowledgement is sent again after 2, 4, 8, 16 and then every 32 s. An
//!   agent that speaks after a silence, or after an outage of the bus, starts that over.

use lacuna_model::{
    Action, Activity, AgentStatus, AgentTerms, Command, Epoch, Span, Timestamp, TrainerId,
};

use crate::Now;

/// A write to the bus and the way to an agent, at worst.
const SLACK: Span = Span::from_secs(5);
/// The longest time that an agent may claim to take. A longer claim is false.
const LONGEST: Span = Span::from_secs(86_400);
/// An agent speaks within this time after a command, where there is one.
const SPEAKS: Span = Span::from_secs(5);
/// Waits before a command is sent again are doubled this many times at most.
const DOUBLINGS: u32 = 4;

/// The newest command to a node.
#[derive(Debug, Clone, PartialEq)]
struct Sent {
    command: Command,
    /// Real time of the last sending.
    last: Timestamp,
    /// How often it was sent again since its agent was last known to listen.
    again: u32,
}

/// An agent has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Left {
    /// The cause under which its leaving is counted.
    cause: &'static str,
}

/// Whether the agent with this status may run programs of a trainer.
pub(super) fn serves(status: &AgentStatus, trainer: &TrainerId) -> bool {
    status.serves.as_ref().is_none_or(|only| only == trainer)
}

/// State of a node's agent.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct AgentView {
    status: Option<AgentStatus>,
    /// When it last spoke, or when control began to listen (real time).
    heard: Option<Timestamp>,
    silent: bool,
    /// Whether an agent has ever spoken there.
    has_spoken: bool,
    /// Whether it was noted that none has.
    is_missed: bool,
    left: Option<Left>,
    sent: Option<Sent>,
    /// While it is silent: when the node may be used all the same, if agents come on demand (real
    /// time).
    usable_at: Option<Timestamp>,
    /// How often in a row no agent has come.
    missed: u32,
}

impl AgentView {
    /// Its last status, unless it has left.
    pub(crate) const fn status(&self) -> Option<&AgentStatus> {
        self.status.as_ref()
    }

    /// Whether it is there and may run programs of this trainer.
    pub(crate) fn is_for(&self, trainer: &TrainerId) -> bool {
        let status = self.status().filter(|_| !self.has_left());
        status.is_some_and(|status| serves(status, trainer))
    }

    /// When it last spoke, or when control began to listen (real time).
    pub(crate) const fn heard(&self) -> Option<Timestamp> {
        self.heard
    }

    pub(crate) const fn is_silent(&self) -> bool {
        self.silent
    }

    /// Whether it has reported that it leaves, and no agent has reported since.
    pub(crate) const fn has_left(&self) -> bool {
        self.left.is_some()
    }

    /// Whether an agent has ever spoken there, as far as control knows.
    pub(crate) const fn has_spoken(&self) -> bool {
        self.has_spoken
    }

    /// Whether none has spoken there although control has listened for [`SPEAKS`].
    pub(crate) fn is_missing(&self, now: Now) -> bool {
        !self.has_spoken && self.is_unheard(now, SPEAKS)
    }

    /// Whether that is so since now.
    pub(super) fn becomes_missing(&mut self, now: Now) -> bool {
        let missing = self.is_missing(now);
        missing && !std::mem::replace(&mut self.is_missed, true)
    }

    /// The newest command to it.
    pub(crate) fn command(&self) -> Option<&Command> {
        self.sent.as_ref().map(|sent| &sent.command)
    }

    /// Whether it has obeyed the newest command.
    pub(crate) fn has_acknowledged(&self) -> bool {
        let Some(command) = self.command() else {
            return true;
        };
        self.status()
            .is_some_and(|status| (status.epoch, status.seq) >= (command.epoch, command.seq))
    }

    /// Whether it was commanded, under the lease of this epoch, to start the program.
    pub(crate) fn is_preparing(&self, epoch: Epoch) -> bool {
        self.command().is_some_and(|command| {
            command.epoch == epoch && matches!(command.action, Action::Prepare(_))
        })
    }

    /// Whether its program has said, under the lease of this epoch, that it waits to be taken
    /// into an incarnation of the trainer.
    pub(crate) fn is_ready_for(&self, trainer: &TrainerId, epoch: Epoch) -> bool {
        self.status().is_some_and(|status| {
            status.epoch == epoch
                && matches!(&status.activity,
                    Activity::Prepared { trainer: of, ready: true } if of == trainer)
        })
    }

    /// How long after a release it has given up by itself: by control's configuration or by its
    /// own, whichever is longer.
    pub(super) fn safe_after(&self, configured: Span) -> Span {
        let terms = self.status.as_ref().and_then(|status| status.terms);
        let own = terms.map_or(Span::ZERO, |terms| {
            (terms.lease_timeout + terms.grace + SLACK).min(LONGEST)
        });
        own.max(configured)
    }

    /// It spoke. Returns whether it had been silent, and its terms if they are other ones than
    /// before.
    pub(super) fn hear(&mut self, status: &AgentStatus, now: Now) -> (bool, Option<AgentTerms>) {
        self.heard = Some(now.wall);
        self.has_spoken = true;
        self.left = None;
        self.usable_at = None;
        self.missed = 0;
        let is_new = self.status.as_ref().map(|before| &before.serves) != Some(&status.serves);
        if is_new && status.serves.is_some() {
            self.listens_from_now();
        }
        let was_silent = std::mem::take(&mut self.silent);
        if was_silent {
            self.listens();
        }
        let before = self.status.replace(status.clone());
        let before = before.and_then(|before| before.terms);
        let terms = status.terms.filter(|terms| before != Some(*terms));
        (was_silent, terms)
    }

    /// Waits for the next sending of its command start over.
    fn listens(&mut self) {
        if let Some(sent) = &mut self.sent {
            sent.again = 0;
        }
    }

    /// Its command is sent again at once.
    fn listens_from_now(&mut self) {
        if let Some(sent) = &mut self.sent {
            sent.again = 0;
            sent.last = Timestamp::default();
        }
    }

    /// Its node has no agent for its trainer, until one speaks there. That is as it should be.
    pub(super) fn await_next(&mut self) {
        self.heard = None;
        self.status = None;
        self.silent = false;
        self.usable_at = None;
    }

    /// Its node is unusable until then, unless an agent speaks there.
    pub(super) const fn unusable_until(&mut self, at: Timestamp) {
        self.silent = true;
        self.usable_at = Some(at);
    }

    /// The same, if it is unusable for an unknown time.
    pub(super) const fn unusable_from(&mut self, at: Timestamp) {
        if self.usable_at.is_none() {
            self.unusable_until(at);
        }
    }

    /// No agent has come. Returns how often in a row.
    pub(super) const fn miss(&mut self) -> u32 {
        self.missed = self.missed.saturating_add(1);
        self.missed
    }

    /// Whether the time is over for which its node was unusable.
    pub(super) fn is_usable_again(&self, now: Now) -> bool {
        self.silent && self.usable_at.is_some_and(|at| at <= now.wall)
    }

    /// After an outage of the bus: silence during it does not count.
    pub(super) fn reconnected(&mut self, now: Now) {
        if self.heard.is_some() {
            self.heard = Some(now.wall);
        }
        self.listens();
    }

    /// Control listens from now on, if it has not before.
    pub(super) fn listen(&mut self, now: Now) {
        self.heard.get_or_insert(now.wall);
    }

    /// Whether an agent has ever been listened for.
    pub(super) const fn is_known(&self) -> bool {
        self.heard.is_some()
    }

    pub(super) const fn silence(&mut self) {
        self.silent = true;
    }

    /// Whether it has been silent for this long.
    pub(super) fn is_unheard(&self, now: Now, length: Span) -> bool {
        let silence = self.heard.map_or(Span::ZERO, |heard| now.since(heard));
        silence >= length
    }

    /// It says that it leaves, which counts as `cause` unless it has said so before. Returns
    /// whether it is the first time, and as what it counts.
    pub(super) fn leave(&mut self, cause: &'static str) -> (bool, &'static str) {
        let first = self.left.is_none();
        let left = self.left.get_or_insert(Left { cause });
        (first, left.cause)
    }

    /// Its node has no agent any more.
    pub(super) fn forget(&mut self) {
        self.heard = None;
        self.status = None;
        self.silent = true;
    }

    /// Nothing is expected of an agent that has left.
    pub(super) const fn expect_nothing(&mut self) {
        self.heard = None;
    }

    pub(super) fn send(&mut self, command: Command, now: Now) {
        self.listen(now);
        self.sent = Some(Sent {
            command,
            last: now.wall,
            again: 0,
        });
    }

    /// The newest command, if it is time to send it again. The first wait is `after`.
    pub(super) fn resend(&mut self, now: Now, after: Span) -> Option<&Command> {
        let sent = self.sent.as_mut()?;
        let wait_ms = after.as_ms() << sent.again.min(DOUBLINGS);
        if now.since(sent.last).as_ms() < wait_ms {
            return None;
        }
        sent.last = now.wall;
        sent.again += 1;
        Some(&sent.command)
    }
}
