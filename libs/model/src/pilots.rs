//! The section `[control.pilots]`: agents as batch jobs of the main scheduler.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{KindName, SchedulerName, SettingError, Span, SpanText};

/// Mode of pilots.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// No pilot starts, and the possible harvest is counted. Waiting pilots are cancelled; running
    /// pilots may run to their end.
    #[default]
    Observe,
    /// Pilots are submitted to idle nodes.
    On,
    /// No pilot starts, and our own running pilots are cancelled.
    Off,
}

impl Mode {
    /// Its name in the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Observe => "observe",
            Self::Off => "off",
        }
    }
}

/// Submission of pilots. Without this section control starts no agents; `lacuna up` or the site
/// starts them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Pilots {
    /// Mode of pilots.
    pub mode: Mode,
    /// The batch scheduler of pilots: `slurm`, `pbs` or `flux`.
    pub scheduler: SchedulerName,
    /// Partition or queue of pilots; the scheduler's default if empty.
    pub partition: String,
    /// Account of pilots; the default of control's user if empty.
    pub account: String,
    /// Quality of service of pilots; none if empty.
    pub qos: String,
    /// Job name of pilots. The marks of the main scheduler's adapter must fit it
    /// (`ingest.slurm.pilots`).
    pub name: String,
    /// Whether a pilot has the whole node.
    pub exclusive: bool,
    /// Output file of the batch script.
    pub output: String,
    /// Further arguments of a submission, as in `["--gpus-per-node=4"]`.
    pub extra: Vec<String>,
    /// PBS: resources of the chunk besides its host, as in `ncpus=64:ngpus=4`.
    pub chunk: String,
    /// Program of the agent on nodes.
    pub agent: String,
    /// Configuration file of the agent on nodes; the agent's own default if empty.
    pub agent_config: String,
    /// A file that replaces the built-in batch script. The script must become the agent
    /// (`exec srun ... lacuna-agent --pilot --node "$SLURMD_NODENAME"`).
    pub script: Option<PathBuf>,
    /// Variables of control's environment for the commands and for pilots, besides `PATH`, `HOME`,
    /// `USER` and those that tell where the scheduler is (`SLURM_CONF`, `PBS_`, `FLUX_URI`).
    pub pass_env: Vec<String>,
    /// Whether pilots start although the site check (`lacuna check slurm`) finds conditions under which they harm
    /// batch jobs.
    pub override_check: bool,
    /// Time between two of control's checks of the scheduler's configuration.
    #[serde(with = "SpanText")]
    pub check_every: Span,
    /// The command that submits and cancels each pilot under the account of its trainer's owner, as in
    /// `["sudo", "-n", "/opt/lacuna/bin/lacuna-pilot-helper", "--config",
    /// "/etc/lacuna/pilot-helper.toml"]`. A pilot then comes to a node once a trainer has it, and serves
    /// this trainer alone; a program needs a ticket that its owner has signed (`lacuna submit` does). If
    /// empty, all pilots are control's own, by `commands`.
    pub helper: Vec<String>,
    /// Commands of the scheduler.
    pub commands: Commands,
    /// Time limits of pilots.
    pub time: TimeLimit,
    /// Rates, limits and waits.
    pub pace: Pace,
    /// Assumptions of observe-only accounting, and of plans until pilots have run.
    pub assumed: Assumed,
    /// What differs on nodes of a kind (`ingest.kinds`), by the name of the kind.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub kinds: BTreeMap<String, OfKind>,
}

/// What differs in pilots on nodes of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OfKind {
    /// Partition or queue. The marks of the main scheduler's adapter must have it too
    /// (`ingest.slurm.pilots`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// Account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Quality of service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qos: Option<String>,
    /// Whether a pilot has the whole node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclusive: Option<bool>,
    /// Further arguments of a submission.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra: Option<Vec<String>>,
    /// PBS: resources of the chunk besides its host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk: Option<String>,
}

impl Default for Pilots {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            scheduler: SchedulerName::default(),
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
            check_every: Span::from_secs(300),
            helper: Vec::new(),
            commands: Commands::default(),
            time: TimeLimit::default(),
            pace: Pace::default(),
            assumed: Assumed::default(),
            kinds: BTreeMap::new(),
        }
    }
}

/// Commands of the scheduler, each a program with its first arguments. An empty command is the
/// scheduler's own, found by `PATH`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Commands {
    /// Submits a pilot; the scheduler's own if empty, as `["sbatch"]`.
    pub submit: Vec<String>,
    /// Cancels pilots; the scheduler's own if empty, as `["scancel"]`.
    pub cancel: Vec<String>,
    /// Lists pilots; the scheduler's own if empty, as `["squeue"]`.
    pub list: Vec<String>,
    /// Prints the configuration of Slurm for the site check; `["scontrol"]` if empty.
    pub scontrol: Vec<String>,
    /// Prints the qualities of service of Slurm for the site check; `["sacctmgr"]` if empty.
    pub sacctmgr: Vec<String>,
}

/// Time limits of pilots: until the hole is probably over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TimeLimit {
    /// Share of holes that are over at the time limit: at 0.9, one hole in ten lasts longer than
    /// its pilot.
    pub quantile: f64,
    /// Shortest time limit.
    #[serde(with = "SpanText")]
    pub min: Span,
    /// Longest time limit, also beyond the end of a forecast.
    #[serde(with = "SpanText")]
    pub max: Span,
    /// Time limit on a node without a forecast.
    #[serde(with = "SpanText")]
    pub default: Span,
    /// Whether Slurm may shorten the time limit, down to `min`, to fit a pilot in before a planned
    /// job (`--time-min`).
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

/// Rates, limits and waits of pilots.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Pace {
    /// Submissions a second, on average.
    pub rate: f64,
    /// Submissions at once after a pause.
    pub burst: u32,
    /// Largest number of pilots that wait for their node or for the scheduler's answer.
    pub max_pending: u32,
    /// Largest number of pilots; 0: one for each idle node.
    pub max_pilots: u32,
    /// Whether pilots start only on as many nodes as the admitted trainers can use.
    pub only_with_work: bool,
    /// A pilot that waits longer for its node is cancelled.
    #[serde(with = "SpanText")]
    pub pending_limit: Span,
    /// A pilot with a node, but without a report of an agent, is cancelled after this time. At the
    /// earliest after twice `agent.report_every` and 5 s.
    #[serde(with = "SpanText")]
    pub start_limit: Span,
    /// A node whose pilot has ended gets no pilot for this time, unless it has been busy since: the
    /// pool may still show a node that the scheduler has taken. Longer than two polls of the main
    /// scheduler.
    #[serde(with = "SpanText")]
    pub rest: Span,
    /// A pilot on a node that is no hole is cancelled after this time.
    #[serde(with = "SpanText")]
    pub stray_after: Span,
    /// A pilot without a trainer for this time is cancelled: with a helper, and else while more nodes
    /// have pilots than trainers can use.
    #[serde(with = "SpanText")]
    pub idle_after: Span,
    /// Wait of a node after a failure, doubled with each further failure.
    #[serde(with = "SpanText")]
    pub backoff: Span,
    /// Longest wait to which `backoff` is doubled.
    #[serde(with = "SpanText")]
    pub backoff_max: Span,
    /// Failures in a row that put a node into quarantine.
    pub quarantine_after: u32,
    /// Duration of a quarantine.
    #[serde(with = "SpanText")]
    pub quarantine: Span,
    /// Time between two lists of our pilots; lists are sooner after changes.
    #[serde(with = "SpanText")]
    pub list_every: Span,
    /// Shortest time between two lists after changes.
    #[serde(with = "SpanText")]
    pub list_soon: Span,
    /// A command that takes longer is killed, with all processes that it has started.
    #[serde(with = "SpanText")]
    pub command_limit: Span,
}

impl Pace {
    /// Largest number of pilots.
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

/// Assumptions about what has not been measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Assumed {
    /// Wait of a batch job for nodes with pilots.
    #[serde(with = "SpanText")]
    pub delay: Span,
    /// Time from the submission of a pilot until it trains. With a helper, plans count it as the
    /// wait of a node for its pilot until five waits are measured, and then their median.
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
    /// Whether pilots are submitted under the accounts of trainers' owners.
    #[must_use]
    pub const fn by_helper(&self) -> bool {
        !self.helper.is_empty()
    }

    /// The settings for each kind that has its own, by name.
    pub fn by_kind(&self) -> impl Iterator<Item = (&str, Self)> {
        self.kinds.iter().map(|(kind, own)| {
            let own = own.clone();
            let of = Self {
                partition: own.partition.unwrap_or_else(|| self.partition.clone()),
                account: own.account.unwrap_or_else(|| self.account.clone()),
                qos: own.qos.unwrap_or_else(|| self.qos.clone()),
                exclusive: own.exclusive.unwrap_or(self.exclusive),
                extra: own.extra.unwrap_or_else(|| self.extra.clone()),
                chunk: own.chunk.unwrap_or_else(|| self.chunk.clone()),
                kinds: BTreeMap::new(),
                ..self.clone()
            };
            (kind.as_str(), of)
        })
    }

    /// The partitions or queues to which pilots go; an empty one is the scheduler's default.
    #[must_use]
    pub fn partitions(&self) -> BTreeSet<&str> {
        let own = self
            .kinds
            .values()
            .filter_map(|own| own.partition.as_deref());
        own.chain([self.partition.as_str()]).collect()
    }

    /// What a site that sets these values seldom means, in words.
    #[must_use]
    pub fn doubt(&self) -> Option<&'static str> {
        // A helper has the partition in its own settings.
        let submits = self.mode == Mode::On && self.helper.is_empty();
        (submits && self.partitions().contains("")).then_some(
            "control.pilots.partition is empty, so pilots go to the scheduler's default partition, \
             where they have the priority of batch jobs: name the partition of \
             `lacuna check slurm --snippet`",
        )
    }

    /// Checks the values.
    ///
    /// # Errors
    /// [`SettingError`] for the first wrong value.
    pub fn check(&self) -> Result<(), SettingError> {
        for kind in self.kinds.keys() {
            let expected = "names of kinds, 1 to 64 of A-Z a-z 0-9 _ - .";
            let sound = KindName::new(kind).is_ok();
            SettingError::unless(sound, "control.pilots.kinds", kind, expected)?;
        }
        SettingError::unless(
            self.kinds.is_empty() || self.helper.is_empty(),
            "control.pilots.kinds",
            "given beside a helper",
            "one of the two: a helper submits all pilots alike, by a setting of its own",
        )?;
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
            ("control.pilots.check_every", self.check_every),
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
        let program = self.helper.first().map_or("none", String::as_str);
        SettingError::unless(
            !program.is_empty(),
            "control.pilots.helper",
            program,
            "a program and its arguments, or an empty list",
        )?;
        // The name marks pilots, and is part of a format with fields separated by `|`.
        let sound = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        SettingError::unless(
            !self.name.is_empty() && self.name.chars().all(sound),
            "control.pilots.name",
            &self.name,
            "letters, digits, . _ or -",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_has_the_common_settings_but_its_own() {
        let own = OfKind {
            partition: Some("cpu".to_owned()),
            extra: Some(Vec::new()),
            ..OfKind::default()
        };
        let mut pilots = Pilots {
            partition: "gpu".to_owned(),
            qos: "low".to_owned(),
            extra: vec!["--gpus=4".to_owned()],
            kinds: [("cpu".to_owned(), own)].into(),
            ..Pilots::default()
        };
        let of: Vec<(&str, Pilots)> = pilots.by_kind().collect();
        let [("cpu", cpu)] = of.as_slice() else {
            panic!("{of:?}");
        };
        assert_eq!((cpu.partition.as_str(), cpu.qos.as_str()), ("cpu", "low"));
        assert!(cpu.extra.is_empty());
        assert_eq!(pilots.partitions(), ["cpu", "gpu"].into());
        pilots.check().unwrap();
        pilots.helper = vec!["helper".to_owned()];
        let error = pilots.check().unwrap_err().to_string();
        assert!(error.contains("control.pilots.kinds"), "{error}");
        pilots.helper.clear();
        pilots.kinds.insert("a b".to_owned(), OfKind::default());
        assert!(pilots.check().unwrap_err().to_string().contains("a b"));
    }

    #[test]
    fn pilots_in_the_default_partition_are_doubted() {
        let of = |mode, partition: &str, helper: &[&str]| Pilots {
            mode,
            partition: partition.to_owned(),
            helper: helper.iter().map(ToString::to_string).collect(),
            ..Pilots::default()
        };
        assert!(of(Mode::On, "", &[]).doubt().is_some());
        for sound in [
            of(Mode::On, "lacuna", &[]),
            of(Mode::Observe, "", &[]),
            of(Mode::On, "", &["helper"]),
        ] {
            assert_eq!(sound.doubt(), None, "{sound:?}");
        }
    }
}
