//! What nats-server is told, wherever it runs: under `lacuna up`, in tests, in containers and on a
//! centre's own machine (`lacuna config nats-server`).

use std::fmt::Write as _;
use std::path::PathBuf;

/// A configuration of nats-server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NatsConf {
    /// Where clients reach it, as `127.0.0.1:4222`.
    pub listen: String,
    /// Where its health and statistics are served, without a password.
    pub monitor: Option<String>,
    /// The folder of what JetStream keeps.
    pub store: PathBuf,
    /// Its log, if not its standard error.
    pub log: Option<PathBuf>,
    /// Who may do what, and its certificate.
    pub keys: Option<ServerKeys>,
}

/// The folder `server` of `lacuna keys`, as nats-server is to find it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerKeys {
    /// Where it is, seen from the folder of the configuration: nats-server takes no other path of
    /// what is included.
    pub include: PathBuf,
    /// Where it is, absolutely.
    pub folder: PathBuf,
}

impl NatsConf {
    /// As nats-server reads it.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::from(
            "# Made by `lacuna config nats-server`, for nats-server 2.12.3 or newer.\n\
             # What Lacuna keeps on it is listed in ARCHITECTURE.md, \"What flows where\".\n\n\
             server_name: lacuna\n",
        );
        let _ = writeln!(out, "listen: {:?}", self.listen);
        if let Some(monitor) = &self.monitor {
            let _ = writeln!(
                out,
                "# Health and statistics, without a password: not for others to reach.\n\
                 http: {monitor:?}"
            );
        }
        if let Some(log) = &self.log {
            let _ = writeln!(out, "log_file: {log:?}");
        }
        out.push_str(
            "\n# A plan for thousands of nodes with its report is a few MB.\n\
             max_payload: 8MB\n\
             max_pending: 64MB\n\n\
             # A client that has died keeps nobody waiting.\n\
             ping_interval: \"20s\"\n\
             ping_max: 3\n\
             write_deadline: \"10s\"\n\n",
        );
        if let Some(keys) = &self.keys {
            let _ = writeln!(
                out,
                "# Who may do what, and proof of who this is, by `lacuna keys`. Users prove \
                 themselves by their\n# keys, not by certificates. Read again after SIGHUP.\n\
                 include {:?}\ntls {{\n  cert_file: {:?}\n  key_file: {:?}\n}}\n",
                keys.include.join("lacuna-accounts.conf"),
                keys.folder.join("server.pem"),
                keys.folder.join("server-key.pem"),
            );
        }
        let _ = writeln!(
            out,
            "jetstream {{\n  store_dir: {:?}\n  \
             # Ceilings for the streams of all clusters together; those of one reserve 1.9 GB.\n  \
             max_memory_store: 256MB\n  \
             max_file_store: 8GB\n  \
             # Each acknowledged write is on the disk: leases and plans must outlive a power\n  \
             # failure. The default, two minutes, loses acknowledged writes.\n  \
             sync_interval: always\n}}",
            self.store
        );
        out
    }
}
