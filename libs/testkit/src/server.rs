//! The server of a test: a nats-server, or the simulated one in virtual time.

use std::pin::Pin;

use lacuna_model::ClusterId;
use lacuna_runtime::config::BusSettings;
use lacuna_runtime::metrics::Registry;
use lacuna_runtime::{Bus, BusError, Delays, Health, SimulatedServer, virtual_time};

use crate::nats::TestNats;

/// A server that a test may kill and empty.
#[derive(Debug)]
pub enum Server {
    /// A nats-server of its own.
    Real(TestNats),
    /// The simulated one.
    Simulated(SimulatedServer),
}

/// Runs a test in virtual time, in which waiting takes no time, over the simulated server.
/// `LACUNA_SEED` names another seed than 1, so that messages have other delays.
///
/// # Panics
/// If no runtime can be started.
#[expect(clippy::panic, reason = "for tests alone")]
pub fn in_virtual_time(test: impl AsyncFn(Server)) {
    let named = std::env::var("LACUNA_SEED").ok();
    let seed = named.and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let delays = Delays {
        least_ms: 0,
        most_ms: 20,
    };
    let server = SimulatedServer::new(seed, delays);
    if let Err(error) = virtual_time::run(seed, test(Server::Simulated(server))) {
        panic!("{error}");
    }
}

/// Runs a test in virtual time, and then with a nats-server: the simulated one behaves as that.
///
/// # Panics
/// If no nats-server is found, or no runtime can be started.
#[expect(clippy::panic, reason = "for tests alone")]
pub fn in_virtual_and_real_time(test: impl AsyncFn(Server)) {
    in_virtual_time(&test);
    match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime.block_on(test(Server::Real(TestNats::start()))),
        Err(error) => panic!("{error}"),
    }
}

impl Server {
    /// A connection to it, as a service with this name.
    ///
    /// # Panics
    /// If the server does not answer.
    #[expect(clippy::panic, reason = "for tests alone")]
    pub async fn connect(&self, cluster: &ClusterId, service: &str) -> Bus {
        let connecting = self.connecting(cluster, service, Registry::new(), Health::default());
        match connecting.await {
            Ok(bus) => bus,
            Err(error) => panic!("{error}"),
        }
    }

    /// A connection that is made when this is awaited, by the process that awaits it.
    pub(crate) fn connecting(
        &self,
        cluster: &ClusterId,
        service: &str,
        registry: Registry,
        health: Health,
    ) -> Pin<Box<dyn Future<Output = Result<Bus, BusError>> + Send>> {
        let (cluster, service) = (cluster.clone(), service.to_owned());
        match self {
            Self::Real(nats) => {
                let settings = nats.settings();
                Box::pin(async move {
                    Bus::connect(&settings, &cluster, &service, &registry, &health).await
                })
            }
            Self::Simulated(server) => {
                let (server, settings) = (server.clone(), BusSettings::default());
                Box::pin(async move {
                    Bus::simulated(&server, &settings, &cluster, &service, &registry, &health).await
                })
            }
        }
    }

    /// Kills it as `kill -9` does.
    pub fn kill(&mut self) {
        match self {
            Self::Real(nats) => nats.kill(),
            Self::Simulated(server) => server.kill(),
        }
    }

    /// Deletes everything that it has stored. It must not be running.
    pub fn wipe(&mut self) {
        match self {
            Self::Real(nats) => nats.wipe(),
            Self::Simulated(server) => server.empty(),
        }
    }

    /// Starts it again with what it has stored.
    pub fn restart(&mut self) {
        match self {
            Self::Real(nats) => nats.restart(),
            Self::Simulated(server) => server.start(),
        }
    }
}
