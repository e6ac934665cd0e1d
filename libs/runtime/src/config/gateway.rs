//! The section `[gateway]`: the operator's page.

use std::net::SocketAddr;
use std::path::PathBuf;

use lacuna_model::{SettingError, Span, SpanText};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The operator's page: read-only, in a browser.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Gateway {
    /// Where the page is served; port 0 takes a free one.
    pub page: SocketAddr,
    /// A file that holds a token and nothing else. With a file, the page is shown only to browsers
    /// with this token; without one, to every browser that reaches the address.
    pub token_file: Option<PathBuf>,
    /// Host names under which a page without a token is served, besides `localhost` and addresses.
    /// Under any other name a foreign page could read it (DNS rebinding).
    pub hosts: Vec<String>,
    /// Whether a proxy in front of the page speaks TLS. Browsers then send the token only over TLS.
    pub behind_tls: bool,
    /// Most browsers that follow the page at a time. Further ones are refused.
    pub viewers: usize,
    /// The address at which nats-server shows its state (`http` in its configuration), as in
    /// `127.0.0.1:8222`. The page and the metrics then have it.
    pub bus_monitor: Option<String>,
    /// The folder in which nats-server keeps streams, if this machine has it. What is free in its file
    /// system is then among the metrics.
    pub bus_store: Option<PathBuf>,
    /// The address of the Prometheus whose firing alerts the page shows, as in `127.0.0.1:9090`.
    pub prometheus: Option<String>,
    /// How far back the page shows which trainer had which node.
    #[serde(with = "SpanText")]
    pub history: Span,
}

impl Default for Gateway {
    fn default() -> Self {
        Self {
            page: SocketAddr::from(([127, 0, 0, 1], 9480)),
            token_file: None,
            hosts: Vec::new(),
            behind_tls: false,
            viewers: 64,
            bus_monitor: None,
            bus_store: None,
            prometheus: None,
            history: Span::from_secs(6 * 3600),
        }
    }
}

impl Gateway {
    /// Checks the values.
    ///
    /// # Errors
    /// The first value that is out of its range.
    pub fn check(&self) -> Result<(), SettingError> {
        for (key, address) in [
            ("gateway.bus_monitor", &self.bus_monitor),
            ("gateway.prometheus", &self.prometheus),
        ] {
            let is_address = |text: &str| {
                let (host, port) = text.rsplit_once(':').unwrap_or_default();
                !host.is_empty() && !host.contains('/') && port.parse::<u16>().is_ok()
            };
            SettingError::unless(
                address.as_deref().is_none_or(is_address),
                key,
                address.as_deref().unwrap_or_default(),
                "a host and a port, as in 127.0.0.1:9090",
            )?;
        }
        SettingError::unless(
            self.history.as_ms() >= 60_000,
            "gateway.history",
            self.history,
            "a minute or more, as in 6h",
        )
    }
}
