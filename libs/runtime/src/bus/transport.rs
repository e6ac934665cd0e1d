//! The types that the two servers share: requests to a stream, and the answers.

use std::pin::Pin;

use async_nats::datetime::DateTime;
use async_nats::jetstream::message::StreamMessage;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use lacuna_model::Timestamp;
use lacuna_wire::Subject;
use serde::Serialize;

use super::BusError;

/// The header that marks the deletion of a value, as in NATS' key-value buckets.
pub(super) const DELETED: &str = "KV-Operation";

/// The header with the number of messages that the stream holds after this one.
pub(super) const PENDING: &str = "Nats-Num-Pending";

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

/// The record of a message in its stream, beside its payload.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record {
    /// Its number in the stream.
    pub(super) sequence: u64,
    /// The number of messages that wait behind it.
    pub(super) pending: u64,
    /// When the stream took it, by the server's clock.
    pub(super) written: DateTime,
}

/// The messages of a consumer, each with its record in the stream.
pub(super) type Consumed = BoxStream<'static, Result<(async_nats::Message, Record), String>>;

/// The sequence number of a write, when the stream has taken it.
pub(super) type Acknowledged = BoxFuture<'static, Result<u64, BusError>>;

/// The state of a stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct StreamState {
    /// The sequence number of its newest message.
    pub(super) last: u64,
    /// When the stream took that message.
    pub(super) written: DateTime,
    /// When the stream was made.
    pub(super) made: DateTime,
}

/// A request for one page of a stream.
#[derive(Debug, Clone)]
pub(super) struct PageRequest<'a> {
    pub(super) stream: &'a str,
    /// Subject or pattern.
    pub(super) subject: &'a str,
    pub(super) begin: Begin,
    /// Most messages in the answer.
    pub(super) batch: u64,
    /// Bytes after which no further message is sent.
    pub(super) max_bytes: u64,
}

/// Where a page begins.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Begin {
    /// At this sequence number.
    Seq(u64),
    /// At this time on the server's clock, ISO-8601.
    StartTime(String),
}

/// Consecutive messages of a stream, in its order.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) messages: Vec<StreamMessage>,
    /// Where the next page begins, if the stream may hold more.
    pub(super) next: Option<Begin>,
}

/// The stream that keeps a subject.
///
/// # Errors
/// [`BusError::NotKept`] if there is none.
pub(super) fn kept_by<M>(subject: &Subject<M>) -> Result<&str, BusError> {
    subject.stream().ok_or_else(|| BusError::NotKept {
        subject: subject.to_string(),
    })
}

/// A time of the server, in the model's milliseconds.
pub(super) fn timestamp(time: DateTime) -> Timestamp {
    let ms = time.unix_timestamp_nanos() / 1_000_000;
    Timestamp::from_unix_ms(i64::try_from(ms).unwrap_or_default())
}
