//! The errors of external events.

use super::{EVENT_VERSION, TYPES};

/// Why an external event was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExternalError {
    /// The content type is not supported.
    #[error(
        "content type {found:?} cannot be read: send application/json, application/msgpack or \
         application/cloudevents+json"
    )]
    ContentType {
        /// The header's value.
        found: String,
    },
    /// The payload is not JSON, or not MessagePack.
    #[error("payload cannot be read: {reason}")]
    Syntax {
        /// The text of the parser.
        reason: String,
    },
    /// The payload is not an object.
    #[error(
        "payload is {found}: expected an object as in {{\"type\":\"node.idle\",\"node\":\"n1\"}}"
    )]
    NotAnObject {
        /// The kind of value that it is.
        found: &'static str,
    },
    /// A field is missing.
    #[error("event {kind:?} has no field {field:?}")]
    Missing {
        /// The event's type.
        kind: String,
        /// The name of the field.
        field: &'static str,
    },
    /// A field has an invalid value.
    #[error("field {field:?} of event {kind:?} is {value}: expected {expected}")]
    Field {
        /// The event's type.
        kind: String,
        /// The name of the field.
        field: &'static str,
        /// The value, shortened.
        value: String,
        /// The values that are accepted.
        expected: String,
    },
    /// The type is not known.
    #[error("unknown event type {found:?}: expected one of {}", TYPES.join(", "))]
    Type {
        /// The type that was given.
        found: String,
    },
    /// The version of CloudEvents is not known.
    #[error("ce-specversion is {found:?}: this program knows CloudEvents 1.x")]
    SpecVersion {
        /// The version that was given.
        found: String,
    },
    /// The version is not known.
    #[error("event has version {found:?}; this program knows version {EVENT_VERSION}")]
    Version {
        /// The version that was given.
        found: String,
    },
}

impl ExternalError {
    /// The field that is wrong or missing, if the error concerns one.
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

    /// The values that are accepted.
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
