//! Work queues: each message until it is acknowledged, by one consumer that the server
//! remembers.

use std::time::Duration;

use async_nats::jetstream::consumer::pull;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy};
use async_nats::jetstream::stream::ConsumerErrorKind;
use async_nats::jetstream::{AckKind, ErrorCode};
use futures::StreamExt;
use lacuna_model::Timestamp;
use lacuna_wire::Subject;
use tokio::sync::mpsc;

use super::look::kept_by;
use super::{Bus, BusError, pairs};
use crate::clock::Stopwatch;

/// A message is delivered again if it is not acknowledged within this time.
const ACK_WAIT: Duration = Duration::from_secs(5);

/// Unacknowledged messages in flight at most.
const IN_FLIGHT: i64 = 8192;

/// A message out of a work queue. It comes again until it is acknowledged.
#[derive(Debug)]
pub struct Delivery {
    inner: async_nats::jetstream::Message,
    /// Measures the time since its arrival.
    pub arrived: Stopwatch,
    /// Messages that wait behind it.
    pub pending: u64,
    /// Its sequence number in the stream.
    pub sequence: u64,
    /// How often it has been delivered, from 1.
    pub delivered: i64,
    /// When the stream took it, by the server's clock. However late or often it is delivered,
    /// this stays.
    pub stored: Timestamp,
}

impl Delivery {
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

    /// Says that it is done with. If the word is lost, the message comes again.
    ///
    /// # Errors
    /// If the connection is closed.
    pub async fn ack(&self) -> Result<(), BusError> {
        self.inner
            .ack()
            .await
            .map_err(|e| BusError::other(self.subject(), e))
    }

    /// Says that it is to come again at once, here or to another. If the word is lost, it comes
    /// again later.
    pub async fn give_back(&self) {
        if let Err(error) = self.inner.ack_with(AckKind::Nak(None)).await {
            tracing::debug!(subject = self.subject(), %error, "not given back");
        }
    }
}

/// The consumer of a work queue.
#[derive(Debug)]
pub struct WorkQueue {
    subject: String,
    messages: mpsc::Receiver<Delivery>,
}

impl WorkQueue {
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
}

impl Bus {
    /// Takes a work queue from whoever reads it: what that one has fetched and not acknowledged
    /// comes at once, in the order in which the stream took it. (Without that it would come out
    /// of order, and only when its acknowledgement is missed.)
    ///
    /// # Errors
    /// As [`Bus::work_queue`].
    pub async fn take_queue<T>(
        &self,
        subject: &Subject<T>,
        name: &str,
    ) -> Result<WorkQueue, BusError> {
        if let Some(stream) = subject.stream() {
            // A new consumer begins with the oldest message of the stream, and a queue's stream
            // holds just those that were not acknowledged.
            let held = self.jetstream().get_stream_no_info(stream).await;
            let gone = match held {
                Ok(held) => held.delete_consumer(name).await.map_err(|e| {
                    let missing = matches!(e.kind(), ConsumerErrorKind::JetStream(told)
                        if told.error_code() == ErrorCode::CONSUMER_NOT_FOUND);
                    (!missing).then(|| e.to_string())
                }),
                Err(e) => Err(Some(e.to_string())),
            };
            if let Err(Some(reason)) = gone {
                tracing::warn!(stream, reason, "unacknowledged messages come later");
            }
        }
        self.work_queue(subject, name).await
    }

    /// Reads the stream of a subject as a work queue, with a consumer of this name that the
    /// server remembers.
    ///
    /// # Errors
    /// [`BusError::NotKept`] or [`BusError::Stream`].
    pub async fn work_queue<T>(
        &self,
        subject: &Subject<T>,
        name: &str,
    ) -> Result<WorkQueue, BusError> {
        let stream = kept_by(subject)?;
        let (into, messages) = mpsc::channel(1024);
        let worker = Worker {
            bus: self.clone(),
            stream: stream.to_owned(),
            name: name.to_owned(),
            into,
        };
        let first = self.patiently(stream, || worker.open()).await?;
        tokio::spawn(worker.run(first));
        Ok(WorkQueue {
            subject: subject.to_string(),
            messages,
        })
    }
}

struct Worker {
    bus: Bus,
    stream: String,
    name: String,
    into: mpsc::Sender<Delivery>,
}

impl Worker {
    async fn run(self, first: (pull::Stream, u64)) {
        let mut current = Some(first);
        loop {
            let opened = match current.take() {
                Some(opened) => Ok(opened),
                None => self.open().await,
            };
            match opened {
                Ok((messages, generation)) => {
                    if self.pump(messages, generation).await.is_none() {
                        return;
                    }
                }
                Err(error) => {
                    tracing::debug!(stream = self.stream, %error, "queue cannot be read, retrying");
                    tokio::select! {
                        () = self.into.closed() => return,
                        () = tokio::time::sleep(Duration::from_millis(200)) => {}
                    }
                }
            }
        }
    }

    async fn pump(&self, mut messages: pull::Stream, generation: u64) -> Option<()> {
        let mut link = self.bus.link();
        loop {
            tokio::select! {
                biased;
                () = self.into.closed() => return None,
                changed = link.changed() => {
                    changed.ok()?;
                    if link.borrow().generation != generation {
                        return Some(());
                    }
                }
                next = messages.next() => match next {
                    Some(Ok(inner)) => {
                        let Some(delivery) = delivery(inner) else {
                            continue;
                        };
                        self.into.send(delivery).await.ok()?;
                    }
                    Some(Err(error)) => {
                        tracing::debug!(stream = self.stream, %error, "queue failed, reading anew");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        return Some(());
                    }
                    None => return Some(()),
                }
            }
        }
    }

    async fn open(&self) -> Result<(pull::Stream, u64), BusError> {
        let generation = self.bus.link().borrow().generation;
        let failed = |reason: String| BusError::Stream {
            stream: self.stream.clone(),
            reason,
        };
        let config = pull::Config {
            durable_name: Some(self.name.clone()),
            ack_policy: AckPolicy::Explicit,
            ack_wait: ACK_WAIT,
            max_ack_pending: IN_FLIGHT,
            deliver_policy: DeliverPolicy::All,
            ..pull::Config::default()
        };
        let stream = self
            .bus
            .jetstream()
            .get_stream_no_info(&self.stream)
            .await
            .map_err(|e| failed(e.to_string()))?;
        let consumer = stream
            .get_or_create_consumer(&self.name, config)
            .await
            .map_err(|e| failed(e.to_string()))?;
        let messages = consumer
            .stream()
            .max_messages_per_batch(500)
            .messages()
            .await
            .map_err(|e| failed(e.to_string()))?;
        Ok((messages, generation))
    }
}

/// A message with what the server says of it; nothing if it says nothing.
fn delivery(inner: async_nats::jetstream::Message) -> Option<Delivery> {
    let info = inner.info().ok()?;
    let (sequence, pending, delivered) = (info.stream_sequence, info.pending, info.delivered);
    let ms = info.published.unix_timestamp_nanos().div_euclid(1_000_000);
    let stored = Timestamp::from_unix_ms(i64::try_from(ms).ok()?);
    Some(Delivery {
        inner,
        arrived: Stopwatch::start(),
        pending,
        sequence,
        delivered,
        stored,
    })
}
