//! The last step before a program that runs under its owner's account. This process is still
//! root's: it becomes the owner's, and then the program.
//!
//! Until then the submitter's environment is data on the standard input. As the environment of a
//! process of root's it could name code (`LD_PRELOAD`).

use std::convert::Infallible;
use std::ffi::{CStr, OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Seek as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, Stdio};

use nix::sys::memfd::{MFdFlags, memfd_create};

use super::{LOCAL_RANK, NOT_STARTED, PROGRESS_FILE, Task};
use crate::descendants::complain;
use lacuna_owner::Account;

/// The first argument of the agent's program when it becomes an owner's program.
pub const OWNER: &str = "become-owner";
/// The agent's program. A path could be replaced while the agent runs.
const SELF: &str = "/proc/self/exe";
/// The name of the standard input in `/proc`.
const INPUT: &CStr = c"lacuna-task";

/// The command that becomes `program`. Its standard input is a file in memory, which no path names.
pub(super) fn command(program: &OsStr, task: &Task) -> io::Result<Command> {
    let mut input = File::from(memfd_create(INPUT, MFdFlags::MFD_CLOEXEC)?);
    input.write_all(&serde_json::to_vec(task)?)?;
    input.rewind()?;
    let mut command = Command::new(SELF);
    command.arg(OWNER).arg(program).stdin(input);
    Ok(command)
}

/// Becomes a program under its owner's account; `arguments` are those after [`OWNER`].
pub fn become_owner(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let Err(error) = become_program(arguments);
    complain(format_args!("{error}"));
    ExitCode::from(u8::try_from(NOT_STARTED).unwrap_or(u8::MAX))
}

fn become_program(mut arguments: impl Iterator<Item = OsString>) -> Result<Infallible, String> {
    let read: Task =
        serde_json::from_reader(io::stdin().lock()).map_err(|error| format!("no task: {error}"))?;
    let (Some(account), Some(program)) = (read.account, arguments.next()) else {
        return Err(format!(
            "{OWNER}: expected <program> <args>..., and an account"
        ));
    };
    let name = &account.name;
    let entered = account.enter();
    entered.map_err(|error| format!("cannot run a program under the account {name}: {error}"))?;
    if let Some(file) = read.environment.get(PROGRESS_FILE) {
        fs::metadata(file).map_err(|error| unreachable_file(&account, file, &error))?;
    }
    // Of several workers the first says it.
    let says = std::env::var_os(LOCAL_RANK).is_none_or(|rank| rank == "0");
    let refuse = |why: String| format!("cannot start {}: {why}", program.display());
    let folder = read.surroundings.folder(&account.home, says);
    let folder = folder.map_err(refuse)?;
    std::env::set_current_dir(&folder).map_err(|error| refuse(error.to_string()))?;
    let variables = read.surroundings.variables().map_err(refuse)?;
    let mut command = Command::new(&program);
    command
        .args(arguments)
        .envs(variables)
        .envs(&read.environment);
    let error = command.stdin(Stdio::null()).exec();
    Err(format!("cannot start {}: {error}", program.display()))
}

fn unreachable_file(account: &Account, file: &str, error: &io::Error) -> String {
    format!(
        "{} cannot reach {file}: {error}; users must be able to enter the folders above \
         agent.work_dir (chmod o+x)",
        account.name
    )
}
