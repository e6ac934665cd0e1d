//! What Lacuna's services say to each other: every subject, stream and bucket in one place,
//! each with its message type and version, and the encoding.
//!
//! Payloads are MessagePack with named fields; external schedulers may send JSON. CloudEvents
//! attributes travel in headers. Nothing here does I/O.
//!
//! - [`address`]: subjects, streams and buckets as functions of the cluster's id
//! - [`access`]: for each role, the subjects that it may say and hear
//! - [`token`]: names of nodes and trainers as subject tokens, and back
//! - [`msg`]: the messages, each with its kind and version ([`Message`])
//! - [`codec`]: bytes and headers to messages, and back
//! - [`external`]: the lenient form in which other programs may send events
//! - [`schema`]: the same as JSON Schema

pub mod access;
pub mod address;
pub mod codec;
mod content;
pub mod external;
mod message;
pub mod msg;
pub mod schema;
pub mod time_text;
pub mod token;

pub use address::{BucketDef, Durability, Full, StreamDef, Subject};
pub use codec::{DecodeError, EncodeError, Envelope};
pub use content::ContentType;
pub use external::{External, ExternalError};
pub use message::Message;
