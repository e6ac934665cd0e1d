//! Queues: what other programs publish, until the one reader has done with it.
//!
//! Ingest reads `lac_c_in` in order. It removes what it has stored when a snapshot that is synced has
//! it, since events are written behind. A start reads from the oldest message left.

use lacuna_model::Timestamp;
use lacuna_wire::Subject;
use tokio::sync::{mpsc, watch};

use super::follow::RETRY;
use super::transport::{Record, kept_by, timestamp};
use super::{Bus, BusError, Start, pairs};
use crate::clock::Stopwatch;

/// A message out of a queue.
#[derive(Debug)]
pub struct Delivery {
    inner: async_nats::Message,
    /// Measures the time since its arrival.
    pub arrived: Stopwatch,
    /// Messages that wait behind it.
    pub pending: u64,
    /// Its sequence number in the stream.
    pub sequence: u64,
    /// When the stream took it, by the server's clock. However late or often it is read, this
    /// stays.
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

    /// The subject that it came on.
    #[must_use]
    pub fn subject(&self) -> &str {
        self.inner.subject.as_str()
    }

    /// The headers, names and values.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.inner.headers.iter().flat_map(pairs)
    }

    /// The payload.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.inner.payload
    }
}

/// The reader of a queue. It reads from the oldest message that nobody has said to be done with.
#[derive(Debug)]
pub struct Queue {
    subject: String,
    messages: mpsc::Receiver<Delivery>,
    /// All up to this number is done with.
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

    /// The next message, if it has already come.
    pub fn try_next(&mut self) -> Option<Delivery> {
        self.messages.try_recv().ok()
    }

    /// Whether no message has come that was not taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Says that a message and all before it are done with: the next reader does not get them. If
    /// this process or the server is killed within moments, it does.
    pub fn done(&self, delivery: &Delivery) {
        self.done.send_if_modified(|upto| {
            let is_later = delivery.sequence > *upto;
            *upto = delivery.sequence.max(*upto);
            is_later
        });
    }
}

impl Bus {
    /// Reads the stream of a subject as a queue, from the oldest message that it holds, in the order
    /// in which it took them. There is to be one reader: two get the same messages.
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

/// Takes out of the stream what is done with, until there is no reader any more.
async fn take_out(bus: Bus, stream: String, mut upto: watch::Receiver<u64>) {
    while upto.changed().await.is_ok() {
        let first_kept = upto.borrow_and_update().saturating_add(1);
        let purged = bus.0.server.purge(&stream, first_kept).await;
        if let Err(reason) = purged {
            if upto.has_changed().is_err() {
                return;
            }
            // What is not taken out now goes with what is taken out next.
            tracing::debug!(stream, reason, "not taken out of the queue, retrying");
            tokio::time::sleep(RETRY).await;
            upto.mark_changed();
            continue;
        }
    }
}
