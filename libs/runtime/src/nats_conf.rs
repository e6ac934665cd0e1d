//! The configuration of nats-server, for `lacuna up`, tests, containers and a centre's own machine
//! (`lacuna config nats-server`).

use std::fmt::Write as _;
use std::path::PathBuf;

/// A configuration of nats-server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NatsConf {
    /// Address for clients, as in `127.0.0.1:4222`.
    pub listen: String,
    /// Address of health and statistics, which need no password.
    pub monitor: Option<String>,
    /// The folder of JetStream.
    pub store: PathBuf,
    /// The log file; standard error without one.
    pub log: Option<PathBuf>,
    /// Accounts, permissions and certificate.
    pub keys: Option<ServerKeys>,
}

/// The folder `server` of `lacuna keys`, as nats-server finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerKeys {
    /// Its path relative to the folder of the configuration, the only form that nats-server accepts
    /// for included files.
    pub include: PathBuf,
    /// Its absolute path.
    pub folder: PathBuf,
}

impl NatsConf {
    /// The text of the configuration file.
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
             # A dead client is dropped after three unanswered pings.\n\
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
