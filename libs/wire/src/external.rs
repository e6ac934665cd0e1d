//! Events of other programs: a small object, leniently read.
//!
//! ```json
//! {"type": "node.idle", "node": "a01n02", "time": "2021-02-10T00:08:00Z"}
//! ```
//!
//! `time` is ISO 8601 or seconds since 1970. Without it the time of arrival counts. Without the
//! `deadline` of `node.wanted` the event's own time counts.
//! The object comes alone, or as the `data` of a CloudEvent: binary mode (attributes in `ce-*`
//! headers) or structured mode (`application/cloudevents+json`). It is JSON or MessagePack. A
//! message holds one event or a list of events (`application/cloudevents-batch+json`). The server
//! syncs a list once.
//! [`crate::schema`] gives the same rules as JSON Schema.

mod error;
mod fields;

use std::borrow::Cow;

use lacuna_model::{EventKind, Timestamp};
use serde_json::{Map, Value};

use crate::codec::Attributes;
use crate::content::ContentType;
use crate::header_text::HeaderText;
use crate::time_text;

use fields::{Fields, name_of, text_of, version_of};

pub use error::ExternalError;

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
    /// The change that it reports.
    pub kind: EventKind,
    /// The time, if the sender gave one.
    pub at: Option<Timestamp>,
    /// The sender's id of the event (`ce-id`), unique within the source.
    pub id: Option<HeaderText>,
    /// The sender (`ce-source`).
    pub source: Option<HeaderText>,
}

/// One event of a message.
#[derive(Debug, Clone, PartialEq)]
pub struct Part<'p> {
    /// The payload, or the element of the list, as JSON.
    pub payload: Cow<'p, [u8]>,
    /// The event, or the first error in it.
    pub event: Result<External, ExternalError>,
}

/// Reads the events of a message: one event, or a list of them. An element of a list carries its
/// own attributes, so only the content type of the headers applies to it.
pub fn read_all<'h, 'p>(
    headers: impl IntoIterator<Item = (&'h str, &'h str)>,
    payload: &'p [u8],
) -> Vec<Part<'p>> {
    let attributes = attributes_of(headers);
    let one = |event| {
        vec![Part {
            payload: Cow::Borrowed(payload),
            event,
        }]
    };
    match parse(attributes.content_type.as_deref(), payload) {
        Err(error) => one(Err(error)),
        Ok(Value::Array(list)) => list
            .into_iter()
            .map(|element| Part {
                payload: Cow::Owned(element.to_string().into_bytes()),
                event: first_of(of_value(Attributes::default(), element)),
            })
            .collect(),
        Ok(value) => one(first_of(of_value(attributes, value))),
    }
}

/// Reads an external event from headers and payload.
///
/// # Errors
/// [`ExternalError`] names the field and the accepted values.
pub fn read<'h>(
    headers: impl IntoIterator<Item = (&'h str, &'h str)>,
    payload: &[u8],
) -> Result<External, ExternalError> {
    first_of(check(headers, payload))
}

fn first_of(read: Result<External, Vec<ExternalError>>) -> Result<External, ExternalError> {
    read.map_err(|wrong| {
        let first = wrong.into_iter().next();
        // A refusal always has an error.
        first.unwrap_or_else(|| ExternalError::Syntax {
            reason: "for no known reason".to_owned(),
        })
    })
}

/// Like [`read`], but with all errors instead of the first.
///
/// # Errors
/// Every [`ExternalError`], in the order of the fields; at least one.
pub fn check<'h>(
    headers: impl IntoIterator<Item = (&'h str, &'h str)>,
    payload: &[u8],
) -> Result<External, Vec<ExternalError>> {
    let attributes = attributes_of(headers);
    let value = parse(attributes.content_type.as_deref(), payload).map_err(|e| vec![e])?;
    of_value(attributes, value)
}

fn attributes_of<'h>(headers: impl IntoIterator<Item = (&'h str, &'h str)>) -> Attributes {
    let mut attributes = Attributes::default();
    for (name, value) in headers {
        attributes.take(name, value);
    }
    attributes
}

/// An event in either mode.
fn of_value(mut attributes: Attributes, value: Value) -> Result<External, Vec<ExternalError>> {
    let not_an_object = |value: &Value| {
        vec![ExternalError::NotAnObject {
            found: name_of(value),
        }]
    };
    let Value::Object(mut body) = value else {
        return Err(not_an_object(&value));
    };
    if body.contains_key("specversion") {
        structured(&mut attributes, &body)?;
        body = match body.remove("data") {
            Some(Value::Object(data)) => data,
            None | Some(Value::Null) => Map::new(),
            Some(other) => return Err(not_an_object(&other)),
        };
    }
    event(&attributes, &body)
}

/// Structured mode: the attributes are fields, the event is in `data`.
fn structured(
    attributes: &mut Attributes,
    body: &Map<String, Value>,
) -> Result<(), Vec<ExternalError>> {
    attributes.spec = body.get("specversion").map(text_of);
    for (name, slot) in [
        ("id", &mut attributes.id),
        ("source", &mut attributes.source),
        ("type", &mut attributes.kind),
        ("time", &mut attributes.time),
        ("dataversion", &mut attributes.version),
    ] {
        // In CloudEvents, null means absent.
        if let Some(value) = body.get(name).filter(|value| !value.is_null()) {
            *slot = Some(header_text(value));
        }
    }
    if body.get("type").is_none_or(Value::is_null) {
        return Err(vec![ExternalError::Missing {
            kind: "?".to_owned(),
            field: "type",
        }]);
    }
    Ok(())
}

fn header_text(value: &Value) -> HeaderText {
    HeaderText::of(&text_of(value))
}

/// Parses bytes by content type, or by the first byte without one.
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
            // The first bytes of a MessagePack map or array. No text begins with them.
            Some(0x80..=0x9f | 0xdc..=0xdf) => false,
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

/// The event in a body, with further fields from the attributes.
fn event(
    attributes: &Attributes,
    body: &Map<String, Value>,
) -> Result<External, Vec<ExternalError>> {
    if let Some(found) = attributes.spec.clone()
        && found != "1"
        && !found.starts_with("1.")
    {
        return Err(vec![ExternalError::SpecVersion { found }]);
    }
    let versions = ["version", "dataversion"].into_iter();
    let versions = versions.filter_map(|name| body.get(name).and_then(version_of));
    let mut versions = versions.chain(attributes.version.as_ref().map(ToString::to_string));
    if let Some(found) = versions.find(|version| version != EVENT_VERSION) {
        return Err(vec![ExternalError::Version { found }]);
    }
    let own = body.get("type").map(header_text);
    let Some(kind) = own.or_else(|| attributes.kind.clone()) else {
        return Err(vec![ExternalError::Missing {
            kind: "?".to_owned(),
            field: "type",
        }]);
    };
    let kind = kind.to_string();
    let bare = bare_name(&kind);
    let mut fields = Fields::new(&kind, body);
    if let Some(other) = attributes.kind.as_deref()
        && bare_name(other) != bare
    {
        let expected = format!("the type {other:?} that the attributes of the event name");
        fields.wrong("type", &Value::from(kind.as_str()), &expected);
    }
    let said = attributes.time.as_deref();
    let said = said.and_then(|text| match time_text::parse(text) {
        Ok(at) => Some(at),
        Err(_) => {
            fields.wrong("time", &Value::from(text), fields::TIME);
            None
        }
    });
    let at = fields.maybe_time("time").or(said);
    if !TYPES.contains(&bare) {
        return Err(vec![ExternalError::Type { found: kind }]);
    }
    let event = kind_of(bare, &mut fields, at);
    let wrong = fields.into_wrong();
    match event {
        Some(kind) if wrong.is_empty() => Ok(External {
            kind,
            at,
            id: attributes.id.clone(),
            source: attributes.source.clone(),
        }),
        _ => Err(wrong),
    }
}

/// The type without its optional prefix.
fn bare_name(kind: &str) -> &str {
    kind.strip_prefix("lacuna.").unwrap_or(kind)
}

/// The event of this type; nothing if a field is wrong. `fields` holds the errors.
fn kind_of(name: &str, fields: &mut Fields<'_>, at: Option<Timestamp>) -> Option<EventKind> {
    Some(match name {
        "node.idle" => EventKind::NodeIdle {
            node: fields.node()?,
        },
        "node.busy" => EventKind::NodeBusy {
            node: fields.node()?,
        },
        "node.down" => {
            let (node, reason) = (fields.node(), fields.words("reason"));
            EventKind::NodeDown {
                node: node?,
                reason: reason.unwrap_or_default(),
            }
        }
        "node.wanted" => {
            let (node, deadline) = (fields.node(), fields.maybe_time("deadline"));
            EventKind::NodeWanted {
                node: node?,
                // The ledger makes it the event's time if it is earlier.
                deadline: deadline.or(at).unwrap_or_default(),
            }
        }
        "job.planned" => {
            let (job, nodes, start) = (fields.name("job"), fields.nodes(), fields.time("start"));
            EventKind::JobPlanned {
                job: job?,
                nodes: nodes?,
                start: start?,
            }
        }
        "reservation" => {
            let (name, nodes) = (fields.name("name"), fields.nodes());
            let (start, end) = (fields.time("start"), fields.time("end"));
            EventKind::Reservation {
                name: name?,
                nodes: nodes?,
                start: start?,
                end: end?,
            }
        }
        // The caller has checked the type.
        _ => EventKind::Snapshot {
            idle: fields.holes(at)?,
        },
    })
}

const UNKNOWN_FORM: &str = "it is neither JSON nor a MessagePack map or array, and no \
    content-type says what it is";

#[cfg(test)]
mod tests;
