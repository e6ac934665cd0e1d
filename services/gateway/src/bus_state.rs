//! The state of nats-server, read from the pages of its monitor: `/varz`, `/jsz` and `/connz`.

use std::collections::BTreeMap;
use std::path::Path;

use lacuna_runtime::http::ask;
use nix::sys::statvfs::statvfs;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Programs of Lacuna that name themselves. A client chooses its name, so others share one.
const PROGRAMS: [&str; 8] = [
    "ingest",
    "forecast",
    "planner",
    "control",
    "agent",
    "gateway",
    "pilot-helper",
    "cli",
];

/// Connections on one page of `/connz`, the server's most, and most pages.
const PAGE: usize = 1024;
const PAGES: usize = 32;

/// What nats-server says about itself. Sizes are bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BusState {
    /// Its version.
    pub(crate) version: String,
    /// Resident memory.
    pub(crate) memory: u64,
    /// The most connections that it takes.
    pub(crate) most_connections: u64,
    /// Clients that it has closed since its start, because they did not read what was sent to them.
    pub(crate) slow: u64,
    /// The files of all streams.
    pub(crate) stored: u64,
    /// The room that its configuration gives them.
    pub(crate) room: u64,
    /// What is free in their file system, if the gateway sees it.
    pub(crate) free: Option<u64>,
    /// Each stream: its size, and its limit if it has one.
    pub(crate) streams: BTreeMap<String, (u64, Option<u64>)>,
    /// Connections by account and program.
    pub(crate) connections: BTreeMap<(String, String), u64>,
}

#[derive(Deserialize)]
struct Varz {
    #[serde(default)]
    version: String,
    mem: u64,
    max_connections: u64,
    slow_consumers: u64,
}

#[derive(Deserialize)]
struct Jsz {
    #[serde(default)]
    storage: u64,
    #[serde(default)]
    config: JetStream,
    #[serde(default)]
    account_details: Vec<Account>,
}

#[derive(Default, Deserialize)]
struct JetStream {
    #[serde(default)]
    max_storage: u64,
}

#[derive(Deserialize)]
struct Account {
    #[serde(default)]
    stream_detail: Vec<Stream>,
}

#[derive(Deserialize)]
struct Stream {
    name: String,
    state: StreamState,
    config: Option<StreamConfig>,
}

#[derive(Deserialize)]
struct StreamState {
    bytes: u64,
}

#[derive(Deserialize)]
struct StreamConfig {
    /// Below 0: no limit.
    max_bytes: i64,
}

#[derive(Deserialize)]
struct Connz {
    total: usize,
    connections: Vec<Connection>,
}

#[derive(Deserialize)]
struct Connection {
    #[serde(default)]
    name: String,
    #[serde(default)]
    account: String,
}

/// The program of a client, by its name.
fn program(name: &str) -> &str {
    let own = name.strip_prefix("lacuna-").unwrap_or_default();
    if PROGRAMS.contains(&own) {
        own
    } else {
        "other"
    }
}

impl BusState {
    /// Asks the monitor at an address. `store` is the folder of the streams, if it is known.
    ///
    /// # Errors
    /// Why it does not answer, in words.
    pub(crate) async fn read(address: &str, store: Option<&Path>) -> Result<Self, String> {
        let varz: Varz = page(address, "/varz").await?;
        let jsz: Jsz = page(address, "/jsz?accounts=true&streams=true&config=true").await?;
        let mut state = Self {
            version: varz.version,
            memory: varz.mem,
            most_connections: varz.max_connections,
            slow: varz.slow_consumers,
            stored: jsz.storage,
            room: jsz.config.max_storage,
            free: store.map(free).transpose()?,
            ..Self::default()
        };
        let streams = jsz.account_details.into_iter();
        for stream in streams.flat_map(|account| account.stream_detail) {
            let limit = stream.config.map(|config| config.max_bytes);
            let limit = limit.and_then(|limit| u64::try_from(limit).ok());
            state
                .streams
                .insert(stream.name, (stream.state.bytes, limit));
        }
        for at in 0..PAGES {
            let path = format!("/connz?auth=true&limit={PAGE}&offset={}", at * PAGE);
            let connz: Connz = page(address, &path).await?;
            for one in &connz.connections {
                let key = (one.account.clone(), program(&one.name).to_owned());
                *state.connections.entry(key).or_default() += 1;
            }
            if (at + 1) * PAGE >= connz.total || connz.connections.is_empty() {
                break;
            }
        }
        Ok(state)
    }

    /// The share of the room that is taken, in 0 to 1; none without a limit.
    pub(crate) fn fill(&self) -> Option<f64> {
        (self.room > 0).then(|| self.stored as f64 / self.room as f64)
    }

    /// All connections.
    pub(crate) fn clients(&self) -> u64 {
        self.connections.values().sum()
    }
}

/// Bytes that a program may still write in the file system of a folder.
fn free(folder: &Path) -> Result<u64, String> {
    let found = statvfs(folder);
    let found =
        found.map_err(|error| format!("gateway.bus_store {}: {error}", folder.display()))?;
    Ok(found.blocks_available() * found.fragment_size())
}

/// A page of the monitor.
async fn page<T: DeserializeOwned>(address: &str, path: &str) -> Result<T, String> {
    let failed = |reason: &dyn std::fmt::Display| format!("http://{address}{path}: {reason}");
    match ask(address, path).await {
        Ok((200, body)) => serde_json::from_str(&body).map_err(|error| failed(&error)),
        Ok((status, _)) => Err(failed(&format_args!("status {status}"))),
        Err(error) => Err(failed(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_cannot_choose_a_series() {
        for (name, is) in [
            ("lacuna-agent", "agent"),
            ("lacuna-agent-1", "other"),
            ("", "other"),
            ("agent", "other"),
        ] {
            assert_eq!(program(name), is, "{name}");
        }
    }
}
