//! Rejected plans: a plan that failed its check is saved with its inputs, so that it can become a
//! test.

use std::path::Path;

use lacuna_model::{Plan, Pool};
use lacuna_wire::msg::TrainersState;
use serde::Serialize;

use crate::solver::Solved;

/// The saved file, as JSON.
#[derive(Serialize)]
struct Rejected<'a> {
    violations: Vec<String>,
    plan: &'a Plan,
    pool: &'a Pool,
    trainers: &'a TrainersState,
}

/// Writes a rejected plan to `rejected-<generation>.json` in the folder.
///
/// # Errors
/// If the folder or the file cannot be written.
pub(crate) fn save(dir: &Path, solved: &Solved) -> std::io::Result<()> {
    std::fs::create_dir_all(dir)?;
    let rejected = Rejected {
        violations: solved.violations.iter().map(ToString::to_string).collect(),
        plan: &solved.plan,
        pool: &solved.task.pool,
        trainers: &solved.task.trainers,
    };
    let name = format!("rejected-{}.json", solved.plan.generation.0);
    let text = serde_json::to_vec_pretty(&rejected)?;
    std::fs::write(dir.join(name), text)
}
