//! One solve in a child process.

use std::path::Path;

use tokio::process::Command;

use lacuna_cli::error::{CliError, Result};
use lacuna_cli::up::sibling;
use lacuna_model::Span;
use lacuna_planner::instance::Size;
use lacuna_runtime::clock::Stopwatch;
use lacuna_runtime::command::{self, Bounds, CommandError};

use super::{Row, SolveBenchArgs};
use crate::solve::{Solved, Solver};

/// The time after its limit at which a child is killed. HiGHS reads its clock only rarely.
const GRACE: Span = Span::from_secs(10);
/// The largest accepted solution, bytes.
const MOST: usize = 64 << 20;

/// The command `lacuna-lab solve`, whose process ends when this one does.
fn solve_command(args: &SolveBenchArgs, solver: Solver, problem: &Path) -> Result<Command> {
    let own = std::env::current_exe()
        .map_err(|e| CliError::failed(format!("cannot find this program: {e}")))?;
    let repeat = match solver {
        Solver::Dp => args.repeat,
        Solver::Highs => 1,
    };
    let mut command = Command::new(sibling("lacuna")?);
    command
        .args(["child-of", &std::process::id().to_string(), "--"])
        .arg(&own)
        .arg("solve")
        .arg(problem)
        .args(["--solver", solver.name()])
        .args(["--time-limit", &format!("{}ms", args.time_limit.as_ms())])
        .args(["--repeat", &repeat.to_string()])
        .arg("--json");
    Ok(command)
}

/// Solves a saved instance. The end of the child is in the row: a failed or killed child is a
/// result as well.
pub(super) async fn solve(
    args: &SolveBenchArgs,
    size: Size,
    solver: Solver,
    problem: &Path,
) -> Result<Row> {
    let watch = Stopwatch::start();
    let bounds = Bounds {
        time: args.time_limit + GRACE,
        stdout: MOST,
    };
    let ended = command::run(solve_command(args, solver, problem)?, None, bounds).await;
    let mut row = Row {
        instance: size.to_string(),
        solver: solver.name(),
        seconds: watch.seconds(),
        objective: None,
        gap: None,
        status: "failed".to_owned(),
    };
    let ended = match ended {
        Ok(ended) => ended,
        Err(CommandError::Late { .. }) => {
            row.status = "killed".to_owned();
            return Ok(row);
        }
        Err(error) => return Err(CliError::failed(format!("cannot run a solve: {error}"))),
    };
    // The output names its end, whatever its exit code.
    match serde_json::from_str::<Solved>(&ended.stdout) {
        Ok(solved) => {
            row.seconds = solved.seconds;
            row.objective = solved.objective;
            row.gap = solved.gap;
            row.status = solved.status;
        }
        Err(_) => eprintln!(
            "lacuna-lab: {size} {}: the solve ended with {} and no result: {}{}",
            solver.name(),
            ended.status,
            ended.stdout.trim(),
            ended.stderr.trim()
        ),
    }
    Ok(row)
}
