//! The operations of the server at the other end of a bus: a nats-server, or a simulated one.

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

/// The server at the other end of a bus.
#[derive(Debug)]
pub(super) enum Server {
    Nats(Box<Nats>),
    Simulated(Port),
}

impl Server {
    /// Sends a message, without waiting for its arrival.
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

    /// Subscribes to a subject or pattern.
    pub(super) async fn subscribe(&self, subject: &str) -> Result<Messages, BusError> {
        match self {
            Self::Nats(nats) => nats.subscribe(subject).await,
            Self::Simulated(port) => Ok(port.subscribe(subject)),
        }
    }

    /// A new subject for answers, unique to this call.
    pub(super) fn new_inbox(&self) -> String {
        match self {
            Self::Nats(nats) => nats.client.new_inbox(),
            Self::Simulated(port) => port.new_inbox(),
        }
    }

    /// Waits until all sent messages are handed to the network.
    pub(super) async fn flush(&self) -> Result<(), BusError> {
        match self {
            Self::Nats(nats) => nats.flush().await,
            // The simulated network takes each message at once.
            Self::Simulated(_) => Ok(()),
        }
    }

    /// Sends the buffered messages and closes the connection.
    pub(super) async fn close(&self) {
        match self {
            Self::Nats(nats) => nats.close().await,
            Self::Simulated(port) => port.close().await,
        }
    }

    /// Sends a request, and waits for one answer.
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

    /// The state of a stream.
    pub(super) async fn state(&self, stream: &str) -> Result<StreamState, String> {
        match self {
            Self::Nats(nats) => nats.state(stream).await,
            Self::Simulated(port) => port.state(stream).await,
        }
    }

    /// Reads a stream from a position on, and continues with new messages.
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

    /// One page of a stream.
    pub(super) async fn page(&self, request: PageRequest<'_>) -> Result<Page, BusError> {
        match self {
            Self::Nats(nats) => nats.page(request).await,
            Self::Simulated(port) => port.page(request).await,
        }
    }

    /// Removes all messages before a sequence number from a stream.
    pub(super) async fn purge(&self, stream: &str, before: u64) -> Result<(), String> {
        match self {
            Self::Nats(nats) => nats.purge(stream, before).await,
            Self::Simulated(port) => port.purge(stream, before).await,
        }
    }

    /// Makes a stream, or updates its configuration.
    pub(super) async fn ensure(&self, config: Config) -> Result<(), BusError> {
        match self {
            Self::Nats(nats) => nats.ensure(config).await,
            Self::Simulated(port) => port.ensure(config).await,
        }
    }
}
