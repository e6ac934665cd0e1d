//! The table of events as documents of JSON Schema.

use serde_json::{Map, Value, json};

use super::{EVENTS, EventType, Field, Form, event_type};
use crate::external::EVENT_VERSION;
use crate::time_text::LAST_SECOND;

/// The dialect of the schemas.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Name of the schema of CloudEvents in structured mode.
pub const CLOUD_EVENTS: &str = "cloudevents";

/// The pattern of a [`lacuna_model::NodeId`].
const NODE: &str = "^[A-Za-z0-9_][A-Za-z0-9._-]{0,254}$";

/// `1`, or `1.` and anything.
const SPEC_VERSION: &str = r"^1(\..*)?$";

/// The schema of one type of event as a bare object, or of all CloudEvents in structured mode
/// ([`CLOUD_EVENTS`]).
#[must_use]
pub fn of(name: &str) -> Option<Value> {
    if name == CLOUD_EVENTS {
        let about = "An event for Lacuna as a CloudEvent in structured mode";
        return Some(document(name, about, &cloud_event()));
    }
    let event = event_type(name)?;
    let mut schema = document(event.name, event.about, &bare(event));
    let example: Value = serde_json::from_str(event.example).unwrap_or_default();
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("examples".to_owned(), json!([example]));
    }
    Some(schema)
}

/// The schema of everything that may be published: a bare event of any type, or a CloudEvent.
#[must_use]
pub fn any() -> Value {
    let types: Vec<String> = EVENTS.iter().flat_map(names).collect();
    let each: Vec<Value> = EVENTS
        .iter()
        .map(|event| json!({ "if": is_type(event), "then": bare(event) }))
        .collect();
    let bare = json!({
        "type": "object",
        "properties": { "type": { "enum": types } },
        "required": ["type"],
        "allOf": each,
    });
    let about = "An event for Lacuna: a bare object, or a CloudEvent in structured mode";
    let either = json!({
        "type": "object",
        "if": { "required": ["specversion"] },
        "then": cloud_event(),
        "else": bare,
    });
    document("event", about, &either)
}

/// A complete document for a schema, with the definitions that it may use.
fn document(name: &str, about: &str, schema: &Value) -> Value {
    let mut whole = Map::new();
    whole.insert("$schema".to_owned(), json!(DIALECT));
    let id = format!("urn:lacuna:event:{EVENT_VERSION}:{name}");
    whole.insert("$id".to_owned(), json!(id));
    whole.insert("title".to_owned(), json!(name));
    whole.insert("description".to_owned(), json!(about));
    for (key, value) in schema.as_object().into_iter().flatten() {
        whole.insert(key.clone(), value.clone());
    }
    whole.insert("$defs".to_owned(), definitions());
    Value::Object(whole)
}

fn definitions() -> Value {
    let mut defs = Map::new();
    let time = json!({
        "description": "ISO 8601 with an offset, or seconds since 1970.",
        "anyOf": [
            { "type": "string", "pattern": time_pattern() },
            { "type": "number", "minimum": 0, "maximum": LAST_SECOND },
        ],
    });
    let hole = json!({
        "description": "An idle node, and when it became idle.",
        "type": "object",
        "properties": {
            "node": { "$ref": "#/$defs/node" },
            "since": { "$ref": "#/$defs/time" },
        },
        "required": ["node", "since"],
    });
    let node = json!({
        "description": "A node, by its name in the main scheduler.",
        "type": "string",
        "pattern": NODE,
    });
    let version = json!({
        "description": "The version of the event's fields.",
        "enum": [EVENT_VERSION, 1, null],
    });
    let named = [
        ("node", node),
        ("time", time),
        ("hole", hole),
        ("version", version),
    ];
    for (name, schema) in named {
        defs.insert(name.to_owned(), schema);
    }
    for event in &EVENTS {
        defs.insert(event.name.to_owned(), fields(event));
    }
    Value::Object(defs)
}

/// The fields of an event: those of a bare object or of a CloudEvent's data.
fn fields(event: &EventType) -> Value {
    let mut properties = Map::new();
    properties.insert("type".to_owned(), json!({ "enum": names(event) }));
    properties.insert("time".to_owned(), maybe_time());
    for name in ["version", "dataversion"] {
        properties.insert(name.to_owned(), json!({ "$ref": "#/$defs/version" }));
    }
    for field in event.fields {
        let mut schema = form(field);
        if let Some(schema) = schema.as_object_mut() {
            schema.insert("description".to_owned(), json!(field.about));
        }
        properties.insert(field.name.to_owned(), schema);
    }
    let required = event.fields.iter().filter(|field| field.required);
    let required: Vec<&str> = required.map(|field| field.name).collect();
    json!({
        "description": event.about,
        "type": "object",
        "properties": properties,
        "required": required,
    })
}

fn form(field: &Field) -> Value {
    match (field.form, field.required) {
        (Form::Node, _) => json!({ "$ref": "#/$defs/node" }),
        (Form::Nodes, _) => json!({ "type": "array", "items": { "$ref": "#/$defs/node" } }),
        (Form::Name, _) => json!({ "type": ["string", "number"] }),
        (Form::Text, _) => json!({ "type": ["string", "number", "boolean", "null"] }),
        (Form::Time, true) => json!({ "$ref": "#/$defs/time" }),
        (Form::Time, false) => maybe_time(),
        (Form::Holes, _) => json!({
            "type": "array",
            "items": { "anyOf": [{ "$ref": "#/$defs/hole" }, { "$ref": "#/$defs/node" }] },
        }),
    }
}

fn maybe_time() -> Value {
    json!({ "anyOf": [{ "$ref": "#/$defs/time" }, { "type": "null" }] })
}

/// Both spellings of a type.
fn names(event: &EventType) -> [String; 2] {
    [event.name.to_owned(), format!("lacuna.{}", event.name)]
}

fn is_type(event: &EventType) -> Value {
    json!({ "properties": { "type": { "enum": names(event) } }, "required": ["type"] })
}

/// An event without attributes.
fn bare(event: &EventType) -> Value {
    let mut rules = vec![json!({ "$ref": format!("#/$defs/{}", event.name) })];
    // A CloudEvent must not match the schema of a bare event.
    let not = json!({ "required": ["specversion"] });
    if let Some(holes) = holes(event) {
        rules.push(json!({ "if": bare_names(holes), "then": has_time() }));
    }
    json!({ "required": ["type"], "not": not, "allOf": rules })
}

/// A CloudEvent of any type in structured mode.
fn cloud_event() -> Value {
    let types: Vec<String> = EVENTS.iter().flat_map(names).collect();
    let each: Vec<Value> = EVENTS
        .iter()
        .map(|event| {
            let mut rules = vec![json!({
                "properties": { "data": { "$ref": format!("#/$defs/{}", event.name) } },
            })];
            if let Some(holes) = holes(event) {
                rules.push(json!({
                    "if": { "properties": { "data": bare_names(holes) } },
                    "then": { "anyOf": [
                        has_time(),
                        { "properties": { "data": has_time() } },
                    ] },
                }));
            }
            json!({ "if": is_type(event), "then": { "allOf": rules } })
        })
        .collect();
    json!({
        "type": "object",
        "properties": {
            "specversion": { "anyOf": [
                { "type": "string", "pattern": SPEC_VERSION },
                { "type": "number", "minimum": 1, "exclusiveMaximum": 2 },
            ] },
            "id": { "type": "string", "minLength": 1 },
            "source": { "type": "string", "minLength": 1 },
            "type": { "enum": types },
            "time": maybe_time(),
            "dataversion": { "$ref": "#/$defs/version" },
            "data": { "type": "object" },
        },
        "required": ["specversion", "id", "source", "type", "data"],
        "allOf": each,
    })
}

/// The field with a list of holes, if the event has one.
fn holes(event: &EventType) -> Option<&'static str> {
    let mut fields = event.fields.iter();
    fields.find(|f| f.form == Form::Holes).map(|f| f.name)
}

/// A condition: the list of holes has bare names, which are idle since the event's own time.
fn bare_names(field: &str) -> Value {
    let names = json!({ "type": "array", "contains": { "type": "string" } });
    json!({ "type": "object", "properties": { field: names }, "required": [field] })
}

fn has_time() -> Value {
    json!({ "properties": { "time": { "$ref": "#/$defs/time" } }, "required": ["time"] })
}

/// ISO 8601 with an offset, 1970 to 2999, each month with its own days; or seconds as a text. The
/// reader takes other forms of ISO 8601 too.
fn time_pattern() -> String {
    let year = "(19[7-9][0-9]|2[0-9]{3})";
    let leap = "(19(7[26]|8[048]|9[26])|2[0-9](0[48]|[2468][048]|[13579][26])|2[048]00)";
    let long = "(0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])";
    let short = "(0[469]|11)-(0[1-9]|[12][0-9]|30)";
    let february = "02-(0[1-9]|1[0-9]|2[0-8])";
    let date = format!("({year}-({long}|{short}|{february})|{leap}-02-29)");
    let clock = "([01][0-9]|2[0-3]):[0-5][0-9]";
    let seconds = r"[0-9]{1,11}(\.[0-9]{1,9})?";
    format!(r"^({date}T{clock}:[0-5][0-9](\.[0-9]{{1,9}})?(Z|[+-]{clock})|{seconds})$")
}
