//! Events in a file: one JSON object a line, one object over several lines, or a list of objects
//! (a batch of CloudEvents). Each is a bare event or a CloudEvent in structured mode.

use std::io::Read as _;
use std::path::Path;

use serde_json::Value;

use lacuna_model::{Span, Timestamp};
use lacuna_scheduler::ingest::Ingest;
use lacuna_wire::external::{self, ExternalError};

use crate::error::{Result, file_error};
use crate::output::iso;

/// An event that is dated further ahead is refused, whatever `ingest.max_ahead` is.
const FAR_AHEAD: Span = Span::from_secs(86_400);

/// One event of a text, with its place.
pub(super) struct Document {
    /// The line of the file, from 1.
    pub(super) line: usize,
    /// Its place in a list, from 1, if it is an element of one.
    pub(super) element: Option<usize>,
    /// The object, or the reason why it is no JSON.
    pub(super) value: std::result::Result<Value, String>,
}

impl Document {
    /// The place in words.
    pub(super) fn place(&self) -> String {
        match self.element {
            Some(element) => format!("line {}, element {element}", self.line),
            None => format!("line {}", self.line),
        }
    }

    /// The result of [`check`] for this event.
    pub(super) fn check(&self, now: Timestamp) -> Checked {
        match &self.value {
            Err(reason) => Err(vec![ExternalError::Syntax {
                reason: reason.clone(),
            }]),
            Ok(value) => check(value, now),
        }
    }
}

/// The refusal of ingest under its default settings, if there is one; or all errors.
pub(super) type Checked = std::result::Result<Option<ExternalError>, Vec<ExternalError>>;

/// Parses an event as ingest does, at the time `now` of this machine's clock.
pub(super) fn check(value: &Value, now: Timestamp) -> Checked {
    let bytes = value.to_string().into_bytes();
    let event = external::check([("content-type", "application/json")], &bytes)?;
    let most = Ingest::default().max_ahead;
    let Some(at) = event.at.filter(|at| at.since(now) > most) else {
        return Ok(None);
    };
    let kind = value.get("type").and_then(Value::as_str);
    let error = ExternalError::Field {
        kind: kind.unwrap_or_default().to_owned(),
        field: "time",
        value: iso(at),
        expected: format!(
            "no more than {most} (ingest.max_ahead) after now, {}: a time of the future is for \
             start, end and deadline",
            iso(now)
        ),
    };
    if at.since(now) > FAR_AHEAD {
        Err(vec![error])
    } else {
        Ok(Some(error))
    }
}

/// Whether an event is a CloudEvent in structured mode.
pub(super) fn is_structured(value: &Value) -> bool {
    value.get("specversion").is_some()
}

/// The text of a file, or of standard input.
///
/// # Errors
/// It cannot be read.
pub(super) fn text(path: &Path) -> Result<String> {
    let mut text = String::new();
    let read = if path.as_os_str() == "-" {
        std::io::stdin().read_to_string(&mut text).map(|_| ())
    } else {
        std::fs::read_to_string(path).map(|found| text = found)
    };
    read.map_err(|e| file_error("read", path, &e))?;
    Ok(text)
}

/// The events of a text.
pub(super) fn documents(text: &str) -> Vec<Document> {
    let lines = || {
        let lines = text.lines().enumerate();
        lines.filter(|(_, line)| !line.trim().is_empty())
    };
    let Some((first, _)) = lines().next() else {
        return Vec::new();
    };
    let whole = match serde_json::from_str::<Value>(text) {
        Ok(Value::Array(list)) => {
            let each = list.into_iter().enumerate();
            return each
                .map(|(at, value)| Document {
                    line: first + 1,
                    element: Some(at + 1),
                    value: Ok(value),
                })
                .collect();
        }
        Ok(value) => {
            return vec![Document {
                line: first + 1,
                element: None,
                value: Ok(value),
            }];
        }
        Err(error) => error,
    };
    let each: Vec<Document> = lines()
        .map(|(at, line)| Document {
            line: at + 1,
            element: None,
            value: serde_json::from_str(line).map_err(|e| e.to_string()),
        })
        .collect();
    // If no line is an object, the text is one object over several lines.
    if each.iter().any(|d| matches!(d.value, Ok(Value::Object(_)))) {
        return each;
    }
    vec![Document {
        line: whole.line(),
        element: None,
        value: Err(whole.to_string()),
    }]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(text: &str) -> Vec<(String, bool)> {
        let all = documents(text);
        all.iter().map(|d| (d.place(), d.value.is_ok())).collect()
    }

    #[test]
    fn lines_lists_and_long_objects_are_distinguished() {
        let line = |n: usize, ok| (format!("line {n}"), ok);
        assert_eq!(
            places("\n{\"a\":1}\n\n{nonsense\n{}\n"),
            [line(2, true), line(4, false), line(5, true)]
        );
        assert_eq!(places("\n{\n \"a\": 1\n}\n"), [line(2, true)]);
        assert_eq!(places("{\n \"a\": 1,\n}\n"), [line(3, false)]);
        let listed = |n| (format!("line 1, element {n}"), true);
        assert_eq!(places("[{}, {}]"), [listed(1), listed(2)]);
        assert_eq!(places(" \n"), []);
    }

    #[test]
    fn an_event_of_the_future_is_wrong_or_doubtful() {
        let now = Timestamp::from_unix(1_000_000);
        let idle = |at: i64| {
            let bare = serde_json::json!({ "type": "node.idle", "node": "a", "time": at });
            check(&bare, now)
        };
        assert_eq!(idle(1_000_005), Ok(None));
        assert_eq!(idle(1), Ok(None));
        let doubtful = idle(1_000_006).unwrap().unwrap();
        assert_eq!(doubtful.field(), Some("time"));
        assert!(idle(1_086_400).unwrap().is_some());
        let wrong = idle(1_086_401).unwrap_err();
        let said = wrong[0].to_string();
        assert!(said.contains("1970-01-13T13:46:41Z"), "{said}");
        assert!(said.contains("ingest.max_ahead"), "{said}");
        // Structured mode has the time beside the data; the start of a planned job may lie ahead.
        let structured = serde_json::json!({
            "specversion": "1.0", "type": "node.busy", "time": "2099-01-01T00:00:00Z",
            "data": { "node": "a" },
        });
        assert!(check(&structured, now).is_err());
        let planned = serde_json::json!({
            "type": "job.planned", "job": 1, "nodes": ["a"], "start": "2099-01-01T00:00:00Z",
        });
        assert_eq!(check(&planned, now), Ok(None));
    }
}
