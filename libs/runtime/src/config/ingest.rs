//! Where events come from.

use std::path::PathBuf;

use lacuna_model::{SettingError, Span, SpanText, Timestamp};
use lacuna_schedlog::living::settings::{Lsf, Pbs, Slurm};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::text::TimeText;

/// Where events come from. Events of external programs are always read; a recording is read
/// in addition, if one is given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Ingest {
    /// A full snapshot goes out this often.
    #[serde(with = "SpanText")]
    pub snapshot_every: Span,
    /// How many ids of external events are remembered to find duplicates.
    pub dedup_window: usize,
    /// Events may be stamped this far ahead of the cluster's time; further ones are refused.
    #[serde(with = "SpanText")]
    pub max_ahead: Span,
    /// All nodes of the cluster, one name a line; events of others are then refused. Without
    /// it, every name is a node, but for external events where keys are in use.
    pub nodes_file: Option<PathBuf>,
    /// Whether external events may name any node where keys are in use and there is no
    /// `nodes_file`. Else only those that the adapter of the scheduler has seen.
    pub any_node: bool,
    /// A recorded machine to play.
    pub recording: Option<Recording>,
    /// A living Slurm.
    pub slurm: Option<Slurm>,
    /// A living PBS.
    pub pbs: Option<Pbs>,
    /// A living LSF.
    pub lsf: Option<Lsf>,
}

impl Default for Ingest {
    fn default() -> Self {
        Self {
            snapshot_every: Span::from_secs(5),
            dedup_window: 65_536,
            max_ahead: Span::from_secs(5),
            nodes_file: None,
            any_node: false,
            recording: None,
            slurm: None,
            pbs: None,
            lsf: None,
        }
    }
}

/// How a recording is played.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RecordingPace {
    /// At `rate` recorded seconds a second.
    #[default]
    Scaled,
    /// Recorded time advances when the loop has settled.
    LockStep,
}

/// A recorded machine.
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
    /// Play only so many nodes.
    #[serde(default)]
    pub first_nodes: Option<usize>,
    /// How time runs.
    #[serde(default)]
    pub pace: RecordingPace,
    /// Recorded seconds a second, if the pace is `scaled`.
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
    /// Whether the values make sense, and there is one source of the truth.
    ///
    /// # Errors
    /// The first one that does not, or a second source.
    pub(super) fn check(&self) -> Result<(), SettingError> {
        SettingError::unless_positive([("ingest.snapshot_every", self.snapshot_every)])?;
        SettingError::unless(
            self.dedup_window > 0,
            "ingest.dedup_window",
            self.dedup_window,
            "1 or more",
        )?;
        let sources = [
            self.recording.is_some(),
            self.slurm.is_some(),
            self.pbs.is_some(),
            self.lsf.is_some(),
        ];
        SettingError::unless(
            sources.iter().filter(|given| **given).count() <= 1,
            "ingest",
            "told of several",
            "one scheduler or one recording: recording, slurm, pbs or lsf",
        )?;
        self.recording.as_ref().map_or(Ok(()), Recording::check)?;
        self.slurm.as_ref().map_or(Ok(()), Slurm::check)?;
        self.pbs.as_ref().map_or(Ok(()), Pbs::check)?;
        self.lsf.as_ref().map_or(Ok(()), Lsf::check)?;
        SettingError::unless(
            self.lsf.is_none() || self.nodes_file.is_some(),
            "ingest.nodes_file",
            "absent",
            "a list of the nodes, which lsb.events does not have",
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
            lacuna_wire::time_text::format(end),
            "a time after ingest.recording.start",
        )
    }
}
