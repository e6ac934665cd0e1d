//! The section `[ingest.pbs]`.

use std::path::PathBuf;

use lacuna_model::{SettingError, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::shared::{Following, Marks, Polling, at_least_one, command};

/// A live OpenPBS or PBS Professional: `pbsnodes` is polled, accounting records are followed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Pbs {
    /// A command, with its arguments, that prints the nodes as JSON.
    pub pbsnodes: Vec<String>,
    /// Folder of accounting records with a file a day (`20261120`), or one file. Without it only
    /// `pbsnodes` shows changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accounting: Option<PathBuf>,
    /// Time zone of local times in records, as in `Europe/Warsaw`; the zone of this machine if
    /// absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// A node is gone after this many answers in a row without it.
    pub absent_after: u32,
    /// Marks of pilots in accounting records: `partition` (the queue), `user` and `name`.
    pub pilots: Marks,
    /// How often PBS is polled.
    pub polling: Polling,
    /// How the accounting records are followed.
    pub following: Following,
}

impl Default for Pbs {
    fn default() -> Self {
        Self {
            pbsnodes: ["pbsnodes", "-a", "-F", "json"].map(str::to_owned).into(),
            accounting: None,
            time_zone: None,
            absent_after: 3,
            pilots: Marks::default(),
            polling: Polling {
                every: Span::from_secs(30),
                ..Polling::default()
            },
            following: Following::default(),
        }
    }
}

impl Pbs {
    /// Checks the values.
    ///
    /// # Errors
    /// [`SettingError`] for the first wrong value.
    pub fn check(&self) -> Result<(), SettingError> {
        command("ingest.pbs.pbsnodes", &self.pbsnodes)?;
        at_least_one("ingest.pbs.absent_after", self.absent_after)?;
        self.pilots.check()?;
        self.following.check()?;
        self.polling.check()
    }
}
