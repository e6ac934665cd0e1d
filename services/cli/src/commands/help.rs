//! `lacuna help` and `lacuna completions`.

use clap::Args;
use clap_complete::Shell;

use crate::args::definition;
use crate::codes;
use crate::error::{CliError, Result};
use crate::output;

/// Arguments of `help`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  lacuna help\n  lacuna help L0007\n  lacuna help events publish"
)]
pub(crate) struct HelpArgs {
    /// An error code, or a command
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
        for page in codes::PAGES {
            text.push_str(&format!("  {}  {}\n", page.code, page.title));
        }
        return output::print(&text);
    };
    if let Some(page) = codes::page(first) {
        return output::print(&format!("{}: {}\n\n{}\n", page.code, page.title, page.text));
    }
    command.build();
    let mut at = &mut command;
    for name in &args.topic {
        at = at.find_subcommand_mut(name).ok_or_else(|| {
            CliError::failed(format!("there is no page {:?}", args.topic.join(" ")))
                .remedy("`lacuna help` lists commands and codes")
        })?;
    }
    output::print(&at.render_long_help().to_string())
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
