//! The sections of the main scheduler's adapters, which ingest runs.

use std::path::PathBuf;

use lacuna_model::{Span, SpanText};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::load::ConfigError;
use super::sections::Ingest;

/// How often a scheduler is asked, and when it is left in peace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Polling {
    /// From the beginning of one cycle to that of the next.
    #[serde(with = "SpanText")]
    pub every: Span,
    /// Each wait is longer or shorter by up to this share of it, so that several askers do not
    /// come to ask in step; 0 to 0.5.
    pub jitter: f64,
    /// A command that has not ended by then is killed with all that it started.
    #[serde(with = "SpanText")]
    pub limit: Span,
    /// The budget: so many requests a minute at most, whatever else is set.
    pub requests_per_minute: u32,
    /// An answer that takes longer than this is slow; after three cycles with a slow answer in
    /// a row the scheduler is left in peace for `pause`.
    #[serde(with = "SpanText")]
    pub slow_after: Span,
    /// See `slow_after`; doubled each time the scheduler is still slow, up to `longest_wait`.
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Marks {
    /// Their partition or queue; its nodes alone count. Without it no job is a pilot, and all
    /// nodes count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// Their account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Who submits them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// How their comment begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// How their name begins.
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
    /// It is looked at this often.
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

type Checked = Result<(), ConfigError>;

fn refuse(key: &'static str, value: impl ToString, expected: &'static str) -> Checked {
    Err(ConfigError::Value {
        key,
        value: value.to_string(),
        expected,
    })
}

impl Polling {
    fn check(&self) -> Checked {
        for (key, span) in [
            ("polling.every", self.every),
            ("polling.limit", self.limit),
            ("polling.slow_after", self.slow_after),
            ("polling.pause", self.pause),
        ] {
            if span <= Span::ZERO {
                return refuse(key, span, "a length of time above zero, as in 10s");
            }
        }
        if self.longest_wait < self.every || self.longest_wait < self.pause {
            let expected = "at least polling.every and polling.pause";
            return refuse("polling.longest_wait", self.longest_wait, expected);
        }
        if !(0.0..=0.5).contains(&self.jitter) {
            return refuse("polling.jitter", self.jitter, "a share from 0 to 0.5");
        }
        if self.requests_per_minute == 0 {
            return refuse("polling.requests_per_minute", 0, "1 or more");
        }
        Ok(())
    }
}

impl Marks {
    fn check(&self) -> Checked {
        let others = [&self.account, &self.user, &self.comment, &self.name];
        if self.partition.is_some() && others.iter().all(|mark| mark.is_none()) {
            let expected = "a mark besides the partition (account, user, comment or name), so that \
                            jobs of others in it are not taken for pilots";
            return refuse("pilots", "partition alone", expected);
        }
        Ok(())
    }
}

fn command(key: &'static str, command: &[String]) -> Checked {
    match command.first() {
        Some(program) if !program.is_empty() => Ok(()),
        _ => refuse(
            key,
            "empty",
            "a program and its arguments, as in [\"squeue\"]",
        ),
    }
}

impl Slurm {
    /// Checks what the types do not say.
    pub(super) fn check(&self) -> Checked {
        command("ingest.slurm.sinfo", &self.sinfo)?;
        command("ingest.slurm.squeue", &self.squeue)?;
        for (key, count) in [
            ("ingest.slurm.absent_after", self.absent_after),
            ("ingest.slurm.silent_after", self.silent_after),
        ] {
            if count == 0 {
                return refuse(key, 0, "1 or more");
            }
        }
        self.pilots.check()?;
        self.polling.check()
    }
}

impl Pbs {
    /// Checks what the types do not say.
    pub(super) fn check(&self) -> Checked {
        command("ingest.pbs.pbsnodes", &self.pbsnodes)?;
        if self.absent_after == 0 {
            return refuse("ingest.pbs.absent_after", 0, "1 or more");
        }
        self.pilots.check()?;
        self.following.check()?;
        self.polling.check()
    }
}

impl Lsf {
    /// Checks what the types do not say.
    pub(super) fn check(&self) -> Checked {
        self.pilots.check()?;
        self.following.check()
    }
}

impl Ingest {
    /// Checks the sections of schedulers, and that there is one source of the truth.
    pub(super) fn check_schedulers(&self) -> Checked {
        let sources = [
            self.recording.is_some(),
            self.slurm.is_some(),
            self.pbs.is_some(),
            self.lsf.is_some(),
        ];
        if sources.iter().filter(|given| **given).count() > 1 {
            let expected = "one scheduler or one recording: recording, slurm, pbs or lsf";
            return refuse("ingest", "told of several", expected);
        }
        if let Some(slurm) = &self.slurm {
            slurm.check()?;
        }
        if let Some(pbs) = &self.pbs {
            pbs.check()?;
        }
        if let Some(lsf) = &self.lsf {
            lsf.check()?;
            if self.nodes_file.is_none() {
                let expected = "a list of the nodes, which lsb.events does not have";
                return refuse("ingest.nodes_file", "absent", expected);
            }
        }
        Ok(())
    }
}

impl Following {
    fn check(&self) -> Checked {
        if self.every <= Span::ZERO {
            let expected = "a length of time above zero, as in 1s";
            return refuse("following.every", self.every, expected);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::Config;

    #[test]
    fn an_example_prints_and_reads_back() {
        let text = "[ingest.slurm]\nsqueue = [\"docker\", \"exec\", \"ctl\", \"squeue\"]\n\
                    [ingest.slurm.pilots]\npartition = \"filler\"\ncomment = \"lacuna main\"\n\
                    [ingest.slurm.polling]\nevery = \"2s\"\nrequests_per_minute = 90\n";
        let config = Config::parse(text, Path::new("x")).unwrap();
        config.check().unwrap();
        let again = Config::parse(&config.print().unwrap(), Path::new("x")).unwrap();
        assert_eq!(again, config);
        let slurm = config.ingest.slurm.unwrap();
        assert_eq!(slurm.sinfo, ["sinfo"]);
        assert_eq!(slurm.pilots.name.as_deref(), Some("lacuna-pilot"));
        assert_eq!(slurm.polling.every.as_ms(), 2000);
    }

    #[test]
    fn what_cannot_work_is_refused() {
        for (text, part) in [
            ("[ingest.slurm]\nsqueue = []\n", "ingest.slurm.squeue"),
            ("[ingest.slurm]\nabsent_after = 0\n", "absent_after"),
            ("[ingest.slurm.polling]\njitter = 0.9\n", "polling.jitter"),
            ("[ingest.slurm.polling]\nevery = \"0s\"\n", "polling.every"),
            (
                "[ingest.slurm.polling]\nlongest_wait = \"1s\"\n",
                "longest_wait",
            ),
            (
                "[ingest.slurm.polling]\nrequests_per_minute = 0\n",
                "requests_per_minute",
            ),
            ("[ingest.pbs]\npbsnodes = [\"\"]\n", "ingest.pbs.pbsnodes"),
            ("[ingest.lsf]\nevents = \"e\"\n", "ingest.nodes_file"),
            ("[ingest.slurm]\n[ingest.pbs]\n", "one scheduler"),
            (
                "[ingest.slurm]\n[ingest.recording]\npath = \"x\"\n",
                "recording",
            ),
        ] {
            let config = Config::parse(text, Path::new("x")).unwrap();
            let error = config.check().unwrap_err().to_string();
            assert!(error.contains(part), "{part}: {error}");
        }
        let alone = "[ingest.slurm.pilots]\npartition = \"filler\"\n";
        let mut config = Config::parse(alone, Path::new("x")).unwrap();
        config.check().unwrap();
        if let Some(slurm) = &mut config.ingest.slurm {
            slurm.pilots.name = None;
        }
        let error = config.check().unwrap_err().to_string();
        assert!(error.contains("besides the partition"), "{error}");
    }
}
