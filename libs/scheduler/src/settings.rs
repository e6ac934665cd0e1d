//! Settings of live schedulers: the sections `[ingest.slurm]`, `[ingest.pbs]` and `[ingest.lsf]`.

use std::path::PathBuf;

use lacuna_model::{SettingError, Span, SpanText};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How often a scheduler is polled, and when polling pauses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Polling {
    /// Time from the beginning of one polling cycle to the beginning of the next. For PBS the
    /// default is 30s without a section `[ingest.pbs.polling]`, and 10s in a section without this
    /// key.
    #[serde(with = "SpanText")]
    pub every: Span,
    /// Each wait varies at random by up to this share, so that several clients do not poll in
    /// step; 0 to 0.5.
    pub jitter: f64,
    /// A command that runs longer is killed, with all processes that it has started.
    #[serde(with = "SpanText")]
    pub limit: Span,
    /// Budget of requests a minute; no other setting exceeds it.
    pub requests_per_minute: u32,
    /// An answer that takes longer is slow. After three cycles in a row with a slow answer,
    /// polling pauses for `pause`.
    #[serde(with = "SpanText")]
    pub slow_after: Span,
    /// How long polling of a slow scheduler pauses (`slow_after`). The pause doubles while the
    /// scheduler stays slow, up to `longest_wait`.
    #[serde(with = "SpanText")]
    pub pause: Span,
    /// After a failure the wait doubles, up to this.
    #[serde(with = "SpanText")]
    pub longest_wait: Span,
}

impl Default for Polling {
    fn default() -> Self {
        Self {
            every: Span::from_secs(10),
            jitter: 0.1,
            limit: Span::from_secs(15),
            requests_per_minute: 30,
            slow_after: Span::from_secs(2),
            pause: Span::from_secs(60),
            longest_wait: Span::from_secs(300),
        }
    }
}

/// Marks by which our own pilots are recognised among the jobs of the scheduler. Every mark that
/// is set must fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Marks {
    /// Partition or queue of pilots, or several with commas; only their nodes count. Without it no
    /// job is a pilot, and all nodes count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// Account of pilots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// User who submits pilots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Beginning of the comment of pilots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Beginning of the job name of pilots.
    pub name: Option<String>,
}

impl Default for Marks {
    fn default() -> Self {
        Self {
            partition: None,
            account: None,
            user: None,
            comment: None,
            name: Some("lacuna-pilot".to_owned()),
        }
    }
}

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

/// How a file is followed while a scheduler writes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Following {
    /// Time between two looks at the file.
    #[serde(with = "SpanText")]
    pub every: Span,
    /// File that keeps the position and the jobs that run there, so that a restart reads no line
    /// twice and loses none. Without it each start reads from the beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_file: Option<PathBuf>,
}

impl Default for Following {
    fn default() -> Self {
        Self {
            every: Span::from_secs(1),
            state_file: None,
        }
    }
}

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

type Checked = Result<(), SettingError>;

impl Polling {
    fn check(&self) -> Checked {
        SettingError::unless_positive([
            ("polling.every", self.every),
            ("polling.limit", self.limit),
            ("polling.slow_after", self.slow_after),
            ("polling.pause", self.pause),
        ])?;
        SettingError::unless(
            self.longest_wait >= self.every && self.longest_wait >= self.pause,
            "polling.longest_wait",
            self.longest_wait,
            "at least polling.every and polling.pause",
        )?;
        SettingError::unless(
            (0.0..=0.5).contains(&self.jitter),
            "polling.jitter",
            self.jitter,
            "a share from 0 to 0.5",
        )?;
        at_least_one("polling.requests_per_minute", self.requests_per_minute)
    }
}

impl Marks {
    /// Whether pilots come to a partition or queue; nothing if none is named.
    pub(crate) fn has(&self, partition: &str) -> Option<bool> {
        let mut ours = self.partition.as_deref()?.split(',').map(str::trim);
        Some(ours.any(|name| name == partition))
    }

    fn check(&self) -> Checked {
        let others = [&self.account, &self.user, &self.comment, &self.name];
        SettingError::unless(
            self.partition.is_none() || others.iter().any(|mark| mark.is_some()),
            "pilots",
            "partition alone",
            "a mark besides the partition (account, user, comment or name), so that jobs of others \
             in it are not taken for pilots",
        )
    }
}

fn at_least_one(key: &'static str, count: u32) -> Checked {
    SettingError::unless(count > 0, key, count, "1 or more")
}

fn command(key: &'static str, command: &[String]) -> Checked {
    SettingError::unless(
        command.first().is_some_and(|program| !program.is_empty()),
        key,
        "empty",
        "a program and its arguments, as in [\"squeue\"]",
    )
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

impl Following {
    fn check(&self) -> Checked {
        SettingError::unless_positive([("following.every", self.every)])
    }
}
