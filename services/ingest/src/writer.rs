//! One ingest at a time: snapshots are written by compare-and-set, and their numbers decide which
//! of two processes goes on.
//!
//! An ingest jumps far ahead in its numbers at its start. Of two snapshots by different processes,
//! the greater number belongs to the process that started later, and that process goes on. The
//! other process finds that snapshot when it writes one, receives one, or looks before it
//! acknowledges external events. It then ends with exit code 75, and writes no further snapshot.
//! Its last events have smaller numbers than that snapshot, so consumers ignore them. A snapshot
//! with a smaller number than ours means that the server has lost its newest writes.

use lacuna_model::NodeEvent;
use lacuna_runtime::{Bus, BusError, Received, ServiceError, Superseded};
use lacuna_wire::address;

/// Writes snapshots, and detects another writer.
#[derive(Debug)]
pub(crate) struct Writer {
    bus: Bus,
    /// Sequence number of the newest known snapshot in the stream.
    newest: u64,
}

impl Writer {
    /// A writer that knows no snapshot yet.
    pub(crate) fn new(bus: Bus) -> Self {
        Self { bus, newest: 0 }
    }

    /// Reads the newest stored snapshot, of any writer. The next write must follow it.
    ///
    /// # Errors
    /// [`BusError`] if the stream cannot be read.
    pub(crate) async fn look(&mut self) -> Result<Option<Received<NodeEvent>>, BusError> {
        let newest = self
            .bus
            .newest(&address::snapshot(self.bus.cluster()))
            .await?;
        self.newest = newest.sequence();
        Ok(newest.decoded())
    }

    /// Writes a snapshot after the newest known one.
    ///
    /// # Errors
    /// [`BusError::Conflict`] if another snapshot has been written; another [`BusError`] if this
    /// one may not be stored.
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

    /// Writes a snapshot, even if the server has lost the one before.
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

    /// Checks that this process, whose newest number is `seq`, is still the writer.
    ///
    /// # Errors
    /// [`Superseded`] if a later ingest writes, else [`BusError`].
    pub(crate) async fn check(&mut self, seq: u64) -> Result<(), ServiceError> {
        match self.look().await? {
            Some(last) => Ok(self.heard(&last, seq)?),
            None => Ok(()),
        }
    }

    /// Checks a snapshot that has been received.
    ///
    /// # Errors
    /// [`Superseded`] if a later ingest wrote it.
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
