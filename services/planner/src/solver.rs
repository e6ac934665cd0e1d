//! The solver: one task at a time, on a thread of its own. While it works, newer states gather on
//! the desk, so that the next task is always the newest.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use lacuna_model::Plan;
use lacuna_planner::check::{Context, Violation, check};
use lacuna_planner::objective::ObjectiveError;
use lacuna_planner::{Input, Planner};
use lacuna_runtime::{ServiceError, Stopwatch, task};
use tokio::task::JoinHandle;

use crate::desk::Task;

/// A plan with its verdict.
#[derive(Debug)]
pub struct Solved {
    /// What it was made from.
    pub task: Task,
    /// The plan.
    pub plan: Plan,
    /// Seconds that it took.
    pub seconds: f64,
    /// The invariants that it breaks; none if it is sound.
    pub violations: Vec<Violation>,
    /// Trainers that the objective does not fit, and why; each is named once.
    pub refused: Vec<ObjectiveError>,
}

/// The planner, which works on one task at a time.
#[derive(Debug)]
pub struct Solver {
    idle: Option<Box<Work>>,
    solving: Option<JoinHandle<(Box<Work>, Solved)>>,
}

#[derive(Debug)]
struct Work {
    planner: Planner,
    told: BTreeSet<String>,
}

impl Solver {
    /// A solver that has no task yet.
    #[must_use]
    pub fn new(planner: Planner) -> Self {
        let work = Work {
            planner: planner.timed_by(seconds),
            told: BTreeSet::new(),
        };
        Self {
            idle: Some(Box::new(work)),
            solving: None,
        }
    }

    /// Whether a task is being solved.
    #[must_use]
    pub fn busy(&self) -> bool {
        self.solving.is_some()
    }

    /// Gives it a task; only while it is not busy.
    ///
    /// # Errors
    /// If a solve has panicked, or the solver is busy.
    pub fn give(&mut self, task: Task) -> Result<(), ServiceError> {
        let work = self.idle.take();
        let mut work = work.ok_or("the solver takes no task")?;
        self.solving = Some(task::blocking(move || {
            let solved = solve(&mut work.planner, task, &mut work.told);
            (work, solved)
        }));
        Ok(())
    }

    /// The next plan; waits for ever if no task is being solved. Safe to drop in `select!`.
    ///
    /// # Errors
    /// If the solve has panicked.
    pub async fn next(&mut self) -> Result<Solved, ServiceError> {
        let Some(solving) = &mut self.solving else {
            return std::future::pending().await;
        };
        let ended = solving.await;
        self.solving = None;
        let (work, solved) = ended.map_err(|error| format!("the solver has failed: {error}"))?;
        self.idle = Some(work);
        Ok(solved)
    }
}

/// Seconds since this was first asked.
fn seconds() -> f64 {
    static START: OnceLock<Stopwatch> = OnceLock::new();
    START.get_or_init(Stopwatch::start).seconds()
}

fn solve(planner: &mut Planner, task: Task, told: &mut BTreeSet<String>) -> Solved {
    let watch = Stopwatch::start();
    let (pool, state) = (&task.pool, &task.trainers);
    let plan = planner.plan_of(&Input {
        pool,
        trainers: &state.trainers,
        unusable: &state.unusable,
        generation: task.generation,
        stale: task.stale,
    });
    let seconds = watch.seconds();
    let context = Context {
        pool,
        trainers: &state.trainers,
        unusable: &state.unusable,
        newest: Some(lacuna_model::Generation(
            task.generation.0.saturating_sub(1),
        )),
    };
    let violations = check(&plan, &context);
    let mut refused = planner.refused().to_vec();
    refused.retain(|error| told.insert(error.to_string()));
    Solved {
        plan,
        seconds,
        violations,
        refused,
        task,
    }
}
