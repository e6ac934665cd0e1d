//! `lacuna events schema`.

use clap::Args;

use lacuna_wire::schema::{self, EVENTS, EventType};

use crate::error::{CliError, Exit, Result};
use crate::output::{self, JsonArg};
use crate::table::{Side, render};

/// Arguments of `events schema`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna events schema                          the types and their fields
  lacuna events schema node.wanted              one type, with an example
  lacuna events schema node.wanted --json       its JSON Schema (2020-12)
  lacuna events schema cloudevents --json       the schema of CloudEvents in structured mode
  lacuna events schema --json > event.json      one schema for all events")]
pub(crate) struct SchemaArgs {
    /// A type of event, or cloudevents; all types if absent
    #[arg(value_name = "TYPE")]
    name: Option<String>,
    #[command(flatten)]
    json: JsonArg,
}

/// Runs `events schema`.
///
/// # Errors
/// There is no such type.
pub(super) fn run(args: &SchemaArgs) -> Result<()> {
    if args.json.json {
        let found = match &args.name {
            None => Some(schema::any()),
            Some(name) => schema::of(name),
        };
        return output::print_json(&found.ok_or_else(|| unknown(args.name.as_deref()))?);
    }
    let shown: Vec<&EventType> = match args.name.as_deref() {
        None => EVENTS.iter().collect(),
        Some(schema::CLOUD_EVENTS) => return output::print(CLOUD_EVENT),
        Some(name) => vec![schema::event_type(name).ok_or_else(|| unknown(Some(name)))?],
    };
    output::print(&shown.into_iter().map(text).collect::<Vec<_>>().join("\n"))
}

const CLOUD_EVENT: &str = r#"A CloudEvent in structured mode: the event is its data.

{"specversion":"1.0","id":"4711-a01n02-busy","source":"my-scheduler","type":"node.busy","time":"2026-01-31T12:00:00Z","data":{"node":"a01n02"}}

The types are those of `lacuna events schema`; `--json` prints the schema."#;

fn unknown(name: Option<&str>) -> CliError {
    let known: Vec<&str> = EVENTS.iter().map(|event| event.name).collect();
    let name = name.unwrap_or_default();
    CliError::new(
        "L0012",
        Exit::Failed,
        format!("there is no event type {name:?}"),
    )
    .remedy(format!(
        "known: {}, {}",
        known.join(", "),
        schema::CLOUD_EVENTS
    ))
}

fn text(event: &EventType) -> String {
    let columns = [
        ("FIELD", Side::Left),
        ("", Side::Left),
        ("HOLDS", Side::Left),
        ("MEANS", Side::Left),
    ];
    let row = |name: &str, must: bool, form: &str, about: &str| {
        let must = if must { "required" } else { "" };
        [name, must, form, about].map(ToOwned::to_owned).to_vec()
    };
    let mut rows = vec![row("type", true, "a text", event.name)];
    for field in event.fields {
        rows.push(row(
            field.name,
            field.required,
            field.form.expected(),
            field.about,
        ));
    }
    let time = schema::Form::Time.expected();
    rows.push(row(
        "time",
        false,
        time,
        "the time of the event; the time of arrival if it is absent",
    ));
    format!(
        "{}: {}\n{}\n{}\n",
        event.name,
        event.about,
        render(&columns, &rows),
        event.example
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_is_shown_with_all_its_fields() {
        for event in &EVENTS {
            let shown = text(event);
            for field in event.fields {
                assert!(
                    shown.contains(field.name) && shown.contains(field.about),
                    "{shown}"
                );
            }
        }
        let error = unknown(Some("node.gone"));
        assert!(error.remedy.unwrap().contains("node.wanted"));
    }

    #[test]
    fn the_example_of_a_cloud_event_is_read() {
        let line = CLOUD_EVENT.lines().find(|l| l.starts_with('{')).unwrap();
        assert!(lacuna_wire::external::read([], line.as_bytes()).is_ok());
    }
}
