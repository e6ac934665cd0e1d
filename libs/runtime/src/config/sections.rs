//! The sections and their defaults.

use std::net::SocketAddr;
use std::path::PathBuf;

use lacuna_forecast::settings::Forecast;
use lacuna_model::{ClusterId, NodeId, PlannerSettings, Span, SpanText};
use lacuna_trainer::settings::Control;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::gateway::Gateway;
use super::ingest::Ingest;
use crate::secret::Secret;

/// The whole configuration.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Which cluster.
    pub cluster: Cluster,
    /// The nats-server.
    pub bus: BusSettings,
    /// Where each service answers `/metrics` and `/healthz`.
    pub http: Http,
    /// Logs.
    pub telemetry: Telemetry,
    /// Where events come from.
    pub ingest: Ingest,
    /// How remaining hole lengths are predicted.
    pub forecast: Forecast,
    /// How plans are made.
    pub planner: PlannerSettings,
    /// How trainers are admitted and leases kept.
    pub control: Control,
    /// How nodes run training.
    pub agent: Agent,
    /// The operator's page.
    pub gateway: Gateway,
}

/// Which cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Cluster {
    /// Its name: 1 to 16 of A-Z a-z 0-9 _ -, part of every subject.
    #[schemars(with = "String")]
    pub id: ClusterId,
    /// Several instances of a service may run, and one is active. Another takes its place when it
    /// has said nothing for so long.
    #[serde(with = "SpanText")]
    pub lead: Span,
    /// The active one gives its place up when its loop has not turned for so long.
    #[serde(with = "SpanText")]
    pub still: Span,
}

impl Default for Cluster {
    fn default() -> Self {
        // The name is valid, so that the other branch is never taken.
        match ClusterId::new("main") {
            Ok(id) => Self {
                id,
                lead: Span::from_secs(3),
                still: Span::from_secs(10),
            },
            Err(e) => unreachable!("{e}"),
        }
    }
}

/// The nats-server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BusSettings {
    /// Its address; several are separated by commas.
    pub url: String,
    /// A file of `lacuna keys`: name, key, and the authority that vouches for the server. Address
    /// and cluster come from it as well, where they are left at their defaults.
    pub identity: Option<PathBuf>,
    /// A credentials file (`.creds`).
    pub credentials: Option<PathBuf>,
    /// User name; the password comes from `LACUNA_NATS_PASSWORD` or `password_file`.
    pub user: Option<String>,
    /// A file that holds the password alone.
    pub password_file: Option<PathBuf>,
    /// The password, out of the environment; never in the file and never printed.
    #[serde(skip)]
    pub password: Option<Secret>,
    /// How long to wait for the server at start before giving up.
    #[serde(with = "SpanText")]
    pub connect_limit: Span,
    /// How long to wait for an answer or an acknowledgement.
    #[serde(with = "SpanText")]
    pub request_limit: Span,
}

impl Default for BusSettings {
    fn default() -> Self {
        Self {
            url: "nats://127.0.0.1:4222".to_owned(),
            identity: None,
            credentials: None,
            user: None,
            password_file: None,
            password: None,
            connect_limit: Span::from_secs(30),
            request_limit: Span::from_secs(5),
        }
    }
}

/// Where each service answers `/metrics` and `/healthz`; port 0 takes a free one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Http {
    /// Of ingest.
    pub ingest: SocketAddr,
    /// Of forecast.
    pub forecast: SocketAddr,
    /// Of planner.
    pub planner: SocketAddr,
    /// Of control.
    pub control: SocketAddr,
    /// Of agent.
    pub agent: SocketAddr,
    /// Of gateway; its page has an address of its own.
    pub gateway: SocketAddr,
}

impl Default for Http {
    fn default() -> Self {
        let local = |port| SocketAddr::from(([127, 0, 0, 1], port));
        Self {
            ingest: local(9471),
            forecast: local(9472),
            planner: local(9473),
            control: local(9474),
            agent: local(9475),
            gateway: local(9476),
        }
    }
}

impl Http {
    /// The address of a service, by its name; a free port for one that is not listed.
    #[must_use]
    pub fn of(&self, service: &str) -> SocketAddr {
        match service {
            "ingest" => self.ingest,
            "forecast" => self.forecast,
            "planner" => self.planner,
            "control" => self.control,
            "agent" => self.agent,
            "gateway" => self.gateway,
            _ => SocketAddr::from(([127, 0, 0, 1], 0)),
        }
    }
}

/// How log lines look.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Logs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Telemetry {
    /// A level, or directives as in `info,lacuna_planner=debug`.
    pub log: String,
    /// How lines look.
    pub format: LogFormat,
}

impl Default for Telemetry {
    fn default() -> Self {
        Self {
            log: "info".to_owned(),
            format: LogFormat::Text,
        }
    }
}

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
    /// One that has said nothing at all for this long since its start hangs as well: it has
    /// imports to do and a model to build. The others' programs are not watched so. Any program
    /// waits as long for the names of its run's nodes.
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
