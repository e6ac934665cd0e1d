//! Runs the commands of a table.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use lacuna_cli::error::{CliError, Result};
use lacuna_cli::up::sibling;
use lacuna_runtime::clock::Stopwatch;

use super::entry::Entry;

/// The result of a table's commands.
#[derive(Debug, PartialEq)]
pub(super) struct Made {
    /// Their output, as Markdown.
    pub(super) text: String,
    /// Their duration, seconds.
    pub(super) took_s: f64,
    /// The commands that ended with 1; their output names what is missed.
    pub(super) fell_short: Vec<&'static str>,
}

/// Runs the commands of a table one after the other, with recorded data in a folder. Twice a second
/// `tick` gets the seconds since the start.
///
/// # Errors
/// A command cannot be started, or ends without a table.
pub(super) fn make(table: &Entry, data: &Path, tick: &dyn Fn(f64)) -> Result<Made> {
    // Without its log each replay fails, and the output would be a table of failures.
    if let Some(file) = table.lacks(data) {
        return Err(CliError::failed(format!("there is no {}", file.display()))
            .remedy("give the folder of recorded data, by LACUNA_DATA or --data"));
    }
    let watch = Stopwatch::start();
    let mut made = Made {
        text: String::new(),
        took_s: 0.0,
        fell_short: Vec::new(),
    };
    for command in table.commands {
        let output = run(&Entry::arguments(command, data), data, &|| {
            tick(watch.seconds());
        })?;
        let said = String::from_utf8_lossy(&output.stdout);
        // A command prints its table in any case; exit code 1 means a failed row.
        if said.trim().is_empty() || !matches!(output.status.code(), Some(0 | 1)) {
            let errors = String::from_utf8_lossy(&output.stderr);
            let why = errors.lines().find(|line| !line.trim().is_empty());
            return Err(CliError::failed(format!(
                "{command}: {} ({})",
                why.unwrap_or("it printed nothing"),
                output.status
            )));
        }
        if !output.status.success() {
            made.fell_short.push(command);
        }
        if table.commands.len() > 1 {
            made.text.push_str(&format!("`{command}`:\n\n"));
        }
        made.text.push_str(&markdown(&said));
        made.text.push('\n');
    }
    made.took_s = watch.seconds();
    Ok(made)
}

/// Runs this program with these arguments; the child ends when this process does.
fn run(arguments: &[String], data: &Path, tick: &dyn Fn()) -> Result<Output> {
    let failed = |doing: &str, e: &dyn std::fmt::Display| {
        CliError::failed(format!("cannot {doing} this program: {e}"))
    };
    let own = std::env::current_exe().map_err(|e| failed("find", &e))?;
    let child = Command::new(sibling("lacuna")?)
        .arg("child-of")
        .arg(std::process::id().to_string())
        .arg("--")
        .arg(own)
        .args(arguments)
        .env("LACUNA_DATA", data)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| failed("start", &e))?;
    // The kernel ends a child with the thread that started it, so another thread waits for it.
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    loop {
        match receiver.recv_timeout(Duration::from_millis(500)) {
            Ok(output) => return output.map_err(|e| failed("wait for", &e)),
            Err(RecvTimeoutError::Timeout) => tick(),
            Err(e @ RecvTimeoutError::Disconnected) => return Err(failed("wait for", &e)),
        }
    }
}

/// The output of a command as text below a heading of level two: Markdown with its headings
/// lowered, other text unchanged.
fn markdown(said: &str) -> String {
    let said = said.trim_end();
    if !said.starts_with('#') {
        return format!("```text\n{said}\n```\n");
    }
    let mut text = String::new();
    for line in said.lines() {
        if line.starts_with('#') {
            text.push_str("##");
        }
        text.push_str(line);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_of_output_are_lowered() {
        let table = "# Title\n\n## Part\n\n| a |\n|---|\n| # |\n\n";
        assert_eq!(
            markdown(table),
            "### Title\n\n#### Part\n\n| a |\n|---|\n| # |\n"
        );
        assert_eq!(markdown("A  B\n1  2\n"), "```text\nA  B\n1  2\n```\n");
    }
}
