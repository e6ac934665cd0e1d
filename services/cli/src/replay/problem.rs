//! Records the allocation problem of one decision, to be solved again.

use lacuna_model::TrainerSpec;
use lacuna_planner::file;
use lacuna_sim::{Decision, Settings};

use super::window::{self, SavedProblem};
use crate::error::{CliError, Result, file_error};

/// Waits for the wanted decision of a replay and keeps its problem.
pub(super) struct ProblemRecorder<'a> {
    wanted: &'a SavedProblem,
    trainers: &'a [TrainerSpec],
    seconds: f64,
    kept: Option<(u64, file::Saved)>,
}

impl<'a> ProblemRecorder<'a> {
    /// A recorder without a problem. `trainers` is the list of the replay.
    pub(super) fn new(wanted: &'a SavedProblem, trainers: &'a [TrainerSpec]) -> Self {
        Self {
            wanted,
            trainers,
            seconds: 0.0,
            kept: None,
        }
    }

    /// Takes a decision as it is made.
    pub(super) fn observe(&mut self, decision: &Decision<'_>) {
        let keep = match self.wanted.decision {
            window::Decision::Event(event) => decision.event == event,
            window::Decision::Hardest => self.kept.is_none() || decision.seconds > self.seconds,
        };
        if keep {
            self.seconds = decision.seconds;
            let name = |&life: &u32| {
                let place = (life as usize).checked_rem(self.trainers.len())?;
                Some(self.trainers.get(place)?.id.to_string())
            };
            let saved = file::Saved {
                names: decision
                    .lives
                    .iter()
                    .map(|life| name(life).unwrap_or_default())
                    .collect(),
                answer: Some(decision.sizes.clone()),
                ..file::Saved::new(decision.problem.clone())
            };
            self.kept = Some((decision.event, saved));
        }
    }

    /// Writes the file. Its note names the `log`, the policy and the objective: an answer by equal
    /// share, or within shares of several owners, is no optimum of the problem.
    ///
    /// # Errors
    /// There is no such event, or the file cannot be written.
    pub(super) fn write(self, log: &str, settings: &Settings) -> Result<()> {
        let Some((event, mut saved)) = self.kept else {
            return Err(CliError::failed(match self.wanted.decision {
                window::Decision::Event(event) => {
                    format!("--save-problem: the replay has no event {event}")
                }
                window::Decision::Hardest => "--save-problem: nothing was decided".to_owned(),
            }));
        };
        saved.note = Some(format!(
            "event {event} of {log}, decided in {:.3} ms by {}, objective {}",
            self.seconds * 1e3,
            settings.policy.name(),
            settings.objective
        ));
        let path = &self.wanted.file;
        let text = file::write(&saved)
            .map_err(|e| CliError::failed(format!("{}: {e}", path.display())))?;
        std::fs::write(path, text).map_err(|e| file_error("write", path, &e))
    }
}
