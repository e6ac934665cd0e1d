//! Events as other programs may send them: a small object, leniently read.
//!
//! ```json
//! {"type": "node.idle", "node": "a01n02", "time": "2021-02-10T00:08:00Z"}
//! ```
//!
//! `time` is ISO 8601 or seconds since 1970, and may be left out (the time of arrival counts).
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
    let json = match content_type {
        Some(text) => match ContentType::parse(text) {
            Some(known) => known == ContentType::Json,
            None => {
                return Err(ExternalError::ContentType {
                    found: text.to_owned(),
                });
            }
        },
        // No MessagePack map begins with white space or a brace.
        None => payload
            .first()
            .is_some_and(|b| b.is_ascii_whitespace() || *b == b'{' || *b == b'['),
    };
    let syntax = |reason: String| ExternalError::Syntax { reason };
    if json {
        serde_json::from_slice(payload).map_err(|e| syntax(e.to_string()))
    } else {
        rmp_serde::from_slice(payload).map_err(|e| syntax(e.to_string()))
    }
}

/// The event in a body, with what the attributes say in addition.
fn event(attributes: &Attributes, body: &Map<String, Value>) -> Result<External, ExternalError> {
    let version = body
        .get("version")
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
            deadline: fields.time("deadline")?,
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    const JSON: (&str, &str) = ("content-type", "application/json");

    fn node(name: &str) -> NodeId {
        NodeId::new(name).unwrap()
    }

    fn refused(headers: &[(&str, &str)], body: &str) -> String {
        read(headers.iter().copied(), body.as_bytes())
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn a_bare_object_is_enough() {
        let body = br#"{"type":"node.idle","node":"n1.x","time":"2021-02-10T00:08:00Z"}"#;
        let event = read([], body).unwrap();
        assert_eq!(event.kind, EventKind::NodeIdle { node: node("n1.x") });
        assert_eq!(event.at, Some(Timestamp::from_unix(1_612_915_680)));
        let body = br#" {"type":"node.down","node":"n1","time":12.5,"reason":"fan"}"#;
        let event = read([JSON], body).unwrap();
        assert_eq!(event.at, Some(Timestamp::from_unix_ms(12_500)));
        let event = read([], br#"{"type":"node.busy","node":"n1"}"#).unwrap();
        assert_eq!((event.at, event.id), (None, None));
    }

    #[test]
    fn cloud_events_come_in_both_modes() {
        let headers = [
            ("Ce-Id", "a%20b"),
            ("ce-type", "node.busy"),
            ("CE-SOURCE", "slurm/%C3%A9"),
            ("ce-time", "2021-02-10T00:08:00Z"),
            JSON,
        ];
        let binary = read(headers, br#"{"node":"n1"}"#).unwrap();
        assert_eq!(binary.id.as_deref(), Some("a b"));
        assert_eq!(binary.source.as_deref(), Some("slurm/\u{e9}"));
        let body = br#"{"specversion":"1.0","id":"a b","source":"slurm/\u00e9","type":"node.busy",
            "time":"2021-02-10T00:08:00Z","data":{"node":"n1"}}"#;
        let structured = [(
            "content-type",
            "application/cloudevents+json; charset=utf-8",
        )];
        assert_eq!(read(structured, body).unwrap(), binary);
    }

    #[test]
    fn message_pack_is_read_too() {
        let body = serde_json::json!({"type": "job.planned", "job": 7, "nodes": ["a", "b"],
            "start": 100});
        let bytes = rmp_serde::to_vec_named(&body).unwrap();
        let expected = EventKind::JobPlanned {
            job: "7".to_owned(),
            nodes: vec![node("a"), node("b")],
            start: Timestamp::from_unix(100),
        };
        assert_eq!(read([], &bytes).unwrap().kind, expected);
        let typed = [("content-type", "application/msgpack")];
        assert_eq!(read(typed, &bytes).unwrap().kind, expected);
    }

    #[test]
    fn a_snapshot_lists_holes_or_names() {
        let body = br#"{"type":"snapshot","time":50,"idle":["a",{"node":"b","since":20}]}"#;
        let hole = |name: &str, since| Hole {
            node: node(name),
            since: Timestamp::from_unix(since),
        };
        let idle = vec![hole("a", 50), hole("b", 20)];
        assert_eq!(read([], body).unwrap().kind, EventKind::Snapshot { idle });
        let error = refused(&[], r#"{"type":"snapshot","idle":["a"]}"#);
        assert!(error.contains("since"), "{error}");
    }

    #[test]
    fn refusals_say_what_was_expected() {
        for (headers, body, told) in [
            (&[][..], "{", "cannot be read"),
            (&[], "[1]", "a list"),
            (&[], "{}", "no field \"type\""),
            (&[], r#"{"type":"node.idle"}"#, "no field \"node\""),
            (&[], r#"{"type":"node.idle","node":7}"#, "a node name"),
            (
                &[],
                r#"{"type":"node.idle","node":"two words"}"#,
                "without white space",
            ),
            (&[], r#"{"type":"node.gone","node":"a"}"#, "node.wanted"),
            (
                &[],
                r#"{"type":"node.released","node":"a"}"#,
                "unknown event type",
            ),
            (
                &[],
                r#"{"type":"node.idle","node":"a","time":"noon"}"#,
                "seconds since 1970",
            ),
            (&[], r#"{"type":"node.wanted","node":"a"}"#, "deadline"),
            (
                &[],
                r#"{"type":"node.idle","node":"a","version":2}"#,
                "version \"2\"",
            ),
            (
                &[("ce-dataversion", "3"), JSON],
                r#"{"type":"node.idle"}"#,
                "version \"3\"",
            ),
            (&[("content-type", "text/xml")], "<a/>", "text/xml"),
        ] {
            let error = refused(headers, body);
            assert!(error.contains(told), "{body}: {error}");
        }
    }

    proptest! {
        #[test]
        fn reading_never_panics(bytes: Vec<u8>, kind in "\\PC{0,20}") {
            let _ = read([("content-type", kind.as_str())], &bytes);
            let _ = read([JSON], &bytes);
            let _ = read([], &bytes);
        }

        #[test]
        fn reading_never_panics_on_nearly_right_events(
            name in "[a-z.]{0,12}", field in "[a-z]{0,8}", value in any::<i64>(), text in "\\PC{0,9}"
        ) {
            let body = serde_json::json!({"type": name, field: value, "node": text, "idle": [value]});
            let _ = read([], body.to_string().as_bytes());
        }
    }
}
