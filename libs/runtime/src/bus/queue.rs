//! Queues: messages of other programs, stored until their single reader has processed them.
//!
//! Ingest reads `lac_c_in` in order. It removes an event when a synced snapshot includes it, since
//! the stream of events is buffered. After a restart it reads from the oldest message.

use lacuna_model::Timestamp;
use lacuna_wire::Subject;
use tokio::sync::{mpsc, watch};

use super::follow::RETRY;
use super::transport::{Record, kept_by, timestamp};
use super::{Bus, BusError, Start, pairs};
use crate::clock::Stopwatch;

/// A message of a queue.
#[derive(Debug)]
pub struct Delivery {
    inner: async_nats::Message,
    /// Measures the time since its arrival.
    pub arrived: Stopwatch,
    /// Number of messages that wait behind it.
    pub pending: u64,
    /// Its sequence number in the stream.
    pub sequence: u64,
    /// When the stream took it, by the server's clock. It is the same at every delivery.
    pub stored: Timestamp,
}

impl Delivery {
    fn read(_: &Bus, message: &async_nats::Message, record: Record) -> Option<Self> {
        Some(Self {
            inner: message.clone(),
            arrived: Stopwatch::start(),
            pending: record.pending,
            sequence: record.sequence,
            stored: timestamp(record.written),
        })
    }

    /// The subject on which it was published.
    #[must_use]
    pub fn subject(&self) -> &str {
        self.inner.subject.as_str()
    }

    /// The headers as names and values.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.inner.headers.iter().flat_map(pairs)
    }

    /// The payload.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.inner.payload
    }
}

/// The reader of a queue. It begins at the oldest message that is not marked as processed.
#[derive(Debug)]
pub struct Queue {
    subject: String,
    messages: mpsc::Receiver<Delivery>,
    /// Messages up to this number are processed.
    done: watch::Sender<u64>,
}

impl Queue {
    /// The next message. Safe to drop in `select!`.
    ///
    /// # Errors
    /// [`BusError::Closed`] when the connection has been closed for good.
    pub async fn next(&mut self) -> Result<Delivery, BusError> {
        self.messages.recv().await.ok_or_else(|| BusError::Closed {
            subject: self.subject.clone(),
        })
    }

    /// The next message, if it has already arrived.
    pub fn try_next(&mut self) -> Option<Delivery> {
        self.messages.try_recv().ok()
    }

    /// Whether all messages that have arrived were taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Marks a message and all before it as processed, so that the next reader does not get them.
    /// If this process or the server is killed within moments, the mark may be lost.
    pub fn done(&self, delivery: &Delivery) {
        self.done.send_if_modified(|upto| {
            let is_later = delivery.sequence > *upto;
            *upto = delivery.sequence.max(*upto);
            is_later
        });
    }
}

impl Bus {
    /// Reads the stream of a subject as a queue: in order, from the oldest message. It must have
    /// one reader only, since two would get the same messages.
    ///
    /// # Errors
    /// [`BusError::NotKept`] or [`BusError::Stream`].
    pub async fn queue<M>(&self, subject: &Subject<M>) -> Result<Queue, BusError> {
        let stream = kept_by(subject)?.to_owned();
        let messages = self.follow_as(subject, Start::All, Delivery::read).await?;
        let (done, upto) = watch::channel(0);
        crate::task::spawn(take_out(self.clone(), stream, upto));
        Ok(Queue {
            subject: subject.to_string(),
            messages,
            done,
        })
    }
}

/// Removes processed messages from the stream, as long as there is a reader.
async fn take_out(bus: Bus, stream: String, mut upto: watch::Receiver<u64>) {
    while upto.changed().await.is_ok() {
        let first_kept = upto.borrow_and_update().saturating_add(1);
        let purged = bus.0.server.purge(&stream, first_kept).await;
        if let Err(reason) = purged {
            if upto.has_changed().is_err() {
                return;
            }
            // The next removal includes this one.
            tracing::debug!(stream, reason, "not taken out of the queue, retrying");
            tokio::time::sleep(RETRY).await;
            upto.mark_changed();
            continue;
        }
    }
}
