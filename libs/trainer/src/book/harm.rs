//! Harm: how long the main scheduler waited for a node because Lacuna had it.
//!
//! A pilot is asked for its node by SIGTERM. It measures itself how long it takes until nothing
//! runs there any more, and its very last status tells (`AgentStatus.gave_back_in`); its first one
//! goes out at once, so the others train on. Any other agent's node is asked for by an event: one
//! that a batch job has, or that is down, was wanted at once, and is late from then on; one that is
//! wanted by a deadline is late after that. An event about a pilot's node asks for nothing: the
//! main scheduler does not wait before it has sent the signal.
//!
//! Control exports `lacuna_control_harm_seconds`. What batch jobs saw by their prologs stands in
//! `services/control/src/handover.rs`.

use lacuna_model::{AgentStatus, NodeId, Span, Timestamp};

use crate::Now;
use crate::book::state::Out;
use crate::book::{Book, Note, Taken};

/// The main scheduler waits for a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asked {
    taken: Taken,
    /// Since this moment of real time.
    since: Timestamp,
}

/// An agent has said its last words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gone {
    /// What its leaving counts as.
    cause: &'static str,
}

impl Book {
    /// An event has taken a node that somebody holds or has not confirmed to have given back.
    pub(crate) fn asked(&mut self, id: &NodeId, taken: Taken, now: Now) {
        let since = now.wall;
        self.node(id).asked.get_or_insert(Asked { taken, since });
    }

    /// A node is given back, perhaps to the main scheduler.
    pub(crate) fn answered(&mut self, id: &NodeId, now: Now, out: &mut Out) {
        let pilots = self.config.control.submits_pilots();
        let node = self.node(id);
        let Some(asked) = node.asked else {
            return;
        };
        let (cause, harm) = match asked.taken {
            Taken::Wanted { deadline } => ("wanted", now.cluster.since(deadline)),
            // A pilot is still there, and is asked by a signal.
            Taken::Busy | Taken::Down if pilots => return,
            Taken::Busy => ("taken", now.since(asked.since)),
            Taken::Down => ("drained", now.since(asked.since)),
        };
        node.asked = None;
        out.note(Note::GivenBack {
            node: id.clone(),
            cause,
            harm: harm.max(Span::ZERO),
        });
    }

    /// A node is given back because its agent must have given up by now. Nobody waits for one
    /// that is down, and whose agent does not speak: it is dead.
    pub(crate) fn answered_unheard(&mut self, id: &NodeId, now: Now, out: &mut Out) {
        let node = self.node(id);
        node.asked.take_if(|asked| asked.taken == Taken::Down);
        self.answered(id, now, out);
    }

    /// An agent says its last words: at once when it leaves, and once more when nothing runs any
    /// more, with how long that took if it was asked to. Returns whether they are the first.
    pub(crate) fn last_words(&mut self, status: &AgentStatus, out: &mut Out) -> bool {
        let node = self.node(&status.node);
        let first = node.gone.is_none();
        let down = matches!(node.asked.map(|asked| asked.taken), Some(Taken::Down));
        let cause = match node.gone {
            Some(gone) => gone.cause,
            None if down => "drained",
            None if node.owner.is_some() => "preempted",
            None => "idle",
        };
        node.gone = Some(Gone { cause });
        if let Some(harm) = status.gave_back_in {
            out.note(Note::GivenBack {
                node: status.node.clone(),
                cause,
                harm,
            });
        }
        first
    }
}
