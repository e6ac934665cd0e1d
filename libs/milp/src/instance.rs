//! The one HiGHS instance of the process.
//!
//! A HiGHS instance is bound to its thread, and destroying one resets a scheduler that all
//! instances share (HiGHS pull request 3141). So a process has at most one instance at a time.

use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The lock of the one instance.
static ONE_INSTANCE: Mutex<()> = Mutex::new(());

thread_local! {
    /// Whether a linear program of this thread is open.
    static OPEN: Cell<bool> = const { Cell::new(false) };
}

/// Whether a linear program of this thread is open: waiting for the instance would never end.
pub(crate) fn is_open_here() -> bool {
    OPEN.get()
}

/// Waits for the instance, for one solve.
pub(crate) fn lock() -> MutexGuard<'static, ()> {
    ONE_INSTANCE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The right to the one instance, for as long as a linear program is open.
#[derive(Debug)]
pub(crate) struct Alone {
    _guard: MutexGuard<'static, ()>,
}

impl Alone {
    /// Waits for the instance, for a linear program of this thread.
    pub(crate) fn open() -> Self {
        let alone = Self { _guard: lock() };
        OPEN.set(true);
        alone
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        OPEN.set(false);
    }
}
