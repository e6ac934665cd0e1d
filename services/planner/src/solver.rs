//! The solver: one task at a time, on a thread of its own. Meanwhile newer states gather in the
//! pending inputs, so that the next task is always the newest.

use std::collections::BTreeSet;

use lacuna_model::Plan;
use lacuna_planner::check::{Context, Violation, check};
use lacuna_planner::judge::{self, Case, NotJudged};
use lacuna_planner::objective::ObjectiveError;
use lacuna_planner::{Input, Planner};
use lacuna_runtime::{ServiceError, Stopwatch, task};
use tokio::task::JoinHandle;

use crate::pending::Task;

/// A plan with the violations that its check found.
#[derive(Debug)]
pub struct Solved {
    /// The task.
    pub task: Task,
    /// The plan.
    pub plan: Plan,
    /// Time of the solve, seconds.
    pub seconds: f64,
    /// The broken invariants; none if the plan is sound.
    pub violations: Vec<Violation>,
    /// Errors of the objective for single trainers; each is reported once.
    pub refused: Vec<ObjectiveError>,
    /// The decision, if it is to be judged.
    pub case: Option<Result<Case, NotJudged>>,
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
    /// The share of decisions to judge.
    judged_share: f64,
    reported: BTreeSet<String>,
}

impl Solver {
    /// A solver that has no task yet.
    #[must_use]
    pub fn new(planner: Planner, judged_share: f64) -> Self {
        let work = Work {
            planner,
            judged_share,
            reported: BTreeSet::new(),
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
            let solved = solve(&mut work, task);
            (work, solved)
        }));
        Ok(())
    }

    /// The next plan; it waits forever while no task is being solved. Safe to drop in `select!`.
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

fn solve(work: &mut Work, task: Task) -> Solved {
    let planner = &mut work.planner;
    let watch = Stopwatch::start();
    let (pool, state) = (&task.pool, &task.trainers);
    let plan = planner.plan_of(&Input {
        pool,
        trainers: &state.trainers,
        unusable: &state.unusable,
        generation: task.generation,
        stale: task.stale,
        topology: Some(&task.places.topology),
        kinds: Some(&task.places.kinds),
        pilot_s: state.pilot_s,
        followed: state.followed,
    });
    let seconds = watch.seconds();
    let context = Context {
        pool,
        trainers: &state.trainers,
        unusable: &state.unusable,
        newest: Some(lacuna_model::Generation(
            task.generation.0.saturating_sub(1),
        )),
        kinds: Some(&task.places.kinds),
    };
    let violations = check(&plan, &context);
    let mut refused = planner.refused().to_vec();
    refused.retain(|error| work.reported.insert(error.to_string()));
    let seed = planner.settings().seed;
    let picked = judge::picks(work.judged_share, seed, task.generation);
    let case = picked.then(|| planner.case());
    Solved {
        plan,
        seconds,
        violations,
        refused,
        case,
        task,
    }
}
