//! Subscriptions to subjects that no stream keeps.

use std::marker::PhantomData;

use bytes::Bytes;
use futures::StreamExt;
use lacuna_model::Timestamp;
use lacuna_wire::{Envelope, Message, Subject};

use super::transport::Messages;
use super::{Bus, BusError};
use crate::clock::Stopwatch;

/// A received message.
#[derive(Debug, Clone)]
pub struct Received<M> {
    /// The message.
    pub message: M,
    /// Its envelope.
    pub envelope: Envelope,
    /// The subject on which it was published.
    pub subject: String,
    /// Its sequence number in the stream that keeps it; 0 if none does.
    pub sequence: u64,
    /// Number of messages that the stream holds after it: 0 for the newest.
    pub pending: u64,
    /// When the stream took it, by the server's clock; nothing if no stream keeps it. A server that
    /// has lost messages gives their numbers again, but not their times.
    pub kept: Option<Timestamp>,
    /// Measures the time since its arrival.
    pub arrived: Stopwatch,
    pub(super) reply: Option<async_nats::Subject>,
}

impl<M> Received<M> {
    /// A live message, without its place in a stream.
    pub(super) fn published(message: M, envelope: Envelope, subject: String) -> Self {
        Self {
            message,
            envelope,
            subject,
            sequence: 0,
            pending: 0,
            kept: None,
            arrived: Stopwatch::start(),
            reply: None,
        }
    }
}

/// A subscription to a subject that no stream keeps. Messages are missed that are published before
/// it, or while the server is away.
#[derive(Debug)]
pub struct Subscription<M> {
    bus: Bus,
    subject: String,
    inner: Messages,
    message: PhantomData<fn() -> M>,
}

/// A request in plain text, which can be answered.
#[derive(Debug, Clone)]
pub struct TextRequest {
    /// The subject on which it was published.
    pub subject: String,
    /// The text.
    pub text: String,
    bus: Bus,
    reply: Option<async_nats::Subject>,
}

impl TextRequest {
    /// Answers with plain text.
    ///
    /// # Errors
    /// [`BusError::Other`] if the sender wants no answer, or the connection is closed.
    pub async fn respond(&self, answer: String) -> Result<(), BusError> {
        let Some(reply) = &self.reply else {
            return Err(BusError::other(&self.subject, "no answer was asked for"));
        };
        self.bus.check_inbox(&self.subject, reply)?;
        let server = &self.bus.0.server;
        server.publish(reply, None, answer.into()).await
    }
}

impl Bus {
    /// Subscribes to a subject that no stream keeps. On return the server has the subscription.
    ///
    /// # Errors
    /// [`BusError::Other`] if the connection is closed.
    pub async fn subscribe<M: Message>(
        &self,
        subject: &Subject<M>,
    ) -> Result<Subscription<M>, BusError> {
        Ok(Subscription {
            bus: self.clone(),
            subject: subject.to_string(),
            inner: self.listen(subject.as_str()).await?,
            message: PhantomData,
        })
    }

    /// Subscribes to plain text.
    ///
    /// # Errors
    /// [`BusError::Other`] if the connection is closed.
    pub async fn subscribe_text<T>(
        &self,
        subject: &Subject<T>,
    ) -> Result<futures::stream::BoxStream<'static, TextRequest>, BusError> {
        let bus = self.clone();
        let inner = self.listen(subject.as_str()).await?;
        Ok(inner
            .0
            .map(move |m| TextRequest {
                subject: m.subject.to_string(),
                text: String::from_utf8_lossy(&m.payload).into_owned(),
                bus: bus.clone(),
                reply: m.reply,
            })
            .boxed())
    }

    pub(super) async fn listen(&self, subject: &str) -> Result<Messages, BusError> {
        let standing = async {
            let inner = self.0.server.subscribe(subject).await?;
            self.round_trip().await;
            Ok(inner)
        };
        self.unless_deaf(subject, standing).await
    }

    /// Waits until the server has read everything that was sent so far. A flush of the client only
    /// hands it to the network, so the next message of another client could overtake a
    /// subscription.
    async fn round_trip(&self) {
        let server = &self.0.server;
        let inbox = server.new_inbox();
        let echo = async {
            let mut own = server.subscribe(&inbox).await.ok()?;
            server.publish(&inbox, None, Bytes::new()).await.ok()?;
            server.flush().await.ok()?;
            own.next().await
        };
        // While the server is away no other client publishes either. The client subscribes again as
        // soon as the server is back.
        if tokio::time::timeout(self.0.limit, echo).await.is_err() {
            tracing::debug!("no echo, the server may be away");
        }
    }
}

impl<M: Message> Subscription<M> {
    /// The next message that decodes. Safe to drop in `select!`.
    ///
    /// # Errors
    /// [`BusError::Closed`] when the connection has been closed for good.
    pub async fn next(&mut self) -> Result<Received<M>, BusError> {
        loop {
            let Some(message) = self.inner.next().await else {
                return Err(BusError::Closed {
                    subject: self.subject.clone(),
                });
            };
            let subject = message.subject.to_string();
            let opened = self
                .bus
                .open(&subject, message.headers.as_ref(), &message.payload);
            if let Some((envelope, decoded)) = opened {
                return Ok(Received {
                    reply: message.reply,
                    ..Received::published(decoded, envelope, subject)
                });
            }
        }
    }
}
