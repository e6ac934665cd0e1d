//! The sections of every program and their defaults, and those of one program beside them.

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;

use lacuna_model::{ClusterId, SettingError, Span, SpanText};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::secret::Secret;

/// The sections of the configuration that one program reads, besides those of every program. Its
/// fields have the names of the sections. Serde ignores the sections of other programs, so the type
/// itself does not deny unknown fields, while each section does.
pub trait Sections: Clone + Default + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Checks the values that types alone do not restrict.
    ///
    /// # Errors
    /// The first value that is out of its range.
    fn check(&self) -> Result<(), SettingError>;
}

/// No sections besides those of every program.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct NoSections {}

impl Sections for NoSections {
    fn check(&self) -> Result<(), SettingError> {
        Ok(())
    }
}

/// The configuration of a program: the sections of every program, and its own. A setting is named as
/// in the file: `config.bus.url`, and `config.control.store` where `S` has a section `control`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(default)]
#[schemars(bound = "S: Default + Serialize + JsonSchema")]
pub struct Config<S = NoSections> {
    /// The cluster and the leadership of its services.
    pub cluster: Cluster,
    /// The connection to nats-server.
    pub bus: BusSettings,
    /// The address at which each service answers `/metrics` and `/healthz`.
    pub http: Http,
    /// Level and format of the logs.
    pub telemetry: Telemetry,
    /// The sections of the program.
    #[serde(flatten)]
    pub own: S,
}

impl<S> Deref for Config<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.own
    }
}

impl<S> DerefMut for Config<S> {
    fn deref_mut(&mut self) -> &mut S {
        &mut self.own
    }
}

impl<S> Config<S> {
    /// The sections of every program alone.
    pub(crate) fn shared(&self) -> Config {
        Config {
            cluster: self.cluster.clone(),
            bus: self.bus.clone(),
            http: self.http.clone(),
            telemetry: self.telemetry.clone(),
            own: NoSections {},
        }
    }
}

/// The cluster and the leadership of its services.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Cluster {
    /// The cluster's name: 1 to 16 of A-Z a-z 0-9 _ -, part of every subject.
    #[schemars(with = "String")]
    pub id: ClusterId,
    /// Length of a leadership. Of several instances of a service one is active. A standby takes
    /// over when the active one has not renewed its leadership for this time.
    #[serde(with = "SpanText")]
    pub lead: Span,
    /// An active instance resigns its leadership when its loop has been stuck for this time.
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

/// The connection to nats-server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BusSettings {
    /// The address of nats-server. Several addresses are separated by commas.
    pub url: String,
    /// An identity file of `lacuna keys`: name, key, and the authority of the server's certificate.
    /// Address and cluster are taken from it too, unless they are set.
    pub identity: Option<PathBuf>,
    /// A credentials file (`.creds`).
    pub credentials: Option<PathBuf>,
    /// User name. The password comes from `LACUNA_NATS_PASSWORD` or `password_file`.
    pub user: Option<String>,
    /// A file that holds the password and nothing else.
    pub password_file: Option<PathBuf>,
    /// The password, taken from the environment. It is never in the file and never printed.
    #[serde(skip)]
    pub password: Option<Secret>,
    /// How long a service waits for the server at its start before it gives up.
    #[serde(with = "SpanText")]
    pub connect_limit: Span,
    /// How long a request waits for its answer, and a write for its acknowledgement.
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

/// The address at which each service answers `/metrics` and `/healthz`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Http {
    /// Address of `/metrics` and `/healthz` of ingest. Port 0 takes a free port.
    pub ingest: SocketAddr,
    /// Address of `/metrics` and `/healthz` of forecast. Port 0 takes a free port.
    pub forecast: SocketAddr,
    /// Address of `/metrics` and `/healthz` of planner. Port 0 takes a free port.
    pub planner: SocketAddr,
    /// Address of `/metrics` and `/healthz` of control. Port 0 takes a free port.
    pub control: SocketAddr,
    /// Address of `/metrics` and `/healthz` of the agent. Port 0 takes a free port.
    pub agent: SocketAddr,
    /// Address of `/metrics` and `/healthz` of gateway. The page has its own address.
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
    /// The address of a service, by its name; a free port for an unknown service.
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

/// The format of log lines.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Text for people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Level and format of the logs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Telemetry {
    /// Log level, or directives such as `info,lacuna_planner=debug`.
    pub log: String,
    /// Format of log lines.
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
