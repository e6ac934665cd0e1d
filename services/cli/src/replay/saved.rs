//! Keeps the allocation problem of one decision, to be solved again.

use lacuna_planner::file;
use lacuna_sim::Decision;

use super::window::{self, Saved};
use crate::error::{CliError, Result, file_error};

/// The decision that is wanted, once it has come.
pub(super) struct Keeper<'a> {
    wanted: &'a Saved,
    seconds: f64,
    kept: Option<(u64, file::Saved)>,
}

impl<'a> Keeper<'a> {
    /// Nothing is kept yet.
    pub(super) fn new(wanted: &'a Saved) -> Self {
        Self {
            wanted,
            seconds: 0.0,
            kept: None,
        }
    }

    /// Looks at a decision as it is made.
    pub(super) fn look(&mut self, decision: &Decision<'_>) {
        let keep = match self.wanted.decision {
            window::Decision::Event(event) => decision.event == event,
            window::Decision::Hardest => self.kept.is_none() || decision.seconds > self.seconds,
        };
        if keep {
            self.seconds = decision.seconds;
            let saved = file::Saved {
                answer: Some(decision.sizes.clone()),
                ..file::Saved::new(decision.problem.clone())
            };
            self.kept = Some((decision.event, saved));
        }
    }

    /// Writes the file. `log` is named in it.
    ///
    /// # Errors
    /// There was no such event, or the file cannot be written.
    pub(super) fn write(self, log: &str) -> Result<()> {
        let Some((event, mut saved)) = self.kept else {
            return Err(CliError::failed(match self.wanted.decision {
                window::Decision::Event(event) => {
                    format!("--save-problem: the replay has no event {event}")
                }
                window::Decision::Hardest => "--save-problem: nothing was decided".to_owned(),
            }));
        };
        saved.note = Some(format!(
            "event {event} of {log}, decided in {:.1} ms",
            self.seconds * 1e3
        ));
        let path = &self.wanted.file;
        let text = file::write(&saved)
            .map_err(|e| CliError::failed(format!("{}: {e}", path.display())))?;
        std::fs::write(path, text).map_err(|e| file_error("write", path, &e))
    }
}
