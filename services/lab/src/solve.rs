//! `lacuna-lab solve`: solves one saved allocation problem with the chosen solver.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use lacuna_cli::error::{CliError, Exit, Result, file_error};
use lacuna_cli::output::{self, JsonArg, parse_span, short};
use lacuna_cli::table::{Side, key_values, render};
use lacuna_model::{Outcome, Span};
use lacuna_planner::file::{self, Saved};
use lacuna_planner::milp::{self, MilpOptions};
use lacuna_planner::{Problem, Sizes, dp};
use lacuna_runtime::clock::Stopwatch;

/// Arguments of `solve`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna-lab solve problem.json
  lacuna-lab solve problem.json --solver highs --gap 0.001 --time-limit 10s
  lacuna-lab solve problem.json --solver highs --json

`lacuna-lab replay --save-problem` saves a problem. dp is exact; highs stops at the gap, the nodes or
the time that it is given. The exit code is 1 if there is no answer.")]
pub(crate) struct SolveArgs {
    /// The problem (JSON)
    problem: PathBuf,
    /// The solver
    #[arg(long, value_enum, default_value_t = Solver::Dp)]
    solver: Solver,
    /// Time limit for highs
    #[arg(long, value_name = "SPAN", default_value = "30s", value_parser = parse_span)]
    time_limit: Span,
    /// The most nodes of branch and bound for highs [default: no limit]. The
    /// planner uses 1000, so that its answers do not depend on the machine
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    tree_nodes: Option<u32>,
    /// Relative gap at which highs may stop; 0 asks for proof
    #[arg(long, default_value_t = 0.0, value_parser = parse_gap)]
    gap: f64,
    /// Number of solves from scratch; the time is their median
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    repeat: u32,
    #[command(flatten)]
    json: JsonArg,
}

/// A solver of the allocation problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Solver {
    /// The exact dynamic program
    Dp,
    /// HiGHS over node counts, without short cuts
    Highs,
}

impl Solver {
    /// Its name on the command line.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Dp => "dp",
            Self::Highs => "highs",
        }
    }
}

/// One trainer whose size changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Change {
    trainer: usize,
    name: String,
    before: u32,
    after: u32,
    cost: f64,
}

/// The result of a solve; `--json` prints it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Solved {
    /// The solver.
    pub(crate) solver: Solver,
    /// `optimal`, `feasible`, `no-incumbent`, `infeasible` or `failed`.
    pub(crate) status: String,
    /// Objective, if there is an answer.
    pub(crate) objective: Option<f64>,
    /// The largest relative distance to the bound; absent if unknown.
    pub(crate) gap: Option<f64>,
    /// Median time of a solve, building its program included.
    pub(crate) seconds: f64,
    repeat: u32,
    nodes: u32,
    used: u32,
    counts: Vec<u32>,
    changes: Vec<Change>,
    known_objective: Option<f64>,
}

fn parse_gap(text: &str) -> std::result::Result<f64, String> {
    text.parse::<f64>()
        .ok()
        .filter(|gap| (0.0..1.0).contains(gap))
        .ok_or_else(|| format!("{text} is no relative gap: expected 0 to less than 1"))
}

fn read(path: &Path) -> Result<Saved> {
    let text = std::fs::read_to_string(path).map_err(|e| file_error("read", path, &e))?;
    file::read(&text)
        .map_err(|e| CliError::new("L0011", Exit::Failed, format!("{}: {e}", path.display())))
}

/// Solves the problem from scratch.
fn solve(problem: &Problem, args: &SolveArgs) -> (Option<Sizes>, Outcome) {
    let limit = Duration::from_secs_f64(args.time_limit.as_secs_f64().max(0.0));
    let options = MilpOptions {
        tree_nodes: args.tree_nodes.unwrap_or(u32::MAX),
        gap: args.gap,
        shortcuts: false,
        ..MilpOptions::until(limit)
    };
    match args.solver {
        Solver::Dp => {
            let sizes = dp::Solver::new().solve(problem);
            (Some(sizes), Outcome::Optimal)
        }
        Solver::Highs => {
            let (sizes, solve) = milp::solve(problem, &options);
            let found = matches!(solve.outcome, Outcome::Optimal | Outcome::Feasible { .. });
            (found.then_some(sizes), solve.outcome)
        }
    }
}

/// The answer with the median time.
fn measured(saved: &Saved, args: &SolveArgs) -> Solved {
    let problem = &saved.problem;
    let mut seconds = Vec::new();
    let mut answer = None;
    for _ in 0..args.repeat {
        let watch = Stopwatch::start();
        answer = Some(solve(problem, args));
        seconds.push(watch.seconds());
    }
    seconds.sort_by(f64::total_cmp);
    let (sizes, outcome) = answer.unwrap_or((None, Outcome::Failed));
    let refused = sizes
        .as_ref()
        .is_some_and(|sizes| !problem.is_feasible(&sizes.counts));
    let (status, gap) = match outcome {
        _ if refused => ("failed", None),
        // The dynamic program is exact, whatever gap is allowed.
        Outcome::Optimal if args.solver == Solver::Dp => ("optimal", Some(0.0)),
        Outcome::Optimal => ("optimal", Some(args.gap)),
        Outcome::Feasible { gap } => ("feasible", Some(gap).filter(|gap| gap.is_finite())),
        Outcome::Found => ("found", None),
        Outcome::NoIncumbent => ("no-incumbent", None),
        Outcome::Infeasible => ("infeasible", None),
        Outcome::Failed => ("failed", None),
    };
    let sizes = sizes.filter(|_| !refused);
    let counts = sizes.as_ref().map_or_else(Vec::new, |s| s.counts.clone());
    Solved {
        solver: args.solver,
        status: status.to_owned(),
        objective: sizes.map(|sizes| sizes.objective),
        gap,
        seconds: output::quantile(&seconds, 0.5).unwrap_or(0.0),
        repeat: args.repeat,
        nodes: problem.nodes,
        used: counts.iter().sum(),
        changes: changes(saved, &counts),
        counts,
        known_objective: saved.answer.as_ref().map(|known| known.objective),
    }
}

fn changes(saved: &Saved, counts: &[u32]) -> Vec<Change> {
    let trainers = saved.problem.trainers.iter().zip(counts).enumerate();
    trainers
        .filter(|(_, (item, after))| item.current != **after)
        .map(|(trainer, (item, &after))| Change {
            trainer,
            name: saved.names.get(trainer).cloned().unwrap_or_default(),
            before: item.current,
            after,
            cost: item.change_cost(after),
        })
        .collect()
}

fn table(solved: &Solved) -> String {
    let optional = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| format!("{v}"));
    let mut rows = vec![
        ("solver", solved.solver.name().to_owned()),
        ("status", solved.status.clone()),
        ("objective", optional(solved.objective)),
        ("gap", optional(solved.gap)),
        ("time", output::latency(Some(solved.seconds))),
        ("nodes", format!("{} of {} used", solved.used, solved.nodes)),
        ("changes", solved.changes.len().to_string()),
    ];
    if let Some(known) = solved.known_objective {
        rows.push(("known answer", format!("{known}")));
    }
    let mut text = key_values(&rows);
    if !solved.changes.is_empty() {
        let columns = [
            ("TRAINER", Side::Right),
            ("NAME", Side::Left),
            ("BEFORE", Side::Right),
            ("AFTER", Side::Right),
            ("COST", Side::Right),
        ];
        let rows: Vec<Vec<String>> = solved
            .changes
            .iter()
            .map(|change| {
                vec![
                    change.trainer.to_string(),
                    change.name.clone(),
                    change.before.to_string(),
                    change.after.to_string(),
                    short(change.cost),
                ]
            })
            .collect();
        text.push('\n');
        text.push_str(&render(&columns, &rows));
    }
    text
}

/// Runs `solve`.
///
/// # Errors
/// The file is no problem, or there is no answer.
pub(crate) fn run(args: &SolveArgs) -> Result<()> {
    let saved = read(&args.problem)?;
    let solved = measured(&saved, args);
    if args.json.json {
        output::print_json(&solved)?;
    } else {
        output::print(&table(&solved))?;
    }
    match solved.objective {
        Some(_) => Ok(()),
        None => Err(CliError::already_printed()),
    }
}
