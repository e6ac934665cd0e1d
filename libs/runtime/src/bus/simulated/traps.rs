//! Traps: a line of a host stalls, or is lost, at the very message of a subject.

use tokio::sync::oneshot;

use super::store::Filter;

/// The fault of a line at a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trap {
    /// The host stalls: this message and all later ones wait for
    /// [`SimulatedServer::flow`](super::SimulatedServer::flow).
    Stall,
    /// The message arrives, and all behind it is lost, as if the machine had failed.
    Lose,
}

/// A trap that waits for its message.
struct Set {
    host: String,
    filter: Filter,
    trap: Trap,
    /// Messages that pass before.
    pass: u64,
    into: oneshot::Sender<String>,
}

/// The traps that wait.
#[derive(Default)]
pub(super) struct Traps(Vec<Set>);

impl Traps {
    /// Sets one. The answer comes when it springs: the subject of the message.
    pub(super) fn set(
        &mut self,
        host: &str,
        subject: &str,
        pass: u64,
        trap: Trap,
    ) -> oneshot::Receiver<String> {
        let (into, sprung) = oneshot::channel();
        self.0.push(Set {
            host: host.to_owned(),
            filter: Filter::new(subject),
            trap,
            pass,
            into,
        });
        sprung
    }

    /// Whether one of this kind springs at a message of a host. One whose answer is not awaited any
    /// more does nothing.
    pub(super) fn springs(&mut self, host: &str, subject: &str, trap: Trap) -> bool {
        self.0.retain(|set| !set.into.is_closed());
        let waits = |set: &Set| set.host == host && set.trap == trap && set.filter.matches(subject);
        let Some(at) = self.0.iter().position(waits) else {
            return false;
        };
        if let Some(set) = self.0.get_mut(at)
            && set.pass > 0
        {
            set.pass -= 1;
            return false;
        }
        let into = self.0.swap_remove(at).into;
        into.send(subject.to_owned()).is_ok()
    }
}
