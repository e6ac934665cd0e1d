//! The protocol of Lacuna's services: every subject, stream and bucket with its message type and
//! version, and the encoding.
//!
//! Payloads are MessagePack with named fields; external schedulers may send JSON. CloudEvents
//! attributes travel in headers. No code here does I/O.
//!
//! - [`address`]: subjects, streams and buckets as functions of the cluster's id
//! - [`access`]: for each role, the subjects that it may publish and read
//! - [`token`]: names of nodes and trainers as subject tokens, and back
//! - [`msg`]: the messages, each with its kind and version ([`Message`])
//! - [`codec`]: bytes and headers to messages, and back
//! - [`external`]: the lenient form of events of other programs
//! - [`schema`]: this form as JSON Schema

pub mod access;
pub mod address;
pub mod codec;
mod content;
pub mod external;
mod header_text;
mod message;
pub mod msg;
pub mod schema;
pub mod time_text;
pub mod token;

pub use address::{BucketDef, Durability, Full, StreamDef, Subject};
pub use codec::{DecodeError, EncodeError, Envelope};
pub use content::ContentType;
pub use external::{External, ExternalError};
pub use header_text::HeaderText;
pub use message::Message;
