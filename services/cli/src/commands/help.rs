//! `lacuna help` and `lacuna completions`.

use clap::Args;
use clap_complete::Shell;

use crate::args::definition;
use crate::codes;
use crate::error::{CliError, Result};
use crate::output;

/// The pages of alerts, by headings of the second order.
const RUNBOOKS: &str = include_str!("../../../../deploy/runbooks.md");

/// Arguments of `help`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna help
  lacuna help L0007
  lacuna help LacunaHarm             what an alert means and what to do
  lacuna help events publish")]
pub(crate) struct HelpArgs {
    /// An error code, an alert, or a command
    topic: Vec<String>,
}

/// Arguments of `completions`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  lacuna completions bash > /etc/bash_completion.d/lacuna")]
pub(crate) struct CompletionsArgs {
    /// For which shell
    shell: Shell,
}

/// Prints a page.
///
/// # Errors
/// There is no such page.
pub(crate) fn help(args: &HelpArgs) -> Result<()> {
    let mut command = definition();
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

/// Alerts with their pages.
fn runbooks() -> impl Iterator<Item = (&'static str, &'static str)> {
    // What stands before the first heading is the introduction.
    let parts = RUNBOOKS.split("\n## ").skip(1);
    parts.filter_map(|part| part.split_once('\n'))
}

/// The page of an alert, in any case of letters.
fn runbook(alert: &str) -> Option<String> {
    let (name, text) = runbooks().find(|(name, _)| name.eq_ignore_ascii_case(alert))?;
    Some(format!("{name}\n\n{}\n", text.trim()))
}

/// Writes completions to standard output.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<()> {
    let mut bytes = Vec::new();
    clap_complete::generate(args.shell, &mut definition(), "lacuna", &mut bytes);
    output::print(&String::from_utf8_lossy(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alerts_have_pages_that_end_where_the_next_begins() {
        assert!(runbooks().count() > 20);
        let page = runbook("lacunaharm").unwrap();
        assert!(page.starts_with("LacunaHarm\n\n**Means:**"), "{page}");
        assert!(!page.contains("\n## "), "{page}");
        assert!(runbook("LacunaNothing").is_none());
    }
}
