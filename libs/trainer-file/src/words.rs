//! Values of a file as people write them.

use std::fmt;

use lacuna_model::Timestamp;
use lacuna_records::fields::LATEST_S;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A word of a command line or an environment: a text, a number or a boolean.
#[derive(Debug)]
pub(crate) struct Word(pub(crate) String);

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Words;
        impl Visitor<'_> for Words {
            type Value = Word;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, a number or a boolean")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Word, E> {
                Ok(Word(text.to_owned()))
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Word, E> {
                Ok(Word(value.to_string()))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Word, E> {
                Ok(Word(value.to_string()))
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Word, E> {
                Ok(Word(format!("{value:?}")))
            }

            fn visit_bool<E: Error>(self, value: bool) -> Result<Word, E> {
                Ok(Word(value.to_string()))
            }
        }
        from.deserialize_any(Words)
    }
}

/// One file, or several.
#[derive(Debug)]
pub(crate) struct Files(pub(crate) Vec<String>);

impl<'de> Deserialize<'de> for Files {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct OneOrMore;
        impl<'de> Visitor<'de> for OneOrMore {
            type Value = Files;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a file, or a list of files")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Files, E> {
                Ok(Files(vec![text.to_owned()]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Files, A::Error> {
                let mut files = Vec::new();
                while let Some(file) = list.next_element()? {
                    files.push(file);
                }
                Ok(Files(files))
            }
        }
        from.deserialize_any(OneOrMore)
    }
}

/// A point in time: RFC 3339, or Unix seconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment(pub(crate) Timestamp);

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Moments;
        impl Visitor<'_> for Moments {
            type Value = Moment;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time as \"2026-03-01T08:00:00Z\", or Unix seconds")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Moment, E> {
                let moment: jiff::Timestamp = text.parse().map_err(E::custom)?;
                Ok(Moment(Timestamp::from_unix_ms(moment.as_millisecond())))
            }

            fn visit_i64<E: Error>(self, seconds: i64) -> Result<Moment, E> {
                self.visit_f64(seconds as f64)
            }

            fn visit_u64<E: Error>(self, seconds: u64) -> Result<Moment, E> {
                self.visit_f64(seconds as f64)
            }

            fn visit_f64<E: Error>(self, seconds: f64) -> Result<Moment, E> {
                // A greater number is milliseconds taken for seconds.
                if seconds.abs() <= LATEST_S as f64 {
                    let ms = (seconds * 1000.0).round() as i64;
                    return Ok(Moment(Timestamp::from_unix_ms(ms)));
                }
                Err(E::custom(format_args!(
                    "{seconds} is no time in Unix seconds"
                )))
            }
        }
        from.deserialize_any(Moments)
    }
}
