//! Queues: messages of other programs, stored until their single reader has processed them.
//!
//! Ingest reads `lac_c_in` in order. It removes an event when a synced snapshot includes it, since
//! the stream of events is buffered. After a restart it reads from the oldest message.
//!
//! So a message that ends its reader would end each further one. Of messages that wait at the start, a
//! reader notes on the bus which one it is reading ([`Queue::begin`], [`Queue::end`]). One at which
//! [`DEADLY`] readers have ended becomes a dead letter. Later messages need no note: whatever ends the
//! reader there, they wait at the next start.

use lacuna_model::Timestamp;
use lacuna_wire::msg::Reading;
use lacuna_wire::{Subject, address};
use tokio::sync::{mpsc, watch};

use super::follow::RETRY;
use super::transport::{Record, kept_by, timestamp};
use super::{Bus, BusError, Start, pairs};
use crate::clock::Stopwatch;

/// This many readers that end while they read one message are enough: it ends no further one.
const DEADLY: u32 = 2;
/// Most such messages that are remembered.
const REMEMBERED: usize = 64;

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
    bus: Bus,
    /// What is noted on the bus.
    reading: Reading,
    /// The newest message that waited at the start, once the first one is known.
    waited: Option<u64>,
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

    /// To be called before a message is read. It must not be read if this returns `false`: it has ended
    /// its readers, and is a dead letter now.
    pub async fn begin(&mut self, delivery: &Delivery) -> bool {
        let number = delivery.sequence;
        let waited = *self.waited.get_or_insert(number + delivery.pending);
        if number > waited {
            return true;
        }
        let ended = self.reading.ended.iter();
        let ended = ended
            .filter(|(at, _)| *at == number)
            .map(|(_, times)| *times);
        if ended.sum::<u32>() >= DEADLY {
            let reason = format!("{DEADLY} readers have ended while they read it");
            self.bus
                .dead_letter(delivery.subject(), &reason, delivery.payload());
            return false;
        }
        self.note(number).await;
        true
    }

    /// To be called when the messages that were begun have been read.
    pub async fn end(&mut self) {
        if self.reading.at != 0 {
            self.note(0).await;
        }
    }

    /// Notes which message is being read. Where that is not possible, messages are read without a note.
    async fn note(&mut self, number: u64) {
        let before = std::mem::replace(&mut self.reading.at, number);
        // The one before has been read.
        self.reading.ended.retain(|(number, _)| *number != before);
        let subject = address::reading(self.bus.cluster());
        if let Err(error) = self.bus.store(&subject, &self.reading, "").await {
            tracing::warn!(%error, "which external event is read is not noted");
            self.waited = Some(0);
        }
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
        let noted = self.last(&address::reading(self.cluster())).await;
        let noted = noted.inspect_err(|error| {
            tracing::warn!(%error, "which external event was read last is not known");
        });
        // A server with accounts of an older release allows no notes.
        let waited = noted.is_err().then_some(0);
        let noted = noted.ok().flatten().map(|noted| followed(noted.message));
        Ok(Queue {
            subject: subject.to_string(),
            messages,
            done,
            bus: self.clone(),
            reading: noted.unwrap_or_default(),
            waited,
        })
    }
}

/// The note of a reader, as its successor takes it: a message that was being read has ended it.
fn followed(mut noted: Reading) -> Reading {
    let at = std::mem::take(&mut noted.at);
    let ended = &mut noted.ended;
    match ended.iter_mut().find(|(number, _)| *number == at) {
        _ if at == 0 => {}
        Some((_, times)) => *times += 1,
        None => ended.push((at, 1)),
    }
    ended.drain(..ended.len().saturating_sub(REMEMBERED));
    noted
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
