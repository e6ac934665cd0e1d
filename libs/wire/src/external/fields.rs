//! The fields of one event, read with errors that name the field.

use lacuna_model::{Hole, NodeId, Timestamp};
use serde_json::{Map, Value};

use super::ExternalError;
use crate::schema::Form;
use crate::time_text;

pub(super) const TIME: &str = Form::Time.expected();

/// The fields of an event, and the errors of those that were read.
pub(super) struct Fields<'a> {
    kind: &'a str,
    body: &'a Map<String, Value>,
    wrong: Vec<ExternalError>,
}

impl<'a> Fields<'a> {
    pub(super) const fn new(kind: &'a str, body: &'a Map<String, Value>) -> Self {
        Self {
            kind,
            body,
            wrong: Vec::new(),
        }
    }

    /// The errors, in the order in which they were found.
    pub(super) fn into_wrong(self) -> Vec<ExternalError> {
        self.wrong
    }

    /// Records the error of a field with an invalid value.
    pub(super) fn wrong(&mut self, field: &'static str, value: &Value, expected: &str) {
        let mut value = value.to_string();
        if value.chars().count() > 60 {
            value = value.chars().take(57).chain("...".chars()).collect();
        }
        self.wrong.push(ExternalError::Field {
            kind: self.kind.to_owned(),
            field,
            value,
            expected: expected.to_owned(),
        });
    }

    /// A required field.
    fn get(&mut self, field: &'static str) -> Option<&'a Value> {
        let found = self.body.get(field);
        if found.is_none() {
            self.wrong.push(ExternalError::Missing {
                kind: self.kind.to_owned(),
                field,
            });
        }
        found
    }

    /// A name that the scheduler uses.
    pub(super) fn name(&mut self, field: &'static str) -> Option<String> {
        match self.get(field)? {
            value @ (Value::String(_) | Value::Number(_)) => Some(text_of(value)),
            other => {
                self.wrong(field, other, Form::Name.expected());
                None
            }
        }
    }

    /// An optional text for people.
    pub(super) fn words(&mut self, field: &'static str) -> Option<String> {
        match self.body.get(field) {
            None | Some(Value::Null) => None,
            Some(value @ (Value::Array(_) | Value::Object(_))) => {
                self.wrong(field, value, Form::Text.expected());
                None
            }
            Some(value) => Some(text_of(value)),
        }
    }

    fn as_node(&mut self, field: &'static str, value: &Value) -> Option<NodeId> {
        let Some(name) = value.as_str() else {
            self.wrong(field, value, Form::Node.expected());
            return None;
        };
        let node = NodeId::new(name);
        node.map_err(|e| self.wrong(field, value, e.expected)).ok()
    }

    pub(super) fn node(&mut self) -> Option<NodeId> {
        let value = self.get("node")?;
        self.as_node("node", value)
    }

    pub(super) fn nodes(&mut self) -> Option<Vec<NodeId>> {
        let value = self.get("nodes")?;
        let Some(list) = value.as_array() else {
            self.wrong("nodes", value, Form::Nodes.expected());
            return None;
        };
        let nodes: Vec<Option<NodeId>> = list.iter().map(|v| self.as_node("nodes", v)).collect();
        nodes.into_iter().collect()
    }

    fn as_time(&mut self, field: &'static str, value: &Value) -> Option<Timestamp> {
        let time = match value {
            Value::String(text) => time_text::parse(text).ok(),
            Value::Number(number) => number.as_f64().and_then(time_text::from_seconds),
            _ => None,
        };
        if time.is_none() {
            self.wrong(field, value, TIME);
        }
        time
    }

    pub(super) fn time(&mut self, field: &'static str) -> Option<Timestamp> {
        let value = self.get(field)?;
        self.as_time(field, value)
    }

    /// An optional point in time.
    pub(super) fn maybe_time(&mut self, field: &'static str) -> Option<Timestamp> {
        match self.body.get(field) {
            None | Some(Value::Null) => None,
            Some(value) => self.as_time(field, value),
        }
    }

    /// Holes as objects, or as bare node names, which are idle since the event's own time.
    pub(super) fn holes(&mut self, at: Option<Timestamp>) -> Option<Vec<Hole>> {
        let value = self.get("idle")?;
        let expected = Form::Holes.expected();
        let Some(list) = value.as_array() else {
            self.wrong("idle", value, expected);
            return None;
        };
        let holes = list.iter().map(|entry| match (entry, at) {
            (Value::Object(fields), _) => {
                let (Some(node), Some(since)) = (fields.get("node"), fields.get("since")) else {
                    self.wrong("idle", entry, expected);
                    return None;
                };
                let (node, since) = (self.as_node("idle", node), self.as_time("since", since));
                Some(Hole {
                    node: node?,
                    since: since?,
                })
            }
            (Value::String(_), Some(since)) => Some(Hole {
                node: self.as_node("idle", entry)?,
                since,
            }),
            _ => {
                self.wrong("idle", entry, expected);
                None
            }
        });
        let holes: Vec<Option<Hole>> = holes.collect();
        holes.into_iter().collect()
    }
}

/// A value as text. Whole numbers have no decimal point.
pub(super) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_f64() {
            // Below this value every whole number is exact.
            Some(f) if f.fract() == 0.0 && f.abs() < 9e15 => format!("{f:.0}"),
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}

/// The version in a field; nothing if it is null.
pub(super) fn version_of(value: &Value) -> Option<String> {
    (!value.is_null()).then(|| text_of(value))
}

pub(super) fn name_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
