//! One solve in a process of its own.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, Command};

use lacuna_cli::error::{CliError, Result};
use lacuna_cli::up::sibling;
use lacuna_planner::instance::Size;
use lacuna_runtime::clock::Stopwatch;

use super::{Row, SolveBenchArgs};
use crate::solve::{Solved, Solver};

/// How long after its time limit a child is killed. HiGHS looks at its clock only now and then.
const GRACE: Duration = Duration::from_secs(10);

/// Starts `lacuna-lab solve` in a group of its own that ends when this process does.
fn start(args: &SolveBenchArgs, solver: Solver, problem: &Path) -> Result<Child> {
    let own = std::env::current_exe()
        .map_err(|e| CliError::failed(format!("cannot find this program: {e}")))?;
    let lacuna = sibling("lacuna")?;
    let repeat = match solver {
        Solver::Dp => args.repeat,
        Solver::Highs | Solver::NodeBinary => 1,
    };
    Command::new(lacuna)
        .args(["child-of", &std::process::id().to_string(), "--"])
        .arg(&own)
        .arg("solve")
        .arg(problem)
        .args(["--solver", solver.name()])
        .args(["--big-m", args.big_m.name()])
        .args(["--time-limit", &format!("{}ms", args.time_limit.as_ms())])
        .args(["--repeat", &repeat.to_string()])
        .arg("--json")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|e| CliError::failed(format!("cannot start a solve: {e}")))
}

/// Solves a saved instance. What becomes of the child is in the row: one that fails or must be
/// killed is a result, too.
pub(super) async fn solve(
    args: &SolveBenchArgs,
    size: Size,
    solver: Solver,
    problem: &Path,
) -> Result<Row> {
    let watch = Stopwatch::start();
    let mut child = start(args, solver, problem)?;
    let limit = Duration::from_secs_f64(args.time_limit.as_secs_f64()) + GRACE;
    let (out, errors) = (child.stdout.take(), child.stderr.take());
    let mut text = String::new();
    let mut complaint = String::new();
    let talk = async {
        // Both pipes are emptied, so that the child never waits for this process.
        let out = async {
            match out {
                Some(mut out) => out.read_to_string(&mut text).await.map(drop),
                None => Ok(()),
            }
        };
        let errors = async {
            match errors {
                Some(mut errors) => errors.read_to_string(&mut complaint).await.map(drop),
                None => Ok(()),
            }
        };
        tokio::try_join!(out, errors)?;
        child.wait().await
    };
    let ended = tokio::time::timeout(limit, talk).await;
    let mut row = Row {
        instance: size.to_string(),
        solver: solver.name(),
        seconds: watch.seconds(),
        objective: None,
        gap: None,
        status: "failed".to_owned(),
    };
    match ended {
        Err(_late) => {
            kill(&mut child).await;
            row.seconds = watch.seconds();
            row.status = "killed".to_owned();
        }
        Ok(Err(e)) => return Err(CliError::failed(format!("cannot wait for a solve: {e}"))),
        // It says how it ended, whatever its exit code.
        Ok(Ok(status)) => match serde_json::from_str::<Solved>(&text) {
            Ok(solved) => {
                row.seconds = solved.seconds;
                row.objective = solved.objective;
                row.gap = solved.gap;
                row.status = solved.status;
            }
            Err(_) => eprintln!(
                "lacuna-lab: {size} {}: the solve ended with {status} and no result: {}{}",
                solver.name(),
                text.trim(),
                complaint.trim()
            ),
        },
    }
    Ok(row)
}

/// Ends the child and whatever it started.
async fn kill(child: &mut Child) {
    let group = child.id().and_then(|id| i32::try_from(id).ok());
    if let Some(group) = group {
        // The group may have ended by itself just now.
        let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
    }
    let _ = child.kill().await;
}
