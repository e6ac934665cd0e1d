//! `lacuna events validate`.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use lacuna_model::Timestamp;
use lacuna_runtime::clock::wall;

use super::input::{self, Document, documents, is_structured};
use crate::error::{CliError, Result};
use crate::output::{self, JsonArg};

/// Arguments of `events validate`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna events validate events.jsonl
  my-hook --dry-run | lacuna events validate - --json

A file holds one JSON object a line, one object over several lines, or a list of objects. Each is a
bare event or a CloudEvent in structured mode. Nothing is published. The exit code is 1 if an event
is wrong; an event dated more than a day ahead of this machine's clock is wrong.")]
pub(crate) struct ValidateArgs {
    /// The file; - reads standard input
    file: PathBuf,
    #[command(flatten)]
    json: JsonArg,
}

/// Runs `events validate`.
///
/// # Errors
/// The file cannot be read, or an event in it is wrong.
pub(super) fn run(args: &ValidateArgs) -> Result<()> {
    let documents = documents(&input::text(&args.file)?);
    let now = wall();
    let all = documents
        .iter()
        .flat_map(|document| findings(document, now));
    let findings: Vec<Finding> = all.collect();
    let wrong = findings.iter().filter(|f| f.fault).count();
    if args.json.json {
        let value = json!({
            "events": documents.len(),
            "errors": listed(&findings, true),
            "warnings": listed(&findings, false),
        });
        output::print_json(&value)?;
    } else {
        let name = args.file.display();
        let lines = findings
            .iter()
            .map(|f| format!("{name}: {}: {}", f.place, f.message));
        let end = match (documents.len(), wrong) {
            (0, _) => format!("{name} holds no events"),
            (events, 0) if findings.is_empty() => {
                format!("{events} events, all valid")
            }
            (events, 0) => format!("{events} events, none wrong, {} doubtful", findings.len()),
            (events, wrong) => format!("{events} events, {wrong} errors"),
        };
        output::print(&lines.chain([end]).collect::<Vec<_>>().join("\n"))?;
    }
    if wrong > 0 || documents.is_empty() {
        return Err(CliError::already_printed());
    }
    Ok(())
}

/// An error or a warning about one event.
struct Finding {
    place: String,
    line: usize,
    element: Option<usize>,
    /// Whether ingest would refuse the event; else the finding is a warning.
    fault: bool,
    field: Option<&'static str>,
    expected: String,
    message: String,
}

fn findings(document: &Document, now: Timestamp) -> Vec<Finding> {
    let finding = |fault, field, expected, message| Finding {
        place: document.place(),
        line: document.line,
        element: document.element,
        fault,
        field,
        expected,
        message,
    };
    let (fault, found) = match document.check(now) {
        Ok(doubtful) => (false, Vec::from_iter(doubtful)),
        Err(wrong) => (true, wrong),
    };
    let found = found.into_iter();
    let mut all: Vec<Finding> = found
        .map(|e| finding(fault, e.field(), e.expected(), e.to_string()))
        .collect();
    if let Some(event) = document.value.as_ref().ok().filter(|v| is_structured(v)) {
        for name in ["id", "source"] {
            if event.get(name).is_none_or(Value::is_null) {
                let message = format!("no {name:?}: a repetition would count as another event");
                all.push(finding(
                    false,
                    Some(name),
                    format!("a field {name:?}"),
                    message,
                ));
            }
        }
    }
    all
}

fn listed(findings: &[Finding], fault: bool) -> Vec<Value> {
    let some = findings.iter().filter(|f| f.fault == fault);
    some.map(|f| {
        json!({
            "line": f.line,
            "element": f.element,
            "field": f.field,
            "expected": f.expected,
            "message": f.message,
        })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_its_line_its_field_and_its_expectation() {
        let text = "{\"type\":\"node.idle\",\"node\":\"a\"}\n\
            {\"type\":\"reservation\",\"nodes\":\"a\",\"start\":\"noon\"}\n\
            {\"specversion\":\"1.0\",\"type\":\"node.busy\",\"data\":{\"node\":\"a\"}}\n\
            {oops\n\
            {\"type\":\"node.idle\",\"node\":\"a\",\"time\":60}\n\
            {\"type\":\"node.idle\",\"node\":\"a\",\"time\":\"2099-01-01T00:00:00Z\"}\n\
            {\"type\":\"node.idle\",\"node\":\"a.b>*\"}\n\
            {\"type\":\"node.idle\",\"node\":\"n[1-99999999]\"}\n";
        let documents = documents(text);
        let now = Timestamp::from_unix(0);
        let all = documents
            .iter()
            .flat_map(|document| findings(document, now));
        let all: Vec<Finding> = all.collect();
        let found: Vec<_> = all.iter().map(|f| (f.line, f.field, f.fault)).collect();
        let expected = [
            (2, Some("name"), true),
            (2, Some("nodes"), true),
            (2, Some("start"), true),
            (2, Some("end"), true),
            (3, Some("id"), false),
            (3, Some("source"), false),
            (4, None, true),
            (5, Some("time"), false),
            (6, Some("time"), true),
            (7, Some("node"), true),
            (8, Some("node"), true),
        ];
        assert_eq!(found, expected);
        assert!(all.iter().all(|f| !f.expected.is_empty()));
    }
}
