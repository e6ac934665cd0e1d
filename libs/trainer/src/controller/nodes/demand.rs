//! Harm: how long the main scheduler waited for a node because Lacuna had it.
//!
//! A pilot is asked for its node by SIGTERM. It measures by itself how long it takes until nothing
//! runs there any more. Its very last status says it (`AgentStatus.gave_back_in`); its first one
//! goes out at once, so the others train on. Any other agent's node is asked for by an event. If the
//! node is busy or down, lateness counts from that event; if it is wanted by a deadline, from the
//! deadline. An event about a pilot's node asks for nothing, since the main
//! scheduler does not wait before it has sent the signal.
//!
//! Control exports `lacuna_control_harm_seconds`. The waits that prologs of batch jobs measure are
//! handled in `services/control/src/handover.rs`.

use lacuna_model::{Span, Timestamp};

use crate::Now;
use crate::controller::Taken;

/// The main scheduler waits for the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Asked {
    taken: Taken,
    /// Since this moment of real time.
    since: Timestamp,
}

/// The demand of the main scheduler for one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Demand {
    /// Whether it waits for an answer.
    wants_answer: bool,
    asked: Option<Asked>,
}

impl Demand {
    /// The node is a hole: nothing is wanted of it.
    pub(super) fn none(&mut self) {
        *self = Self::default();
    }

    /// An event has taken the node, which a trainer holds or whose release is not confirmed.
    pub(super) fn ask(&mut self, taken: Taken, now: Now) {
        let since = now.wall;
        self.wants_answer = true;
        self.asked.get_or_insert(Asked { taken, since });
    }

    /// An answer is owed, without a known beginning of the wait.
    pub(super) const fn owe(&mut self, answer: bool) {
        self.wants_answer = answer;
    }

    /// Takes the owed answer.
    pub(super) fn answer(&mut self) -> bool {
        std::mem::take(&mut self.wants_answer)
    }

    /// Whether the node is asked for because it is down.
    pub(super) fn is_down(&self) -> bool {
        self.asked.is_some_and(|asked| asked.taken == Taken::Down)
    }

    /// A node that is down, with a silent agent, causes no harm.
    pub(super) fn forget_down(&mut self) {
        self.asked.take_if(|asked| asked.taken == Taken::Down);
    }

    /// The node is given back: how it had been asked for, and how long the main scheduler waited.
    /// Events about the node of a pilot ask for nothing.
    pub(super) fn given_back(&mut self, now: Now, is_pilots: bool) -> Option<(&'static str, Span)> {
        let asked = self.asked?;
        let (cause, harm) = match asked.taken {
            Taken::Wanted { deadline } => ("wanted", now.cluster.since(deadline)),
            Taken::Busy | Taken::Down if is_pilots => return None,
            Taken::Busy => ("taken", now.since(asked.since)),
            Taken::Down => ("drained", now.since(asked.since)),
        };
        self.asked = None;
        Some((cause, harm.max(Span::ZERO)))
    }
}
