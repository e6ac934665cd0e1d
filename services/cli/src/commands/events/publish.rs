//! `lacuna events publish`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};

use lacuna_model::{NodeId, Timestamp};
use lacuna_runtime::clock::wall;
use lacuna_wire::address;

use super::input::{self, check, documents, is_structured};
use crate::client::{Client, ConnectArgs};
use crate::commands::selector::expand;
use crate::error::{CliError, Exit, Result};
use crate::output::{self, JsonArg, iso, parse_time};

/// The most events of one message. A message is synced once, whatever its size.
const TOGETHER: usize = 200;

/// The most bytes of one message's events, unless a single one is larger: far below `max_payload`.
const TOGETHER_BYTES: usize = 256 * 1024;

/// The types of event in version 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// The node is idle: a hole opens
    #[value(name = "node.idle")]
    Idle,
    /// A batch job took the node: the hole ends
    #[value(name = "node.busy")]
    Busy,
    /// The node is down or drained
    #[value(name = "node.down")]
    Down,
    /// The scheduler wants the node back by --deadline
    #[value(name = "node.wanted")]
    Wanted,
    /// A batch job is planned onto --nodes at --start
    #[value(name = "job.planned")]
    Planned,
    /// --nodes are reserved from --start to --end
    #[value(name = "reservation")]
    Reservation,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Idle => "node.idle",
            Self::Busy => "node.busy",
            Self::Down => "node.down",
            Self::Wanted => "node.wanted",
            Self::Planned => "job.planned",
            Self::Reservation => "reservation",
        }
    }
}

/// Arguments of `events publish`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna events publish node.idle a01n01 'a01n[02-16]'
  lacuna events publish node.down a01n03 --reason 'fan failed'
  lacuna events publish node.wanted a01n01 --deadline 2026-01-31T12:00:00Z
  lacuna events publish job.planned 4711 --nodes a01n01,a01n02 --start 2026-01-31T13:00:00Z
  lacuna events publish --json-file events.jsonl
  lacuna events publish --json-file events.jsonl --dry-run

Events are checked before they are sent. They count as published once the stream has acknowledged
them; up to 200 of them go as one message. Without --at, the time of arrival counts. An event
dated more than a day ahead of this machine's clock is refused. Ingest refuses one more than 5s
ahead unless ingest.max_ahead is larger, so --force is needed to publish it. A JSON file has one event a line, one event over
several lines, or a list: bare events
({\"type\": \"node.idle\", \"node\": \"a01n01\", \"time\": 1612988475})
or CloudEvents in structured mode. `lacuna events schema` shows the fields of an event.")]
pub(crate) struct PublishArgs {
    /// The type of the event
    #[arg(required_unless_present = "json_file")]
    kind: Option<Kind>,
    /// The nodes (names, or ranges as in a[01-16]); for job.planned the batch job, for reservation
    /// its name
    #[arg(required_unless_present = "json_file", value_name = "NODE")]
    names: Vec<String>,
    /// The time of the event
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    at: Option<Timestamp>,
    /// The reason why a node is down
    #[arg(long)]
    reason: Option<String>,
    /// The time by which a node is wanted
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    deadline: Option<Timestamp>,
    /// Nodes of a planned batch job or of a reservation: names, or ranges as in a[01-16]
    #[arg(long, value_name = "NODE")]
    nodes: Vec<String>,
    /// The time at which a planned batch job or a reservation starts
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    start: Option<Timestamp>,
    /// The time at which a reservation ends
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    end: Option<Timestamp>,
    /// Publish the events of this file; - reads standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kind", "names"])]
    json_file: Option<PathBuf>,
    /// Publish events that ingest refuses unless its settings allow them
    #[arg(long)]
    force: bool,
    /// Only check, and show what would be published
    #[arg(long)]
    dry_run: bool,
    /// Name of the publishing program, part of the subject and of ce-source
    #[arg(long, default_value = "cli")]
    source: String,
    #[command(flatten)]
    json: JsonArg,
    #[command(flatten)]
    connect: ConnectArgs,
}

fn refused(text: impl Into<String>) -> CliError {
    CliError::new("L0012", Exit::Failed, text)
}

/// The events that the arguments describe, bare or as CloudEvents, checked at `now`; and a text for
/// each of them that ingest may refuse.
fn objects(args: &PublishArgs, now: Timestamp) -> Result<(Vec<Value>, Vec<String>)> {
    match (&args.json_file, args.kind) {
        (Some(path), _) => of_file(path, now),
        (None, Some(kind)) => {
            let objects = from_arguments(kind, args)?;
            let mut doubts = Vec::new();
            for (number, object) in objects.iter().enumerate() {
                let doubtful = check(object, now).map_err(|wrong| {
                    let all: Vec<String> = wrong.iter().map(ToString::to_string).collect();
                    refused(format!("event {}: {}", number + 1, all.join("; ")))
                })?;
                doubts.extend(doubtful.map(|e| format!("event {}: {e}", number + 1)));
            }
            Ok((objects, doubts))
        }
        (None, None) => Err(refused("no event given")),
    }
}

/// The events of a file; all of them or none.
fn of_file(path: &Path, now: Timestamp) -> Result<(Vec<Value>, Vec<String>)> {
    let (mut events, mut doubts) = (Vec::new(), Vec::new());
    for document in documents(&input::text(path)?) {
        let line = format!("{}:{}", path.display(), document.line);
        match document.check(now) {
            Ok(doubtful) => doubts.extend(doubtful.map(|e| format!("{line}: {e}"))),
            Err(wrong) => {
                let first = wrong.first().map_or_else(String::new, ToString::to_string);
                let more = match wrong.len() {
                    0 | 1 => String::new(),
                    n => format!(" (and {} more)", n - 1),
                };
                let check = format!(
                    "all that is wrong: lacuna events validate {}",
                    path.display()
                );
                return Err(refused(format!("{line}: {first}{more}")).remedy(check));
            }
        }
        events.extend(document.value.ok());
    }
    if events.is_empty() {
        return Err(refused(format!("{} holds no events", path.display())));
    }
    Ok((events, doubts))
}

fn from_arguments(kind: Kind, args: &PublishArgs) -> Result<Vec<Value>> {
    let mut common = Map::new();
    common.insert("type".to_owned(), json!(kind.name()));
    let times = [
        ("time", args.at),
        ("deadline", args.deadline),
        ("start", args.start),
        ("end", args.end),
    ];
    for (name, time) in times {
        if let Some(time) = time {
            common.insert(name.to_owned(), json!(iso(time)));
        }
    }
    if let Some(reason) = &args.reason {
        common.insert("reason".to_owned(), json!(reason));
    }
    if !args.nodes.is_empty() {
        let nodes: Vec<NodeId> = expand(&args.nodes).map_err(refused)?;
        common.insert("nodes".to_owned(), json!(nodes));
    }
    let event = |key: &str, name: &str| {
        let mut object = common.clone();
        object.insert(key.to_owned(), json!(name));
        Value::Object(object)
    };
    let named = |key| args.names.iter().map(|name| event(key, name)).collect();
    Ok(match kind {
        Kind::Planned => named("job"),
        Kind::Reservation => named("name"),
        Kind::Idle | Kind::Busy | Kind::Down | Kind::Wanted => {
            let nodes: Vec<NodeId> = expand(&args.names).map_err(refused)?;
            nodes.iter().map(|n| event("node", n.as_str())).collect()
        }
    })
}

/// Runs `events publish`.
///
/// # Errors
/// An event is malformed or doubtful, NATS does not answer, or the stream does not acknowledge.
pub(super) async fn run(args: PublishArgs) -> Result<()> {
    let (objects, doubts) = objects(&args, wall())?;
    if let Some(first) = doubts.first() {
        let more = match doubts.len() {
            1 => String::new(),
            n => format!(" (and {} more)", n - 1),
        };
        let said = format!("ingest refuses this event unless its settings allow it: {first}{more}");
        match args.force || args.dry_run {
            true => eprintln!("lacuna: {said}"),
            false => return Err(refused(said).remedy("--force publishes it all the same")),
        }
    }
    if args.dry_run {
        return show(&args, &objects);
    }
    let client = Client::connect(&args.connect).await?;
    let mut acks = Vec::new();
    for together in messages(&objects) {
        acks.push(match together {
            [one] => client.send_external(&args.source, one).await?.1,
            list => client.send_external_list(&args.source, list).await?,
        });
    }
    let mut sequences = Vec::with_capacity(acks.len());
    for ack in acks {
        sequences.push(ack.wait().await.map_err(|e| crate::client::from_bus(&e))?);
    }
    if args.json.json {
        let value = json!({ "published": objects.len(), "sequences": sequences });
        return output::print_json(&value);
    }
    output::print(&format!("{} published", objects.len()))
}

/// The events of each message, in their order.
fn messages(objects: &[Value]) -> impl Iterator<Item = &[Value]> {
    let mut rest = objects;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |object: &&Value| {
            bytes += object.to_string().len();
            bytes <= TOGETHER_BYTES
        };
        let count = rest.iter().take(TOGETHER).take_while(fits).count().max(1);
        let (together, after) = rest.split_at_checked(count)?;
        rest = after;
        Some(together)
    })
}

/// Prints the events without publishing them.
fn show(args: &PublishArgs, objects: &[Value]) -> Result<()> {
    let cluster = args.connect.cluster_id();
    let subject = address::incoming_from(&cluster, &args.source);
    let mode = |object: &Value| match is_structured(object) {
        true => "structured",
        false => "binary",
    };
    if args.json.json {
        let each = objects
            .iter()
            .map(|o| json!({ "mode": mode(o), "event": o }));
        let each: Vec<Value> = each.collect();
        let value = json!({ "published": 0, "subject": subject.as_str(), "events": each });
        return output::print_json(&value);
    }
    let lines = objects
        .iter()
        .map(|o| format!("{subject}  {}  {o}", mode(o)));
    let end = format!("{} not published", objects.len());
    output::print(&lines.chain([end]).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: PublishArgs,
    }

    const NOW: Timestamp = Timestamp::from_unix(1_700_000_000);

    fn parse(line: &str) -> Result<Vec<Value>> {
        let args = Line::try_parse_from(line.split(' ')).unwrap().args;
        objects(&args, NOW).map(|(objects, _)| objects)
    }

    #[test]
    fn arguments_become_checked_events() {
        let events = parse("x node.idle a01n01 a01n02 --at 1612988475").unwrap();
        assert_eq!(events.len(), 2);
        assert_eq!(
            events[1],
            json!({"type": "node.idle", "node": "a01n02", "time": "2021-02-10T20:21:15Z"})
        );
        let planned = parse("x job.planned 4711 --nodes a,b --start 2021-02-10T20:21:15Z").unwrap();
        assert_eq!(planned[0]["nodes"], json!(["a", "b"]));
        assert!(parse("x node.wanted a --deadline 1612988475").is_ok());
        // Ranges stand for nodes, but not for batch jobs.
        let ranges = parse("x node.busy n[08-10],b a").unwrap();
        let nodes: Vec<&Value> = ranges.iter().map(|event| &event["node"]).collect();
        assert_eq!(nodes, ["n08", "n09", "n10", "b", "a"]);
        let array = parse("x job.planned 4711[1-2] --nodes n[1,3],a --start 1612988475").unwrap();
        assert_eq!(array[0]["job"], "4711[1-2]");
        assert_eq!(array[0]["nodes"], json!(["n1", "n3", "a"]));
    }

    #[test]
    fn a_message_is_bounded_by_number_and_by_bytes() {
        let counts = |objects: &[Value]| messages(objects).map(<[Value]>::len).collect::<Vec<_>>();
        assert!(counts(&[]).is_empty());
        assert_eq!(counts(&vec![json!({"node": "a"}); 450]), [200, 200, 50]);
        let nodes = |bytes: usize| json!({ "nodes": "n".repeat(bytes) });
        let large = [
            nodes(150_000),
            nodes(100_000),
            nodes(100_000),
            nodes(600_000),
            nodes(1),
        ];
        assert_eq!(counts(&large), [2, 1, 1, 1]);
    }

    #[test]
    fn a_future_time_is_refused_or_doubted() {
        let ahead = |seconds: i64| {
            let line = format!("x node.idle a b --at {}", 1_700_000_000 + seconds);
            let args = Line::try_parse_from(line.split(' ')).unwrap().args;
            objects(&args, NOW).map(|(_, doubts)| doubts.len())
        };
        assert_eq!(ahead(5).unwrap(), 0);
        assert_eq!(ahead(6).unwrap(), 2);
        assert_eq!(ahead(86_400).unwrap(), 2);
        let error = ahead(86_401).unwrap_err();
        assert_eq!(error.code.as_deref(), Some("L0012"));
        assert!(
            error.message.starts_with("event 1: field \"time\""),
            "{error}"
        );
    }

    #[test]
    fn an_incomplete_event_is_refused_before_it_is_sent() {
        for line in [
            "x reservation r --nodes a",
            "x job.planned 1",
            "x node.idle a.b>*",
            "x node.idle n[1-99999999]",
            "x node.idle None",
            "x job.planned 1 --nodes n12* --start 1612988475",
        ] {
            let error = parse(line).unwrap_err();
            assert_eq!(error.code.as_deref(), Some("L0012"), "{line}");
        }
    }

    #[test]
    fn an_error_in_a_file_names_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("e.jsonl");
        std::fs::write(
            &path,
            "{\"type\":\"node.idle\",\"node\":\"a\"}\n\n{nonsense\n",
        )
        .unwrap();
        let error = parse(&format!("x --json-file {}", path.display())).unwrap_err();
        assert!(error.message.contains("e.jsonl:3"), "{}", error.message);
        let late = "{\"type\":\"node.idle\",\"node\":\"a\"}\n\
            {\"type\":\"node.idle\",\"node\":\"a\",\"time\":\"2099-01-01T00:00:00Z\"}\n";
        std::fs::write(&path, late).unwrap();
        let error = parse(&format!("x --json-file {}", path.display())).unwrap_err();
        assert!(error.message.contains("e.jsonl:2"), "{}", error.message);
        let structured = r#"[{"specversion":"1.0","id":"1","source":"s","type":"node.busy","data":{"node":"a"}}]"#;
        std::fs::write(&path, structured).unwrap();
        let events = parse(&format!("x --json-file {}", path.display())).unwrap();
        assert!(events.len() == 1 && is_structured(&events[0]));
    }
}
