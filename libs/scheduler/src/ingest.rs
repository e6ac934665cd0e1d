//! The section `[ingest]`: the sources of events.

mod time_text;

use std::fmt;
use std::path::{Path, PathBuf};

use lacuna_model::{SettingError, Span, SpanText, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kinds::KindRules;
use crate::live::Live;
use crate::settings::{Flux, Lsf, Pbs, Slurm};
use crate::{SchedulerName, Sections};
use time_text::TimeText;

/// The sources of events. Events of external programs are always read. One recording or one live
/// scheduler may be read in addition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Ingest {
    /// Time between two full snapshots.
    #[serde(with = "SpanText")]
    pub snapshot_every: Span,
    /// Number of ids of external events that are remembered to find duplicates.
    pub dedup_window: usize,
    /// How far an event's time may be ahead of the cluster's time. Later ones are refused.
    #[serde(with = "SpanText")]
    pub max_ahead: Span,
    /// A file with all nodes of the cluster, one name a line. Events of other nodes are refused.
    /// Without it every name is accepted, except in external events where keys are in use.
    pub nodes_file: Option<PathBuf>,
    /// Whether external events may name any node where keys are in use without a `nodes_file`.
    /// If not, they may name only nodes that the scheduler's adapter has seen.
    pub any_node: bool,
    /// Where nodes are: a file, or the name of the scheduler, `slurm` or `pbs`, to ask it. A file may be Slurm's
    /// `topology.conf` or `topology.yaml`, the output of `scontrol show topology`, `pbsnodes -a -F
    /// json`, `bmgroup -cu` or `ibnetdiscover`, LSF's `lsb.hosts`, or CSV `node,leaf[,pod[,...]]`.
    /// Without it all nodes are equally near.
    pub topology: Option<PathBuf>,
    /// Time between two readings of the topology.
    #[serde(with = "SpanText")]
    pub topology_every: Span,
    /// PBS: the resources that name the switches above a node, the leaf first, as in the server's
    /// `node_group_key`.
    pub topology_keys: Vec<String>,
    /// `ibnetdiscover`: the adapters that count, where a node has several: patterns of their
    /// descriptions or of a word there, as in `mlx5_0`. Without one all count, and must agree which
    /// nodes are near.
    pub topology_rails: Vec<String>,
    /// A file with the kind of each node (CSV `node,kind`), or with the output of `lshosts -w` of
    /// LSF, to which `kinds` has the rules. It is read again every `topology_every`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kinds_file: Option<PathBuf>,
    /// Kinds of nodes, as partitions of CPU and of GPU nodes: for each kind the labels of its nodes,
    /// one of which is enough. `partition:`, `feature:` and `gres:` of Slurm, `queue:` and
    /// `resource:` of PBS, `type:`, `model:` and `resource:` of LSF, `queue:` and `property:` of
    /// Flux, `nodes:` with a list, or `rest`. Without kinds all nodes are alike.
    #[serde(skip_serializing_if = "KindRules::is_empty")]
    pub kinds: KindRules,
    /// A recording of a machine to replay.
    pub recording: Option<Recording>,
    /// A live Slurm.
    pub slurm: Option<Slurm>,
    /// A live PBS.
    pub pbs: Option<Pbs>,
    /// A live LSF.
    pub lsf: Option<Lsf>,
    /// A live Flux.
    pub flux: Option<Flux>,
}

impl Default for Ingest {
    fn default() -> Self {
        Self {
            snapshot_every: Span::from_secs(5),
            dedup_window: 65_536,
            max_ahead: Span::from_secs(5),
            nodes_file: None,
            any_node: false,
            topology: None,
            topology_every: Span::from_secs(600),
            topology_keys: Vec::new(),
            topology_rails: Vec::new(),
            kinds: KindRules::default(),
            kinds_file: None,
            recording: None,
            slurm: None,
            pbs: None,
            lsf: None,
            flux: None,
        }
    }
}

/// The source of the topology.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopologySource<'a> {
    /// A file of any known format.
    File(&'a Path),
    /// The live scheduler of this name.
    Scheduler(SchedulerName),
}

impl fmt::Display for TopologySource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Scheduler(name) => name.fmt(f),
        }
    }
}

/// The source of the kinds of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KindsSource<'a> {
    /// A list, or the output of `lshosts -w`.
    File(&'a Path),
    /// The live scheduler of this name.
    Scheduler(SchedulerName),
    /// The setting alone.
    Setting,
}

impl fmt::Display for KindsSource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Scheduler(name) => name.fmt(f),
            Self::Setting => f.write_str("ingest.kinds"),
        }
    }
}

/// The pace at which a recording is replayed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RecordingPace {
    /// `rate` recorded seconds per second.
    #[default]
    Scaled,
    /// Recorded time advances each time the loop has settled.
    LockStep,
}

/// A recording of a machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    /// The hole list (CSV, plain or gzip).
    pub path: PathBuf,
    /// The planned starts of these holes (CSV, plain or gzip: `at,node,start`); none if absent.
    #[serde(default)]
    pub planned_file: Option<PathBuf>,
    /// The order of nodes, one a line; without it, the order of first appearance.
    #[serde(default)]
    pub nodes_file: Option<PathBuf>,
    /// Number of nodes that are replayed, the first ones; all if absent.
    #[serde(default)]
    pub first_nodes: Option<usize>,
    /// How recorded time runs.
    #[serde(default)]
    pub pace: RecordingPace,
    /// Recorded seconds per second, if the pace is `scaled`.
    #[serde(default = "one")]
    pub rate: f64,
    /// The moment of the recording to begin at; its beginning if absent.
    #[serde(default, with = "TimeText", skip_serializing_if = "Option::is_none")]
    pub start: Option<Timestamp>,
    /// The moment of the recording to end at; its end if absent.
    #[serde(default, with = "TimeText", skip_serializing_if = "Option::is_none")]
    pub end: Option<Timestamp>,
}

fn one() -> f64 {
    1.0
}

impl Ingest {
    /// The sections of live schedulers.
    #[must_use]
    pub fn sections(&self) -> Sections<'_> {
        Sections {
            slurm: self.slurm.as_ref(),
            pbs: self.pbs.as_ref(),
            lsf: self.lsf.as_ref(),
            flux: self.flux.as_ref(),
        }
    }

    /// The live scheduler, if there is one.
    #[must_use]
    pub fn live(&self) -> Option<Box<dyn Live>> {
        self.sections().live().into_iter().next()
    }

    /// The source of the topology, if there is one.
    #[must_use]
    pub fn topology_source(&self) -> Option<TopologySource<'_>> {
        let path = self.topology.as_deref()?;
        let scheduler = path.to_str().and_then(SchedulerName::named);
        Some(scheduler.map_or(TopologySource::File(path), TopologySource::Scheduler))
    }

    /// The source of the kinds of nodes, if there is one.
    #[must_use]
    pub fn kinds_source(&self) -> Option<KindsSource<'_>> {
        if let Some(path) = &self.kinds_file {
            return Some(KindsSource::File(path));
        }
        if self.kinds.is_empty() {
            return None;
        }
        let live = self.live().filter(|live| live.kinds().is_ok());
        let name = live.map(|live| live.scheduler());
        let name = name.filter(|name| self.kinds.need(*name));
        Some(name.map_or(KindsSource::Setting, KindsSource::Scheduler))
    }

    fn check_kinds(&self) -> Result<(), SettingError> {
        if self.kinds_file.is_some() {
            return self.kinds.check(&[SchedulerName::Lsf]);
        }
        let live = self.live().filter(|live| live.kinds().is_ok());
        let name = live.map(|live| live.scheduler());
        self.kinds.check(name.as_slice())
    }

    fn check_topology(&self) -> Result<(), SettingError> {
        SettingError::unless_positive([("ingest.topology_every", self.topology_every)])?;
        let Some(TopologySource::Scheduler(name)) = self.topology_source() else {
            return Ok(());
        };
        let live = self.live().filter(|live| live.scheduler() == name);
        let Some(live) = live else {
            let expected = "the scheduler of a section, as slurm with [ingest.slurm], or a file";
            return SettingError::unless(false, "ingest.topology", name, expected);
        };
        let question = live.topology(&self.topology_keys);
        question
            .map(|_| ())
            .map_err(|lacks| lacks.setting("ingest.topology"))
    }

    /// Checks the values, and that at most one recording or live scheduler is configured.
    ///
    /// # Errors
    /// The first value that is out of its range, or the second source.
    pub fn check(&self) -> Result<(), SettingError> {
        SettingError::unless_positive([("ingest.snapshot_every", self.snapshot_every)])?;
        SettingError::unless(
            self.dedup_window > 0,
            "ingest.dedup_window",
            self.dedup_window,
            "1 or more",
        )?;
        let live = self.sections().live();
        SettingError::unless(
            live.len() + usize::from(self.recording.is_some()) <= 1,
            "ingest",
            "configured with several sources",
            "one scheduler or one recording",
        )?;
        live.iter().try_for_each(|live| live.check())?;
        self.check_topology()?;
        self.check_kinds()?;
        self.recording.as_ref().map_or(Ok(()), Recording::check)?;
        let needs_nodes = live.iter().any(|live| live.needs_nodes());
        SettingError::unless(
            !needs_nodes || self.nodes_file.is_some(),
            "ingest.nodes_file",
            "absent",
            "a list of the nodes, since the scheduler's file has none",
        )
    }
}

impl Recording {
    fn check(&self) -> Result<(), SettingError> {
        SettingError::unless(
            self.rate.is_finite() && self.rate > 0.0,
            "ingest.recording.rate",
            self.rate,
            "a number above zero",
        )?;
        let Some((start, end)) = self.start.zip(self.end) else {
            return Ok(());
        };
        SettingError::unless(
            start < end,
            "ingest.recording.end",
            end,
            "a time after ingest.recording.start",
        )
    }
}
