//! `lacuna help` and `lacuna completions`.

use clap::{Arg, ArgAction, Args, Command};
use clap_complete::Shell;

use crate::codes;
use crate::commands::complete::with_names;
use crate::error::{CliError, Result};
use crate::output;

/// Commands by group of users, in the order in which help shows them.
const GROUPS: [(&str, &[&str]); 5] = [
    ("To begin", &["up", "demo", "help", "completions"]),
    (
        "For researchers",
        &[
            "submit",
            "wait",
            "trainers",
            "explain",
            "stalls",
            "recommend",
            "logs",
            "renew",
            "cancel",
        ],
    ),
    (
        "For operators",
        &[
            "top", "nodes", "plan", "pause", "resume", "drain", "undrain", "limits", "pilots",
            "audit", "config", "keys",
        ],
    ),
    (
        "For planners of a centre",
        &[
            "replay", "holes", "forecast", "place", "observe", "report", "check",
        ],
    ),
    ("For external schedulers", &["events"]),
];

/// The text of the alert pages, split by headings of level two.
const RUNBOOKS: &str = include_str!("../../../../deploy/runbooks.md");

/// Arguments of `help`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna help
  lacuna help L0007
  lacuna help LacunaHarm             the page of an alert
  lacuna help events publish")]
pub(crate) struct HelpArgs {
    /// An error code, an alert, or a command
    topic: Vec<String>,
}

/// Arguments of `completions`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  source <(lacuna completions bash)                             a line for ~/.bashrc
  source <(lacuna completions zsh)                              a line for ~/.zshrc, after compinit
  lacuna completions fish > ~/.config/fish/completions/lacuna.fish
  lacuna completions bash > /etc/bash_completion.d/lacuna       for all users

In bash, zsh and fish, names of trainers and nodes are completed as well, where a command takes
them. The running cluster is asked for at most half a second; without an answer no name is
offered. The cluster is that of --nats, --cluster and the like on the line, else that of the
environment or of a running `lacuna up`. Ended trainers are offered only if no other name fits.
Write the script again after an upgrade.")]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Prints the page of a code, an alert or a command; without a topic, the list of pages.
///
/// # Errors
/// There is no such page.
pub(crate) fn help(args: &HelpArgs, mut command: Command) -> Result<()> {
    let Some(first) = args.topic.first() else {
        let mut text = command.render_long_help().to_string();
        text.push_str("\n\nPages:\n");
        for page in codes::pages() {
            text.push_str(&format!("  {}  {}\n", page.code, page.title));
        }
        text.push_str("\nAlerts:\n");
        for (name, _) in runbooks() {
            text.push_str(&format!("  {name}\n"));
        }
        return output::print(&text);
    };
    if let Some(page) = codes::page(first) {
        return output::print(&format!("{}: {}\n\n{}\n", page.code, page.title, page.text));
    }
    if let Some(page) = runbook(first) {
        return output::print(&page);
    }
    command.build();
    let mut at = &mut command;
    for name in &args.topic {
        at = at.find_subcommand_mut(name).ok_or_else(|| {
            CliError::failed(format!("there is no page {:?}", args.topic.join(" ")))
                .remedy("`lacuna help` lists commands, codes and alerts")
        })?;
    }
    output::print(&at.render_long_help().to_string())
}

/// The command with its subcommands grouped by user in the help.
pub(crate) fn grouped(command: Command) -> Command {
    let header = *command.get_styles().get_header();
    let names = GROUPS.iter().flat_map(|(_, names)| *names);
    let width = names.map(|name| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (title, names) in GROUPS {
        text.push_str(&format!("{header}{title}:{header:#}\n"));
        for sub in names
            .iter()
            .filter_map(|name| command.find_subcommand(name))
        {
            let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
            let aliases: Vec<&str> = sub.get_visible_aliases().collect();
            let alias = match aliases.as_slice() {
                [] => String::new(),
                some => format!(" [alias: {}]", some.join(", ")),
            };
            text.push_str(&format!("  {:width$}  {about}{alias}\n", sub.get_name()));
        }
        text.push('\n');
    }
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{text}{header}Options:{header:#}\n\
         {{options}}{{after-help}}"
    ))
}

/// The command with only these arguments in `--help`; `--help-all` shows the others too.
pub(crate) fn shortened(command: Command, usual: &[&str]) -> Command {
    let asking = |id: &'static str, what: &'static str| {
        // The heading of the arguments before this one must not apply to it.
        Arg::new(id).long(id).help(what).help_heading(None::<&str>)
    };
    let few = asking("help", "Print the usual switches").short('h');
    let all = asking("help-all", "Print every switch, with explanations");
    command
        .mut_args(|arg| {
            let hidden = !usual.contains(&arg.get_id().as_str());
            arg.hide_short_help(hidden)
        })
        .disable_help_flag(true)
        .arg(few.action(ArgAction::HelpShort))
        .arg(all.action(ArgAction::HelpLong))
}

/// The alerts with their pages.
fn runbooks() -> impl Iterator<Item = (&'static str, &'static str)> {
    // The text before the first heading is the introduction.
    let parts = RUNBOOKS.split("\n## ").skip(1);
    parts.filter_map(|part| part.split_once('\n'))
}

/// The page of an alert, whose letters may be upper or lower case.
fn runbook(alert: &str) -> Option<String> {
    let (name, text) = runbooks().find(|(name, _)| name.eq_ignore_ascii_case(alert))?;
    Some(format!("{name}\n\n{}\n", text.trim()))
}

/// Writes completions to standard output.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn completions(args: &CompletionsArgs, mut command: Command) -> Result<()> {
    let mut bytes = Vec::new();
    clap_complete::generate(args.shell, &mut command, "lacuna", &mut bytes);
    let script = with_names(args.shell, &String::from_utf8_lossy(&bytes));
    output::print(&script)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::definition;

    #[test]
    fn every_command_has_a_group() {
        let command = definition();
        let shown = command.get_subcommands().filter(|c| !c.is_hide_set());
        let mut shown: Vec<&str> = shown.map(Command::get_name).collect();
        let mut grouped: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .collect();
        shown.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, shown);
        let text = command.clone().render_long_help().to_string();
        assert!(text.contains("For operators:\n  top"), "{text}");
        assert!(text.contains("  submit       Queue trainers\n"), "{text}");
    }

    #[test]
    fn help_of_replay_fits_on_a_screen_and_help_all_shows_the_rest() {
        let command = definition();
        let replay = command.find_subcommand("replay").unwrap();
        let mut replay = replay.clone().term_width(100);
        let short = replay.render_help().to_string();
        let lines = short.lines().count();
        assert!((24..=40).contains(&lines), "{lines} lines: {short}");
        assert!(
            short.contains("--help-all") && !short.contains("--keep-idle"),
            "{short}"
        );
        for name in crate::replay::USUAL {
            let arg = replay.get_arguments().find(|arg| arg.get_id() == name);
            assert!(
                arg.is_some_and(|arg| !arg.is_hide_short_help_set()),
                "{name}"
            );
        }
        let long = replay.render_long_help().to_string();
        assert!(
            long.contains("--keep-idle") && long.contains("samples_left"),
            "{long}"
        );
        for (switch, kind) in [("--help", "usual"), ("-h", "usual"), ("--help-all", "rest")] {
            let asked = definition().try_get_matches_from(["lacuna", "replay", switch]);
            let said = asked.unwrap_err();
            assert_eq!(said.kind(), clap::error::ErrorKind::DisplayHelp);
            let rest = said.to_string().contains("--keep-idle");
            assert_eq!(rest, kind == "rest", "{switch}");
        }
    }

    #[test]
    fn a_replay_has_no_more_switches_than_a_user_can_read() {
        let command = definition();
        let replay = command.find_subcommand("replay").unwrap();
        let shown = replay.get_arguments().filter(|arg| {
            let asks = matches!(
                arg.get_action(),
                ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
            );
            !arg.is_positional() && !arg.is_hide_set() && !arg.is_hide_long_help_set() && !asks
        });
        let names: Vec<_> = shown.filter_map(Arg::get_long).collect();
        assert!(names.len() <= 25, "{} switches: {names:?}", names.len());
    }

    #[test]
    fn each_page_of_an_alert_ends_where_the_next_begins() {
        assert!(runbooks().count() > 20);
        let page = runbook("lacunaharm").unwrap();
        assert!(page.starts_with("LacunaHarm\n\n**Means:**"), "{page}");
        assert!(!page.contains("\n## "), "{page}");
        assert!(runbook("LacunaNothing").is_none());
    }
}
