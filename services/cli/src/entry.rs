//! The start and the end of a command line, for each program that has one.

use std::process::ExitCode;

use clap::FromArgMatches;
use clap::error::{ContextKind, ContextValue, ErrorKind};

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
    let known: Vec<String> = definition
        .get_subcommands()
        .map(|c| c.get_name().to_owned())
        .collect();
    let parsed = definition
        .try_get_matches()
        .map_err(|error| with_nearest(error, &known))
        .and_then(|found| C::from_arg_matches(&found));
    match parsed.map(run) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(e)) => report(&name, &e, json),
        Err(e) => usage(&name, &e, json),
    }
}

/// Words for a command in other tools, with the commands here.
const FOREIGN: [(&[&str], &[&str]); 11] = [
    (&["status", "stat", "state"], &["trainers", "nodes", "top"]),
    (
        &[
            "ps", "queue", "squeue", "qstat", "jobs", "job", "list", "ls", "runs", "bjobs",
        ],
        &["trainers"],
    ),
    (
        &[
            "kill", "stop", "rm", "delete", "remove", "scancel", "qdel", "abort", "end",
        ],
        &["cancel"],
    ),
    (
        &[
            "run", "start", "launch", "sbatch", "srun", "qsub", "create", "train", "exec", "add",
        ],
        &["submit"],
    ),
    (
        &["log", "tail", "output", "attach", "cat", "stdout"],
        &["logs"],
    ),
    (
        &[
            "info", "describe", "show", "inspect", "why", "get", "detail", "details", "scontrol",
        ],
        &["explain"],
    ),
    (
        &["sinfo", "hosts", "machines", "pbsnodes", "bhosts"],
        &["nodes"],
    ),
    (&["htop", "monitor", "dashboard", "live"], &["top"]),
    (
        &["init", "serve", "server", "setup", "deploy"],
        &["up", "demo"],
    ),
    (&["simulate", "sim"], &["replay"]),
    (&["hold", "suspend", "freeze"], &["pause"]),
];

/// An error that names the right commands for one that is not known: those for a word of another
/// tool, or those that differ by little.
fn with_nearest(mut error: clap::Error, known: &[String]) -> clap::Error {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    let typed = typed.to_ascii_lowercase();
    let foreign = FOREIGN
        .iter()
        .find(|(words, _)| words.contains(&typed.as_str()));
    let mut near: Vec<String> = match foreign {
        Some((_, commands)) => commands.iter().map(ToString::to_string).collect(),
        None => {
            let steps = |name: &String| strsim::damerau_levenshtein(name, &typed);
            let least = known.iter().map(steps).min().unwrap_or(usize::MAX);
            let is_near = |name: &&String| steps(name) == least && least <= 1 + name.len() / 4;
            known.iter().filter(is_near).cloned().collect()
        }
    };
    near.retain(|name| known.contains(name));
    if near.is_empty() {
        error.remove(ContextKind::SuggestedSubcommand);
    } else {
        error.insert(
            ContextKind::SuggestedSubcommand,
            ContextValue::Strings(near),
        );
    }
    error
}

/// Runs a command on one thread, the main thread. The kernel ties the life of a child process to
/// the thread that started it, and the main thread lives as long as the process.
///
/// # Errors
/// The error of `command`, or the runtime cannot start.
pub fn wait_for<T>(command: impl Future<Output = Result<T>>) -> Result<T> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_is_not_known_names_the_right_one() {
        let known = [
            "submit", "trainers", "nodes", "top", "cancel", "logs", "explain", "up",
        ];
        let command = || {
            let subs = known
                .into_iter()
                .chain(["pause", "stalls"])
                .map(clap::Command::new);
            clap::Command::new("lacuna")
                .subcommand_required(true)
                .subcommands(subs)
        };
        let names: Vec<String> = command()
            .get_subcommands()
            .map(|c| c.get_name().to_owned())
            .collect();
        let suggested = |typed: &str| {
            let error = command()
                .try_get_matches_from(["lacuna", typed])
                .unwrap_err();
            match with_nearest(error, &names).get(ContextKind::SuggestedSubcommand) {
                Some(ContextValue::Strings(near)) => near.join(" "),
                _ => String::new(),
            }
        };
        for (typed, right) in [
            ("status", "trainers nodes top"),
            ("trainer", "trainers"),
            ("ps", "trainers"),
            ("queue", "trainers"),
            ("jobs", "trainers"),
            ("kill", "cancel"),
            ("run", "submit"),
            ("sumbit", "submit"),
            ("log", "logs"),
            ("node", "nodes"),
            ("simulate", ""),
            ("xyzzy", ""),
        ] {
            assert_eq!(suggested(typed), right, "{typed}");
        }
    }
}
