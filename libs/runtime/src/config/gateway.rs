//! The operator's page.

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
    /// A file that holds a token, alone. Who has no such token sees nothing of the page; without
    /// a file, whoever reaches the address sees it.
    pub token_file: Option<PathBuf>,
    /// Names by which browsers may ask for the page when it has no token, beside `localhost` and
    /// addresses: under another name a foreign page could read it (DNS rebinding).
    pub hosts: Vec<String>,
    /// Whether a proxy in front speaks TLS: browsers then send the token by TLS alone.
    pub behind_tls: bool,
    /// So many browsers follow the page at a time; more are refused.
    pub viewers: usize,
    /// How far back the page shows who had which node.
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
            history: Span::from_secs(6 * 3600),
        }
    }
}

impl Gateway {
    /// Whether the values make sense.
    ///
    /// # Errors
    /// The first one that does not.
    pub(super) fn check(&self) -> Result<(), SettingError> {
        SettingError::unless(
            self.history.as_ms() >= 60_000,
            "gateway.history",
            self.history,
            "a minute or more, as in 6h",
        )
    }
}
