//! What a bus asks of the server at its other end: a nats-server, or a simulated one.

use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::Config;
use bytes::Bytes;

use super::BusError;
use super::nats::Nats;
use super::simulated::Port;
use super::transport::{Acknowledged, Consumed, Messages, Page, PageRequest, StreamState};

/// The server at the other end.
#[derive(Debug)]
pub(super) enum Server {
    Nats(Box<Nats>),
    Simulated(Port),
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
    pub(super) async fn state(&self, stream: &str) -> Result<StreamState, String> {
        match self {
            Self::Nats(nats) => nats.state(stream).await,
            Self::Simulated(port) => port.state(stream).await,
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
    pub(super) async fn page(&self, request: PageRequest<'_>) -> Result<Page, BusError> {
        match self {
            Self::Nats(nats) => nats.page(request).await,
            Self::Simulated(port) => port.page(request).await,
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
