//! Encoding of messages as bytes and headers, and decoding.
//!
//! The payload is MessagePack with named fields, or JSON if the content type says so. Unknown
//! fields are ignored. The rules in `crate::msg` decide on versions.
//!
//! Header fields: `ce-specversion`, `ce-id`, `ce-source`, `ce-type` (the message's kind),
//! `ce-time`, `ce-dataversion` (the message's version), `ce-correlationid`, `content-type`. The
//! correlation id is that of the newest event that led to the message. Every log line from event to
//! command carries it in the field `correlation`.

use percent_encoding::percent_decode_str;

use lacuna_model::Timestamp;

use crate::content::ContentType;
use crate::header_text::HeaderText;
use crate::message::Message;
use crate::time_text;

/// `ce-specversion`: the version of CloudEvents.
const SPEC_VERSION: &str = "1.0";

/// Most bytes of all headers of a message, with the signature and the revision that a write expects,
/// as the server counts them. No sender can make those of another message longer.
pub const MOST_HEADERS: usize = 1024;

/// The headers of a message: CloudEvents attributes, binary mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// `ce-id`: unique within the source.
    pub id: HeaderText,
    /// `ce-source`: the sender, e.g. `lacuna/planner`.
    pub source: HeaderText,
    /// `ce-type`: the kind of the message.
    pub kind: HeaderText,
    /// `ce-dataversion`: the version of its fields.
    pub version: u16,
    /// `ce-time`: the time of sending, by the sender's wall clock.
    pub time: Timestamp,
    /// `ce-correlationid`: id of the newest event that led to the message; empty if none did.
    pub correlation: HeaderText,
    /// `content-type`.
    pub content_type: ContentType,
}

/// Why a message cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// A required header is missing.
    #[error("header {header} is missing")]
    MissingHeader {
        /// The name of the header.
        header: &'static str,
    },
    /// A header has an invalid value.
    #[error("header {header} is {value:?}: expected {expected}")]
    BadHeader {
        /// The name of the header.
        header: &'static str,
        /// The value.
        value: String,
        /// The values that are accepted.
        expected: &'static str,
    },
    /// The message has another kind than its subject.
    #[error("message of kind {found:?} where {expected:?} was expected")]
    Kind {
        /// The kind of the message.
        found: String,
        /// The kind of the subject.
        expected: &'static str,
    },
    /// The message has a newer version than this program knows.
    #[error(
        "{kind} has version {found}; this program knows {known} at most: upgrade the older side"
    )]
    Newer {
        /// The kind of the message.
        kind: &'static str,
        /// The version of the message.
        found: u16,
        /// The newest version that is read.
        known: u16,
    },
    /// The message has a version that is no longer read.
    #[error(
        "{kind} has version {found}, of an older build; this program reads {oldest} and later: stop \
         all services of the cluster, remove the server's data folder, and start them again"
    )]
    Older {
        /// The kind of the message.
        kind: &'static str,
        /// The version of the message.
        found: u16,
        /// The oldest version that is read.
        oldest: u16,
    },
    /// The payload does not match its kind and version.
    #[error("payload of {kind} is not valid: {reason}")]
    Payload {
        /// The kind of the message.
        kind: &'static str,
        /// The text of the decoder.
        reason: String,
    },
}

/// Why a message cannot be encoded. This cannot happen for the messages of [`crate::msg`].
#[derive(Debug, thiserror::Error)]
#[error("message of kind {kind} cannot be encoded: {source}")]
pub struct EncodeError {
    /// The kind of the message.
    pub kind: &'static str,
    /// The error of the encoder.
    pub source: rmp_serde::encode::Error,
}

impl Envelope {
    /// The envelope of a message of type `M`.
    #[must_use]
    pub fn of<M: Message>(id: &str, source: &str, time: Timestamp, correlation: &str) -> Self {
        Self {
            id: HeaderText::of(id),
            source: HeaderText::of(source),
            kind: HeaderText::of(M::KIND),
            version: M::VERSION,
            time,
            correlation: HeaderText::of(correlation),
            content_type: ContentType::MessagePack,
        }
    }

    /// The headers: names and escaped values.
    #[must_use]
    pub fn headers(&self) -> Vec<(&'static str, String)> {
        let mut headers = vec![
            ("ce-specversion", SPEC_VERSION.to_owned()),
            ("ce-id", self.id.escaped()),
            ("ce-source", self.source.escaped()),
            ("ce-type", self.kind.escaped()),
            ("ce-time", self.time.to_string()),
            ("ce-dataversion", self.version.to_string()),
            ("content-type", self.content_type.as_str().to_owned()),
        ];
        if !self.correlation.is_empty() {
            headers.push(("ce-correlationid", self.correlation.escaped()));
        }
        headers
    }

    /// Reads headers. Names are compared without regard to case. `ce-source`, `ce-time` and
    /// `ce-correlationid` may be missing.
    ///
    /// # Errors
    /// [`DecodeError::MissingHeader`] or [`DecodeError::BadHeader`].
    pub fn read<'h>(
        headers: impl IntoIterator<Item = (&'h str, &'h str)>,
    ) -> Result<Self, DecodeError> {
        let mut found = Attributes::default();
        for (name, value) in headers {
            found.take(name, value);
        }
        let version = found.version.ok_or(DecodeError::MissingHeader {
            header: "ce-dataversion",
        })?;
        let version = version.parse().map_err(|_| DecodeError::BadHeader {
            header: "ce-dataversion",
            value: version.to_string(),
            expected: "a number from 1 to 65535",
        })?;
        let time = match found.time {
            None => Timestamp::default(),
            Some(text) => time_text::parse(&text).map_err(|_| DecodeError::BadHeader {
                header: "ce-time",
                value: text.to_string(),
                expected: "a time as in 2021-02-10T00:08:00Z",
            })?,
        };
        let content_type = match found.content_type {
            None => ContentType::MessagePack,
            Some(text) => ContentType::parse(&text).ok_or_else(|| DecodeError::BadHeader {
                header: "content-type",
                value: text.to_string(),
                expected: "application/msgpack or application/json",
            })?,
        };
        Ok(Self {
            id: found
                .id
                .ok_or(DecodeError::MissingHeader { header: "ce-id" })?,
            source: found.source.unwrap_or_default(),
            kind: found
                .kind
                .ok_or(DecodeError::MissingHeader { header: "ce-type" })?,
            version,
            time,
            correlation: found.correlation.unwrap_or_default(),
            content_type,
        })
    }
}

/// CloudEvents attributes of headers, unescaped, all optional.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attributes {
    /// `ce-specversion`, which no further message repeats.
    pub spec: Option<String>,
    /// `ce-id`.
    pub id: Option<HeaderText>,
    /// `ce-source`.
    pub source: Option<HeaderText>,
    /// `ce-type`.
    pub kind: Option<HeaderText>,
    /// `ce-dataversion`.
    pub version: Option<HeaderText>,
    /// `ce-time`.
    pub time: Option<HeaderText>,
    /// `ce-correlationid`.
    pub correlation: Option<HeaderText>,
    /// `content-type`.
    pub content_type: Option<HeaderText>,
}

impl Attributes {
    /// Takes the value of a header, if the header is one of these.
    pub fn take(&mut self, name: &str, value: &str) {
        let value = percent_decode_str(value).decode_utf8_lossy();
        let slot = match name.to_ascii_lowercase().as_str() {
            "ce-specversion" => {
                self.spec = Some(value.into_owned());
                return;
            }
            "ce-id" => &mut self.id,
            "ce-source" => &mut self.source,
            "ce-type" => &mut self.kind,
            "ce-dataversion" => &mut self.version,
            "ce-time" => &mut self.time,
            "ce-correlationid" => &mut self.correlation,
            "content-type" => &mut self.content_type,
            _ => return,
        };
        *slot = Some(HeaderText::of(&value));
    }
}

/// The payload of a message: MessagePack with named fields.
///
/// # Errors
/// [`EncodeError`], which cannot happen for the messages of [`crate::msg`].
pub fn encode<M: Message>(message: &M) -> Result<Vec<u8>, EncodeError> {
    let mut bytes = Vec::with_capacity(256);
    let mut writer = rmp_serde::Serializer::new(&mut bytes).with_struct_map();
    let written = message.serialize(&mut writer);
    written.map_err(|source| EncodeError {
        kind: M::KIND,
        source,
    })?;
    Ok(bytes)
}

/// Checks that a version of a kind is read.
///
/// # Errors
/// [`DecodeError::Newer`] or [`DecodeError::Older`], with the remedy.
pub fn check_version<M: Message>(found: u16) -> Result<(), DecodeError> {
    let kind = M::KIND;
    if found > M::VERSION {
        let known = M::VERSION;
        return Err(DecodeError::Newer { kind, found, known });
    }
    if found < M::OLDEST {
        let oldest = M::OLDEST;
        return Err(DecodeError::Older {
            kind,
            found,
            oldest,
        });
    }
    Ok(())
}

/// Decodes a payload, after a check of its envelope.
///
/// # Errors
/// [`DecodeError`] for another kind, an unknown version, or a payload that does not decode.
pub fn decode<M: Message>(envelope: &Envelope, payload: &[u8]) -> Result<M, DecodeError> {
    if envelope.kind != M::KIND {
        return Err(DecodeError::Kind {
            found: envelope.kind.to_string(),
            expected: M::KIND,
        });
    }
    check_version::<M>(envelope.version)?;
    let read = M::read(envelope.version, envelope.content_type, payload);
    read.map_err(|reason| DecodeError::Payload {
        kind: M::KIND,
        reason,
    })
}
