//! Commands of the scheduler under an owner's account. `setpriv` (util-linux) switches, and `timeout`
//! (coreutils) ends what takes too long: both are on every machine, and no line of theirs is ours.

use std::io::Write as _;
use std::process::{Command, Stdio};

use lacuna_owner::Account;
use lacuna_scheduler::submit::{CommandLine, CommandOutput, RunError};

use crate::config::Settings;

/// Exit code of `timeout` after the time.
const LATE: i32 = 124;

/// Runs a command under an account, with the environment of the settings alone.
pub(crate) fn run(
    line: &CommandLine,
    account: &Account,
    settings: &Settings,
) -> Result<CommandOutput, RunError> {
    let not_run = |error: std::io::Error| RunError::NotRun {
        program: line.program.clone(),
        reason: error.to_string(),
    };
    let seconds = settings.patience.as_secs_f64().max(1.0);
    let mut command = Command::new("timeout");
    command
        .arg("--kill-after=5")
        .arg(seconds.to_string())
        .arg("setpriv")
        .arg(format!("--reuid={}", account.uid))
        .arg(format!("--regid={}", account.gid))
        .args(["--init-groups", "--", &line.program])
        .args(&line.args)
        .env_clear()
        .envs(&settings.environment)
        .env("HOME", &account.home)
        .env("USER", &account.name)
        .env("LOGNAME", &account.name)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(not_run)?;
    if let (Some(mut input), Some(text)) = (child.stdin.take(), &line.stdin) {
        // A command that does not read its input fails by itself.
        let _ = input.write_all(text.as_bytes());
    }
    let ended = child.wait_with_output().map_err(not_run)?;
    if ended.status.code() == Some(LATE) {
        return Err(RunError::Late {
            program: line.program.clone(),
            limit: settings.patience,
        });
    }
    Ok(CommandOutput {
        code: ended.status.code(),
        stdout: String::from_utf8_lossy(&ended.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&ended.stderr).into_owned(),
    })
}
