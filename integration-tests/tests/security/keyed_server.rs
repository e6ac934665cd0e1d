//! A nats-server that knows its users by keys, and connections with their identities.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use lacuna_model::{ClusterId, Span};
use lacuna_runtime::config::BusSettings;
use lacuna_runtime::metrics::{Registry, expose};
use lacuna_runtime::nats_conf::{NatsConf, ServerKeys};
use lacuna_runtime::nats_server::{NatsServer, find};
use lacuna_runtime::{Bus, BusError, Health};

use crate::support::count;

/// The path of a program of the workspace, beside the test's own.
pub(crate) fn program(name: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let dir = own.parent().and_then(Path::parent).unwrap();
    let path = dir.join(name);
    assert!(
        path.is_file(),
        "{} is missing: build it first",
        path.display()
    );
    path
}

/// Runs `lacuna` and waits; returns its standard output.
pub(crate) fn lacuna(args: &[&str], env: &[(&str, &str)]) -> Result<String, String> {
    let output = Command::new(program("lacuna"))
        .args(args)
        .env_remove("LACUNA_IDENTITY")
        .envs(env.iter().copied())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(text(&output.stderr) + &text(&output.stdout))
    }
}

/// Waits until something holds.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..600 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{what}: not within a minute");
}

/// A connection and its metrics.
pub(crate) struct Link {
    pub(crate) bus: Bus,
    registry: Registry,
}

impl Link {
    /// The number of refusals by the server.
    pub(crate) fn denied(&self) -> u64 {
        self.count("lacuna_bus_denied_total")
    }

    /// The value of a counter.
    pub(crate) fn count(&self, name: &str) -> u64 {
        count(&expose(&self.registry).unwrap(), name)
    }
}

/// The server, its keys, and its folder.
pub(crate) struct KeyedServer {
    server: NatsServer,
    pub(crate) id: ClusterId,
    pub(crate) dir: tempfile::TempDir,
}

impl KeyedServer {
    /// Makes keys for clusters `main` and `other`, and starts a server with them.
    pub(crate) async fn start() -> Self {
        let dir = tempfile::Builder::new()
            .prefix("lacuna-keys-")
            .tempdir()
            .unwrap();
        // Without keys, until its port is known: identities name it.
        let mut server = NatsServer::start(&find().unwrap(), dir.path(), 0).unwrap();
        let keys = dir.path().join("keys");
        let (url, keys) = (server.url(), keys.display().to_string());
        let init = [
            "keys",
            "init",
            &keys,
            "--cluster",
            "main",
            "--cluster",
            "other",
        ];
        let init = [&init[..], &["--url", &url]].concat();
        lacuna(&init, &[]).unwrap();
        std::fs::write(
            dir.path().join("nats.conf"),
            with_keys(dir.path(), server.port()),
        )
        .unwrap();
        server.restart().unwrap();
        Self {
            server,
            id: ClusterId::new("main").unwrap(),
            dir,
        }
    }

    /// `lacuna keys` on this folder; then the server reads its configuration again.
    pub(crate) async fn keys(&self, args: &[&str]) {
        let (what, rest) = args.split_first().unwrap();
        let dir = self.keys_dir().display().to_string();
        let line = [&["keys", what, &dir], rest].concat();
        lacuna(&line, &[]).unwrap();
        let before = self.log().matches("Reloaded server configuration").count();
        let pid = Pid::from_raw(i32::try_from(self.server.pid()).unwrap());
        kill(pid, Signal::SIGHUP).unwrap();
        until("nats-server reads its configuration", || {
            self.log().matches("Reloaded server configuration").count() > before
        })
        .await;
    }

    pub(crate) fn keys_dir(&self) -> PathBuf {
        self.dir.path().join("keys")
    }

    pub(crate) fn port(&self) -> u16 {
        self.server.port()
    }

    pub(crate) fn identity(&self, user: &str) -> PathBuf {
        self.keys_dir().join("main").join(format!("{user}.toml"))
    }

    /// The log of the server.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("nats.log")).unwrap_or_default()
    }

    /// Settings with an identity file.
    pub(crate) fn settings(&self, identity: PathBuf) -> BusSettings {
        BusSettings {
            url: self.server.url(),
            identity: Some(identity),
            connect_limit: Span::from_secs(10),
            ..BusSettings::default()
        }
    }

    /// Connects with these settings, as a service of this name.
    pub(crate) async fn open(
        &self,
        settings: &BusSettings,
        service: &str,
    ) -> Result<Link, BusError> {
        let (registry, health) = (Registry::new(), Health::default());
        let bus = Bus::connect(settings, &self.id, service, &registry, &health).await?;
        Ok(Link { bus, registry })
    }

    /// Connects as a user; a person is `cli`.
    pub(crate) async fn connect(&self, user: &str) -> Link {
        let services = ["ingest", "forecast", "planner", "control", "gateway"];
        let service = match user {
            _ if services.contains(&user) => user,
            _ if user.starts_with("agent") => "agent",
            _ => "cli",
        };
        let settings = self.settings(self.identity(user));
        match self.open(&settings, service).await {
            Ok(link) => {
                assert!(link.bus.proven(), "{user} is not proven");
                assert_eq!(link.bus.user(), user);
                link
            }
            Err(error) => panic!("{user}: {error}\n{}", self.log()),
        }
    }
}

/// The server's configuration with the keys in a folder.
fn with_keys(dir: &Path, port: u16) -> String {
    let conf = NatsConf {
        listen: format!("127.0.0.1:{port}"),
        monitor: None,
        store: dir.join("jetstream"),
        log: Some(dir.join("nats.log")),
        keys: Some(ServerKeys {
            include: PathBuf::from("keys/server"),
            folder: dir.join("keys/server"),
        }),
    };
    conf.text()
}
