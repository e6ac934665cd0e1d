//! `lacuna logs`: the output of a trainer's programs, once or as it grows.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;

use lacuna_model::{NodeId, TrainerId};
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

/// Arguments of `logs`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna logs hpo-12 --lines 50
  lacuna logs -f hpo-12                    go on until the trainer has ended

Prints output of the program of rank 0. For a trainer without nodes, ended ones included, it
prints the output that agents still have, with a heading for each node if there are several. With
-f it waits for the first node, and prints a heading whenever rank 0 is on another node.")]
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
    match ask(&client, &args, None).await? {
        Reply::Logs { lines, .. } if args.json.json => {
            output::print_json(&serde_json::json!({ "trainer": args.trainer, "lines": lines }))
        }
        Reply::Logs { lines, .. } if lines.is_empty() => {
            eprintln!("lacuna: {} has written nothing", args.trainer);
            Ok(())
        }
        Reply::Logs { lines, .. } if args.raw => output::print_raw(&lines.join("\n")),
        Reply::Logs { lines, .. } => output::print(&lines.join("\n")),
        other => Err(unexpected(other)),
    }
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
    /// No one reads the output any more.
    Unread,
}

/// The output that has been printed.
#[derive(Debug, Default)]
struct Followed {
    /// The bytes of each node's output.
    places: BTreeMap<NodeId, u64>,
    /// The node whose output came last.
    node: Option<NodeId>,
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
        if self.node.is_none() && record.nodes.is_empty() && !is_over {
            return Ok(Turn::Open);
        }
        let last = self.node.as_ref().and_then(|node| self.place(node));
        let mut reply = ask(client, args, last).await?;
        // Rank 0 is on a node again whose output was followed before.
        let known = match &reply {
            Reply::Logs {
                upto: Some(upto), ..
            } if self.node.as_ref() != Some(&upto.node) => self.place(&upto.node),
            _ => None,
        };
        if known.is_some() {
            reply = ask(client, args, known).await?;
        }
        let is_read = match reply {
            // It has just lost its nodes, and nothing of it has been printed.
            Reply::Logs { upto: None, .. } if !is_over => true,
            Reply::Logs { lines, upto } => {
                let text = self.text(&lines, upto);
                output::print_part(&text, args.raw)?
            }
            // An agent is silent, or its trainer has just lost its nodes.
            Reply::Refused { code, .. }
                if matches!(code.as_str(), "L0002" | "L0016")
                    && (self.node.is_some() || !is_over) =>
            {
                true
            }
            other => return Err(unexpected(other)),
        };
        Ok(match (is_read, is_over) {
            (false, _) => Turn::Unread,
            (true, true) => Turn::Ended(trainer_row(&record, now).state),
            (true, false) => Turn::Open,
        })
    }

    fn place(&self, node: &NodeId) -> Option<LogPlace> {
        let byte = *self.places.get(node)?;
        let node = node.clone();
        Some(LogPlace { node, byte })
    }

    /// The text to print for lines that end at a place, with a heading if they are of another node.
    fn text(&mut self, lines: &[String], upto: Option<LogPlace>) -> String {
        let mut text = String::new();
        let mut is_text = false;
        if let Some(LogPlace { node, byte }) = upto {
            is_text = self.places.insert(node.clone(), byte).is_some();
            if self.node.as_ref().is_some_and(|last| *last != node) {
                let end = if self.is_within_line { "\n" } else { "" };
                text = format!("{end}==> {node} <==\n");
            }
            self.node = Some(node);
        }
        text.push_str(&lines.join("\n"));
        if !is_text && !lines.is_empty() {
            text.push('\n');
        }
        if !text.is_empty() {
            self.is_within_line = !text.ends_with('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_node_has_a_heading_and_text_goes_on_where_it_ended() {
        let mut followed = Followed::default();
        let mut text = |lines: &[&str], at: Option<(&str, u64)>| {
            let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
            let upto = at.map(|(node, byte)| LogPlace {
                node: NodeId::new(node).unwrap(),
                byte,
            });
            followed.text(&lines, upto)
        };
        assert_eq!(text(&["a", "b"], Some(("n1", 4))), "a\nb\n");
        assert_eq!(text(&[""], Some(("n1", 4))), "");
        assert_eq!(text(&["c", "d"], Some(("n1", 7))), "c\nd");
        assert_eq!(text(&["x"], Some(("n2", 2))), "\n==> n2 <==\nx\n");
        assert_eq!(text(&["e", ""], Some(("n1", 9))), "==> n1 <==\ne\n");
        assert_eq!(text(&[], None), "");
        let place = followed.place(&NodeId::new("n1").unwrap());
        assert_eq!(place.map(|place| place.byte), Some(9));
    }
}
