//! `lacuna logs`: the output of a trainer's programs, once or as it grows.

mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal as _;
use std::time::Duration;

use clap::Args;

use lacuna_model::{NodeId, OutputLines, Timestamp, TrainerId, TrainerRecord};
use lacuna_runtime::clock::{Stopwatch, wall};
use lacuna_wire::msg::{Kept, LogPlace, Reply, Request};

use super::selector::{NodeSelector, TrainerSelector, first_few};
use super::trainers::{one, selected, unexpected_of, unknown};
use crate::client::{Client, ConnectArgs, unexpected};
use crate::error::{CliError, Exit, Result};
use crate::output::{self, JsonArg, parse_span, parse_time};
use crate::up::stop_token;
use crate::view::trainer_row;
use view::View;

/// Time between two requests for output that has been written since.
const EVERY: Duration = Duration::from_secs(1);
/// Most nodes whose output is followed.
const MOST: usize = 16;
/// Turns for which a node that was left is asked: its program may write until the grace is over.
const LINGER: u32 = 30;
/// Lines that are printed without a number.
const LINES: u32 = 20;

/// Arguments of `logs`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna logs hpo-12 --lines 50
  lacuna logs -f hpo-12                    go on until the trainer has ended
  lacuna logs 'sw-*' -n 1                  the last line of each of these trainers
  lacuna logs hpo-12 --since 10m           what was written in the last ten minutes
  lacuna logs hpo-12 --node 'a01n[07-12]'  of these nodes, each line with its node
  lacuna logs hpo-12 --raw > out.log       the bytes as the program has written them

Prints output of the program of rank 0; under torchrun, which ranks workers itself, of each node.
For a trainer without nodes, ended ones included, it prints the output that agents still have. Lines
of several nodes begin with the node's name. With -f it waits for the first node, and goes on over
changes of nodes until the trainer has ended.

Of a progress bar the newest state is printed: with -f on a terminal it moves, elsewhere a line comes
every few seconds. A line of more than 4096 bytes is cut and says its length. A rule stands between
two starts of the program on a node, and says how the first ended.")]
pub(crate) struct LogsArgs {
    /// The trainer; without -f also several: a range as in sw-[01-16], a pattern as in sw-*
    #[arg(value_name = "TRAINER", value_parser = TrainerSelector::parse)]
    trainer: TrainerSelector,
    /// Number of lines [default: 20; with --since all]
    #[arg(long, short = 'n')]
    lines: Option<u32>,
    /// Only what was written since: a time, or how long ago, to about ten seconds
    #[arg(long, value_name = "TIME", value_parser = parse_since)]
    since: Option<Timestamp>,
    /// Of these nodes: a name, a range as in a[01-16], a pattern as in a*
    #[arg(long, value_name = "NODES", value_parser = NodeSelector::parse)]
    node: Option<NodeSelector>,
    /// Print what is written from now on too, until the trainer has ended
    #[arg(long, short, conflicts_with = "json")]
    follow: bool,
    /// Print what the program has written, unchanged: each state of a bar, colours, long lines
    #[arg(long, conflicts_with = "json")]
    raw: bool,
    #[command(flatten)]
    json: JsonArg,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// A time, or a length of time before now.
fn parse_since(text: &str) -> std::result::Result<Timestamp, String> {
    match parse_span(text) {
        Ok(ago) => Ok(wall() - ago),
        Err(_) => parse_time(text).map_err(|error| format!("{error}, or a length such as 10m")),
    }
}

/// Runs `logs`.
///
/// # Errors
/// There is no such trainer, its agent is silent, or control does not answer.
pub(crate) async fn run(args: LogsArgs) -> Result<()> {
    let client = Client::connect(&args.connect).await?;
    let nodes = match &args.node {
        Some(selector) => Some(selected_nodes(&client, selector).await?),
        None => None,
    };
    let asked = std::slice::from_ref(&args.trainer);
    let names = selected(&client, asked, Kept::Live).await?.names;
    match names.as_slice() {
        [trainer] if args.follow => follow(&client, &args, trainer, nodes).await,
        [trainer] if !args.trainer.has_patterns() => {
            once(&client, &args, trainer, nodes.as_deref()).await
        }
        several if args.follow => Err(CliError::failed(format!(
            "-f follows one trainer, and these are {}: {}",
            several.len(),
            first_few(several)
        ))),
        several => of_each(&client, &args, several, nodes.as_deref()).await,
    }
}

/// Prints the last lines of several trainers, each under its name.
async fn of_each(
    client: &Client,
    args: &LogsArgs,
    trainers: &[TrainerId],
    nodes: Option<&[NodeId]>,
) -> Result<()> {
    let mut all = Vec::new();
    for trainer in trainers {
        let lines = match last_lines(client, args, trainer, nodes).await {
            Ok(lines) => lines,
            // It has not begun, or its agent has gone.
            Err(error) if !args.json.json && is_without_output(&error) => vec![error.message],
            Err(error) if is_without_output(&error) => Vec::new(),
            Err(error) => return Err(error),
        };
        if args.json.json {
            all.push(serde_json::json!({ "trainer": trainer, "lines": lines }));
            continue;
        }
        let text = format!("==> {trainer} <==\n{}", lines.join("\n"));
        match args.raw {
            true => output::print_raw(&text)?,
            false => output::print(&text)?,
        }
    }
    match args.json.json {
        true => output::print_json(&serde_json::json!({ "trainers": all })),
        false => Ok(()),
    }
}

/// Whether an error says that a trainer has no output, or that its agent does not answer.
fn is_without_output(error: &CliError) -> bool {
    matches!(error.code.as_deref(), Some("L0002" | "L0016"))
}

/// The nodes of a selection.
async fn selected_nodes(client: &Client, selector: &NodeSelector) -> Result<Vec<NodeId>> {
    let nodes = match client.ask(Request::Nodes).await? {
        Reply::Nodes { nodes, .. } => nodes,
        other => return Err(unexpected(other)),
    };
    let known: BTreeSet<NodeId> = nodes.into_iter().map(|view| view.node).collect();
    let refuse = |text: String| CliError::new("L0010", Exit::Failed, text);
    // A node that has left may still have output.
    let (found, unknown) = selector.among(&known).map_err(refuse)?;
    let nodes: Vec<NodeId> = found.into_iter().chain(unknown).collect();
    if nodes.len() > MOST {
        let text = format!("{} nodes are selected, {MOST} are the most", nodes.len());
        return Err(refuse(text));
    }
    Ok(nodes)
}

/// The place of a node's output that no output has: it stands for the last lines.
fn end_of(node: &NodeId) -> LogPlace {
    LogPlace {
        node: node.clone(),
        byte: u64::MAX,
    }
}

/// The lines of a text as a terminal would show them. Agents of older releases leave that to us.
fn drawn(text: &str) -> Vec<String> {
    let (mut open, mut lines) = (OutputLines::default(), Vec::new());
    open.feed(text.as_bytes(), |one| lines.push(one));
    lines.extend(open.end());
    lines
}

/// The last lines, of these nodes or of those that control chooses.
async fn last_lines(
    client: &Client,
    args: &LogsArgs,
    trainer: &TrainerId,
    nodes: Option<&[NodeId]>,
) -> Result<Vec<String>> {
    let text = |lines: Vec<String>| match args.raw {
        true => lines,
        false => drawn(&lines.join("\n")),
    };
    let Some(nodes) = nodes else {
        return match ask(client, args, trainer, None).await? {
            Reply::Logs { lines, .. } => Ok(text(lines)),
            other => Err(unexpected_of(client, trainer, other).await),
        };
    };
    let mut all = Vec::new();
    for node in nodes {
        let lines = match ask(client, args, trainer, Some(end_of(node))).await? {
            // The text ends with a line end.
            Reply::Logs { mut lines, .. } => {
                lines.pop_if(|last| last.is_empty());
                text(lines)
            }
            // Its agent is silent, and others may have lines.
            Reply::Refused { code, .. } if code == "L0002" && nodes.len() > 1 => continue,
            other => return Err(unexpected_of(client, trainer, other).await),
        };
        let line = |line: String| match nodes.len() {
            1 => line,
            _ => format!("{node} | {line}"),
        };
        all.extend(lines.into_iter().map(line));
    }
    Ok(all)
}

/// Prints the last lines.
async fn once(
    client: &Client,
    args: &LogsArgs,
    trainer: &TrainerId,
    nodes: Option<&[NodeId]>,
) -> Result<()> {
    let lines = last_lines(client, args, trainer, nodes).await?;
    if args.json.json {
        return output::print_json(&serde_json::json!({ "trainer": trainer, "lines": lines }));
    }
    if lines.is_empty() {
        let when = if args.since.is_some() {
            " since then"
        } else {
            ""
        };
        eprintln!("lacuna: {trainer} has written nothing{when}");
        return Ok(());
    }
    let text = lines.join("\n");
    match args.raw {
        true => output::print_raw(&text)?,
        false => output::print(&text)?,
    }
    if nodes.is_none() && args.since.is_none() && lines.len() < args.lines() as usize {
        name_the_rest(client, trainer).await?;
    }
    Ok(())
}

impl LogsArgs {
    fn lines(&self) -> u32 {
        let all = if self.since.is_some() {
            u32::MAX
        } else {
            LINES
        };
        self.lines.unwrap_or(all)
    }
}

/// Says that another node has earlier output of a trainer whose rank 0 may have moved.
async fn name_the_rest(client: &Client, trainer: &TrainerId) -> Result<()> {
    let Some((_, record, _)) = one(client, trainer).await? else {
        return Ok(());
    };
    let has_changed = record.preemptions + record.rescales > 0;
    if let Some(node) = record.nodes.first()
        && has_changed
        && !record.spec.launch.ranks_itself()
    {
        eprintln!(
            "lacuna: this is the output on {node}, where rank 0 runs now; what another rank 0 wrote \
             before lies on the node that it has left"
        );
    }
    Ok(())
}

async fn ask(
    client: &Client,
    args: &LogsArgs,
    trainer: &TrainerId,
    after: Option<LogPlace>,
) -> Result<Reply> {
    let asked = Request::Logs {
        trainer: trainer.clone(),
        lines: args.lines(),
        after,
        since: args.since,
        is_raw: args.raw,
    };
    client.ask(asked).await
}

/// Prints output until the trainer has ended. Services may be away meanwhile.
async fn follow(
    client: &Client,
    args: &LogsArgs,
    trainer: &TrainerId,
    nodes: Option<Vec<NodeId>>,
) -> Result<()> {
    let stop = stop_token();
    let mut followed = Followed::new(args, nodes);
    let mut has_begun = false;
    loop {
        let turn = tokio::select! {
            biased;
            () = stop.cancelled() => return Err(CliError::interrupted()),
            turn = followed.turn(client, args, trainer) => turn,
        };
        match turn {
            Ok(Turn::Ended(state)) => {
                output::print_part(&followed.view.close(), true)?;
                output::print_error(&format!("lacuna: {trainer} {state}"));
                return Ok(());
            }
            Ok(Turn::Unread) => return Ok(()),
            Ok(Turn::Open) => has_begun = true,
            Err(error) if has_begun && error.exit == Exit::Unavailable => {}
            Err(error) => return Err(error),
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return Err(CliError::interrupted()),
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}

/// What a turn has found.
enum Turn {
    /// More may be written.
    Open,
    /// The trainer has ended, in this state, and all of its output is printed.
    Ended(&'static str),
    /// The reader of the output has gone.
    Unread,
}

/// The output that has been printed.
#[derive(Debug)]
struct Followed {
    /// The nodes that were asked for, if any were.
    only: Option<Vec<NodeId>>,
    /// The nodes whose output is followed.
    nodes: Vec<NodeId>,
    /// Nodes that were left, with the turns for which they are still asked.
    left: BTreeMap<NodeId, u32>,
    /// The bytes of each node's output.
    places: BTreeMap<NodeId, u64>,
    view: View,
    watch: Stopwatch,
}

impl Followed {
    fn new(args: &LogsArgs, only: Option<Vec<NodeId>>) -> Self {
        let width = console::Term::stdout().size().1;
        let is_screen = std::io::stdout().is_terminal() && !args.raw;
        Self {
            only,
            nodes: Vec::new(),
            left: BTreeMap::new(),
            places: BTreeMap::new(),
            view: View::new(args.raw, is_screen.then_some(width.into())),
            watch: Stopwatch::start(),
        }
    }

    /// Prints what has been written since the last turn.
    async fn turn(
        &mut self,
        client: &Client,
        args: &LogsArgs,
        trainer: &TrainerId,
    ) -> Result<Turn> {
        // The record comes first: when it says that the trainer has ended, all is written.
        let Some((now, record, _)) = one(client, trainer).await? else {
            return Err(unknown(client, trainer).await);
        };
        let is_over = record.phase.is_final();
        let nodes = self.next_nodes(&record);
        let is_one = self
            .only
            .as_ref()
            .map_or(!record.spec.launch.ranks_itself(), |nodes| nodes.len() == 1);
        self.view.name_nodes(!is_one);
        for node in nodes {
            // A place that no output has stands for its last lines.
            let byte = self.places.get(&node).copied().unwrap_or(u64::MAX);
            let after = LogPlace {
                node: node.clone(),
                byte,
            };
            let text = match ask(client, args, trainer, Some(after)).await? {
                Reply::Logs { lines, upto } => self.text(&node, &lines, upto),
                // Its agent is silent or has gone.
                Reply::Refused { code, .. } if matches!(code.as_str(), "L0002" | "L0016") => {
                    continue;
                }
                other => return Err(unexpected(other)),
            };
            if !output::print_part(&text, true)? {
                return Ok(Turn::Unread);
            }
        }
        if !is_over {
            return Ok(Turn::Open);
        }
        if self.view.is_empty() {
            once(client, args, trainer, self.only.as_deref()).await?;
        }
        Ok(Turn::Ended(trainer_row(&record, now).state))
    }

    /// The nodes to ask in this turn: those that were left a short time ago, then those of
    /// now. Where members rank themselves these are all. A trainer without nodes
    /// has left its output where it was.
    fn next_nodes(&mut self, record: &TrainerRecord) -> Vec<NodeId> {
        if let Some(only) = &self.only {
            return only.clone();
        }
        let most = if record.spec.launch.ranks_itself() {
            MOST
        } else {
            1
        };
        let now: Vec<NodeId> = record.nodes.iter().take(most).cloned().collect();
        if !now.is_empty() {
            let before = std::mem::replace(&mut self.nodes, now);
            self.left
                .extend(before.into_iter().map(|node| (node, LINGER + 1)));
        }
        self.left.retain(|node, turns| {
            *turns -= 1;
            *turns > 0 && !self.nodes.contains(node)
        });
        let left = self.left.keys();
        left.chain(&self.nodes).cloned().collect()
    }

    /// The text to print for an answer about a node. An answer about another node than was asked for
    /// is not used.
    fn text(&mut self, node: &NodeId, lines: &[String], upto: Option<LogPlace>) -> String {
        let Some(place) = upto.filter(|place| place.node == *node) else {
            return String::new();
        };
        let before = self.places.insert(place.node, place.byte);
        // The file is another one, or was cut.
        if before.is_some_and(|before| place.byte < before) {
            self.view.begin_again(node);
        }
        let seconds = self.watch.seconds();
        self.view.add(node, &lines.join("\n"), seconds)
    }
}

#[cfg(test)]
mod tests {
    use lacuna_model::Phase;

    use super::*;
    use crate::view::tests::record;

    fn node(name: &str) -> NodeId {
        NodeId::new(name).unwrap()
    }

    #[test]
    fn rank_0_is_followed_and_a_node_that_it_leaves_is_asked_for_a_while() {
        let mut followed = Followed {
            only: None,
            nodes: Vec::new(),
            left: BTreeMap::new(),
            places: BTreeMap::new(),
            view: View::new(false, None),
            watch: Stopwatch::start(),
        };
        let of = |nodes: u32| record("a", Phase::Active, nodes);
        assert!(followed.next_nodes(&of(0)).is_empty());
        assert_eq!(followed.next_nodes(&of(3)), [node("node-000")]);
        let mut moved = of(3);
        moved.nodes.remove(0);
        let both = [node("node-000"), node("node-001")];
        for _ in 1..LINGER {
            assert_eq!(followed.next_nodes(&moved), both);
        }
        assert_eq!(followed.next_nodes(&of(0)), both);
        assert_eq!(followed.next_nodes(&moved), [node("node-001")]);
        assert_eq!(followed.next_nodes(&of(0)), [node("node-001")]);
    }
}
