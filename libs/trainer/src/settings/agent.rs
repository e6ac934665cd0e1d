//! The section `[agent]`.

use std::path::PathBuf;

use lacuna_model::{NodeId, SettingError, Span, SpanText};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How nodes run training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Agent {
    /// The nodes that this process plays.
    #[schemars(with = "Vec<String>")]
    pub nodes: Vec<NodeId>,
    /// Whether it plays every node that it hears of (demonstrations).
    pub all_nodes: bool,
    /// Without a renewal of its lease for this long, an agent gives its node back by itself.
    #[serde(with = "SpanText")]
    pub dead_man: Span,
    /// Status and progress are reported this often.
    #[serde(with = "SpanText")]
    pub report_every: Span,
    /// From the request to stop until the kill.
    #[serde(with = "SpanText")]
    pub grace: Span,
    /// A program that regroups and says nothing for this long hangs, and is killed.
    #[serde(with = "SpanText")]
    pub hang_after: Span,
    /// A program that regroups and has said nothing at all for this long since its start hangs as
    /// well: it has imports to do and a model to build. Other programs are not watched so. Any
    /// program waits as long for the names of its run's nodes.
    #[serde(with = "SpanText")]
    pub start_limit: Span,
    /// What brings the workers of launcher `torchrun` together: a program and its first
    /// arguments.
    pub torchrun: Vec<String>,
    /// Where output and progress files live: a folder of the agent's user, which nobody else may
    /// change.
    pub work_dir: PathBuf,
    /// Names of the agent's own environment that programs get, beside the usual ones (`PATH`,
    /// `HOME`, `LANG`, `CUDA_*` and so on); a `*` at the end stands for any.
    pub pass_env: Vec<String>,
    /// Device files of which a program may leave none open, by path; a `*` at the end stands for any.
    pub devices: Vec<String>,
    /// From a program's end its node is not reported free for so long at most, while processes of
    /// the agent's user that started after it keep such a device open.
    #[serde(with = "SpanText")]
    pub device_wait: Span,
    /// Whether each program gets a cgroup of its own, where version 2 may be divided. A pilot's
    /// never does: what the main scheduler gave it is the scheduler's to end.
    pub cgroups: bool,
}

impl Default for Agent {
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            all_nodes: false,
            dead_man: Span::from_secs(60),
            report_every: Span::from_secs(5),
            grace: Span::from_secs(20),
            hang_after: Span::from_secs(5),
            start_limit: Span::from_secs(300),
            torchrun: vec!["torchrun".to_owned()],
            work_dir: PathBuf::from("lacuna-work"),
            pass_env: Vec::new(),
            devices: ["/dev/nvidia*", "/dev/kfd", "/dev/dri/render*"]
                .map(str::to_owned)
                .to_vec(),
            device_wait: Span::from_secs(10),
            cgroups: true,
        }
    }
}

impl Agent {
    /// Whether the values make sense.
    ///
    /// # Errors
    /// The first one that does not.
    pub fn check(&self) -> Result<(), SettingError> {
        SettingError::unless_positive([
            ("agent.dead_man", self.dead_man),
            ("agent.report_every", self.report_every),
        ])
    }
}
