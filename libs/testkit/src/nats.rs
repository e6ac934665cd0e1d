//! A private nats-server for tests, with JetStream in a temporary folder, on a free port.

use lacuna_model::{ClusterId, Span};
use lacuna_runtime::config::BusSettings;
use lacuna_runtime::nats_server::{NatsServer, find};
use lacuna_runtime::{Bus, Health, metrics::Registry};

/// A nats-server that stops with the test.
#[derive(Debug)]
pub struct TestNats {
    server: NatsServer,
    // Declared after the server, so that the folder is deleted last.
    dir: tempfile::TempDir,
}

impl TestNats {
    /// Starts a server.
    ///
    /// # Panics
    /// If no nats-server is found, with a remedy.
    #[must_use]
    #[expect(clippy::panic, reason = "for tests alone")]
    pub fn start() -> Self {
        let started = (|| -> Result<Self, Box<dyn std::error::Error>> {
            let program = find()?;
            let dir = tempfile::Builder::new().prefix("lacuna-nats-").tempdir()?;
            let server = NatsServer::start(&program, dir.path(), 0)?;
            Ok(Self { server, dir })
        })();
        match started {
            Ok(nats) => nats,
            Err(error) => panic!("{error}"),
        }
    }

    /// Its address in the form of `--nats`.
    #[must_use]
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// Kills it as `kill -9` does.
    pub fn kill(&mut self) {
        self.server.kill();
    }

    /// Deletes everything that it has stored. It must not be running.
    pub fn wipe(&mut self) {
        let _ = std::fs::remove_dir_all(self.dir.path().join("jetstream"));
    }

    /// Starts it again on the same port with the same files.
    ///
    /// # Panics
    /// If it does not start.
    #[expect(clippy::panic, reason = "for tests alone")]
    pub fn restart(&mut self) {
        if let Err(error) = self.server.restart() {
            panic!("{error}");
        }
    }

    /// Settings for [`Bus::connect`].
    #[must_use]
    pub fn settings(&self) -> BusSettings {
        BusSettings {
            url: self.url(),
            connect_limit: Span::from_secs(10),
            ..BusSettings::default()
        }
    }
}

/// A connection to it, as a service with this name.
///
/// # Panics
/// If the server does not answer.
#[expect(clippy::panic, reason = "for tests alone")]
pub async fn connect(nats: &TestNats, cluster: &ClusterId, service: &str) -> Bus {
    let (registry, health) = (Registry::new(), Health::default());
    match Bus::connect(&nats.settings(), cluster, service, &registry, &health).await {
        Ok(bus) => bus,
        Err(error) => panic!("{error}"),
    }
}
