//! The types that settings in the configuration file share.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serializer, de};

use crate::Span;

/// A length of time in the form of settings: `120s`, `250ms`. A field of type [`Span`] takes this
/// form by `#[serde(with = "SpanText")]`.
#[derive(Debug)]
pub struct SpanText;

impl SpanText {
    /// The name of the form in the schema, which `lacuna config explain` shows.
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

/// A setting whose value is out of its range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("configuration: {key} is {value}: expected {expected}")]
pub struct SettingError {
    /// The key in the configuration file, e.g. `planner.horizon`.
    pub key: &'static str,
    /// The value as it was given.
    pub value: String,
    /// The values that are accepted.
    pub expected: &'static str,
}

impl SettingError {
    /// Refuses a value that is not sound.
    ///
    /// # Errors
    /// [`SettingError`] if `sound` is false.
    pub fn unless(
        sound: bool,
        key: &'static str,
        value: impl ToString,
        expected: &'static str,
    ) -> Result<(), Self> {
        match sound {
            true => Ok(()),
            false => Err(Self {
                key,
                value: value.to_string(),
                expected,
            }),
        }
    }

    /// Refuses lengths of time that are not above zero.
    ///
    /// # Errors
    /// [`SettingError`] for the first of them.
    pub fn unless_positive<const N: usize>(spans: [(&'static str, Span); N]) -> Result<(), Self> {
        let expected = "a length of time above zero, as in 10s";
        spans
            .into_iter()
            .try_for_each(|(key, span)| Self::unless(span > Span::ZERO, key, span, expected))
    }
}
