//! Runs the rows, each in a process of its own, several at a time.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;

use serde_json::Value;

use lacuna_cli::error::{CliError, Result};
use lacuna_cli::output::progress_bar;
use lacuna_cli::up::sibling;

use super::kept::Kept;
use super::row::{Done, Outcome, Row};

/// The parameters of the runs.
pub struct Runner {
    /// The program: `lacuna`.
    pub program: OsString,
    /// The number of processes at a time.
    pub jobs: usize,
    /// The seeds of each row.
    pub seeds: Vec<u64>,
    /// Where outputs are kept and found again.
    pub kept: Option<Kept>,
}

impl Runner {
    /// Runs all rows with all seeds, with a progress bar on a terminal unless `hidden`.
    ///
    /// # Errors
    /// As `run`.
    pub fn run_with_bar(&self, rows: Vec<Row>, hidden: bool) -> Result<Vec<Done>> {
        let bar = progress_bar(hidden, 0, "{wide_bar} {pos}/{len} runs, {elapsed}");
        let done = self.run(rows, &mut |ended, all| {
            bar.set_length(all as u64);
            bar.set_position(ended as u64);
        })?;
        bar.finish_and_clear();
        Ok(done)
    }

    /// Runs all rows with all seeds. After each run it calls `each` with the number of finished
    /// runs and the number of all runs. Rows of the same command are run once.
    ///
    /// # Errors
    /// The end of a process could not be awaited.
    fn run(&self, rows: Vec<Row>, each: &mut dyn FnMut(usize, usize)) -> Result<Vec<Done>> {
        let mut commands: Vec<Vec<String>> = Vec::new();
        for row in &rows {
            for command in self.of_seeds(row) {
                if !commands.contains(&command) {
                    commands.push(command);
                }
            }
        }
        let runs = self.commands(&commands, each)?;
        let of = |row: &Row| {
            let mut outputs = Vec::new();
            for wanted in self.of_seeds(row) {
                let known = commands.iter().zip(&runs);
                let run = known
                    .filter(|(command, _)| **command == wanted)
                    .find_map(|(_, run)| run.clone());
                match run {
                    Some(Ok(output)) => outputs.push(output),
                    Some(Err(why)) => return Outcome::Failed(why),
                    None => return Outcome::Failed("it was not run".to_owned()),
                }
            }
            Outcome::Done(outputs)
        };
        Ok(rows
            .into_iter()
            .map(|row| Done {
                outcome: of(&row),
                row,
            })
            .collect())
    }

    /// The commands of a row, one for each seed.
    fn of_seeds(&self, row: &Row) -> Vec<Vec<String>> {
        let with = |seed: &u64| {
            let mut command = row.command.clone();
            command.extend(["--seed".to_owned(), seed.to_string()]);
            command
        };
        if row.seeded {
            self.seeds.iter().map(with).collect()
        } else {
            vec![row.command.clone()]
        }
    }

    fn commands(
        &self,
        commands: &[Vec<String>],
        each: &mut dyn FnMut(usize, usize),
    ) -> Result<Vec<Option<Run>>> {
        let kept = |command: &Vec<String>| self.kept.as_ref()?.output(command).cloned().map(Ok);
        let mut outcomes: Vec<Option<Run>> = commands.iter().map(kept).collect();
        let left = (0..)
            .zip(&outcomes)
            .filter(|(_, outcome)| outcome.is_none());
        let mut waiting: VecDeque<usize> = left.map(|(at, _)| at).collect();
        let (sender, receiver) = mpsc::channel();
        let mut running = 0;
        let mut ended = commands.len() - waiting.len();
        each(ended, commands.len());
        while ended < commands.len() {
            while running < self.jobs.max(1)
                && let Some(at) = waiting.pop_front()
            {
                let command = commands.get(at).map_or(&[][..], Vec::as_slice);
                // This thread starts the child, since the kernel ends a child with the thread that
                // started it. Another thread waits for it and reads its output.
                match self.command(command).spawn() {
                    Ok(child) => {
                        let sender = sender.clone();
                        running += 1;
                        std::thread::spawn(move || sender.send((at, child.wait_with_output())));
                    }
                    Err(error) => {
                        let why = format!("cannot start a process: {error}");
                        set(&mut outcomes, at, Err(why));
                        ended += 1;
                    }
                }
            }
            if running == 0 {
                continue;
            }
            let (at, output) = receiver
                .recv()
                .map_err(|e| CliError::failed(format!("cannot wait for a process: {e}")))?;
            running -= 1;
            ended += 1;
            let outcome = match output {
                Ok(output) => outcome(&output),
                Err(error) => Err(format!("cannot wait for a process: {error}")),
            };
            if let (Some(kept), Ok(output), Some(command)) =
                (&self.kept, &outcome, commands.get(at))
            {
                kept.keep(command, output)?;
            }
            set(&mut outcomes, at, outcome);
            each(ended, commands.len());
        }
        Ok(outcomes)
    }

    /// The process of a row, which ends when this one does.
    fn command(&self, arguments: &[String]) -> Command {
        // A replay of an experiment is this command's; other rows are `lacuna`'s.
        let replays = arguments.first().is_some_and(|word| word == "replay");
        let of_lab = replays.then(|| Path::new(&self.program).with_file_name("lacuna-lab"));
        let mut command = Command::new(&self.program);
        command
            .arg("child-of")
            .arg(std::process::id().to_string())
            .arg("--")
            .arg(of_lab.map_or_else(|| self.program.clone(), PathBuf::into_os_string))
            .args(arguments)
            .arg("--json");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}

/// The result of a process: its output, or the reason of its failure.
type Run = std::result::Result<Value, String>;

fn set(runs: &mut [Option<Run>], at: usize, run: Run) {
    if let Some(place) = runs.get_mut(at) {
        *place = Some(run);
    }
}

/// The result of a process: the JSON value of its output, or its error message.
fn outcome(output: &Output) -> Run {
    let value: Option<Value> = serde_json::from_slice(&output.stdout).ok();
    match value {
        Some(value) if output.status.success() => {
            if value.get("unfinished") == Some(&Value::Bool(true))
                && value.pointer("/settings/endless") == Some(&Value::Bool(false))
            {
                return Err("the trace ended before the trainers did".to_owned());
            }
            Ok(value)
        }
        value => {
            let said = value
                .as_ref()
                .and_then(|value| value.pointer("/error/message"))
                .and_then(Value::as_str)
                .map(str::to_owned);
            let errors = String::from_utf8_lossy(&output.stderr);
            let last = errors.lines().rfind(|line| !line.trim().is_empty());
            let why = said.or_else(|| last.map(|line| line.trim().to_owned()));
            // The first line is the error; the following lines are advice.
            let why = why.as_deref().and_then(|why| why.lines().next());
            let why = why.unwrap_or("it printed nothing");
            Err(format!("{why} ({})", output.status))
        }
    }
}

/// The path of `lacuna`, the program of the rows.
///
/// # Errors
/// It is neither beside this program nor in `PATH`.
pub fn program() -> Result<OsString> {
    sibling("lacuna").map(PathBuf::into_os_string)
}

/// The default number of rows at a time: the cores of this machine.
#[must_use]
pub fn default_jobs() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// `count` seeds from `first` on.
#[must_use]
pub fn seeds(first: u64, count: u16) -> Vec<u64> {
    let seeds = (0..u64::from(count)).map(|more| first.saturating_add(more));
    seeds.collect()
}

/// The note on the seeds of a table.
#[must_use]
pub fn seeds_note(seeds: &[u64]) -> String {
    match seeds {
        [first, .., last] => format!(
            "Figures are medians of {} runs, with the seeds {first} to {last}; the least and the largest \
             are shown with the seeds.",
            seeds.len()
        ),
        _ => format!("Seed {}.", seeds.first().copied().unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(command: &[&str]) -> Row {
        Row {
            label: command.join(" "),
            command: command.iter().map(|word| (*word).to_owned()).collect(),
            seeded: false,
        }
    }

    /// `sh -c SCRIPT sh child-of PID -- ...` runs a script in place of the program.
    fn said(script: &str) -> Run {
        let output = Command::new("sh").args(["-c", script]).output().unwrap();
        outcome(&output)
    }

    #[test]
    fn output_counts_only_if_the_process_succeeded() {
        assert_eq!(
            said("echo '{\"hours\": 3}'"),
            Ok(serde_json::json!({ "hours": 3 }))
        );
        let failed = |script: &str| said(script).unwrap_err();
        let why = failed("echo '{\"error\": {\"message\": \"no such file\"}}'; exit 1");
        assert!(
            why.starts_with("no such file") && why.contains('1'),
            "{why}"
        );
        assert!(failed("echo noise >&2; exit 2").starts_with("noise"));
        assert!(failed("kill -9 $$").contains("signal"));
        let unfinished = "{\"unfinished\": true, \"settings\": {\"endless\": false}}";
        let why = failed(&format!("echo '{unfinished}'"));
        assert!(why.contains("ended before the trainers"), "{why}");
    }

    #[test]
    fn a_command_of_two_rows_is_run_once() {
        let runner = Runner {
            program: "/nonexistent/lacuna".into(),
            jobs: 2,
            seeds: vec![1, 2],
            kept: None,
        };
        let mut calls = Vec::new();
        let seeded = Row {
            seeded: true,
            ..row(&["b"])
        };
        let rows = vec![row(&["a"]), seeded, row(&["a"])];
        let done = runner
            .run(rows, &mut |ended, all| calls.push((ended, all)))
            .unwrap();
        assert_eq!(done.len(), 3);
        assert_eq!(calls.first(), Some(&(0, 3)));
        for done in done {
            assert!(done.failure().unwrap().contains("cannot start"), "{done:?}");
        }
    }
}
