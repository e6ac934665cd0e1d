//! Points in time as text in the configuration file.

use std::borrow::Cow;
use std::fmt;

use lacuna_model::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserializer, Serializer, de};

/// `Option<Timestamp>` as ISO 8601 text or seconds since 1970, by `#[serde(with = "TimeText")]`.
pub(super) struct TimeText;

impl TimeText {
    pub(super) fn serialize<S: Serializer>(
        time: &Option<Timestamp>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => to.collect_str(time),
            None => to.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Timestamp>, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Timestamp;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a time with an offset as in \"2021-02-15T00:08:52Z\", or seconds since 1970",
                )
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Timestamp, E> {
                let text = text.trim();
                if let Ok(seconds) = text.parse() {
                    return self.visit_f64(seconds);
                }
                let time = text.parse::<jiff::Timestamp>();
                time.map(|time| Timestamp::from_unix_ms(time.as_millisecond()))
                    .map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
            }
            fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Timestamp, E> {
                self.visit_f64(seconds as f64)
            }
            fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<Timestamp, E> {
                let time = jiff::Timestamp::from_millisecond((seconds * 1000.0).round() as i64);
                time.ok()
                    .filter(|_| seconds >= 0.0)
                    .map(|time| Timestamp::from_unix_ms(time.as_millisecond()))
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Float(seconds), &self))
            }
        }
        from.deserialize_any(Visitor).map(Some)
    }
}

impl JsonSchema for TimeText {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "number"], "format": "point in time" })
    }
}
