//! A service in the process of a test.

use std::sync::Arc;
use std::time::Duration;

use lacuna_model::ClusterId;
use lacuna_runtime::config::{NoSections, Sections};
use lacuna_runtime::metrics::{Registry, expose};
use lacuna_runtime::virtual_time::Host;
use lacuna_runtime::{ClusterClock, Config, Context, Health, Running, ServiceError, Tasks};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::server::Server;

/// The longest wait of a test.
const LIMIT: Duration = Duration::from_secs(30);

/// Waits until `reached` gives a value, at most 30 seconds.
///
/// # Panics
/// If it does not; `what` says what was waited for.
#[expect(clippy::panic, reason = "for tests alone")]
pub async fn until<T>(what: &str, mut reached: impl AsyncFnMut() -> Option<T>) -> T {
    let found = async {
        loop {
            if let Some(found) = reached().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    match tokio::time::timeout(LIMIT, found).await {
        Ok(found) => found,
        Err(_) => panic!("never: {what}"),
    }
}

/// A service that a test has started. It takes no leadership and serves no HTTP.
#[derive(Debug)]
pub struct Service<S = NoSections> {
    /// Its bus, metrics and health.
    pub context: Context<S>,
    host: Host,
    running: JoinHandle<Result<(), ServiceError>>,
}

impl<S: Sections> Service<S> {
    /// Connects a service with this name, and starts it.
    ///
    /// # Panics
    /// If the server does not answer.
    #[expect(clippy::panic, reason = "for tests alone")]
    pub async fn start(
        server: &Server,
        cluster: &ClusterId,
        name: &'static str,
        config: Config<S>,
        run: impl FnOnce(Context<S>) -> Running,
    ) -> Self {
        let (registry, health) = (Registry::new(), Health::default());
        // All tasks of the connection are the host's, so they end with it.
        let host = Host::new(name);
        let connecting = server.connecting(cluster, name, registry.clone(), health.clone());
        let bus = match host.spawn(connecting).await {
            Ok(Ok(bus)) => bus,
            other => panic!("{other:?}"),
        };
        let shutdown = CancellationToken::new();
        let context = Context {
            config: Arc::new(config),
            cluster: cluster.clone(),
            bus,
            registry,
            health,
            clock: ClusterClock::new(),
            tasks: Tasks::new(shutdown.clone()),
            shutdown,
        };
        let (service, left) = (run(context.clone()), context.clone());
        let running = host.spawn(async move {
            let ended = service.await;
            left.shutdown.cancel();
            left.tasks.finish(LIMIT).await;
            // An open connection would repeat its states to a server that starts again.
            left.bus.close().await;
            ended
        });
        Self {
            context,
            host,
            running,
        }
    }

    /// The value of a metric, with its labels as in the exposition; NaN if there is none.
    #[must_use]
    pub fn metric(&self, name: &str) -> f64 {
        let text = self.exposition();
        let of = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
        text.lines().find_map(of).unwrap_or(f64::NAN)
    }

    /// Waits until it has come to this.
    ///
    /// # Panics
    /// If it does not, or ends.
    #[expect(clippy::panic, reason = "for tests alone")]
    pub async fn until(&self, what: &str, mut reached: impl FnMut(&Self) -> bool) {
        let reached = async || match self.is_running() {
            true => reached(self).then_some(()),
            false => panic!("the service has ended before {what}"),
        };
        until(what, reached).await;
    }

    /// Waits until a metric has this value.
    ///
    /// # Panics
    /// If it never has, or the service ends.
    pub async fn shows(&self, metric: &str, value: f64) {
        self.until(metric, |service| service.metric(metric) == value)
            .await;
    }

    /// All its metrics.
    ///
    /// # Panics
    /// If they cannot be written.
    #[must_use]
    #[expect(clippy::panic, reason = "for tests alone")]
    pub fn exposition(&self) -> String {
        match expose(&self.context.registry) {
            Ok(text) => text,
            Err(error) => panic!("{error}"),
        }
    }

    /// Whether it runs still.
    #[must_use]
    pub fn is_running(&self) -> bool {
        !self.running.is_finished()
    }

    /// Waits until it ends by itself.
    ///
    /// # Panics
    /// If it goes on.
    #[expect(clippy::panic, reason = "for tests alone")]
    pub async fn ended(self) -> Result<(), ServiceError> {
        match tokio::time::timeout(LIMIT, self.running).await {
            Ok(Ok(ended)) => ended,
            other => panic!("it goes on: {other:?}"),
        }
    }

    /// Stops it as SIGTERM does.
    ///
    /// # Panics
    /// If it fails, or does not stop.
    #[expect(clippy::panic, reason = "for tests alone")]
    pub async fn stop(self) {
        self.context.shutdown.cancel();
        if let Err(error) = self.ended().await {
            panic!("{error}");
        }
    }

    /// Ends it as `kill -9` does.
    pub fn kill(self) {
        self.host.kill();
    }
}
