//! `lacuna events tail`.

use clap::Args;
use serde_json::{Value, json};

use lacuna_model::{EventKind, NodeEvent, Span, Timestamp};
use lacuna_runtime::{Follow, Received, Start, Subscription, clock};
use lacuna_wire::msg::DeadLetter;
use lacuna_wire::{Message, Subject, address, external};

use crate::client::{Client, ConnectArgs, from_bus, lost};
use crate::commands::selector::NodeSelector;
use crate::error::Result;
use crate::output::{self, iso, iso_short, parse_span};

/// Arguments of `events tail`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna events tail
  lacuna events tail --type node.wanted --type node.released --node a01n01
  lacuna events tail --since 10m --json-lines --count 10
  lacuna events tail --incoming               messages of programs, before ingest reads them
  lacuna events tail --refused --since 24h    messages that were refused, and why")]
pub(crate) struct TailArgs {
    /// End after this many events
    #[arg(long, short = 'n')]
    count: Option<u64>,
    /// Only events of this type; may be repeated
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Only events that name these nodes (names, ranges as in a[01-16], patterns as in a*); may be
    /// repeated
    #[arg(long, value_name = "NODE", value_parser = NodeSelector::parse)]
    node: Vec<NodeSelector>,
    /// Begin with events of this long ago that the stream still holds
    #[arg(long, value_name = "SPAN", value_parser = parse_span, conflicts_with = "incoming")]
    since: Option<Span>,
    /// Watch messages of external programs as they come in
    #[arg(long, conflicts_with = "refused")]
    incoming: bool,
    /// Watch messages that a service could not decode
    #[arg(long, conflicts_with_all = ["types", "node"])]
    refused: bool,
    /// Print one JSON object a line
    #[arg(long)]
    json_lines: bool,
    #[command(flatten)]
    connect: ConnectArgs,
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

/// Runs `events tail`.
///
/// # Errors
/// NATS does not answer, or the connection is lost.
pub(super) async fn run(args: TailArgs) -> Result<()> {
    let client = Client::connect(&args.connect).await?;
    let cluster = client.cluster().clone();
    if args.incoming {
        return incoming(&args, &client).await;
    }
    if args.refused {
        let letters = address::dead_all(&cluster);
        return watch(&args, &client, &letters, |letter| {
            Some(said_of_letter(letter))
        })
        .await;
    }
    let events = address::event(&cluster);
    watch(&args, &client, &events, |event| {
        let event = &event.message;
        wanted(&args, &event.kind).then(|| {
            let value = json!({ "seq": event.seq, "at": iso(event.at), "event": event.kind });
            (line(event), value)
        })
    })
    .await
}

/// The messages of one source, with their envelopes.
enum Messages<M> {
    Live(Subscription<M>),
    Kept(Follow<M>),
}

impl<M: Message> Messages<M> {
    async fn next(&mut self) -> Result<Received<M>> {
        let next = match self {
            Self::Live(messages) => messages.next().await,
            Self::Kept(messages) => messages.next().await,
        };
        next.map_err(|_| lost())
    }
}

/// Prints messages of a stream, old ones first if asked, until enough have come.
async fn watch<M: Message + Send + 'static>(
    args: &TailArgs,
    client: &Client,
    subject: &Subject<M>,
    said: impl Fn(&Received<M>) -> Option<(String, Value)>,
) -> Result<()> {
    let oldest = args.since.map(|since| clock::wall() - since);
    let bus = client.bus();
    let opened = match oldest {
        Some(_) => bus
            .follow_direct(subject, Start::All)
            .await
            .map(Messages::Kept),
        None => bus.subscribe(subject).await.map(Messages::Live),
    };
    let mut messages = opened.map_err(|e| from_bus(&e))?;
    let stop = crate::up::stop_token();
    let mut left = args.count.unwrap_or(u64::MAX);
    while left > 0 {
        let message = tokio::select! {
            message = messages.next() => message?,
            () = stop.cancelled() => return Ok(()),
        };
        if oldest.is_some_and(|oldest| message.envelope.time < oldest) {
            continue;
        }
        let Some((text, value)) = said(&message) else {
            continue;
        };
        left -= 1;
        show(args, &text, &value)?;
    }
    Ok(())
}

fn show(args: &TailArgs, text: &str, value: &Value) -> Result<()> {
    if args.json_lines {
        output::print(&value.to_string())
    } else {
        output::print(text)
    }
}

/// Whether an event matches the requested types and nodes.
fn wanted(args: &TailArgs, kind: &EventKind) -> bool {
    let bare = |name: &str| name.strip_prefix("lacuna.").unwrap_or(name).to_owned();
    let of_type = args.types.is_empty() || args.types.iter().any(|t| bare(t) == name_of(kind));
    let of_node = args.node.is_empty() || args.node.iter().any(|node| names(kind, node));
    of_type && of_node
}

const fn name_of(kind: &EventKind) -> &'static str {
    match kind {
        EventKind::NodeIdle { .. } => "node.idle",
        EventKind::NodeBusy { .. } => "node.busy",
        EventKind::NodeDown { .. } => "node.down",
        EventKind::NodeWanted { .. } => "node.wanted",
        EventKind::NodeReleased { .. } => "node.released",
        EventKind::JobPlanned { .. } => "job.planned",
        EventKind::Reservation { .. } => "reservation",
        EventKind::Snapshot { .. } => "snapshot",
    }
}

fn names(kind: &EventKind, wanted: &NodeSelector) -> bool {
    match kind {
        EventKind::NodeIdle { node }
        | EventKind::NodeBusy { node }
        | EventKind::NodeDown { node, .. }
        | EventKind::NodeWanted { node, .. }
        | EventKind::NodeReleased { node } => wanted.has(node),
        EventKind::JobPlanned { nodes, .. } | EventKind::Reservation { nodes, .. } => {
            nodes.iter().any(|node| wanted.has(node))
        }
        EventKind::Snapshot { idle } => idle.iter().any(|hole| wanted.has(&hole.node)),
    }
}

fn said_of_letter(letter: &Received<DeadLetter>) -> (String, Value) {
    let (at, letter) = (letter.envelope.time, &letter.message);
    let payload = String::from_utf8_lossy(&letter.payload);
    let text = format!(
        "{}  {}  {}\n    {}",
        iso_short(at),
        letter.service,
        letter.subject,
        letter.reason
    );
    let value = json!({
        "at": iso(at),
        "service": letter.service,
        "subject": letter.subject,
        "reason": letter.reason,
        "payload": payload,
    });
    (text, value)
}

/// Prints messages of external programs as they come. Ingest removes them from their stream, so
/// older ones cannot be shown.
async fn incoming(args: &TailArgs, client: &Client) -> Result<()> {
    let subject = address::incoming(client.cluster());
    let nats = &client.nats()?.client;
    let subscribed = nats.subscribe(subject.as_str().to_owned()).await;
    let mut messages = subscribed.map_err(|_| lost())?;
    let stop = crate::up::stop_token();
    let mut left = args.count.unwrap_or(u64::MAX);
    while left > 0 {
        let message = tokio::select! {
            message = futures::StreamExt::next(&mut messages) => message.ok_or_else(lost)?,
            () = stop.cancelled() => return Ok(()),
        };
        let headers: Vec<(String, String)> = message
            .headers
            .iter()
            .flat_map(|headers| headers.iter())
            .flat_map(|(name, values)| {
                let name: &str = name.as_ref();
                values
                    .iter()
                    .map(move |v| (name.to_owned(), v.as_str().to_owned()))
            })
            .collect();
        let pairs = headers.iter().map(|(n, v)| (n.as_str(), v.as_str()));
        for part in external::read_all(pairs, &message.payload) {
            if part.event.as_ref().is_ok_and(|e| !wanted(args, &e.kind)) || left == 0 {
                continue;
            }
            left -= 1;
            let (text, value) = said_of_incoming(&message.subject, &part);
            show(args, &text, &value)?;
        }
    }
    Ok(())
}

fn said_of_incoming(subject: &str, part: &external::Part<'_>) -> (String, Value) {
    let payload = String::from_utf8_lossy(&part.payload);
    match &part.event {
        Ok(event) => {
            let at: Option<Timestamp> = event.at;
            let when = at.map_or_else(|| "on arrival".to_owned(), iso_short);
            let id = event.id.as_deref().unwrap_or("without an id");
            let source = event.source.as_deref().unwrap_or("unknown source");
            let what = name_of(&event.kind);
            let text = format!("{subject}  {what}  {when}  {source} {id}\n    {payload}");
            let value = json!({
                "subject": subject, "event": event.kind, "at": at.map(iso),
                "id": event.id.as_deref(), "source": event.source.as_deref(), "payload": payload,
            });
            (text, value)
        }
        Err(error) => {
            let text = format!("{subject}  refused: {error}\n    {payload}");
            let error = error.to_string();
            (
                text,
                json!({ "subject": subject, "refused": error, "payload": payload }),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use lacuna_model::NodeId;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: TailArgs,
    }

    #[test]
    fn filters_are_by_type_and_by_node() {
        let args = |line: &str| Line::try_parse_from(line.split(' ')).map(|l| l.args);
        let node = |name: &str| NodeId::new(name).unwrap();
        let idle = EventKind::NodeIdle { node: node("a") };
        let planned = EventKind::JobPlanned {
            job: "1".to_owned(),
            nodes: vec![node("a"), node("b")],
            start: Timestamp::default(),
        };
        for (line, expected) in [
            ("x", [true, true]),
            ("x --type node.idle", [true, false]),
            (
                "x --type lacuna.job.planned --type node.busy",
                [false, true],
            ),
            ("x --node b", [false, true]),
            ("x --node a --node c", [true, true]),
            ("x --node c*,b", [false, true]),
            ("x --node ?", [true, true]),
            ("x --node a --type job.planned", [false, true]),
        ] {
            let args = args(line).unwrap();
            assert_eq!(
                [wanted(&args, &idle), wanted(&args, &planned)],
                expected,
                "{line}"
            );
        }
        assert!(args("x --incoming --refused").is_err());
        assert!(args("x --node n[1-99999999]").is_err());
    }
}
