//! What Lacuna's services say to each other: every subject, stream and bucket in one place,
//! each with its message type and version, and the encoding.
//!
//! Payloads are MessagePack with named fields; external schedulers may send JSON. CloudEvents
//! attributes travel in headers. Nothing here does I/O.

pub mod msg;
