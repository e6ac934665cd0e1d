//! The sections and their defaults.

use std::net::SocketAddr;
use std::path::PathBuf;

use lacuna_forecast::settings::Forecast;
use lacuna_model::{ClusterId, PlannerSettings, Span, SpanText};
use lacuna_trainer::settings::{Agent, Control};
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
    /// The cluster's name: 1 to 16 of A-Z a-z 0-9 _ -, part of every subject.
    #[schemars(with = "String")]
    pub id: ClusterId,
    /// Several instances of a service may run, and one is active. Another takes its place when it
    /// has said nothing for so long.
    #[serde(with = "SpanText")]
    pub lead: Span,
    /// The active instance of a service gives its place up when its loop has not turned for so long.
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
    /// The address of nats-server; several are separated by commas.
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

/// Where each service answers `/metrics` and `/healthz`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Http {
    /// Where ingest answers `/metrics` and `/healthz`; port 0 takes a free one.
    pub ingest: SocketAddr,
    /// Where forecast answers `/metrics` and `/healthz`; port 0 takes a free one.
    pub forecast: SocketAddr,
    /// Where planner answers `/metrics` and `/healthz`; port 0 takes a free one.
    pub planner: SocketAddr,
    /// Where control answers `/metrics` and `/healthz`; port 0 takes a free one.
    pub control: SocketAddr,
    /// Where agent answers `/metrics` and `/healthz`; port 0 takes a free one.
    pub agent: SocketAddr,
    /// Where gateway answers `/metrics` and `/healthz`; its page has an address of its own.
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
