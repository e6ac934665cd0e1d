//! One ingest at a time: snapshots are written by compare-and-set, and their numbers say which of
//! two processes goes on.
//!
//! The start of an ingest jumps far ahead in its numbers. Of two snapshots by different processes,
//! the one with the greater number is of the process that started later, and that process goes on.
//! The other finds it when it writes a snapshot, hears of one, or looks before it acknowledges
//! external events, and ends with exit code 75. The ended process writes no snapshot after the
//! other's first. Its last events have smaller numbers than that snapshot, so consumers that have
//! it ignore them. A snapshot with a smaller number is not another's work: the server has lost its
//! newest writes.

use lacuna_model::NodeEvent;
use lacuna_runtime::{Bus, BusError, Received, ServiceError, Superseded};
use lacuna_wire::address;

/// Writes snapshots, and watches that nobody else does.
#[derive(Debug)]
pub(crate) struct Writer {
    bus: Bus,
    /// The sequence number, in the stream, of the newest snapshot known.
    newest: u64,
}

impl Writer {
    /// Nothing is known yet.
    pub(crate) fn new(bus: Bus) -> Self {
        Self { bus, newest: 0 }
    }

    /// The newest snapshot kept, whoever wrote it. The next write is meant to follow it.
    ///
    /// # Errors
    /// [`BusError`] if the stream cannot be read.
    pub(crate) async fn look(&mut self) -> Result<Option<Received<NodeEvent>>, BusError> {
        let newest = self
            .bus
            .newest(&address::snapshot(self.bus.cluster()))
            .await?;
        self.newest = newest.sequence();
        Ok(newest.understood())
    }

    /// Writes a snapshot after the newest known.
    ///
    /// # Errors
    /// [`BusError::Conflict`] if another one has been written; else [`BusError`] if it may not
    /// have been kept.
    pub(crate) async fn write(
        &mut self,
        snapshot: &NodeEvent,
        cause: &str,
    ) -> Result<(), BusError> {
        let subject = address::snapshot(self.bus.cluster());
        let stored = self.bus.store_after(&subject, snapshot, cause, self.newest);
        self.newest = stored.await?;
        Ok(())
    }

    /// Writes a snapshot, whatever the server has lost meanwhile.
    ///
    /// # Errors
    /// [`Superseded`] if a later ingest writes, else [`BusError`].
    pub(crate) async fn keep(
        &mut self,
        snapshot: &NodeEvent,
        cause: &str,
    ) -> Result<(), ServiceError> {
        match self.write(snapshot, cause).await {
            Err(error) if error.is_conflict() => {
                self.check(snapshot.seq).await?;
                Ok(self.write(snapshot, cause).await?)
            }
            other => Ok(other?),
        }
    }

    /// Looks whether this process, whose newest number is `seq`, is still the one that writes.
    ///
    /// # Errors
    /// [`Superseded`] if a later ingest writes, else [`BusError`].
    pub(crate) async fn check(&mut self, seq: u64) -> Result<(), ServiceError> {
        match self.look().await? {
            Some(last) => Ok(self.heard(&last, seq)?),
            None => Ok(()),
        }
    }

    /// Judges a snapshot that has been heard.
    ///
    /// # Errors
    /// [`Superseded`] if it is of a later ingest.
    pub(crate) fn heard(&self, last: &Received<NodeEvent>, seq: u64) -> Result<(), Superseded> {
        let (sender, own) = (Bus::sender(&last.envelope), self.bus.instance());
        if sender != own && (last.message.seq, sender) > (seq, own) {
            return Err(Superseded(format!(
                "another ingest writes for cluster {}: it started later and goes on, this one \
                     ends",
                self.bus.cluster()
            )));
        }
        Ok(())
    }
}
