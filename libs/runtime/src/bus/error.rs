//! Errors of the bus.

use std::error::Error as _;

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::{PublishError, PublishErrorKind};

/// An error of the bus.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    /// No server answers.
    #[error(
        "no nats-server answers at {url} ({reason}): start one with `lacuna up`, or give its \
         address with --nats URL or [bus] url"
    )]
    Unreachable {
        /// The address.
        url: String,
        /// The reason of the last attempt.
        reason: String,
    },
    /// The server has as many connections of this user, or of all, as it allows.
    #[error(
        "nats-server at {url} takes no further connection: {reason}: end programs that use the same \
         key (`lacuna wait`, `logs -f`, `top`), or ask an operator to revoke a stolen one (`lacuna \
         keys revoke`)"
    )]
    Full {
        /// The address.
        url: String,
        /// The reason.
        reason: String,
    },
    /// The server refuses the connection.
    #[error(
        "nats-server at {url} refuses the connection: {reason}: it knows users by keys, so give \
         the identity that `lacuna keys` has made (--identity FILE, [bus] identity), or a newer one"
    )]
    Refused {
        /// The address.
        url: String,
        /// The reason.
        reason: String,
    },
    /// The server cannot prove its identity.
    #[error(
        "nats-server at {url} cannot prove who it is: {reason}: take an identity of the same keys \
         as the server's certificate, which must hold for the host name (`lacuna keys renew-tls`)"
    )]
    NotTrusted {
        /// The address.
        url: String,
        /// The reason.
        reason: String,
    },
    /// The server refuses this operation of this user.
    #[error(
        "nats-server does not let {user} use {subject}: take an identity of a role that may \
         (`lacuna keys list` shows them)"
    )]
    Denied {
        /// The subject.
        subject: String,
        /// The user.
        user: String,
    },
    /// The identity cannot be used.
    #[error(transparent)]
    Identity(#[from] crate::identity::IdentityError),
    /// A needed stream is missing.
    #[error("stream {stream} is not there: control makes the streams, start it first")]
    NoStream {
        /// The first missing stream.
        stream: String,
    },
    /// A stream was made by an older release, and cannot be changed.
    #[error(
        "stream {stream} is of an older release, which made it another way: stop all services of the \
         cluster, remove it (`nats stream rm {stream}`, or the server's data folder), and start \
         them again"
    )]
    OldStream {
        /// The stream.
        stream: String,
    },
    /// A file of credentials cannot be read.
    #[error("cannot read {path}: {source}")]
    Credentials {
        /// The file.
        path: String,
        /// The reason.
        source: std::io::Error,
    },
    /// The server has no streams.
    #[error("nats-server at {url} has no JetStream: start it with `-js` or a `jetstream` section")]
    NoJetStream {
        /// The address.
        url: String,
    },
    /// The server's limit on messages is too low.
    #[error(
        "nats-server at {url} takes messages of {bytes} bytes at most: set `max_payload: 8MB` in its \
         configuration (`lacuna config nats-server` prints one)"
    )]
    SmallPayload {
        /// The address.
        url: String,
        /// The limit in bytes.
        bytes: usize,
    },
    /// Another write came first: the expected revision is not the newest.
    #[error("{subject}: another write came first")]
    Conflict {
        /// The subject.
        subject: String,
    },
    /// No service subscribes to the subject of the request.
    #[error("no service answers on {subject}: is it running?")]
    NoResponders {
        /// The subject.
        subject: String,
    },
    /// No answer or acknowledgement within the limit. The message may have arrived.
    #[error("{subject}: no answer in time")]
    Timeout {
        /// The subject.
        subject: String,
    },
    /// The message, or its headers, are larger than the server allows.
    #[error("{subject}: message of {bytes} bytes is too large for the server (max_payload)")]
    TooLarge {
        /// The subject.
        subject: String,
        /// Its size.
        bytes: usize,
    },
    /// The stream or the server's disk is full.
    #[error("{subject}: the server has no room for the message: {reason}")]
    NoRoom {
        /// The subject.
        subject: String,
        /// The reason that the server gives.
        reason: String,
    },
    /// The message cannot be encoded.
    #[error(transparent)]
    Encode(#[from] lacuna_wire::EncodeError),
    /// An answer cannot be decoded.
    #[error("{subject}: {source}")]
    Decode {
        /// The subject.
        subject: String,
        /// The reason.
        source: lacuna_wire::DecodeError,
    },
    /// The subject is kept by no stream.
    #[error("{subject} is kept by no stream")]
    NotKept {
        /// The subject.
        subject: String,
    },
    /// The connection has been closed.
    #[error("{subject}: the subscription has ended")]
    Closed {
        /// The subject.
        subject: String,
    },
    /// A stream cannot be made or read.
    #[error("stream {stream}: {reason}")]
    Stream {
        /// The stream.
        stream: String,
        /// The reason that the server gives.
        reason: String,
    },
    /// Any other error of the client.
    #[error("{subject}: {reason}")]
    Other {
        /// The subject.
        subject: String,
        /// The reason that the client gives.
        reason: String,
    },
}

impl BusError {
    /// Whether another write came first.
    #[must_use]
    pub const fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict { .. })
    }

    /// Whether the server has answered that it does not keep a message. A further attempt at once
    /// fails in the same way.
    #[must_use]
    pub const fn is_refusal(&self) -> bool {
        matches!(self, Self::NoRoom { .. } | Self::TooLarge { .. })
    }

    /// Whether a further attempt would fail in the same way.
    pub(super) const fn is_final(&self) -> bool {
        matches!(
            self,
            Self::NotKept { .. } | Self::Denied { .. } | Self::Decode { .. }
        )
    }

    pub(super) fn publish(subject: &str, bytes: usize, error: &PublishError) -> Self {
        let subject = subject.to_owned();
        match error.kind() {
            PublishErrorKind::WrongLastSequence => Self::Conflict { subject },
            PublishErrorKind::TimedOut => Self::Timeout { subject },
            PublishErrorKind::MaxPayloadExceeded => Self::TooLarge { subject, bytes },
            PublishErrorKind::StreamNotFound => Self::Stream {
                stream: subject,
                reason: "no stream keeps this subject".to_owned(),
            },
            _ => {
                let answer = error.source().and_then(|source| source.downcast_ref());
                let code = answer.map(async_nats::jetstream::Error::error_code);
                match code {
                    Some(
                        ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM
                        | ErrorCode::STREAM_HEADER_EXCEEDS_MAXIMUM,
                    ) => Self::TooLarge { subject, bytes },
                    Some(
                        ErrorCode::STREAM_STORE_FAILED
                        | ErrorCode::STORAGE_RESOURCES_EXCEEDED
                        | ErrorCode::INSUFFICIENT_RESOURCES,
                    ) => Self::NoRoom {
                        subject,
                        reason: error.to_string(),
                    },
                    _ => Self::Other {
                        subject,
                        reason: error.to_string(),
                    },
                }
            }
        }
    }

    pub(super) fn other(subject: &str, error: impl std::fmt::Display) -> Self {
        Self::Other {
            subject: subject.to_owned(),
            reason: error.to_string(),
        }
    }
}
