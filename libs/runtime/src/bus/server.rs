//! What a bus asks of the server at its other end: a nats-server, or a simulated one.

use std::pin::Pin;
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::datetime::DateTime;
use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::Config;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};

use super::BusError;
use super::follow::Heard;
use super::look::{Begin, Page};
use super::nats::Nats;
use super::simulated::Port;

/// The server at the other end.
#[derive(Debug)]
pub(super) enum Server {
    Nats(Box<Nats>),
    Simulated(Port),
}

/// The messages of a subscription.
pub(super) struct Messages(
    pub(super) Pin<Box<dyn Stream<Item = async_nats::Message> + Send + Sync>>,
);

impl std::fmt::Debug for Messages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Messages").finish_non_exhaustive()
    }
}

impl Messages {
    /// The next message; nothing when the connection has been closed. Safe to drop in `select!`.
    pub(super) async fn next(&mut self) -> Option<async_nats::Message> {
        self.0.next().await
    }
}

/// The messages of a consumer, each with what its stream says of it.
pub(super) type Consumed = BoxStream<'static, Result<(async_nats::Message, Heard), String>>;

/// The sequence number of a write, when the stream has taken it.
pub(super) type Acknowledged = BoxFuture<'static, Result<u64, BusError>>;

/// What a stream says of itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct About {
    /// The sequence number of its newest message.
    pub(super) last: u64,
    /// When it took that.
    pub(super) written: DateTime,
    /// When it was made.
    pub(super) made: DateTime,
}

/// A question for a page of a stream.
#[derive(Debug, Clone)]
pub(super) struct Ask<'a> {
    pub(super) stream: &'a str,
    /// Subject or pattern.
    pub(super) subject: &'a str,
    pub(super) begin: Begin,
    /// Messages in the answer at most.
    pub(super) batch: u64,
    /// Bytes after which no further message is sent.
    pub(super) max_bytes: u64,
}

impl Server {
    /// Sends a message, and does not wait for it to arrive.
    pub(super) async fn publish(
        &self,
        subject: &str,
        headers: Option<HeaderMap>,
        payload: Bytes,
    ) -> Result<(), BusError> {
        match self {
            Self::Nats(nats) => nats.publish(subject, headers, payload).await,
            Self::Simulated(port) => {
                port.publish(subject, headers, payload);
                Ok(())
            }
        }
    }

    /// Hears a subject or pattern from now on.
    pub(super) async fn subscribe(&self, subject: &str) -> Result<Messages, BusError> {
        match self {
            Self::Nats(nats) => nats.subscribe(subject).await,
            Self::Simulated(port) => Ok(port.subscribe(subject)),
        }
    }

    /// A subject for answers that nobody else has.
    pub(super) fn new_inbox(&self) -> String {
        match self {
            Self::Nats(nats) => nats.client.new_inbox(),
            Self::Simulated(port) => port.new_inbox(),
        }
    }

    /// Waits until all that was sent is with the network.
    pub(super) async fn flush(&self) -> Result<(), BusError> {
        match self {
            Self::Nats(nats) => nats.flush().await,
            // Its network takes each message at once.
            Self::Simulated(_) => Ok(()),
        }
    }

    /// Sends what is still buffered and closes the connection.
    pub(super) async fn close(&self) {
        match self {
            Self::Nats(nats) => nats.close().await,
            Self::Simulated(port) => port.close().await,
        }
    }

    /// Asks, and waits for one answer.
    pub(super) async fn request(
        &self,
        subject: &str,
        headers: HeaderMap,
        payload: Bytes,
        limit: Duration,
    ) -> Result<async_nats::Message, BusError> {
        match self {
            Self::Nats(nats) => nats.request(subject, headers, payload, limit).await,
            Self::Simulated(port) => port.request(subject, headers, payload, limit).await,
        }
    }

    /// Sends a message that a stream keeps; the future inside gives its acknowledgement.
    pub(super) async fn send(
        &self,
        subject: &str,
        headers: HeaderMap,
        payload: Bytes,
    ) -> Result<Acknowledged, BusError> {
        match self {
            Self::Nats(nats) => nats.send(subject, headers, payload).await,
            Self::Simulated(port) => port.send(subject, headers, payload),
        }
    }

    /// What a stream says of itself.
    pub(super) async fn about(&self, stream: &str) -> Result<About, String> {
        match self {
            Self::Nats(nats) => nats.about(stream).await,
            Self::Simulated(port) => port.about(stream).await,
        }
    }

    /// Reads a stream from a place on, and goes on with what comes.
    pub(super) async fn consume(
        &self,
        stream: &str,
        subject: &str,
        from: DeliverPolicy,
    ) -> Result<Consumed, String> {
        match self {
            Self::Nats(nats) => nats.consume(stream, subject, from).await,
            Self::Simulated(port) => port.consume(stream, subject, from).await,
        }
    }

    /// The newest message of a subject or pattern.
    pub(super) async fn newest(
        &self,
        stream: &str,
        subject: &str,
    ) -> Result<Option<StreamMessage>, BusError> {
        match self {
            Self::Nats(nats) => nats.newest(stream, subject).await,
            Self::Simulated(port) => port.newest(stream, subject).await,
        }
    }

    /// Some messages of a stream, in its order.
    pub(super) async fn page(&self, ask: Ask<'_>) -> Result<Page, BusError> {
        match self {
            Self::Nats(nats) => nats.page(ask).await,
            Self::Simulated(port) => port.page(ask).await,
        }
    }

    /// Takes all messages before a sequence number out of a stream.
    pub(super) async fn purge(&self, stream: &str, before: u64) -> Result<(), String> {
        match self {
            Self::Nats(nats) => nats.purge(stream, before).await,
            Self::Simulated(port) => port.purge(stream, before).await,
        }
    }

    /// Makes a stream, or brings it up to date.
    pub(super) async fn ensure(&self, config: Config) -> Result<(), BusError> {
        match self {
            Self::Nats(nats) => nats.ensure(config).await,
            Self::Simulated(port) => port.ensure(config).await,
        }
    }
}
