//! What settings in the configuration file are made of.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serializer, de};

use crate::Span;

/// A length of time as settings have it: `120s`, `250ms`. A field of type [`Span`] takes this
/// form by `#[serde(with = "SpanText")]`.
#[derive(Debug)]
pub struct SpanText;

impl SpanText {
    /// The schema's name of the form; `lacuna config explain` says it.
    pub const FORMAT: &str = "length of time";

    /// Writes whole seconds as `120s`, all else as `250ms`.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(span: &Span, to: S) -> Result<S::Ok, S::Error> {
        let ms = span.as_ms();
        if ms % 1000 == 0 {
            to.serialize_str(&format!("{}s", ms / 1000))
        } else {
            to.serialize_str(&format!("{ms}ms"))
        }
    }

    /// Reads what [`Span`] reads from text.
    ///
    /// # Errors
    /// If it is no length of time.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Span, D::Error> {
        String::deserialize(from)?
            .parse()
            .map_err(de::Error::custom)
    }
}

impl JsonSchema for SpanText {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Span".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": Self::FORMAT })
    }
}
