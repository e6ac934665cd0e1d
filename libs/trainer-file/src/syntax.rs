//! Both syntaxes, key by key: each table of TOML and each JSON object becomes a [`Written`].

use serde::Deserialize as _;
use serde::de::value::MapDeserializer;
use serde::de::{Error, IntoDeserializer};
use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::Fault;
use crate::remedy::{key_of, remedy, shortened};
use crate::written::Written;

/// What a file that is no list of tables may have meant.
const TABLES: &str =
    "a trainer begins with [[trainer]], in two brackets; in a list it is a JSON object on a line";

/// A trainer from its keys with their values.
///
/// # Errors
/// The wrong key, if it is wrong by itself, and why.
fn written<'de, V, E>(pairs: &[(String, V)]) -> Result<Written, (Option<&str>, E)>
where
    V: IntoDeserializer<'de, E> + Clone,
    E: Error,
{
    let whole = MapDeserializer::new(pairs.iter().cloned());
    Written::deserialize(whole).map_err(|error| {
        // Every key may be absent, so a wrong one is wrong alone too.
        for (key, value) in pairs {
            let one = MapDeserializer::new(std::iter::once((key.clone(), value.clone())));
            if let Err(error) = Written::deserialize(one) {
                return (Some(key.as_str()), error);
            }
        }
        (None, error)
    })
}

/// The fault that a message of toml or serde tells of. A key that is not known is named by the message.
fn fault(key: Option<&str>, message: &str) -> Fault {
    let is_known = !key.is_some_and(|key| message.starts_with(&format!("unknown field `{key}`")));
    let key = key.filter(|_| is_known);
    let named = key.unwrap_or("syntax or keys");
    Fault::new(named, shortened(message), remedy(message, key))
}

/// A trainer from a line with a JSON object.
pub(crate) fn json(line: &[u8]) -> Result<Written, Fault> {
    let object: Map<String, Value> = serde_json::from_slice(line).map_err(|error| {
        let place = format!("column {}", error.column());
        Fault::new(
            place,
            error,
            "write each trainer as a JSON object on a line",
        )
    })?;
    let pairs: Vec<(String, Value)> = object.into_iter().collect();
    written::<_, serde_json::Error>(&pairs).map_err(|(key, error)| fault(key, &error.to_string()))
}

/// A `[[trainer]]` table of TOML.
pub(crate) struct Table<'t> {
    place: usize,
    keys: Vec<usize>,
    pairs: Vec<(String, Spanned<DeValue<'t>>)>,
}

/// The tables of a text.
///
/// # Errors
/// A fault, and its place in the text.
pub(crate) fn tables(text: &str) -> Result<Vec<Table<'_>>, (usize, Fault)> {
    let document = DeTable::parse(text).map_err(|error| {
        let place = error.span().map_or(0, |span| span.start);
        let message = error.message().replace('\n', " ");
        (place, fault(key_of(text, place, &message), &message))
    })?;
    let mut tables = Vec::new();
    for (key, value) in document.into_inner() {
        let place = key.span().start;
        if key.get_ref() != "trainer" {
            let problem = format!("unknown field `{}`, expected `trainer`", key.get_ref());
            return Err((place, Fault::new("syntax or keys", problem, TABLES)));
        }
        let wrong = || (place, Fault::new("trainer", "is no list of tables", TABLES));
        let DeValue::Array(list) = value.into_inner() else {
            return Err(wrong());
        };
        for one in list {
            let place = one.span().start;
            let DeValue::Table(table) = one.into_inner() else {
                return Err(wrong());
            };
            tables.push(Table::new(text, place, table));
        }
    }
    Ok(tables)
}

impl<'t> Table<'t> {
    fn new(text: &'t str, place: usize, table: DeTable<'t>) -> Self {
        let mut keys = Vec::new();
        let mut pairs = Vec::new();
        for (key, mut value) in table {
            keys.push(key.span().start);
            let key = key.into_inner().into_owned();
            // Numbers and booleans are words of a program as they are written.
            match value.get_mut() {
                DeValue::Array(words) if key == "arguments" => {
                    words.iter_mut().for_each(|word| as_written(text, word));
                }
                DeValue::Table(variables) if key == "environment" => {
                    let words = variables.iter_mut().map(|(_, word)| word);
                    words.for_each(|word| as_written(text, word));
                }
                _ => {}
            }
            pairs.push((key, value));
        }
        Self { place, keys, pairs }
    }

    /// The trainer; or a fault, and its place in the text.
    pub(crate) fn written(&self) -> Result<Written, (usize, Fault)> {
        written::<_, toml::de::Error>(&self.pairs).map_err(|(key, error)| {
            let at = |key| self.pairs.iter().position(|(name, _)| name == key);
            let of_key = key.and_then(at).and_then(|at| self.keys.get(at));
            let place = error.span().map(|span| span.start);
            let place = place.or(of_key.copied()).unwrap_or(self.place);
            (place, fault(key, error.message()))
        })
    }

    /// The place of a key as `stages[1].goodput`: as near as the table has it.
    pub(crate) fn place_of(&self, key: &str) -> usize {
        let mut parts = key.split(['.', '[', ']']).filter(|part| !part.is_empty());
        let first = parts.next().unwrap_or_default();
        let Some((_, value)) = self.pairs.iter().find(|(name, _)| name == first) else {
            return self.place;
        };
        let mut found = value;
        for part in parts {
            let next = match found.get_ref() {
                DeValue::Table(table) => {
                    let named = table.iter().find(|(key, _)| key.get_ref() == part);
                    named.map(|(_, value)| value)
                }
                DeValue::Array(list) => part.parse().ok().and_then(|at: usize| list.get(at)),
                _ => None,
            };
            let Some(next) = next else { break };
            found = next;
        }
        found.span().start
    }
}

/// A number or a boolean as the text has it.
fn as_written<'t>(text: &'t str, word: &mut Spanned<DeValue<'t>>) {
    let is_number = matches!(
        word.get_ref(),
        DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_)
    );
    if let (true, Some(written)) = (is_number, text.get(word.span())) {
        *word.get_mut() = DeValue::String(written.into());
    }
}
