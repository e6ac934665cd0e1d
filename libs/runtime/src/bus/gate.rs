//! The fence of leadership: an instance writes only while its lead is sure.
//!
//! Later messages are lost, as they are while the server is away; states are repeated after a
//! reconnection only when the lead is confirmed. An instance that finds the lead taken ends with
//! exit code 75. So a process that was stopped, or comes back from the other side of a broken
//! network, publishes nothing older than the next active instance has published.
//!
//! Messages handed to the network before that are fenced further on, and so are those of a moment
//! with two leaders because somebody wrote the lead by hand:
//!
//! 1. leases and trainers' records by compare-and-set;
//! 2. commands by epoch and number at the agent;
//! 3. plans by generation at control;
//! 4. ingest by its first snapshot;
//! 5. the pool and the trainers' state have no fence of their own: an old one may be heard for a
//!    moment, and the active one's next replaces it. Plans made from it are judged by generation,
//!    run and event number like any other.
//!
//! A running call of the scheduler's commands (`sbatch`, `scancel`) cannot be taken back: the next
//! control adopts its pilot (`pilots::keeper`).

use std::sync::Mutex;
use std::time::Duration;

use lacuna_wire::{Message, Subject};

use super::{Bus, BusError};
use crate::clock::Stopwatch;

/// Between looks.
const LOOK: Duration = Duration::from_millis(5);

/// So long a writer waits after a reconnection for the lead to be confirmed.
const PATIENCE_S: f64 = 1.0;

/// Until when this process may write; for ever, unless it has been limited.
#[derive(Debug, Default)]
pub(super) struct Gate(Mutex<Option<Limit>>);

#[derive(Debug, Clone, Copy)]
struct Limit {
    since: Stopwatch,
    length: Duration,
}

impl Gate {
    fn set(&self, limit: Limit) {
        *self.0.lock().unwrap_or_else(|e| e.into_inner()) = Some(limit);
    }

    fn get(&self) -> Option<Limit> {
        *self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Limit {
    fn open(self) -> bool {
        self.since.seconds() < self.length.as_secs_f64()
    }
}

impl Bus {
    /// From now on this process writes only within this time since then, or until it is said
    /// again.
    pub(crate) fn write_within(&self, since: Stopwatch, length: Duration) {
        self.0.gate.set(Limit { since, length });
    }

    /// Whether a message may go out. Just after a reconnection this waits a little for the lead to
    /// be confirmed. While the server is away nothing may: what waits in the client would go out
    /// when another one leads.
    pub(super) async fn may_write(&self) -> bool {
        let waiting = Stopwatch::start();
        loop {
            match self.0.gate.get() {
                None => return true,
                Some(_) if !self.connected() => return false,
                Some(limit) if limit.open() => return true,
                Some(_) if waiting.seconds() >= PATIENCE_S => return false,
                Some(_) => tokio::time::sleep(LOOK).await,
            }
        }
    }

    /// Waits until this process may write; gives whether it may, or the connection is gone again.
    pub(super) async fn writes_again(&self) -> bool {
        while !self.may_write().await {
            if !self.connected() {
                return false;
            }
        }
        true
    }

    /// As [`Bus::store_after`], whether or not this process may write otherwise: for the lead
    /// itself.
    pub(crate) async fn claim<M: Message>(
        &self,
        subject: &Subject<M>,
        message: &M,
        newest: u64,
    ) -> Result<u64, BusError> {
        let (headers, payload) = self.pack_after(subject.as_str(), message, "", newest)?;
        self.send_bytes(subject.as_str(), headers, payload.into())
            .await?
            .wait()
            .await
    }
}
