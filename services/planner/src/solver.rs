//! The solver thread: one task at a time. While it works, newer states gather on the desk, so
//! that the next task is always the newest.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use lacuna_model::Plan;
use lacuna_planner::check::{Context, Violation, check};
use lacuna_planner::objective::ObjectiveError;
use lacuna_planner::{Input, Planner};
use lacuna_runtime::{ServiceError, Stopwatch};
use tokio::sync::mpsc;

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

/// The thread.
#[derive(Debug)]
pub struct Solver {
    tasks: std::sync::mpsc::Sender<Task>,
    solved: mpsc::UnboundedReceiver<Solved>,
    busy: bool,
}

impl Solver {
    /// Starts the thread. It ends when this is dropped.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(planner: Planner) -> Result<Self, ServiceError> {
        let (tasks, inbox) = std::sync::mpsc::channel::<Task>();
        let (outbox, solved) = mpsc::unbounded_channel();
        let mut planner = planner.timed_by(seconds);
        let mut told = BTreeSet::new();
        std::thread::Builder::new()
            .name("solver".to_owned())
            .spawn(move || {
                while let Ok(task) = inbox.recv() {
                    if outbox.send(solve(&mut planner, task, &mut told)).is_err() {
                        return;
                    }
                }
            })?;
        Ok(Self {
            tasks,
            solved,
            busy: false,
        })
    }

    /// Whether a task is being solved.
    #[must_use]
    pub fn busy(&self) -> bool {
        self.busy
    }

    /// Gives it a task; only while it is not busy.
    ///
    /// # Errors
    /// If the thread has died.
    pub fn give(&mut self, task: Task) -> Result<(), ServiceError> {
        self.busy = true;
        self.tasks
            .send(task)
            .map_err(|_| "the solver thread has died".into())
    }

    /// The next plan. Safe to drop in `select!`.
    ///
    /// # Errors
    /// If the thread has died.
    pub async fn next(&mut self) -> Result<Solved, ServiceError> {
        let solved = self.solved.recv().await;
        self.busy = false;
        solved.ok_or_else(|| "the solver thread has died".into())
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
