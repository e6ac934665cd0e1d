//! What can go wrong on the bus.

use async_nats::jetstream::context::{PublishError, PublishErrorKind};

/// What can go wrong on the bus.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    /// No server answers.
    #[error(
        "no nats-server answers at {url} ({reason}): start one with `lacuna up`, or give its \
         address with --nats URL or [bus] url"
    )]
    Unreachable {
        /// Where it was looked for.
        url: String,
        /// What the last attempt said.
        reason: String,
    },
    /// The server refuses us.
    #[error(
        "nats-server at {url} refuses the connection: {reason}: it knows users by keys, so give \
         the identity that `lacuna keys` has made (--identity FILE, [bus] identity), or a newer one"
    )]
    Refused {
        /// Where.
        url: String,
        /// Why.
        reason: String,
    },
    /// The server cannot prove that it is the one meant.
    #[error(
        "nats-server at {url} cannot prove who it is: {reason}: take an identity of the same keys \
         as the server's certificate, which must hold for the host name (`lacuna keys renew-tls`)"
    )]
    NotTrusted {
        /// Where.
        url: String,
        /// Why.
        reason: String,
    },
    /// The server refuses this act of this user.
    #[error(
        "nats-server does not let {user} use {subject}: take an identity of a role that may \
         (`lacuna keys list` shows them)"
    )]
    Denied {
        /// What.
        subject: String,
        /// Who.
        user: String,
    },
    /// The identity cannot be used.
    #[error(transparent)]
    Identity(#[from] crate::identity::IdentityError),
    /// The streams that are needed are not there.
    #[error("stream {stream} is not there: control makes the streams, start it first")]
    NoStream {
        /// The first one that is missed.
        stream: String,
    },
    /// A stream was made by an older release, in a way that cannot be changed.
    #[error(
        "stream {stream} is of an older release, which made it another way: stop all services of the \
         cluster, remove it (`nats stream rm {stream}`, or the server's data folder), and start \
         them again"
    )]
    OldStream {
        /// Which.
        stream: String,
    },
    /// Credentials cannot be read.
    #[error("cannot read {path}: {source}")]
    Credentials {
        /// Which file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The server does not keep streams.
    #[error("nats-server at {url} has no JetStream: start it with `-js` or a `jetstream` section")]
    NoJetStream {
        /// Where.
        url: String,
    },
    /// The server takes only short messages.
    #[error(
        "nats-server at {url} takes messages of {bytes} bytes at most: set `max_payload: 8MB` in its \
         configuration (`lacuna config nats-server` prints one)"
    )]
    SmallPayload {
        /// Where.
        url: String,
        /// How long a message may be.
        bytes: usize,
    },
    /// Somebody else wrote first: the expected revision is no longer the newest.
    #[error("{subject}: another write came first")]
    Conflict {
        /// Where.
        subject: String,
    },
    /// Nobody answers the request.
    #[error("nobody answers on {subject}: is the service running?")]
    NoResponders {
        /// Where.
        subject: String,
    },
    /// No answer or acknowledgement within the limit; the message may have arrived or not.
    #[error("{subject}: no answer in time")]
    Timeout {
        /// Where.
        subject: String,
    },
    /// The message is larger than the server allows.
    #[error("{subject}: message of {bytes} bytes is too large for the server (max_payload)")]
    TooLarge {
        /// Where.
        subject: String,
        /// How large.
        bytes: usize,
    },
    /// The message cannot be encoded.
    #[error(transparent)]
    Encode(#[from] lacuna_wire::EncodeError),
    /// An answer cannot be decoded.
    #[error("{subject}: {source}")]
    Decode {
        /// Where.
        subject: String,
        /// Why.
        source: lacuna_wire::DecodeError,
    },
    /// The subject is kept by no stream.
    #[error("{subject} is kept by no stream")]
    NotKept {
        /// Which.
        subject: String,
    },
    /// The connection has been closed.
    #[error("{subject}: the subscription has ended")]
    Closed {
        /// Where.
        subject: String,
    },
    /// A stream could not be made or asked.
    #[error("stream {stream}: {reason}")]
    Stream {
        /// Which.
        stream: String,
        /// What the server said.
        reason: String,
    },
    /// Anything else that the client reports.
    #[error("{subject}: {reason}")]
    Other {
        /// Where.
        subject: String,
        /// What the client said.
        reason: String,
    },
}

impl BusError {
    /// Whether another write came first.
    #[must_use]
    pub const fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict { .. })
    }

    /// Whether another attempt would end as this one did.
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
            _ => Self::Other {
                subject,
                reason: error.to_string(),
            },
        }
    }

    pub(super) fn other(subject: &str, error: impl std::fmt::Display) -> Self {
        Self::Other {
            subject: subject.to_owned(),
            reason: error.to_string(),
        }
    }
}
