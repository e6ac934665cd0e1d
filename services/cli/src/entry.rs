//! How a command line begins and ends, for every program that has one.

use std::process::ExitCode;

use clap::FromArgMatches;
use clap::error::ErrorKind;

use crate::error::{CliError, Exit, Result};
use crate::output;

/// Parses the process's arguments as `definition` says, runs the command, reports an error in the
/// form that was asked for. The exit codes are those of [`Exit`], and 2 if the command line is wrong.
#[must_use]
pub fn main<C: FromArgMatches>(
    definition: clap::Command,
    run: impl FnOnce(C) -> Result<()>,
) -> ExitCode {
    let json = std::env::args_os()
        .skip(1)
        .take_while(|a| a != "--")
        .any(|a| a == "--json");
    let name = definition.get_name().to_owned();
    let parsed = definition
        .try_get_matches()
        .and_then(|found| C::from_arg_matches(&found));
    match parsed.map(run) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(e)) => report(&name, &e, json),
        Err(e) => usage(&name, &e, json),
    }
}

/// One thread for all that waits. It is the main thread: the kernel ties a child's life to
/// the thread that started it, and this one lives as long as the process.
///
/// # Errors
/// What `command` says, or that the runtime cannot start.
pub fn wait_for(command: impl Future<Output = Result<()>>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| CliError::failed(format!("cannot start: {e}")))?;
    runtime.block_on(command)
}

fn usage(name: &str, error: &clap::Error, json: bool) -> ExitCode {
    let asked = matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    );
    if json && !asked {
        let text = error.render().to_string();
        return report(name, &CliError::failed(text.trim_end()), true);
    }
    // Help goes to standard output, mistakes to standard error; clap knows which.
    let _ = error.print();
    if asked {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(2)
    }
}

fn report(name: &str, error: &CliError, json: bool) -> ExitCode {
    if error.message.is_empty() {
        return error.exit.into();
    }
    if json {
        // Operators' scripts look at the value, so the code is always the same.
        if let Err(unsaid) = output::print_json(&error.to_json()) {
            // Nobody can read the value, so people are told in the other place.
            eprintln!("{name}: {error}");
            if unsaid.message != error.message {
                eprintln!("{name}: {unsaid}");
            }
        }
        return Exit::Failed.into();
    }
    eprintln!("{name}: {error}");
    error.exit.into()
}

/// Commands that are shown and whose help has no example, each with the one above it. For tests.
#[must_use]
pub fn without_examples(command: &clap::Command) -> Vec<String> {
    let mut lacking = Vec::new();
    for sub in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        if sub.has_subcommands() {
            lacking.extend(without_examples(sub));
            continue;
        }
        let help = sub.clone().render_long_help().to_string();
        if !help.contains("Example") {
            lacking.push(format!("{} {}", command.get_name(), sub.get_name()));
        }
    }
    lacking
}
