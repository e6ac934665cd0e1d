//! `lacuna pause`, `resume`, `drain`, `undrain` and `limits`: the operator's controls on the use of
//! nodes.

use std::collections::BTreeSet;

use clap::{Args, Subcommand};

use lacuna_model::{
    Controls, ControlsChange, NodeId, Span, Timestamp, TroubleKind, UseLimit, UseState, UseWindow,
    WithheldBy,
};
use lacuna_runtime::clock::wall;
use lacuna_trainer::controls::Pattern;
use lacuna_wire::address;
use lacuna_wire::msg::{NodeView, Reply, Request};

use super::selector::{NodeSelector, first_few, split, unknown_among};
use crate::client::{Client, ConnectArgs, unexpected};
use crate::error::{CliError, Exit, Result};
use crate::output::{self, JsonArg, iso_short, parse_span, parse_time};
use crate::view::{limits_json, limits_text};

/// Arguments of `pause`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna pause                              nodes in use stay, no further node is taken
  lacuna pause --now --reason maintenance   all nodes are given back at once
  lacuna pause --max-nodes 20 --for 2h      20 nodes at most, for two hours

A pause replaces an earlier one and outlives restarts. `lacuna resume` lifts it.")]
pub(crate) struct PauseArgs {
    /// Give all nodes back at once
    #[arg(long, conflicts_with = "max_nodes")]
    now: bool,
    /// Use at most N nodes; the others go back at once
    #[arg(long, value_name = "N")]
    max_nodes: Option<u32>,
    /// Lift the pause after this time
    #[arg(long = "for", value_name = "TIME", value_parser = parse_span, conflicts_with = "until")]
    length: Option<Span>,
    /// Lift the pause at this time
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    until: Option<Timestamp>,
    /// The reason, for the record
    #[arg(long, default_value = "")]
    reason: String,
    #[command(flatten)]
    common: Common,
}

/// Arguments of `resume`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  lacuna resume

Windows, lists, the cap of `lacuna limits` and drained nodes stay in force.")]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    common: Common,
}

/// Arguments of `drain`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna drain a01n07 --reason \"fan broken\"
  lacuna drain 'a[01-16]n01' b07
  lacuna drain 'rack7-*'

Nodes under a trainer are given back at once. They stay drained until `lacuna undrain`. A pattern
means the nodes that match now; `lacuna limits set --avoid` also applies to nodes that come later.")]
pub(crate) struct DrainArgs {
    /// Nodes: names, ranges as in a[01-16], or patterns as in a*
    #[arg(required = true, value_name = "NODE", value_parser = NodeSelector::parse)]
    nodes: Vec<NodeSelector>,
    /// Also accept nodes that no event has named yet
    #[arg(long)]
    unnamed: bool,
    /// The reason, for the record
    #[arg(long, default_value = "")]
    reason: String,
    #[command(flatten)]
    common: Common,
}

/// Arguments of `undrain`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna undrain 'a[01-16]n01'
  lacuna undrain '*'                 all drained nodes

It also forgets what speaks against nodes (TROUBLE of `lacuna nodes`): quarantined, slow, last, suspect.")]
pub(crate) struct UndrainArgs {
    /// Nodes: names, ranges as in a[01-16], or patterns as in a*
    #[arg(required = true, value_name = "NODE", value_parser = NodeSelector::parse)]
    nodes: Vec<NodeSelector>,
    #[command(flatten)]
    common: Common,
}

/// Arguments of `limits`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  lacuna limits                                         the limits, and their effect
  lacuna limits set --max-nodes 200 --avoid 'gpu*'
  lacuna limits set --keep-idle 4                       for users of srun --immediate
  lacuna limits add-window day --days mon-fri --from 08:00 --to 18:00 --zone Europe/Berlin --no-growth"
)]
pub(crate) struct LimitsArgs {
    #[command(subcommand)]
    change: Option<LimitsCommand>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Subcommand)]
enum LimitsCommand {
    /// Set the cap on nodes, the idle nodes that stay free, and the lists of nodes
    Set(SetArgs),
    /// Add a window of time, or replace the one of the same name
    AddWindow(WindowArgs),
    /// Remove a window of time
    #[command(after_help = "Example:\n  lacuna limits remove-window day")]
    RemoveWindow {
        /// The name of the window
        name: String,
        #[command(flatten)]
        common: Common,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna limits set --max-nodes 200
  lacuna limits set --max-nodes none --only 'a[01-16]n*' --avoid a03n01
  lacuna limits set --only none
  lacuna limits set --keep-idle 4

Nodes that stay free have no pilot, so `srun --immediate` starts there and `sinfo -t idle` shows them.
Where a batch job takes one, a trainer gives another one back.

In patterns, * is any text and ? is one character; ranges are padded as they are written.")]
struct SetArgs {
    /// Use at most N nodes; none: no cap
    #[arg(long, value_name = "N|none", value_parser = cap)]
    max_nodes: Option<Cap>,
    /// Keep N idle nodes free of pilots; none: use all
    #[arg(long, value_name = "N|none", value_parser = cap)]
    keep_idle: Option<Cap>,
    /// Use only these nodes; replaces the earlier list; none: all nodes
    #[arg(long, value_name = "PATTERN", num_args = 1..)]
    only: Option<Vec<String>>,
    /// Never use these nodes; replaces the earlier list; none: no such list
    #[arg(long, value_name = "PATTERN", num_args = 1..)]
    avoid: Option<Vec<String>>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
#[command(
    group(clap::ArgGroup::new("limit").required(true).args(["no_growth", "nothing", "most", "keep_idle"])),
    after_help = "\
Examples:
  lacuna limits add-window day --days mon-fri --from 08:00 --to 18:00 --zone Europe/Berlin --no-growth
  lacuna limits add-window night --from 22:00 --to 06:00 --max-nodes 500
  lacuna limits add-window office --days mon-fri --from 08:00 --to 18:00 --keep-idle 4

A window whose end is not after its beginning ends the next day. Where a clock change makes the
window ambiguous, the longer one holds."
)]
struct WindowArgs {
    /// The name of the window
    name: String,
    /// Days on which it begins, as mon-fri or sat,sun; every day if absent
    #[arg(long, value_name = "DAYS", value_parser = days)]
    days: Option<Days>,
    /// Time of day at which it begins
    #[arg(long, value_name = "HH:MM")]
    from: String,
    /// Time of day at which it ends
    #[arg(long, value_name = "HH:MM")]
    to: String,
    /// Time zone; that of control's machine if absent
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
    /// Take no further node during the window
    #[arg(long)]
    no_growth: bool,
    /// Give all nodes back during the window
    #[arg(long)]
    nothing: bool,
    /// Use at most N nodes during the window
    #[arg(long = "max-nodes", value_name = "N")]
    most: Option<u32>,
    /// Keep N idle nodes free of pilots during the window
    #[arg(long, value_name = "N")]
    keep_idle: Option<u32>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct Common {
    #[command(flatten)]
    json: JsonArg,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// A cap on nodes, or none.
#[derive(Debug, Clone, Copy)]
struct Cap(Option<u32>);

fn cap(text: &str) -> std::result::Result<Cap, String> {
    if text == "none" {
        return Ok(Cap(None));
    }
    let nodes = text
        .parse()
        .map_err(|_| "expected a number of nodes, or none")?;
    Ok(Cap(Some(nodes)))
}

/// The days of the week that were typed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Days(Vec<String>);

/// Reads `mon-fri,sun`.
fn days(text: &str) -> std::result::Result<Days, String> {
    const WEEK: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
    let place = |day: &str| {
        let found = WEEK.iter().position(|name| *name == day);
        found.ok_or_else(|| format!("{day:?} is no day: expected one of {}", WEEK.join(" ")))
    };
    let mut chosen = [false; 7];
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (place(first)?, place(last)?);
        // A range from Saturday to Monday wraps around the end of the week.
        let length = (last + 7 - first) % 7;
        for day in first..=first + length {
            if let Some(chosen) = chosen.get_mut(day % 7) {
                *chosen = true;
            }
        }
    }
    let days = WEEK.iter().zip(chosen).filter(|(_, chosen)| *chosen);
    Ok(Days(days.map(|(day, _)| (*day).to_owned()).collect()))
}

/// The typed patterns; `none` alone means an empty list.
fn list(patterns: Vec<String>) -> Vec<String> {
    let patterns: Vec<String> = patterns
        .iter()
        .flat_map(|text| split(text))
        .filter(|pattern| !pattern.is_empty())
        .collect();
    if patterns == ["none"] {
        Vec::new()
    } else {
        patterns
    }
}

/// Sends changes to control and prints the controls that are then in force.
async fn ask(common: &Common, client: &Client, changes: Vec<ControlsChange>) -> Result<()> {
    let controls = match client.ask(Request::Change { changes }).await? {
        Reply::Controls(controls) => controls,
        other => return Err(unexpected(other)),
    };
    show(common, client, &controls).await
}

async fn show(common: &Common, client: &Client, controls: &Controls) -> Result<()> {
    let subject = address::use_state(client.cluster());
    let state: Option<UseState> = client.newest(&subject).await?;
    let state = state.unwrap_or_default();
    if common.json.json {
        return output::print_json(&limits_json(controls, &state));
    }
    output::print(&limits_text(controls, &state, wall()))
}

/// Runs `pause`.
///
/// # Errors
/// Control refuses or does not answer.
pub(crate) async fn pause(args: PauseArgs) -> Result<()> {
    let limit = match args.max_nodes {
        Some(nodes) => UseLimit::AtMost { nodes },
        None if args.now => UseLimit::Nothing,
        None => UseLimit::NoGrowth,
    };
    let until = args.until.or(args.length.map(|length| wall() + length));
    let change = ControlsChange::Pause {
        limit,
        until,
        reason: args.reason,
    };
    let client = Client::connect(&args.common.connect).await?;
    ask(&args.common, &client, vec![change]).await
}

/// Runs `resume`.
///
/// # Errors
/// Control refuses or does not answer.
pub(crate) async fn resume(args: ResumeArgs) -> Result<()> {
    let client = Client::connect(&args.common.connect).await?;
    ask(&args.common, &client, vec![ControlsChange::Resume]).await
}

/// Runs `drain`.
///
/// # Errors
/// `L0010` if no event has named a node, or a pattern matches none; control refuses or does not
/// answer.
pub(crate) async fn drain(args: DrainArgs) -> Result<()> {
    let client = Client::connect(&args.common.connect).await?;
    let known = known(&client).await?;
    let (mut nodes, mut errors) = (BTreeSet::new(), Vec::new());
    for selector in &args.nodes {
        // A pattern means nodes that have been named, with --unnamed too.
        let (found, unknown) = match selector.among(&known) {
            Ok(both) => both,
            Err(text) => {
                errors.push(no_such(text));
                continue;
            }
        };
        match unknown_among(&unknown, &known).filter(|_| !args.unnamed) {
            None => nodes.extend(found.into_iter().chain(unknown)),
            Some(text) => {
                let remedy = "--unnamed also drains nodes that no event has named yet";
                errors.push(no_such(text).remedy(remedy));
            }
        }
    }
    let change = ControlsChange::Drain {
        nodes: nodes.iter().cloned().collect(),
        reason: args.reason,
    };
    ask_for(&args.common, &client, &nodes, change, errors).await
}

/// Sends a change for some nodes, if there are any; then the errors of those that are none.
async fn ask_for(
    common: &Common,
    client: &Client,
    nodes: &BTreeSet<NodeId>,
    change: ControlsChange,
    errors: Vec<CliError>,
) -> Result<()> {
    if !nodes.is_empty() {
        ask(common, client, vec![change]).await?;
    }
    CliError::of_all(errors, !nodes.is_empty())
}

fn no_such(text: String) -> CliError {
    CliError::new("L0010", Exit::Failed, text)
}

/// The nodes that events have named.
///
/// # Errors
/// Control does not answer.
pub(crate) async fn known(client: &Client) -> Result<BTreeSet<NodeId>> {
    match client.ask(Request::Nodes).await? {
        Reply::Nodes { nodes, .. } => Ok(nodes.into_iter().map(|view| view.node).collect()),
        other => Err(unexpected(other)),
    }
}

/// Runs `undrain`.
///
/// # Errors
/// `L0010` if a pattern matches no drained node; control refuses or does not answer.
pub(crate) async fn undrain(args: UndrainArgs) -> Result<()> {
    let client = Client::connect(&args.common.connect).await?;
    let controls = match client.ask(Request::Controls).await? {
        Reply::Controls(controls) => controls,
        other => return Err(unexpected(other)),
    };
    let mut drained: BTreeSet<NodeId> = controls.drained.into_keys().collect();
    let views = match client.ask(Request::Nodes).await? {
        Reply::Nodes { nodes, .. } => nodes,
        other => return Err(unexpected(other)),
    };
    let troubled = views.iter().filter(|view| is_lifted(view));
    let troubled: BTreeSet<NodeId> = troubled.map(|view| view.node.clone()).collect();
    drained.extend(troubled.iter().cloned());
    let (mut nodes, mut others, mut errors) = (BTreeSet::new(), Vec::new(), Vec::new());
    for selector in &args.nodes {
        match selector.among(&drained) {
            Ok((found, other)) => {
                nodes.extend(found);
                others.extend(other);
            }
            Err(text) => errors.push(no_such(format!("of the drained nodes, {text}"))),
        }
    }
    if !others.is_empty() && !nodes.is_empty() {
        eprintln!("lacuna: not drained before: {}", first_few(&others));
    }
    nodes.extend(others);
    for node in nodes.intersection(&troubled) {
        eprintln!("lacuna: nothing speaks against {node} any more");
    }
    let change = ControlsChange::Undrain {
        nodes: nodes.iter().cloned().collect(),
    };
    ask_for(&args.common, &client, &nodes, change, errors).await
}

/// Whether something speaks against a node that an operator can lift.
fn is_lifted(view: &NodeView) -> bool {
    let kind = view.trouble.as_ref().map(|trouble| trouble.kind);
    kind.is_some_and(|kind| {
        matches!(
            kind,
            TroubleKind::Quarantined | TroubleKind::Slow | TroubleKind::Last | TroubleKind::Suspect
        )
    })
}

/// Warns of patterns that match no known node. They are kept, since more nodes may come.
async fn tell_unmatched(client: &Client, patterns: &[String]) -> Result<()> {
    if patterns.is_empty() {
        return Ok(());
    }
    let known = known(client).await?;
    for text in patterns {
        // Control refuses a text that is no pattern.
        let matches = |pattern: Pattern| known.iter().any(|n| pattern.matches(n.as_str()));
        if Pattern::parse(text).is_ok_and(|pattern| !matches(pattern)) {
            eprintln!(
                "lacuna: {text} matches none of the {} nodes that events have named",
                known.len()
            );
        }
    }
    Ok(())
}

/// Runs `limits`.
///
/// # Errors
/// Control refuses or does not answer.
pub(crate) async fn limits(args: LimitsArgs) -> Result<()> {
    let (changes, common) = match args.change {
        None => {
            let client = Client::connect(&args.common.connect).await?;
            let controls = match client.ask(Request::Controls).await? {
                Reply::Controls(controls) => controls,
                other => return Err(unexpected(other)),
            };
            return show(&args.common, &client, &controls).await;
        }
        Some(LimitsCommand::Set(set)) => {
            let mut changes = Vec::new();
            if let Some(Cap(nodes)) = set.max_nodes {
                changes.push(ControlsChange::MaxNodes { nodes });
            }
            if let Some(Cap(nodes)) = set.keep_idle {
                changes.push(ControlsChange::KeepIdle { nodes });
            }
            if let Some(patterns) = set.only.map(list) {
                changes.push(ControlsChange::Only { patterns });
            }
            if let Some(patterns) = set.avoid.map(list) {
                changes.push(ControlsChange::Avoid { patterns });
            }
            (changes, set.common)
        }
        Some(LimitsCommand::AddWindow(window)) => {
            let limit = match (window.most, window.keep_idle) {
                (Some(nodes), _) => UseLimit::AtMost { nodes },
                (_, Some(nodes)) => UseLimit::KeepIdle { nodes },
                _ if window.nothing => UseLimit::Nothing,
                _ => UseLimit::NoGrowth,
            };
            let added = UseWindow {
                name: window.name,
                days: window.days.map_or_else(Vec::new, |days| days.0),
                from: window.from,
                to: window.to,
                zone: window.zone,
                limit,
            };
            (vec![ControlsChange::SetWindow(added)], window.common)
        }
        Some(LimitsCommand::RemoveWindow { name, common }) => {
            (vec![ControlsChange::RemoveWindow { name }], common)
        }
    };
    let client = Client::connect(&common.connect).await?;
    for change in &changes {
        if let ControlsChange::Only { patterns } | ControlsChange::Avoid { patterns } = change {
            tell_unmatched(&client, patterns).await?;
        }
    }
    ask(&common, &client, changes).await
}

/// The reason why a node is withheld, as a sentence.
#[must_use]
pub(crate) fn why_withheld(
    controls: Option<&Controls>,
    state: &UseState,
    node: &NodeId,
) -> Option<String> {
    let by = state.why(node)?;
    let limit = state.limits.iter().find(|limit| limit.by == by);
    let until = limit.and_then(|limit| limit.until);
    let until = until.map_or_else(String::new, |until| format!(" until {}", iso_short(until)));
    let note = limit.map_or("", |limit| limit.note.as_str());
    Some(match by {
        WithheldBy::Drained => {
            let drain = controls.and_then(|controls| controls.drained.get(node));
            let mut text = format!("{node} is drained");
            if let Some(drain) = drain {
                text = format!("{text} by {} since {}", drain.by, iso_short(drain.since));
                if !drain.reason.is_empty() {
                    text = format!("{text}: {}", drain.reason);
                }
            }
            format!("{text} (`lacuna undrain {node}` lets it be used again)")
        }
        WithheldBy::List => format!("{node} is left out by the lists of `lacuna limits`"),
        WithheldBy::Paused => format!("{node} is not used: paused {note}{until}"),
        WithheldBy::Window => format!("{node} is not used: the window {note:?} holds{until}"),
        WithheldBy::Cap => format!(
            "{node} is not used: the cap of {} nodes is reached",
            state.at_most.unwrap_or(0)
        ),
        WithheldBy::Reserve => {
            format!("{node} stays free for batch jobs that must start at once (`lacuna limits`)")
        }
    })
}

#[cfg(test)]
mod tests;
