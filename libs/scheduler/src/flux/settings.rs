//! The section `[ingest.flux]`.

use std::path::PathBuf;

use lacuna_model::SettingError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::shared::{Following, Marks, Polling, at_least_one, command};

/// A live Flux: `flux resource list` and `flux jobs` are polled, and the journal of the job manager
/// may be followed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Flux {
    /// `flux`: a program and its first arguments.
    pub flux: Vec<String>,
    /// The file to which `deploy/flux/journal.py` writes the events of jobs. Without it only polling
    /// shows changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub journal: Option<PathBuf>,
    /// A node is gone after this many answers in a row without it.
    pub absent_after: u32,
    /// Marks of pilots: `partition` (the queue, empty where Flux has no named queues), `user` and
    /// `name`.
    pub pilots: Marks,
    /// How often Flux is polled.
    pub polling: Polling,
    /// How the journal is followed.
    pub following: Following,
}

impl Default for Flux {
    fn default() -> Self {
        Self {
            flux: vec!["flux".to_owned()],
            journal: None,
            absent_after: 3,
            pilots: Marks::default(),
            polling: Polling::default(),
            following: Following::default(),
        }
    }
}

impl Flux {
    /// Checks the values.
    ///
    /// # Errors
    /// [`SettingError`] for the first wrong value.
    pub fn check(&self) -> Result<(), SettingError> {
        command("ingest.flux.flux", &self.flux)?;
        at_least_one("ingest.flux.absent_after", self.absent_after)?;
        for (key, mark) in [
            ("ingest.flux.pilots.account", &self.pilots.account),
            ("ingest.flux.pilots.comment", &self.pilots.comment),
        ] {
            SettingError::unless(
                mark.is_none(),
                key,
                mark.as_deref().unwrap_or_default(),
                "no such mark, since jobs of Flux have neither accounts nor comments: `user` and `name` \
                 of pilots",
            )?;
        }
        self.pilots.check()?;
        self.following.check()?;
        self.polling.check()
    }
}
