//! The start and the end of a command line, for each program that has one.

use std::process::ExitCode;

use clap::FromArgMatches;
use clap::error::ErrorKind;

use crate::error::{CliError, Exit, Result};
use crate::output;

/// Parses the arguments of the process by `definition`, runs the command and reports an error in
/// the requested form. The exit codes are those of [`Exit`], and 2 for a wrong command line.
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

/// Runs a command on one thread, the main thread. The kernel ties the life of a child process to
/// the thread that started it, and the main thread lives as long as the process.
///
/// # Errors
/// The error of `command`, or the runtime cannot start.
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
    // clap sends help to standard output and errors to standard error.
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
        // Scripts of operators read the value, so its exit code is always the same.
        if let Err(unsaid) = output::print_json(&error.to_json()) {
            // The value cannot be written, so the error goes to standard error as well.
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

/// Visible commands whose help has no example, each with its parent. For tests.
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
