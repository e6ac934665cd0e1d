//! The section `[agent]`.

use std::path::PathBuf;

use lacuna_model::{NodeId, SettingError, Span, SpanText};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The account under which programs run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RunAs {
    /// The agent's own account, for trainers of all owners.
    #[default]
    #[serde(rename = "self")]
    Agent,
    /// The account with the name of the trainer's owner: the agent runs as root, or in a pilot that
    /// is the owner's job. The bus runs with keys.
    Owner,
}

/// How nodes run training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Agent {
    /// The nodes that this process serves.
    #[schemars(with = "Vec<String>")]
    pub nodes: Vec<NodeId>,
    /// Whether this process serves every node that gets a command (demonstrations).
    pub all_nodes: bool,
    /// The lease timeout: an agent that gets no renewal for this long gives its node back by
    /// itself.
    #[serde(with = "SpanText")]
    pub lease_timeout: Span,
    /// Interval of the reports of status and progress.
    #[serde(with = "SpanText")]
    pub report_every: Span,
    /// Time between the request to stop and the kill.
    #[serde(with = "SpanText")]
    pub grace: Span,
    /// A program that regroups and is silent for this long is killed; for `grace`, once it has said
    /// that its work is done or that its interpreter ends.
    #[serde(with = "SpanText")]
    pub hang_after: Span,
    /// A program that regroups and is silent for this long after its start is killed: imports and
    /// building a model take time. Other programs are not watched for silence. Any program waits at
    /// most this long for the names of the nodes that train with it.
    #[serde(with = "SpanText")]
    pub start_limit: Span,
    /// The account under which programs run. Control reads this setting too.
    pub run_as: RunAs,
    /// The least user id of an account under which a program runs, if `run_as` is `owner`.
    pub min_uid: u32,
    /// The command of launcher `torchrun`: a program and its first arguments.
    pub torchrun: Vec<String>,
    /// Folder of output and progress files. It belongs to the agent's user, and no other user may
    /// change it. Owners, if programs run as they, must be able to enter the folders above it.
    pub work_dir: PathBuf,
    /// Variables of the agent's environment that programs get, beside `PATH`, `HOME`, `LANG`,
    /// `CUDA_*` and such. A `*` at the end matches any text.
    pub pass_env: Vec<String>,
    /// Paths of device files that no process may keep open after a program's end. A `*` at the end
    /// matches any text.
    pub devices: Vec<String>,
    /// Longest time after a program's end for which its node is not reported free, while processes
    /// of its user that started after it keep a device of `devices` open.
    #[serde(with = "SpanText")]
    pub device_wait: Span,
    /// Whether each program gets its own cgroup, where cgroups of version 2 are delegated. Programs
    /// of a pilot never do: the main scheduler ends its cgroup.
    pub cgroups: bool,
}

impl Default for Agent {
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            all_nodes: false,
            lease_timeout: Span::from_secs(60),
            report_every: Span::from_secs(5),
            grace: Span::from_secs(20),
            hang_after: Span::from_secs(5),
            start_limit: Span::from_secs(300),
            run_as: RunAs::default(),
            min_uid: 1000,
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
    pub(super) fn check(&self) -> Result<(), SettingError> {
        SettingError::unless_positive([
            ("agent.lease_timeout", self.lease_timeout),
            ("agent.report_every", self.report_every),
        ])?;
        SettingError::unless(
            self.min_uid > 0,
            "agent.min_uid",
            self.min_uid,
            "1 or more: no program runs as root",
        )
    }
}
