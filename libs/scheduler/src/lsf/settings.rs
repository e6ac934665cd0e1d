//! The section `[ingest.lsf]`.

use std::path::PathBuf;

use lacuna_model::SettingError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::shared::{Following, Marks};

/// A live LSF, whose `lsb.events` is followed. `ingest.nodes_file` lists the nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lsf {
    /// The file `lsb.events`.
    pub events: PathBuf,
    /// Marks of pilots: `partition` (the queue), `user` and `name`.
    #[serde(default)]
    pub pilots: Marks,
    /// How the file is followed.
    #[serde(default)]
    pub following: Following,
}

impl Lsf {
    /// Checks the values.
    ///
    /// # Errors
    /// [`SettingError`] for the first wrong value.
    pub fn check(&self) -> Result<(), SettingError> {
        self.pilots.check()?;
        self.following.check()
    }
}
