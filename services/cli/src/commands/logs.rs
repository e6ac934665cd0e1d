//! `lacuna logs`: the output of a trainer's programs, once or as it grows.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;

use lacuna_model::{NodeId, TrainerId, TrainerRecord};
use lacuna_wire::msg::{LogPlace, Reply, Request};

use super::trainers::one;
use super::wait::unknown;
use crate::client::{Client, ConnectArgs, unexpected};
use crate::error::{CliError, Exit, Result};
use crate::output::{self, JsonArg};
use crate::up::stop_token;
use crate::view::trainer_row;

/// Time between two requests for output that has been written since.
const EVERY: Duration = Duration::from_secs(1);
/// Most nodes whose output is followed.
const MOST: usize = 16;
/// Turns for which a node that was left is asked: its program may write until the grace is over.
const LINGER: u32 = 30;

/// Arguments of `logs`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna logs hpo-12 --lines 50
  lacuna logs -f hpo-12                    go on until the trainer has ended

Prints output of the program of rank 0; under torchrun, which ranks workers itself, of each node.
For a trainer without nodes, ended ones included, it prints the output that agents still have. Text
of several nodes has headings. With -f it waits for the first node, and goes on over changes of
nodes until the trainer has ended.")]
pub(crate) struct LogsArgs {
    /// The trainer
    #[arg(value_name = "TRAINER")]
    trainer: TrainerId,
    /// Number of lines
    #[arg(long, short = 'n', default_value_t = 20)]
    lines: u32,
    /// Print what is written from now on too, until the trainer has ended
    #[arg(long, short, conflicts_with = "json")]
    follow: bool,
    /// Keep terminal control characters of the program
    #[arg(long, conflicts_with = "json")]
    raw: bool,
    #[command(flatten)]
    json: JsonArg,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Runs `logs`.
///
/// # Errors
/// There is no such trainer, its agent is silent, or control does not answer.
pub(crate) async fn run(args: LogsArgs) -> Result<()> {
    let client = Client::connect(&args.connect).await?;
    if args.follow {
        return follow(&client, &args).await;
    }
    once(&client, &args).await
}

/// Prints the last lines.
async fn once(client: &Client, args: &LogsArgs) -> Result<()> {
    match ask(client, args, None).await? {
        Reply::Logs { lines, .. } if args.json.json => {
            output::print_json(&serde_json::json!({ "trainer": args.trainer, "lines": lines }))
        }
        Reply::Logs { lines, .. } if lines.is_empty() => {
            eprintln!("lacuna: {} has written nothing", args.trainer);
            Ok(())
        }
        Reply::Logs { lines, .. } => {
            let text = lines.join("\n");
            match args.raw {
                true => output::print_raw(&text)?,
                false => output::print(&text)?,
            }
            if lines.len() < args.lines as usize {
                name_the_rest(client, &args.trainer).await?;
            }
            Ok(())
        }
        other => Err(unexpected(other)),
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

async fn ask(client: &Client, args: &LogsArgs, after: Option<LogPlace>) -> Result<Reply> {
    let asked = Request::Logs {
        trainer: args.trainer.clone(),
        lines: args.lines,
        after,
    };
    client.ask(asked).await
}

/// Prints output until the trainer has ended. Services may be away meanwhile.
async fn follow(client: &Client, args: &LogsArgs) -> Result<()> {
    let stop = stop_token();
    let mut followed = Followed::default();
    let mut has_begun = false;
    loop {
        let turn = tokio::select! {
            biased;
            () = stop.cancelled() => return Err(interrupted()),
            turn = followed.turn(client, args) => turn,
        };
        match turn {
            Ok(Turn::Ended(state)) => {
                output::print_error(&format!("lacuna: {} {state}", args.trainer));
                return Ok(());
            }
            Ok(Turn::Unread) => return Ok(()),
            Ok(Turn::Open) => has_begun = true,
            Err(error) if has_begun && error.exit == Exit::Unavailable => {}
            Err(error) => return Err(error),
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return Err(interrupted()),
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}

fn interrupted() -> CliError {
    CliError {
        exit: Exit::Interrupted,
        ..CliError::already_printed()
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
#[derive(Debug, Default)]
struct Followed {
    /// The nodes whose output is followed.
    nodes: Vec<NodeId>,
    /// Nodes that were left, with the turns for which they are still asked.
    left: BTreeMap<NodeId, u32>,
    /// The bytes of each node's output.
    places: BTreeMap<NodeId, u64>,
    /// The node whose output came last.
    last: Option<NodeId>,
    /// Whether the last printed line has no end yet.
    is_within_line: bool,
}

impl Followed {
    /// Prints what has been written since the last turn.
    async fn turn(&mut self, client: &Client, args: &LogsArgs) -> Result<Turn> {
        // The record comes first: when it says that the trainer has ended, all is written.
        let Some((now, record, _)) = one(client, &args.trainer).await? else {
            return Err(unknown(client, &args.trainer).await);
        };
        let is_over = record.phase.is_final();
        for node in self.next_nodes(&record) {
            // A place that no output has stands for its last lines.
            let byte = self.places.get(&node).copied().unwrap_or(u64::MAX);
            let after = LogPlace {
                node: node.clone(),
                byte,
            };
            let text = match ask(client, args, Some(after)).await? {
                Reply::Logs { lines, upto } => self.text(&node, &lines, upto),
                // Its agent is silent or has gone.
                Reply::Refused { code, .. } if matches!(code.as_str(), "L0002" | "L0016") => {
                    continue;
                }
                other => return Err(unexpected(other)),
            };
            if !output::print_part(&text, args.raw)? {
                return Ok(Turn::Unread);
            }
        }
        if !is_over {
            return Ok(Turn::Open);
        }
        if self.last.is_none() {
            once(client, args).await?;
        }
        Ok(Turn::Ended(trainer_row(&record, now).state))
    }

    /// The nodes to ask in this turn: those that were left a short time ago, then those of
    /// now. Where members rank themselves these are all. A trainer without nodes
    /// has left its output where it was.
    fn next_nodes(&mut self, record: &TrainerRecord) -> Vec<NodeId> {
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

    /// The text to print for an answer about a node, with a heading if the last text was of
    /// another one. An answer about another node than was asked for is not used.
    fn text(&mut self, node: &NodeId, lines: &[String], upto: Option<LogPlace>) -> String {
        let Some(place) = upto.filter(|place| place.node == *node) else {
            return String::new();
        };
        self.places.insert(place.node, place.byte);
        let text = lines.join("\n");
        if text.is_empty() {
            return text;
        }
        let end = if self.is_within_line { "\n" } else { "" };
        self.is_within_line = !text.ends_with('\n');
        match self.last.replace(node.clone()) {
            Some(last) if last != *node => format!("{end}==> {node} <==\n{text}"),
            _ => text,
        }
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
    fn a_change_of_node_has_a_heading_and_text_goes_on_where_it_ended() {
        let mut followed = Followed::default();
        let mut text = |lines: &[&str], at: &str, byte: u64| {
            let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
            let upto = Some(LogPlace {
                node: node(at),
                byte,
            });
            followed.text(&node(at), &lines, upto)
        };
        assert_eq!(text(&["a", "b", ""], "n1", 4), "a\nb\n");
        assert_eq!(text(&[""], "n1", 4), "");
        assert_eq!(text(&["c", "d"], "n1", 7), "c\nd");
        assert_eq!(text(&["e", ""], "n1", 9), "e\n");
        assert_eq!(text(&[""], "n2", 0), "", "nothing of it yet");
        assert_eq!(text(&["x"], "n2", 1), "==> n2 <==\nx");
        assert_eq!(text(&["f", ""], "n1", 11), "\n==> n1 <==\nf\n");
        let other = Some(LogPlace {
            node: node("n9"),
            byte: 5,
        });
        let lines = ["y".to_owned()];
        assert_eq!(followed.text(&node("n1"), &lines, other), "");
        assert_eq!(followed.text(&node("n1"), &lines, None), "");
        assert_eq!(followed.places.get(&node("n1")), Some(&11));
    }

    #[test]
    fn rank_0_is_followed_and_a_node_that_it_leaves_is_asked_for_a_while() {
        let mut followed = Followed::default();
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
