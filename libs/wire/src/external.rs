//! Events as other programs may send them: a small object, leniently read.
//!
//! ```json
//! {"type": "node.idle", "node": "a01n02", "time": "2021-02-10T00:08:00Z"}
//! ```
//!
//! `time` is ISO 8601 or seconds since 1970, and may be left out (the time of arrival counts), as
//! may the `deadline` of `node.wanted` (the event's own time then).
//! The object comes alone, or as the `data` of a CloudEvent: binary mode (attributes in
//! `ce-*` headers) or structured mode (`application/cloudevents+json`). JSON or MessagePack.

use lacuna_model::{EventKind, Hole, NodeId, Timestamp};
use serde_json::{Map, Value};

use crate::codec::{Attributes, ContentType};
use crate::time_text;

/// The version of the event vocabulary.
pub const EVENT_VERSION: &str = "1";

/// The event types that other programs may send.
pub const TYPES: [&str; 7] = [
    "node.idle",
    "node.busy",
    "node.down",
    "node.wanted",
    "job.planned",
    "reservation",
    "snapshot",
];

/// An external event, read and checked.
#[derive(Debug, Clone, PartialEq)]
pub struct External {
    /// What happened.
    pub kind: EventKind,
    /// When, if the sender said so.
    pub at: Option<Timestamp>,
    /// The sender's id for it (`ce-id`), unique for the source.
    pub id: Option<String>,
    /// Who sent it (`ce-source`).
    pub source: Option<String>,
}

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

/// Reads an external event out of headers and payload.
///
/// # Errors
/// [`ExternalError`] says which field is wrong and what was expected.
pub fn read<'h>(
    headers: impl IntoIterator<Item = (&'h str, &'h str)>,
    payload: &[u8],
) -> Result<External, ExternalError> {
    let mut attributes = Attributes::default();
    for (name, value) in headers {
        attributes.take(name, value);
    }
    let value = parse(attributes.content_type.as_deref(), payload)?;
    let Value::Object(mut body) = value else {
        return Err(ExternalError::NotAnObject {
            found: name_of(&value),
        });
    };
    if body.contains_key("specversion") {
        // Structured mode: the attributes are fields, the event is in `data`.
        for (name, slot) in [
            ("specversion", &mut attributes.spec),
            ("id", &mut attributes.id),
            ("source", &mut attributes.source),
            ("type", &mut attributes.kind),
            ("time", &mut attributes.time),
            ("dataversion", &mut attributes.version),
        ] {
            if let Some(text) = body.get(name).map(text_of) {
                *slot = Some(text);
            }
        }
        body = match body.remove("data") {
            Some(Value::Object(data)) => data,
            None | Some(Value::Null) => Map::new(),
            Some(other) => {
                return Err(ExternalError::NotAnObject {
                    found: name_of(&other),
                });
            }
        };
    }
    event(&attributes, &body)
}

/// Bytes to a value: by content type, or by the first byte if there is none.
fn parse(content_type: Option<&str>, payload: &[u8]) -> Result<Value, ExternalError> {
    let syntax = |reason: String| ExternalError::Syntax { reason };
    let json = match content_type {
        Some(text) => match ContentType::parse(text) {
            Some(known) => known == ContentType::Json,
            None => {
                return Err(ExternalError::ContentType {
                    found: text.to_owned(),
                });
            }
        },
        None => match payload.first() {
            Some(b) if b.is_ascii_whitespace() || *b == b'{' || *b == b'[' => true,
            // How a MessagePack map begins: no text does.
            Some(0x80..=0x8f | 0xde | 0xdf) => false,
            Some(_) => return Err(syntax(UNKNOWN_FORM.to_owned())),
            None => return Err(syntax("it is empty".to_owned())),
        },
    };
    if json {
        serde_json::from_slice(payload).map_err(|e| syntax(e.to_string()))
    } else {
        rmp_serde::from_slice(payload).map_err(|e| syntax(e.to_string()))
    }
}

/// The event in a body, with what the attributes say in addition.
fn event(attributes: &Attributes, body: &Map<String, Value>) -> Result<External, ExternalError> {
    if let Some(found) = attributes.spec.clone()
        && found != "1"
        && !found.starts_with("1.")
    {
        return Err(ExternalError::SpecVersion { found });
    }
    let version = body
        .get("version")
        .or_else(|| body.get("dataversion"))
        .map(text_of)
        .or_else(|| attributes.version.clone());
    if let Some(found) = version.filter(|v| v != EVENT_VERSION) {
        return Err(ExternalError::Version { found });
    }
    let kind = body
        .get("type")
        .map(text_of)
        .or_else(|| attributes.kind.clone());
    let kind = kind.ok_or_else(|| ExternalError::Missing {
        kind: "?".to_owned(),
        field: "type",
    })?;
    let fields = Fields { kind: &kind, body };
    let at = match body.get("time") {
        None | Some(Value::Null) => match &attributes.time {
            None => None,
            Some(text) => Some(
                time_text::parse(text)
                    .map_err(|_| fields.wrong("time", &Value::from(text.as_str()), TIME))?,
            ),
        },
        Some(value) => Some(fields.as_time("time", value)?),
    };
    let event = match kind.strip_prefix("lacuna.").unwrap_or(&kind) {
        "node.idle" => EventKind::NodeIdle {
            node: fields.node()?,
        },
        "node.busy" => EventKind::NodeBusy {
            node: fields.node()?,
        },
        "node.down" => EventKind::NodeDown {
            node: fields.node()?,
            reason: body.get("reason").map(text_of).unwrap_or_default(),
        },
        "node.wanted" => EventKind::NodeWanted {
            node: fields.node()?,
            // The ledger makes it the event's time if it is earlier.
            deadline: match body.get("deadline") {
                None | Some(Value::Null) => at.unwrap_or_default(),
                Some(value) => fields.as_time("deadline", value)?,
            },
        },
        "job.planned" => EventKind::JobPlanned {
            job: fields.text("job")?,
            nodes: fields.nodes()?,
            start: fields.time("start")?,
        },
        "reservation" => EventKind::Reservation {
            name: fields.text("name")?,
            nodes: fields.nodes()?,
            start: fields.time("start")?,
            end: fields.time("end")?,
        },
        "snapshot" => EventKind::Snapshot {
            idle: fields.holes(at)?,
        },
        _ => return Err(ExternalError::Type { found: kind }),
    };
    Ok(External {
        kind: event,
        at,
        id: attributes.id.clone(),
        source: attributes.source.clone(),
    })
}

const TIME: &str = "a time as in \"2021-02-10T00:08:00Z\", or seconds since 1970";
const UNKNOWN_FORM: &str = "it is neither a JSON object nor a MessagePack map, and no content-type \
    says what it is";
const NODES: &str = "a list of node names";
const HOLES: &str = "a list of objects as in {\"node\":\"n1\",\"since\":1612915680}";

/// The fields of one event, read with errors that name it.
struct Fields<'a> {
    kind: &'a str,
    body: &'a Map<String, Value>,
}

impl Fields<'_> {
    fn wrong(&self, field: &'static str, value: &Value, expected: &str) -> ExternalError {
        let mut value = value.to_string();
        if value.chars().count() > 60 {
            value = value.chars().take(57).chain("...".chars()).collect();
        }
        ExternalError::Field {
            kind: self.kind.to_owned(),
            field,
            value,
            expected: expected.to_owned(),
        }
    }

    fn get(&self, field: &'static str) -> Result<&Value, ExternalError> {
        self.body.get(field).ok_or_else(|| ExternalError::Missing {
            kind: self.kind.to_owned(),
            field,
        })
    }

    fn text(&self, field: &'static str) -> Result<String, ExternalError> {
        Ok(text_of(self.get(field)?))
    }

    fn as_node(&self, field: &'static str, value: &Value) -> Result<NodeId, ExternalError> {
        let name = value
            .as_str()
            .ok_or_else(|| self.wrong(field, value, "a node name"))?;
        NodeId::new(name).map_err(|e| self.wrong(field, value, e.expected))
    }

    fn node(&self) -> Result<NodeId, ExternalError> {
        self.as_node("node", self.get("node")?)
    }

    fn nodes(&self) -> Result<Vec<NodeId>, ExternalError> {
        let value = self.get("nodes")?;
        let list = value
            .as_array()
            .ok_or_else(|| self.wrong("nodes", value, NODES))?;
        list.iter().map(|v| self.as_node("nodes", v)).collect()
    }

    fn as_time(&self, field: &'static str, value: &Value) -> Result<Timestamp, ExternalError> {
        let time = match value {
            Value::String(text) => time_text::parse(text).ok(),
            Value::Number(number) => number.as_f64().and_then(time_text::from_seconds),
            _ => None,
        };
        time.ok_or_else(|| self.wrong(field, value, TIME))
    }

    fn time(&self, field: &'static str) -> Result<Timestamp, ExternalError> {
        self.as_time(field, self.get(field)?)
    }

    /// Holes as objects, or as bare node names that are idle since the event's own time.
    fn holes(&self, at: Option<Timestamp>) -> Result<Vec<Hole>, ExternalError> {
        let value = self.get("idle")?;
        let list = value
            .as_array()
            .ok_or_else(|| self.wrong("idle", value, HOLES))?;
        let hole = |entry: &Value| match (entry, at) {
            (Value::Object(fields), _) => {
                let missing = || self.wrong("idle", entry, HOLES);
                Ok(Hole {
                    node: self.as_node("idle", fields.get("node").ok_or_else(missing)?)?,
                    since: self.as_time("since", fields.get("since").ok_or_else(missing)?)?,
                })
            }
            (Value::String(_), Some(since)) => Ok(Hole {
                node: self.as_node("idle", entry)?,
                since,
            }),
            _ => Err(self.wrong("idle", entry, HOLES)),
        };
        list.iter().map(hole).collect()
    }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn name_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests;
