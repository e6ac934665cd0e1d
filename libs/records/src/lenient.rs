//! JSON of programs that print none exactly.
//!
//! PBS Professional 18 and 19 print texts of users without escapes (quotes, backslashes, line ends),
//! and texts that look like numbers without quotes (`007`, `nan`, `0x1f`). A text that strict rules
//! refuse is read by these instead:
//!
//! - A quote ends a text only if what follows could follow a text: a colon behind a key; behind a
//!   value an end of its list or object, or a comma and the next value or key.
//! - Words without quotes are texts, unless they are values of JSON.
//! - Of two values with one key the last holds. Commas too many are ignored.
//!
//! An answer that ends too early is refused, since nodes or jobs may be missing.

use serde_json::{Map, Number, Value};

/// A value, and whether strict rules would have refused the text.
#[derive(Debug, Clone, PartialEq)]
pub struct Lenient {
    /// The value.
    pub value: Value,
    /// The place and reason of the strict refusal, if there was one.
    pub flaw: Option<String>,
}

/// Deepest nesting.
const DEEPEST: u32 = 64;

/// Reads a text.
///
/// # Errors
/// The reason, with the line, if no rule makes a value of it.
pub fn read(text: &str) -> Result<Lenient, String> {
    let strict = match serde_json::from_str(text) {
        Ok(value) => return Ok(Lenient { value, flaw: None }),
        Err(error) => error.to_string(),
    };
    let mut reader = Reader { text, at: 0 };
    let value = reader.value(0);
    let is_whole = value.is_some() && reader.peek().is_none();
    match value.filter(|value| is_whole && (value.is_object() || value.is_array())) {
        Some(value) => Ok(Lenient {
            value,
            flaw: Some(strict),
        }),
        None => Err(strict),
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The next character that is no blank, which is not consumed.
    fn peek(&mut self) -> Option<char> {
        let rest = self.rest().trim_start();
        self.at = self.text.len() - rest.len();
        rest.chars().next()
    }

    /// Consumes a character if it is the next one.
    fn take(&mut self, wanted: char) -> bool {
        let is = self.peek() == Some(wanted);
        self.at += usize::from(is) * wanted.len_utf8();
        is
    }

    fn value(&mut self, depth: u32) -> Option<Value> {
        if depth > DEEPEST {
            return None;
        }
        match self.peek()? {
            '{' => self.object(depth),
            '[' => self.array(depth),
            '"' => self.quoted(may_follow_value).map(Value::String),
            _ => self.word(),
        }
    }

    fn object(&mut self, depth: u32) -> Option<Value> {
        let mut fields = Map::new();
        self.take('{');
        loop {
            while self.take(',') {}
            if self.take('}') {
                return Some(Value::Object(fields));
            }
            self.peek().filter(|next| *next == '"')?;
            let key = self.quoted(may_follow_key)?;
            if !self.take(':') {
                return None;
            }
            let value = match self.peek()? {
                ',' | '}' => Value::Null,
                _ => self.value(depth + 1)?,
            };
            fields.insert(key, value);
        }
    }

    fn array(&mut self, depth: u32) -> Option<Value> {
        let mut list = Vec::new();
        self.take('[');
        loop {
            while self.take(',') {}
            if self.take(']') {
                return Some(Value::Array(list));
            }
            list.push(self.value(depth + 1)?);
        }
    }

    /// A text in quotes. `may_follow` says whether the text may end before what follows.
    fn quoted(&mut self, may_follow: fn(&str) -> bool) -> Option<String> {
        self.take('"');
        let from = self.rest();
        let mut text = String::new();
        let mut chars = from.char_indices();
        while let Some((at, c)) = chars.next() {
            let after = from.get(at + c.len_utf8()..).unwrap_or_default();
            match c {
                '"' if may_follow(after) => {
                    self.at += at + 1;
                    return Some(text);
                }
                '\\' => {
                    // A backslash may be the last character of a text.
                    let ends = after.strip_prefix('"').is_some_and(may_follow);
                    match after.chars().next().filter(|_| !ends) {
                        Some('u') => {
                            let hex = after
                                .get(1..5)
                                .and_then(|hex| u32::from_str_radix(hex, 16).ok());
                            if let Some(c) = hex.and_then(char::from_u32) {
                                text.push(c);
                                chars.nth(4);
                            } else {
                                text.push('\\');
                            }
                        }
                        Some(c) => match "\"\\/bfnrt".find(c) {
                            Some(known) => {
                                let plain = "\"\\/\u{8}\u{c}\n\r\t".chars().nth(known);
                                text.extend(plain);
                                chars.next();
                            }
                            None => text.push('\\'),
                        },
                        None => text.push('\\'),
                    }
                }
                c => text.push(c),
            }
        }
        None
    }

    /// A word without quotes, up to the end of its field or line.
    fn word(&mut self) -> Option<Value> {
        let rest = self.rest();
        let end = rest.find([',', '}', ']', '\n'])?;
        let word = rest.get(..end)?.trim_end();
        self.at += end;
        Some(match word {
            "null" => Value::Null,
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            word => match word.parse::<Number>() {
                Ok(number) => Value::Number(number),
                Err(_) => Value::String(word.to_owned()),
            },
        })
    }
}

/// Whether a key may end before this text.
fn may_follow_key(after: &str) -> bool {
    after.trim_start().starts_with(':')
}

/// Whether a value may end before this text: it closes a list or an object, or has a comma and then
/// a key, a value of a list or a further end.
fn may_follow_value(after: &str) -> bool {
    let after = after.trim_start();
    let mut chars = after.chars();
    match chars.next() {
        Some('}' | ']') => {
            let next = chars.as_str().trim_start().chars().next();
            matches!(next, None | Some(',' | '}' | ']'))
        }
        Some(',') => {
            let next = chars.as_str().trim_start();
            match next.strip_prefix('"') {
                // A key, or a text of a list.
                Some(text) => match text.find('"').and_then(|end| text.get(end + 1..)) {
                    Some(behind) => {
                        let behind = behind.trim_start();
                        behind.starts_with([':', ',', ']'])
                    }
                    None => false,
                },
                None => next.starts_with(['}', ']', '{', '[']),
            }
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_text_with_anything_in_it_costs_no_other_field() {
        let texts = [
            r#"disk.sh "scratch cleanup" (Nov 28)"#,
            r#""quoted""#,
            r#"say "a", "b" and "c""#,
            r"C:\dir\",
            "two\nlines\tand\u{1}",
            r#"{"a": 1}"#,
            r#"a: "b","#,
            r#"["x"]!"#,
            "\u{fffd}",
            "\"",
            "",
        ];
        for text in texts {
            let answer = format!(
                "{{\"nodes\":{{\n\"n1\":{{\"state\":\"free\",\"comment\":\"{text}\",\n\
                 \"jobs\":[\"1.s/0\",\"2.s/1\"]}},\n\
                 \"n2\":{{\"state\":\"offline\",\"comment\":\"{text}\"}}}}}}\n"
            );
            let read = read(&answer).unwrap().value;
            let expected = json!({"nodes": {
                "n1": {"state": "free", "comment": text, "jobs": ["1.s/0", "2.s/1"]},
                "n2": {"state": "offline", "comment": text},
            }});
            assert_eq!(read, expected, "{answer}");
        }
    }

    #[test]
    fn words_commas_and_keys_are_taken_as_they_are_meant() {
        let answer = "{\"a\":007,\"b\":nan,\"c\":1e999,\"d\":[1,,2,],\"e\":1,\"e\":2,\"f\":,}";
        let expected = json!({
            "a": "007", "b": "nan", "c": "1e999", "d": [1, 2], "e": 2, "f": null
        });
        let read = read(answer).unwrap();
        assert_eq!(read.value, expected);
        assert!(read.flaw.is_some());
        // What strict rules accept is read by these.
        let strict = r#"{"a": "\u00e4\"", "b": [true, null, -1.5e3]}"#;
        let read = super::read(strict).unwrap();
        assert_eq!(
            (read.value, read.flaw),
            (serde_json::from_str(strict).unwrap(), None)
        );
    }

    #[test]
    fn an_answer_that_ends_too_early_is_refused() {
        let whole = r#"{"nodes":{"n1":{"comment":"a "b" c","state":"free"},"n2":{"state":"x"}}}"#;
        assert!(read(whole).is_ok());
        for end in 0..whole.len() {
            assert!(read(&whole[..end]).is_err(), "{}", &whole[..end]);
        }
        for text in ["pbsnodes: no server", "{} {}", "12", "\"x\""] {
            let is_value = serde_json::from_str::<Value>(text).is_ok();
            assert_eq!(read(text).is_ok(), is_value, "{text}");
        }
    }
}
