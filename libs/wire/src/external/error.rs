//! What can be wrong with an external event.

use super::{EVENT_VERSION, TYPES};

/// Why an external event was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExternalError {
    /// The content type is none that can be read.
    #[error(
        "content type {found:?} cannot be read: send application/json, application/msgpack or \
         application/cloudevents+json"
    )]
    ContentType {
        /// What the header says.
        found: String,
    },
    /// The payload is not JSON, or not MessagePack.
    #[error("payload cannot be read: {reason}")]
    Syntax {
        /// What the parser said.
        reason: String,
    },
    /// The payload is not an object.
    #[error(
        "payload is {found}: expected an object as in {{\"type\":\"node.idle\",\"node\":\"n1\"}}"
    )]
    NotAnObject {
        /// What it is.
        found: &'static str,
    },
    /// A field is missing.
    #[error("event {kind:?} has no field {field:?}")]
    Missing {
        /// The event's type.
        kind: String,
        /// Which field.
        field: &'static str,
    },
    /// A field makes no sense.
    #[error("field {field:?} of event {kind:?} is {value}: expected {expected}")]
    Field {
        /// The event's type.
        kind: String,
        /// Which field.
        field: &'static str,
        /// What it holds, cut short.
        value: String,
        /// What would have been accepted.
        expected: String,
    },
    /// The type is not known.
    #[error("unknown event type {found:?}: expected one of {}", TYPES.join(", "))]
    Type {
        /// What it says.
        found: String,
    },
    /// The version of CloudEvents is not known.
    #[error("ce-specversion is {found:?}: this program knows CloudEvents 1.x")]
    SpecVersion {
        /// What it says.
        found: String,
    },
    /// The version is not known.
    #[error("event has version {found:?}; this program knows version {EVENT_VERSION}")]
    Version {
        /// What it says.
        found: String,
    },
}

impl ExternalError {
    /// The field that is wrong or missing, if it is about one.
    #[must_use]
    pub const fn field(&self) -> Option<&'static str> {
        match self {
            Self::Missing { field, .. } | Self::Field { field, .. } => Some(field),
            Self::Type { .. } => Some("type"),
            Self::SpecVersion { .. } => Some("specversion"),
            Self::Version { .. } => Some("version"),
            Self::ContentType { .. } | Self::Syntax { .. } | Self::NotAnObject { .. } => None,
        }
    }

    /// What would have been accepted.
    #[must_use]
    pub fn expected(&self) -> String {
        match self {
            Self::Missing { field, .. } => format!("a field {field:?}"),
            Self::Field { expected, .. } => expected.clone(),
            Self::Type { .. } => format!("one of {}", TYPES.join(", ")),
            Self::SpecVersion { .. } => "1.0".to_owned(),
            Self::Version { .. } => EVENT_VERSION.to_owned(),
            Self::ContentType { .. } => "application/json, application/msgpack or \
                application/cloudevents+json"
                .to_owned(),
            Self::Syntax { .. } | Self::NotAnObject { .. } => "a JSON object".to_owned(),
        }
    }
}
