//! `lacuna child-of PID -- PROGRAM`: becomes PROGRAM, which ends when process PID does.
//!
//! The kernel sends SIGTERM to this process when its parent ends, however it ends; the request
//! survives `exec`. A killed `lacuna up` therefore leaves no process behind, and the services need
//! no code for it.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use clap::Args;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getppid};

use crate::error::{CliError, Exit, Result};

/// Arguments of the hidden command.
#[derive(Debug, Args)]
pub(crate) struct ChildOfArgs {
    /// Process id of the parent that must be alive.
    parent: i32,
    /// The program and its arguments.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Replaces this process by the program; returns only on failure.
///
/// # Errors
/// The parent has ended already, or the program cannot be started.
pub(crate) fn run(args: &ChildOfArgs) -> Result<()> {
    nix::sys::prctl::set_pdeathsig(Signal::SIGTERM)
        .map_err(|e| CliError::failed(format!("cannot tie this process to its parent: {e}")))?;
    // If the parent ended before the request was made, the signal never comes.
    if getppid() != Pid::from_raw(args.parent) {
        return Err(CliError::failed("the parent has ended"));
    }
    let Some((program, rest)) = args.command.split_first() else {
        return Err(CliError::failed("no program given"));
    };
    let error = Command::new(program).args(rest).exec();
    Err(CliError::new(
        "L0005",
        Exit::Failed,
        format!("cannot start {}: {error}", program.to_string_lossy()),
    ))
}
