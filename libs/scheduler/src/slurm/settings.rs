//! The section `[ingest.slurm]`.

use lacuna_model::SettingError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::shared::{Marks, Polling, at_least_one, command};

/// Form of Slurm's answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Answers {
    /// `sinfo` and `squeue` with a fixed format, which is cheap and the same in all versions.
    /// Ingest adds the arguments to the commands.
    #[default]
    Text,
    /// JSON. The commands are complete: for `sinfo` `["scontrol", "show", "nodes", "--json"]` (or
    /// `["sinfo", "--json"]`), for `squeue` `["squeue", "--json"]`, or for slurmrestd
    /// `["curl", "...", "http://.../nodes"]` and the same with `jobs`.
    Json,
}

/// A live Slurm, polled by `sinfo` and `squeue`, or by slurmrestd.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Slurm {
    /// `sinfo`: a program and its first arguments.
    pub sinfo: Vec<String>,
    /// `squeue`: a program and its first arguments.
    pub squeue: Vec<String>,
    /// `scontrol`: a program and its first arguments. It is asked only if `ingest.topology` is
    /// `slurm`.
    pub scontrol: Vec<String>,
    /// Form of the answers.
    pub answers: Answers,
    /// Time zone of local times in answers, as in `Europe/Warsaw`; the zone of this machine if
    /// absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// Whether an idle node that Slurm has planned for a job counts as a hole. A pilot starts
    /// there only if its time limit ends before the planned start.
    pub planned_are_holes: bool,
    /// A node is gone after this many answers in a row without it.
    pub absent_after: u32,
    /// A node that Slurm has not heard from (`idle*`; all nodes after a restart of slurmctld)
    /// keeps its status for this many answers, unless it becomes `down` before.
    pub silent_after: u32,
    /// Largest number of planned starts of jobs that forecasts receive; 0: none.
    pub most_promises: usize,
    /// Marks of pilots.
    pub pilots: Marks,
    /// How often Slurm is polled.
    pub polling: Polling,
}

impl Default for Slurm {
    fn default() -> Self {
        Self {
            sinfo: vec!["sinfo".to_owned()],
            squeue: vec!["squeue".to_owned()],
            scontrol: vec!["scontrol".to_owned()],
            answers: Answers::Text,
            time_zone: None,
            planned_are_holes: false,
            absent_after: 3,
            silent_after: 30,
            most_promises: 100,
            pilots: Marks::default(),
            polling: Polling::default(),
        }
    }
}

impl Slurm {
    /// Checks the values.
    ///
    /// # Errors
    /// [`SettingError`] for the first wrong value.
    pub fn check(&self) -> Result<(), SettingError> {
        command("ingest.slurm.sinfo", &self.sinfo)?;
        command("ingest.slurm.squeue", &self.squeue)?;
        command("ingest.slurm.scontrol", &self.scontrol)?;
        at_least_one("ingest.slurm.absent_after", self.absent_after)?;
        at_least_one("ingest.slurm.silent_after", self.silent_after)?;
        self.pilots.check()?;
        self.polling.check()
    }
}
