//! `lacuna stalls`: where the time of an unchanged program's steps goes.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;

use lacuna_model::StepCosts;
use lacuna_stalls::{Steps, Trace, answer, in_words};

use crate::error::{CliError, Exit, Result, file_error};
use crate::output::{JsonArg, print, print_json};

/// What stands in front of the program: a module that Python imports at its start, and its package.
const MODULES: [(&str, &str); 4] = [
    (
        "sitecustomize.py",
        include_str!("../../../../libs/lacuna-py/src/lacuna/sitecustomize.py"),
    ),
    ("lacuna_stalls/__init__.py", ""),
    (
        "lacuna_stalls/moments.py",
        include_str!("../../../../libs/lacuna-py/src/lacuna/moments.py"),
    ),
    (
        "lacuna_stalls/outside.py",
        include_str!("../../../../libs/lacuna-py/src/lacuna/outside.py"),
    ),
];

/// Arguments of `stalls`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna stalls -- torchrun --nproc-per-node 4 train.py
  lacuna stalls --save node0.jsonl -- torchrun --nnodes 2 ... train.py   on each node
  lacuna stalls node0.jsonl node1.jsonl

The program is not changed and needs no package of Lacuna: PyTorch's DataLoader,
DistributedDataParallel and optimisers are timed in its processes for 200 steps (PyTorch 1.13 and
later). It trains on to its end; then come the step, what each cause costs, and what to change.")]
pub(crate) struct StallsArgs {
    /// Readings of earlier runs, the files of all nodes
    #[arg(value_name = "READINGS", required_unless_present = "command")]
    readings: Vec<PathBuf>,
    /// Keep the readings of this node as JSON lines
    #[arg(long, value_name = "FILE", requires = "command")]
    save: Option<PathBuf>,
    /// The program with its arguments
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "readings")]
    command: Vec<OsString>,
    #[command(flatten)]
    json: JsonArg,
}

/// Runs `stalls`.
///
/// # Errors
/// `L0011` if a file cannot be read or written; the program does not start, fails, or has trained no
/// step; its steps cannot be replayed.
pub(crate) fn run(args: &StallsArgs) -> Result<()> {
    let (traces, failed) = match args.command.split_first() {
        Some((program, arguments)) => trained(args, program, arguments)?,
        None => (read(&args.readings)?, None),
    };
    // Without the other nodes' readings there is nothing to say.
    let whole = traces.iter().map(|trace| trace.ranks.len()).sum::<usize>();
    let members = traces.first().map_or(0, |trace| trace.members);
    let is_part = usize::try_from(members).is_ok_and(|members| whole < members);
    if args.save.is_none() || !is_part {
        match (said(traces), &failed) {
            (Ok(found), _) if args.json.json => print_json(&found)?,
            (Ok(found), _) => print(&in_words(&found))?,
            (Err(_), Some(_)) => {}
            (Err(error), None) => return Err(error),
        }
    }
    failed.map_or(Ok(()), Err)
}

fn said(traces: Vec<Trace>) -> Result<StepCosts> {
    Trace::joined(traces)
        .and_then(|trace| Steps::read(&trace))
        .and_then(|steps| answer(&steps))
        .map_err(refused)
}

/// The readings of one run.
pub(crate) fn readings(files: &[PathBuf]) -> Result<Trace> {
    Trace::joined(read(files)?).map_err(refused)
}

/// Why readings give no answer.
pub(crate) fn refused(error: lacuna_stalls::Error) -> CliError {
    match error {
        lacuna_stalls::Error::Empty => CliError::new(
            "L0011",
            Exit::Failed,
            "the program has timed no step: it needs 14 steps of a torch.optim optimiser, or more",
        )
        .remedy("a program in a container or on other nodes needs `lacuna stalls` there"),
        lacuna_stalls::Error::Silent { ranks } => CliError::new(
            "L0011",
            Exit::Failed,
            format!("the readings of members {ranks:?} are missing"),
        )
        .remedy("give the files of all nodes: `lacuna stalls FILE...`"),
        other => CliError::new("L0011", Exit::Failed, other.to_string()),
    }
}

fn read(files: &[PathBuf]) -> Result<Vec<Trace>> {
    let mut traces = Vec::new();
    for path in files {
        let text = fs::read_to_string(path).map_err(|e| file_error("read", path, &e))?;
        for (line, text) in text.lines().enumerate() {
            traces.push(serde_json::from_str(text).map_err(|e| {
                let place = format!("{}, line {}", path.display(), line + 1);
                CliError::new("L0011", Exit::Failed, format!("{place}: {e}"))
            })?);
        }
    }
    Ok(traces)
}

/// Runs the program to its end. Returns its readings, and how it failed.
fn trained(
    args: &StallsArgs,
    program: &OsString,
    arguments: &[OsString],
) -> Result<(Vec<Trace>, Option<CliError>)> {
    let made = tempfile::Builder::new().prefix("lacuna-stalls-").tempdir();
    let folder = made.map_err(|e| CliError::failed(format!("cannot make a folder: {e}")))?;
    let into = folder.path().join("readings");
    for new in [&folder.path().join("lacuna_stalls"), &into] {
        fs::create_dir(new).map_err(|e| file_error("make", new, &e))?;
    }
    for (name, text) in MODULES {
        write(&folder.path().join(name), text)?;
    }
    let mut path = folder.path().as_os_str().to_owned();
    if let Some(before) = std::env::var_os("PYTHONPATH") {
        path.push(":");
        path.push(before);
    }
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("PYTHONPATH", path)
        .env("LACUNA_STALLS_INTO", &into);
    if args.json.json {
        // The answer is the one value on standard output.
        command.stdout(Stdio::from(std::io::stderr()));
    }
    let name = program.to_string_lossy();
    let status = command
        .status()
        .map_err(|e| CliError::failed(format!("cannot start {name}: {e}")))?;
    let failed = (!status.success())
        .then(|| CliError::failed(format!("{name} has failed ({status}): see what it printed")));
    let listed = fs::read_dir(&into).map_err(|e| file_error("read", &into, &e))?;
    let mut files: Vec<_> = listed
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .collect();
    files.sort();
    let traces = read(&files)?;
    if let Some(save) = &args.save {
        let texts: std::io::Result<Vec<_>> = files.iter().map(fs::read_to_string).collect();
        let texts = texts.map_err(|e| file_error("read", &into, &e))?;
        write(save, &texts.concat())?;
    }
    Ok((traces, failed))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|e| file_error("write", path, &e))
}
