//! The section `[control.pilots]`: how agents come to nodes as jobs of the main scheduler.

use std::path::PathBuf;

use lacuna_model::{SettingError, Span, SpanText};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether pilots are wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Nothing is started; what would have been harvested is counted. Pilots that wait are
    /// cancelled, so that none starts; those that run may run to their end.
    #[default]
    Observe,
    /// Pilots are submitted to idle nodes.
    On,
    /// Nothing is started, and pilots of ours that still run are cancelled.
    Off,
}

impl Mode {
    /// A word for it, as in the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Observe => "observe",
            Self::Off => "off",
        }
    }
}

/// Which batch scheduler takes pilots.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SchedulerKind {
    /// Slurm, by `sbatch`, `scancel` and `squeue`.
    #[default]
    Slurm,
    /// OpenPBS or PBS Professional, by `qsub`, `qdel` and `qstat`.
    Pbs,
}

/// How pilots are submitted. Without this section control starts nothing, and agents come in
/// another way: by `lacuna up`, or as the site starts them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Pilots {
    /// Whether pilots are wanted.
    pub mode: Mode,
    /// Which scheduler takes pilots.
    pub scheduler: SchedulerKind,
    /// Pilots' partition or queue; the scheduler's default if empty.
    pub partition: String,
    /// Pilots' account; the default of the user that control runs as if empty.
    pub account: String,
    /// Pilots' quality of service; none if empty.
    pub qos: String,
    /// Pilots' job name. The main scheduler's source must know pilots by the same
    /// (`ingest.slurm.pilots`).
    pub name: String,
    /// Whether a pilot has its node for itself.
    pub exclusive: bool,
    /// File for what a pilot's batch script says.
    pub output: String,
    /// Further arguments of a submission, as in `["--gpus-per-node=4"]`.
    pub extra: Vec<String>,
    /// PBS: what the one chunk asks for beside its host, as in `ncpus=64:ngpus=4`.
    pub chunk: String,
    /// The agent's program, as nodes know it.
    pub agent: String,
    /// The agent's configuration file, as nodes know it; the agent's own default if empty.
    pub agent_config: String,
    /// A file whose text replaces the batch script built in. It must become the agent
    /// (`exec srun ... lacuna-agent --pilot --node "$SLURMD_NODENAME"`).
    pub script: Option<PathBuf>,
    /// Variables of control's environment that the commands see beside `PATH`, `HOME`, `USER`
    /// and those that begin with `SLURM_CONF` or `PBS_`; pilots see them too.
    pub pass_env: Vec<String>,
    /// Pilots start although `lacuna check slurm` finds conditions under which they would harm
    /// batch jobs.
    pub override_check: bool,
    /// The scheduler's commands.
    pub commands: Commands,
    /// How long pilots may run.
    pub time: TimeLimit,
    /// How fast, how many, how patiently.
    pub pace: Pace,
    /// What a report on observation assumes.
    pub assumed: Assumed,
}

impl Default for Pilots {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            scheduler: SchedulerKind::default(),
            partition: String::new(),
            account: String::new(),
            qos: String::new(),
            name: "lacuna-pilot".to_owned(),
            exclusive: true,
            output: "/dev/null".to_owned(),
            extra: Vec::new(),
            chunk: String::new(),
            agent: "lacuna-agent".to_owned(),
            agent_config: String::new(),
            script: None,
            pass_env: Vec::new(),
            override_check: false,
            commands: Commands::default(),
            time: TimeLimit::default(),
            pace: Pace::default(),
            assumed: Assumed::default(),
        }
    }
}

/// Commands of the scheduler, each a program with its first arguments; one that is empty is the
/// scheduler's own, found by `PATH`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Commands {
    /// Submits a pilot; `["sbatch"]` or `["qsub"]` if empty.
    pub submit: Vec<String>,
    /// Cancels pilots; `["scancel"]` or `["qdel"]` if empty.
    pub cancel: Vec<String>,
    /// Lists pilots; `["squeue"]` or `["qstat"]` if empty.
    pub list: Vec<String>,
    /// Tells Slurm's configuration, which is checked; `["scontrol"]` if empty.
    pub scontrol: Vec<String>,
    /// Tells Slurm's qualities of service, which are checked; `["sacctmgr"]` if empty.
    pub sacctmgr: Vec<String>,
}

/// How long pilots may run: until the hole is probably over ([`crate::limit`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TimeLimit {
    /// Share of like holes that are over when the pilot's time is: at 0.9 one in ten lasts longer
    /// than its pilot.
    pub quantile: f64,
    /// The shortest time of a pilot.
    #[serde(with = "SpanText")]
    pub min: Span,
    /// The longest time of a pilot, also where the forecast does not reach so far.
    #[serde(with = "SpanText")]
    pub max: Span,
    /// The time of a pilot on a node without a forecast.
    #[serde(with = "SpanText")]
    pub default: Span,
    /// Whether Slurm may give a pilot less time, down to `min`, to fit it in before a job that
    /// is planned (`--time-min`).
    pub flexible: bool,
}

impl Default for TimeLimit {
    fn default() -> Self {
        Self {
            quantile: 0.9,
            min: Span::from_secs(300),
            max: Span::from_secs(4 * 3600),
            default: Span::from_secs(3600),
            flexible: false,
        }
    }
}

/// How fast, how many, how patiently.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Pace {
    /// Submissions a second, on average.
    pub rate: f64,
    /// Submissions at once after a pause.
    pub burst: u32,
    /// At most so many pilots wait for their node or for the scheduler's answer.
    pub max_pending: u32,
    /// At most so many pilots in all; 0: as many as there are idle nodes.
    pub max_pilots: u32,
    /// Whether pilots go only to as many nodes as the admitted trainers can use.
    pub only_with_work: bool,
    /// A pilot that waits longer for its node is cancelled.
    #[serde(with = "SpanText")]
    pub pending_limit: Span,
    /// A pilot that has its node, but no agent that speaks, is cancelled after this time; after
    /// twice `agent.report_every` and 5 s at the earliest.
    #[serde(with = "SpanText")]
    pub start_limit: Span,
    /// A node whose pilot has ended is left alone for this long, unless it has been busy since:
    /// the pool may not know yet that the scheduler has taken it. Longer than two polls of the
    /// scheduler's source.
    #[serde(with = "SpanText")]
    pub rest: Span,
    /// A pilot on a node that is no hole is cancelled after this time.
    #[serde(with = "SpanText")]
    pub stray_after: Span,
    /// A pilot whose agent has had nothing to do for this long is cancelled while more nodes have
    /// pilots than trainers can use.
    #[serde(with = "SpanText")]
    pub idle_after: Span,
    /// A failure keeps a node waiting for this long, doubled with each further one.
    #[serde(with = "SpanText")]
    pub backoff: Span,
    /// The longest time that `backoff` is doubled to.
    #[serde(with = "SpanText")]
    pub backoff_max: Span,
    /// After so many failures in a row a node goes into quarantine.
    pub quarantine_after: u32,
    /// How long a node is in quarantine.
    #[serde(with = "SpanText")]
    pub quarantine: Span,
    /// The scheduler is asked for our pilots this often, and sooner after changes.
    #[serde(with = "SpanText")]
    pub list_every: Span,
    /// After changes it is asked again no sooner after the last time than this.
    #[serde(with = "SpanText")]
    pub list_soon: Span,
    /// A command that takes longer is killed, with all that it has started.
    #[serde(with = "SpanText")]
    pub command_limit: Span,
}

impl Pace {
    /// At most so many pilots in all.
    #[must_use]
    pub const fn most_pilots(&self) -> u32 {
        match self.max_pilots {
            0 => u32::MAX,
            most => most,
        }
    }
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            rate: 20.0,
            burst: 32,
            max_pending: 64,
            max_pilots: 0,
            only_with_work: true,
            pending_limit: Span::from_secs(5),
            start_limit: Span::from_secs(60),
            rest: Span::from_secs(20),
            stray_after: Span::from_secs(30),
            idle_after: Span::from_secs(600),
            backoff: Span::from_secs(10),
            backoff_max: Span::from_secs(300),
            quarantine_after: 3,
            quarantine: Span::from_secs(1800),
            list_every: Span::from_secs(30),
            list_soon: Span::from_secs(5),
            command_limit: Span::from_secs(20),
        }
    }
}

/// What a report on observation assumes, where nothing could be measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Assumed {
    /// How long a batch job would have waited for nodes with pilots on them.
    #[serde(with = "SpanText")]
    pub delay: Span,
    /// How long a pilot would have taken until it trains.
    #[serde(with = "SpanText")]
    pub start: Span,
}

impl Default for Assumed {
    fn default() -> Self {
        Self {
            delay: Span::from_secs(1),
            start: Span::from_secs(10),
        }
    }
}

impl Pilots {
    /// Whether the values make sense.
    ///
    /// # Errors
    /// The first one that does not.
    pub fn check(&self) -> Result<(), SettingError> {
        let (pace, time) = (&self.pace, &self.time);
        SettingError::unless_positive([
            ("control.pilots.time.min", time.min),
            ("control.pilots.time.default", time.default),
            ("control.pilots.pace.pending_limit", pace.pending_limit),
            ("control.pilots.pace.start_limit", pace.start_limit),
            ("control.pilots.pace.stray_after", pace.stray_after),
            ("control.pilots.pace.backoff", pace.backoff),
            ("control.pilots.pace.quarantine", pace.quarantine),
            ("control.pilots.pace.list_soon", pace.list_soon),
            ("control.pilots.pace.command_limit", pace.command_limit),
        ])?;
        SettingError::unless(
            time.max >= time.min,
            "control.pilots.time.max",
            time.max,
            "at least control.pilots.time.min",
        )?;
        SettingError::unless(
            time.quantile > 0.0 && time.quantile < 1.0,
            "control.pilots.time.quantile",
            time.quantile,
            "a share between 0 and 1",
        )?;
        SettingError::unless(
            (0.01..=1000.0).contains(&pace.rate),
            "control.pilots.pace.rate",
            pace.rate,
            "a number from 0.01 to 1000",
        )?;
        for (key, value) in [
            ("control.pilots.pace.burst", pace.burst),
            ("control.pilots.pace.max_pending", pace.max_pending),
            (
                "control.pilots.pace.quarantine_after",
                pace.quarantine_after,
            ),
        ] {
            let sound = (1..=100_000).contains(&value);
            SettingError::unless(sound, key, value, "a number from 1 to 100000")?;
        }
        SettingError::unless(
            pace.list_every >= pace.list_soon,
            "control.pilots.pace.list_every",
            pace.list_every,
            "at least control.pilots.pace.list_soon",
        )?;
        // The name goes into a format whose fields `|` separates, and tells pilots from others.
        let sound = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        SettingError::unless(
            !self.name.is_empty() && self.name.chars().all(sound),
            "control.pilots.name",
            &self.name,
            "letters, digits, . _ or -",
        )
    }
}
