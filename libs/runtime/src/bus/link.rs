//! The state of the connection. Receivers wake in the order in which they began to wait. Those of
//! tokio's `watch` wake at random, so a world in virtual time would not repeat by its seed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The state of the connection, and the number of connections so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Link {
    /// Whether the connection is up.
    pub up: bool,
    /// Grows with every new connection, and when messages of this process may have been lost as in
    /// an outage.
    pub generation: u64,
}

#[derive(Debug, Default)]
struct Shared {
    /// The link, and the number of its changes.
    state: Mutex<(Link, u64)>,
    changed: Notify,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, (Link, u64)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The writing end of the link. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct LinkSender(Arc<Shared>);

impl LinkSender {
    /// Changes the link, and wakes all receivers if it differs then.
    pub(crate) fn modify(&self, change: impl FnOnce(&mut Link)) {
        let mut state = self.0.state();
        let before = state.0;
        change(&mut state.0);
        if state.0 != before {
            state.1 += 1;
            self.0.changed.notify_waiters();
        }
    }

    pub(crate) fn now(&self) -> Link {
        self.0.state().0
    }

    /// A receiver that has seen no state yet.
    pub(crate) fn receiver(&self) -> LinkReceiver {
        LinkReceiver {
            shared: self.0.clone(),
            seen: None,
        }
    }
}

/// The reading end of the link.
#[derive(Debug, Clone)]
pub struct LinkReceiver {
    shared: Arc<Shared>,
    seen: Option<u64>,
}

impl LinkReceiver {
    /// The present state.
    #[must_use]
    pub fn now(&self) -> Link {
        self.shared.state().0
    }

    /// The present state, which then counts as seen.
    pub fn seen(&mut self) -> Link {
        let state = self.shared.state();
        let (link, changes) = *state;
        drop(state);
        self.seen = Some(changes);
        link
    }

    /// Waits for a state that has not been seen. Safe to drop in `select!`.
    pub async fn changed(&mut self) {
        loop {
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let changes = self.shared.state().1;
            if self.seen != Some(changes) {
                self.seen = Some(changes);
                return;
            }
            changed.await;
        }
    }

    /// Waits for a state of the wanted kind.
    pub async fn wait_for(&mut self, wanted: impl Fn(&Link) -> bool) {
        while !wanted(&self.seen()) {
            self.changed().await;
        }
    }
}
