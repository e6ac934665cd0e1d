//! What a scheduler does not have, and the refusal of it, with a remedy.

use lacuna_model::{SchedulerName, SettingError};

/// A scheduler cannot do this here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{scheduler} has no {what} for Lacuna; needed: {remedy}")]
pub struct Unsupported {
    /// The scheduler.
    pub scheduler: SchedulerName,
    /// What it does not have.
    pub what: &'static str,
    /// What to set instead.
    pub remedy: &'static str,
}

impl Unsupported {
    /// The refusal of the setting that requests it.
    #[must_use]
    pub fn setting(self, key: &'static str) -> SettingError {
        SettingError {
            key,
            value: self.scheduler.to_string(),
            expected: self.remedy,
        }
    }
}

/// A refusal of what this scheduler does not have.
#[must_use]
pub(crate) const fn lacks(
    scheduler: SchedulerName,
    what: &'static str,
    remedy: &'static str,
) -> Unsupported {
    Unsupported {
        scheduler,
        what,
        remedy,
    }
}
