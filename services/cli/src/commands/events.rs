//! `lacuna events publish` and `lacuna events tail`.

use std::io::Read as _;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Map, Value, json};

use lacuna_model::{EventKind, NodeEvent, Timestamp};
use lacuna_wire::{address, external};

use crate::client::{Client, ConnectArgs};
use crate::error::{CliError, Exit, Result, file_error};
use crate::output::{self, JsonArg, iso, iso_short, parse_time};

/// What to do with events.
#[derive(Debug, Subcommand)]
pub(crate) enum EventsCommand {
    /// Publish events, as a scheduler's hook or adapter does
    Publish(PublishArgs),
    /// Watch numbered events as ingest sends them
    Tail(TailArgs),
}

/// Types of event, version 1.
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
  lacuna events publish node.idle a01n01 a01n02
  lacuna events publish node.down a01n03 --reason 'fan failed'
  lacuna events publish node.wanted a01n01 --deadline 2026-01-31T12:00:00Z
  lacuna events publish job.planned 4711 --nodes a01n01,a01n02 --start 2026-01-31T13:00:00Z
  lacuna events publish --json-file events.jsonl

Events are checked before they leave. Without --at, the time of arrival counts. In a JSON
file there is one event a line: {\"type\": \"node.idle\", \"node\": \"a01n01\", \"time\": 1612988475}")]
pub(crate) struct PublishArgs {
    /// What happened
    #[arg(required_unless_present = "json_file")]
    kind: Option<Kind>,
    /// The nodes; for job.planned the batch job, for reservation its name
    #[arg(required_unless_present = "json_file")]
    names: Vec<String>,
    /// When it happened
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    at: Option<Timestamp>,
    /// Why a node is down
    #[arg(long)]
    reason: Option<String>,
    /// By when a node is wanted
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    deadline: Option<Timestamp>,
    /// Nodes of a planned batch job or of a reservation
    #[arg(long, value_delimiter = ',')]
    nodes: Vec<String>,
    /// When a planned batch job or a reservation starts
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    start: Option<Timestamp>,
    /// When a reservation ends
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    end: Option<Timestamp>,
    /// Publish the events of this file, one JSON object a line; - reads standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kind", "names"])]
    json_file: Option<PathBuf>,
    /// Name of the publishing program, part of the subject and of ce-source
    #[arg(long, default_value = "cli")]
    source: String,
    #[command(flatten)]
    json: JsonArg,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Arguments of `events tail`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  lacuna events tail\n  lacuna events tail --json-lines --count 10"
)]
pub(crate) struct TailArgs {
    /// End after so many events
    #[arg(long, short = 'n')]
    count: Option<u64>,
    /// One JSON object a line
    #[arg(long)]
    json_lines: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

fn refused(text: impl Into<String>) -> CliError {
    CliError::new("L0012", Exit::Failed, text)
}

/// The events that the arguments describe, as JSON objects of version 1, checked.
fn objects(args: &PublishArgs) -> Result<Vec<Value>> {
    let objects = match (&args.json_file, args.kind) {
        (Some(path), _) => read_lines(path)?,
        (None, Some(kind)) => from_arguments(kind, args),
        (None, None) => return Err(refused("no event given")),
    };
    for (number, object) in objects.iter().enumerate() {
        let bytes = object.to_string().into_bytes();
        external::read([("content-type", "application/json")], &bytes)
            .map_err(|e| refused(format!("event {}: {e}", number + 1)))?;
    }
    Ok(objects)
}

fn read_lines(path: &PathBuf) -> Result<Vec<Value>> {
    let mut text = String::new();
    if path.as_os_str() == "-" {
        std::io::stdin()
            .read_to_string(&mut text)
            .map_err(|e| file_error("read", path, &e))?;
    } else {
        text = std::fs::read_to_string(path).map_err(|e| file_error("read", path, &e))?;
    }
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(at, line)| {
            serde_json::from_str(line)
                .map_err(|e| refused(format!("{}:{}: {e}", path.display(), at + 1)))
        })
        .collect()
}

fn from_arguments(kind: Kind, args: &PublishArgs) -> Vec<Value> {
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
        common.insert("nodes".to_owned(), json!(args.nodes));
    }
    let key = match kind {
        Kind::Planned => "job",
        Kind::Reservation => "name",
        Kind::Idle | Kind::Busy | Kind::Down | Kind::Wanted => "node",
    };
    args.names
        .iter()
        .map(|name| {
            let mut object = common.clone();
            object.insert(key.to_owned(), json!(name));
            Value::Object(object)
        })
        .collect()
}

fn line(event: &NodeEvent) -> String {
    let what = match &event.kind {
        EventKind::NodeIdle { node } => format!("node.idle      {node}"),
        EventKind::NodeBusy { node } => format!("node.busy      {node}"),
        EventKind::NodeDown { node, reason } => format!("node.down      {node} {reason}"),
        EventKind::NodeWanted { node, deadline } => {
            format!("node.wanted    {node} by {}", iso(*deadline))
        }
        EventKind::NodeReleased { node } => format!("node.released  {node}"),
        EventKind::JobPlanned { job, nodes, start } => {
            format!(
                "job.planned    {job} on {} nodes at {}",
                nodes.len(),
                iso(*start)
            )
        }
        EventKind::Reservation {
            name,
            nodes,
            start,
            end,
        } => {
            format!(
                "reservation    {name} of {} nodes, {} to {}",
                nodes.len(),
                iso(*start),
                iso(*end)
            )
        }
        EventKind::Snapshot { idle } => format!("snapshot       {} idle nodes", idle.len()),
    };
    format!("{:>8}  {}  {what}", event.seq, iso_short(event.at))
}

/// Runs `events`.
///
/// # Errors
/// An event is malformed, or NATS does not answer.
pub(crate) async fn run(command: EventsCommand) -> Result<()> {
    match command {
        EventsCommand::Publish(args) => {
            let objects = objects(&args)?;
            let client = Client::connect(&args.connect).await?;
            let mut acks = Vec::with_capacity(objects.len());
            for object in &objects {
                acks.push(client.send_external(&args.source, object).await?.1);
            }
            for ack in acks {
                ack.wait().await.map_err(|e| crate::client::from_bus(&e))?;
            }
            if args.json.json {
                return output::print_json(&json!({ "published": objects.len() }));
            }
            output::print(&format!("{} published", objects.len()))
        }
        EventsCommand::Tail(args) => tail(args).await,
    }
}

async fn tail(args: TailArgs) -> Result<()> {
    let client = Client::connect(&args.connect).await?;
    let mut events = client.listen(&address::event(client.cluster())).await?;
    let stop = crate::up::stop_token();
    let mut left = args.count.unwrap_or(u64::MAX);
    while left > 0 {
        let event = tokio::select! {
            event = events.next() => event,
            () = stop.cancelled() => return Ok(()),
        };
        let Some(event) = event else {
            return Err(crate::client::lost());
        };
        left -= 1;
        if args.json_lines {
            let value = json!({ "seq": event.seq, "at": iso(event.at), "event": event.kind });
            output::print(&value.to_string())?;
        } else {
            output::print(&line(&event))?;
        }
    }
    Ok(())
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

    fn parse(line: &str) -> Result<Vec<Value>> {
        objects(&Line::try_parse_from(line.split(' ')).unwrap().args)
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
    }

    #[test]
    fn an_event_that_lacks_something_is_refused_here() {
        for line in ["x reservation r --nodes a", "x job.planned 1"] {
            let error = parse(line).unwrap_err();
            assert_eq!(error.code.as_deref(), Some("L0012"), "{line}");
        }
    }

    #[test]
    fn a_file_names_the_line_that_is_wrong() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("e.jsonl");
        std::fs::write(
            &path,
            "{\"type\":\"node.idle\",\"node\":\"a\"}\n\n{nonsense\n",
        )
        .unwrap();
        let error = parse(&format!("x --json-file {}", path.display())).unwrap_err();
        assert!(error.message.contains("e.jsonl:3"), "{}", error.message);
    }
}
