//! Whether the server is there. Receivers wake in the order in which they began to wait: those of
//! tokio's `watch` wake at random, and a world in virtual time would not come again by its seed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Whether the server is there, and how often it has been found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Link {
    /// Whether the connection stands.
    pub up: bool,
    /// Grows with every connection made, and whenever what this process said may have been lost as
    /// in an outage.
    pub generation: u64,
}

#[derive(Debug, Default)]
struct Shared {
    /// The link, and how often it has changed.
    state: Mutex<(Link, u64)>,
    changed: Notify,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, (Link, u64)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Changes the link. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct LinkSender(Arc<Shared>);

impl LinkSender {
    /// Changes it, and wakes all receivers if it is another then.
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

    /// A receiver that has not seen the present.
    pub(crate) fn receiver(&self) -> LinkReceiver {
        LinkReceiver {
            shared: self.0.clone(),
            seen: None,
        }
    }
}

/// The link as it is and as it changes.
#[derive(Debug, Clone)]
pub struct LinkReceiver {
    shared: Arc<Shared>,
    seen: Option<u64>,
}

impl LinkReceiver {
    /// The present.
    #[must_use]
    pub fn now(&self) -> Link {
        self.shared.state().0
    }

    /// The present, which has then been seen.
    pub fn seen(&mut self) -> Link {
        let state = self.shared.state();
        let (link, changes) = *state;
        drop(state);
        self.seen = Some(changes);
        link
    }

    /// Waits until there is a link that has not been seen. Safe to drop in `select!`.
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

    /// Waits until the link is as it should be.
    pub async fn wait_for(&mut self, wanted: impl Fn(&Link) -> bool) {
        while !wanted(&self.seen()) {
            self.changed().await;
        }
    }
}
