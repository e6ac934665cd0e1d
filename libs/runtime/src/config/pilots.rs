//! How agents come to nodes as jobs of the main scheduler: `[control.pilots]`.

use std::path::PathBuf;

use lacuna_model::{Span, SpanText};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ConfigError;

/// Whether pilots are wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PilotMode {
    /// Nothing is started; what would have been harvested is counted.
    #[default]
    Observe,
    /// Pilots are submitted to idle nodes.
    On,
    /// Nothing is started, and pilots of ours that still run are cancelled.
    Off,
}

/// Which batch scheduler takes pilots.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PilotScheduler {
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
    pub mode: PilotMode,
    /// Which scheduler takes them.
    pub scheduler: PilotScheduler,
    /// Their partition or queue; the scheduler's default if empty.
    pub partition: String,
    /// Their account; the default of the user that control runs as if empty.
    pub account: String,
    /// Their quality of service; none if empty.
    pub qos: String,
    /// Their job name. The main scheduler's source must know pilots by the same
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
    /// Its configuration file, as nodes know it; the agent's own default if empty.
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
    pub commands: PilotCommands,
    /// How long pilots may run.
    pub time: PilotTime,
    /// How fast, how many, how patiently.
    pub pace: PilotPace,
    /// What a report on observation assumes.
    pub assumed: Assumed,
}

impl Default for Pilots {
    fn default() -> Self {
        Self {
            mode: PilotMode::default(),
            scheduler: PilotScheduler::default(),
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
            commands: PilotCommands::default(),
            time: PilotTime::default(),
            pace: PilotPace::default(),
            assumed: Assumed::default(),
        }
    }
}

/// Commands of the scheduler, each a program with its first arguments; one that is empty is the
/// scheduler's own, found by `PATH`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PilotCommands {
    /// `["sbatch"]` or `["qsub"]`.
    pub submit: Vec<String>,
    /// `["scancel"]` or `["qdel"]`.
    pub cancel: Vec<String>,
    /// `["squeue"]` or `["qstat"]`.
    pub list: Vec<String>,
    /// `["scontrol"]`, to check the site's configuration.
    pub scontrol: Vec<String>,
    /// `["sacctmgr"]`, to check the qualities of service.
    pub sacctmgr: Vec<String>,
}

/// How long pilots may run: until the hole is probably over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PilotTime {
    /// Share of like holes that are over when the pilot's time is.
    pub quantile: f64,
    /// No shorter than this.
    #[serde(with = "SpanText")]
    pub min: Span,
    /// No longer than this.
    #[serde(with = "SpanText")]
    pub max: Span,
    /// Where no forecast is known.
    #[serde(with = "SpanText")]
    pub default: Span,
    /// Whether Slurm may give a pilot less time, down to `min`, to fit it in before a job that
    /// is planned (`--time-min`).
    pub flexible: bool,
}

impl Default for PilotTime {
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
pub struct PilotPace {
    /// Submissions a second, on average.
    pub rate: f64,
    /// Submissions at once after a pause.
    pub burst: u32,
    /// At most so many pilots wait for their node.
    pub max_pending: u32,
    /// At most so many pilots in all; 0: as many as there are idle nodes.
    pub max_pilots: u32,
    /// Whether pilots go only to as many nodes as the admitted trainers can use.
    pub only_with_work: bool,
    /// A pilot that waits longer for its node is cancelled.
    #[serde(with = "SpanText")]
    pub pending_limit: Span,
    /// A pilot that has its node, but no agent that speaks, is cancelled after this time.
    #[serde(with = "SpanText")]
    pub start_limit: Span,
    /// A node whose pilot has ended is left alone for this long, unless it has been busy since.
    /// Longer than two polls of the scheduler's source.
    #[serde(with = "SpanText")]
    pub rest: Span,
    /// A pilot on a node that is no hole is cancelled after this time.
    #[serde(with = "SpanText")]
    pub stray_after: Span,
    /// A pilot that nobody needs is cancelled after this time.
    #[serde(with = "SpanText")]
    pub idle_after: Span,
    /// A failure keeps a node waiting for this long, doubled with each further one.
    #[serde(with = "SpanText")]
    pub backoff: Span,
    /// But no longer than this.
    #[serde(with = "SpanText")]
    pub backoff_max: Span,
    /// After so many failures in a row a node goes into quarantine.
    pub quarantine_after: u32,
    /// For this long.
    #[serde(with = "SpanText")]
    pub quarantine: Span,
    /// The scheduler is asked for our pilots this often, and sooner after changes.
    #[serde(with = "SpanText")]
    pub list_every: Span,
    /// But no sooner after the last time than this.
    #[serde(with = "SpanText")]
    pub list_soon: Span,
    /// A command that takes longer is killed, with all that it has started.
    #[serde(with = "SpanText")]
    pub command_limit: Span,
}

impl Default for PilotPace {
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let refuse = |key, value: String, expected| {
            Err(ConfigError::Value {
                key,
                value,
                expected,
            })
        };
        let (pace, time) = (&self.pace, &self.time);
        for (key, span) in [
            ("control.pilots.time.min", time.min),
            ("control.pilots.time.default", time.default),
            ("control.pilots.pace.pending_limit", pace.pending_limit),
            ("control.pilots.pace.start_limit", pace.start_limit),
            ("control.pilots.pace.stray_after", pace.stray_after),
            ("control.pilots.pace.backoff", pace.backoff),
            ("control.pilots.pace.quarantine", pace.quarantine),
            ("control.pilots.pace.list_soon", pace.list_soon),
            ("control.pilots.pace.command_limit", pace.command_limit),
        ] {
            if span <= Span::ZERO {
                let expected = "a length of time above zero, as in 10s";
                return refuse(key, span.to_string(), expected);
            }
        }
        if time.max < time.min {
            let expected = "at least control.pilots.time.min";
            return refuse("control.pilots.time.max", time.max.to_string(), expected);
        }
        if !(0.0..1.0).contains(&time.quantile) || time.quantile == 0.0 {
            let expected = "a share between 0 and 1";
            return refuse(
                "control.pilots.time.quantile",
                time.quantile.to_string(),
                expected,
            );
        }
        if !(0.01..=1000.0).contains(&pace.rate) {
            let expected = "a number from 0.01 to 1000";
            return refuse("control.pilots.pace.rate", pace.rate.to_string(), expected);
        }
        for (key, value) in [
            ("control.pilots.pace.burst", pace.burst),
            ("control.pilots.pace.max_pending", pace.max_pending),
            (
                "control.pilots.pace.quarantine_after",
                pace.quarantine_after,
            ),
        ] {
            if !(1..=100_000).contains(&value) {
                return refuse(key, value.to_string(), "a number from 1 to 100000");
            }
        }
        if pace.list_every < pace.list_soon {
            return refuse(
                "control.pilots.pace.list_every",
                pace.list_every.to_string(),
                "at least control.pilots.pace.list_soon",
            );
        }
        // The name goes into a format whose fields `|` separates, and tells pilots from others.
        let sound = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if self.name.is_empty() || !self.name.chars().all(sound) {
            let expected = "letters, digits, . _ or -";
            return refuse("control.pilots.name", self.name.clone(), expected);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Config;

    fn parse(text: &str) -> Result<Config, ConfigError> {
        let config = Config::parse(text, Path::new("lacuna.toml"))?;
        config.check()?;
        Ok(config)
    }

    #[test]
    fn nothing_is_submitted_unless_somebody_says_on() {
        assert_eq!(parse("").unwrap().control.pilots, None);
        let pilots = parse("[control.pilots]\npartition = \"filler\"\n").unwrap();
        let pilots = pilots.control.pilots.unwrap();
        assert_eq!(pilots.mode, PilotMode::Observe);
        let text = "[control.pilots]\nmode = \"on\"\npartition = \"filler\"\n\
                    agent_config = \"/etc/lacuna/lacuna.toml\"\n\
                    [control.pilots.commands]\nsubmit = [\"ssh\", \"login\", \"sbatch\"]\n\
                    [control.pilots.pace]\nrate = 2.5\n[control.pilots.time]\nmax = \"2h\"\n";
        let config = parse(text).unwrap();
        let again = Config::parse(&config.print().unwrap(), Path::new("x")).unwrap();
        assert_eq!(again, config);
        assert_eq!(config.control.pilots.unwrap().mode, PilotMode::On);
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_its_name() {
        for (key, value) in [
            ("control.pilots.mode", "\"yes\""),
            ("control.pilots.name", "\"a|b\""),
            ("control.pilots.pace.rate", "0.0"),
            ("control.pilots.pace.burst", "0"),
            ("control.pilots.pace.list_every", "\"1s\""),
            ("control.pilots.time.quantile", "1.0"),
            ("control.pilots.time.max", "\"1s\""),
            ("control.pilots.time.min", "\"0s\""),
        ] {
            let error = parse(&format!("{key} = {value}\n")).unwrap_err();
            let name = key.rsplit('.').next().unwrap();
            assert!(error.to_string().contains(name), "{key}: {error}");
        }
    }
}
