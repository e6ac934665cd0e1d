//! The sections `[ingest.slurm]`, `[ingest.pbs]` and `[ingest.lsf]` of the configuration.

use std::path::PathBuf;

use lacuna_model::{SettingError, Span, SpanText};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How often a scheduler is asked, and when it is left in peace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Polling {
    /// From the beginning of one cycle to that of the next. Of PBS 30s where the section
    /// `[ingest.pbs.polling]` is absent, and 10s where it leaves this out.
    #[serde(with = "SpanText")]
    pub every: Span,
    /// Each wait is longer or shorter by up to this share of it, so that several askers do not
    /// come to ask in step; 0 to 0.5.
    pub jitter: f64,
    /// A command that has not ended within this time is killed with all that it started.
    #[serde(with = "SpanText")]
    pub limit: Span,
    /// The budget: so many requests a minute at most, whatever else is set.
    pub requests_per_minute: u32,
    /// An answer that takes longer than this is slow; after three cycles with a slow answer in
    /// a row the scheduler is left in peace for `pause`.
    #[serde(with = "SpanText")]
    pub slow_after: Span,
    /// How long a scheduler that is slow is left in peace (`slow_after`); doubled each time it is
    /// still slow, up to `longest_wait`.
    #[serde(with = "SpanText")]
    pub pause: Span,
    /// After a failure the wait is doubled, up to this.
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

/// How to know pilots of ours among the scheduler's jobs. Every mark that is set must fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Marks {
    /// Pilots' partition or queue; its nodes alone count. Without it no job is a pilot, and all
    /// nodes count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// Pilots' account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Who submits pilots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// How pilots' comment begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// How pilots' name begins.
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

/// In which form Slurm answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Answers {
    /// `sinfo` and `squeue` with a fixed format, which is cheap and the same in all versions;
    /// the arguments are added to the commands.
    #[default]
    Text,
    /// JSON; the commands are complete, as in `["curl", "...", "http://.../nodes"]` for
    /// slurmrestd, or `["sinfo", "--json"]`.
    Json,
}

/// A living Slurm, asked by `sinfo` and `squeue`, or by slurmrestd.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Slurm {
    /// `sinfo`: a program and its first arguments.
    pub sinfo: Vec<String>,
    /// `squeue`: a program and its first arguments.
    pub squeue: Vec<String>,
    /// In which form the commands answer.
    pub answers: Answers,
    /// The zone of local times in answers, as `Europe/Warsaw`; this machine's if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// Whether an idle node that Slurm has planned for a job is a hole all the same. A pilot
    /// starts there only if its time limit ends before the plan begins.
    pub planned_are_holes: bool,
    /// A node that is missing in so many answers in a row is gone.
    pub absent_after: u32,
    /// A node that Slurm has not heard from (`idle*`; all of them after a restart of slurmctld)
    /// stays what it was for so many answers, unless Slurm calls it down before.
    pub silent_after: u32,
    /// So many planned starts of jobs are passed on to forecasts; 0: none.
    pub most_promises: usize,
    /// How to know pilots.
    pub pilots: Marks,
    /// How often Slurm is asked.
    pub polling: Polling,
}

impl Default for Slurm {
    fn default() -> Self {
        Self {
            sinfo: vec!["sinfo".to_owned()],
            squeue: vec!["squeue".to_owned()],
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

/// How a file that a scheduler writes is followed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Following {
    /// The file is looked at this often.
    #[serde(with = "SpanText")]
    pub every: Span,
    /// Where the place that was read to is kept, with the jobs that ran there; nothing is read
    /// twice or lost over a restart. Without it each start reads the file from its beginning.
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

/// A living OpenPBS or PBS Professional: `pbsnodes` asked, accounting records followed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Pbs {
    /// A program and its arguments that print the nodes as JSON.
    pub pbsnodes: Vec<String>,
    /// The folder of accounting records, a file a day (`20261120`), or one file. Without it
    /// changes are seen by `pbsnodes` alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accounting: Option<PathBuf>,
    /// The zone of local times in records, as `Europe/Warsaw`; this machine's if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// A node that is missing in so many answers in a row is gone.
    pub absent_after: u32,
    /// How to know pilots in accounting records: by `partition` (the queue), `user` and `name`.
    pub pilots: Marks,
    /// How often PBS is asked.
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

/// A living LSF, whose `lsb.events` is followed. `ingest.nodes_file` lists the nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lsf {
    /// The file `lsb.events`.
    pub events: PathBuf,
    /// How to know pilots: by `partition` (the queue), `user` and `name`.
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
    /// Whether the values make sense.
    ///
    /// # Errors
    /// The first one that does not.
    pub fn check(&self) -> Result<(), SettingError> {
        command("ingest.slurm.sinfo", &self.sinfo)?;
        command("ingest.slurm.squeue", &self.squeue)?;
        at_least_one("ingest.slurm.absent_after", self.absent_after)?;
        at_least_one("ingest.slurm.silent_after", self.silent_after)?;
        self.pilots.check()?;
        self.polling.check()
    }
}

impl Pbs {
    /// Whether the values make sense.
    ///
    /// # Errors
    /// The first one that does not.
    pub fn check(&self) -> Result<(), SettingError> {
        command("ingest.pbs.pbsnodes", &self.pbsnodes)?;
        at_least_one("ingest.pbs.absent_after", self.absent_after)?;
        self.pilots.check()?;
        self.following.check()?;
        self.polling.check()
    }
}

impl Lsf {
    /// Whether the values make sense.
    ///
    /// # Errors
    /// The first one that does not.
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
