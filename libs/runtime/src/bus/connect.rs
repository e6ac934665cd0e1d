//! Connecting to the server, and staying connected.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::{ConnectErrorKind, ConnectOptions, Event};
use lacuna_model::{ClusterId, Span};
use lacuna_wire::access::Access;
use nix::unistd::{User, geteuid};
use prometheus::{GaugeVec, IntCounter, IntCounterVec, IntGauge, Registry};
use tokio::sync::watch;

use super::credentials::{credentials, servers};
use super::denied::Denials;
use super::kept::Kept;
use super::link::LinkSender;
use super::nats::Nats;
use super::seal::Seal;
use super::server::Server;
use super::simulated::SimulatedServer;
use super::tls::Expiry;
use super::{Bus, BusError, BusMetrics, Inner};
use super::{certificate, key_end};
use crate::clock::{self, Stopwatch};
use crate::config::BusSettings;
use crate::http::{BUS, Health};
use crate::identity::Identity;
use crate::virtual_time;

/// Unacknowledged writes in flight before a writer waits.
const ACKS_IN_FLIGHT: usize = 4096;
/// Messages of one subscription that wait for their receiver. Further ones are dropped and counted.
/// Each agent of ten thousand nodes may publish at the same moment.
const WAITING: usize = 16_384;
/// Largest message, in bytes: a plan with its report, a pool or a snapshot of many nodes.
const LARGEST: usize = 8 << 20;
/// Services that may send messages of that size.
const LARGE_SENDERS: [&str; 4] = ["ingest", "forecast", "planner", "control"];

impl Bus {
    /// Connects, waiting for the server up to the limit of the settings, and makes all streams.
    /// Afterwards the connection is always restored, and missing streams are made again after every
    /// reconnection.
    ///
    /// # Errors
    /// [`BusError::Unreachable`] or [`BusError::Refused`] with a remedy; [`BusError::Stream`] if
    /// a stream cannot be made.
    pub async fn connect(
        settings: &BusSettings,
        cluster: &ClusterId,
        service: &str,
        registry: &Registry,
        health: &Health,
    ) -> Result<Self, BusError> {
        let link = LinkSender::default();
        let link_in = link.clone();
        let (drops, dropped) = watch::channel(0);
        // Each dropped message is counted. The log reports them once a second.
        let said = Mutex::new(None::<Stopwatch>);
        let logged = Mutex::new(String::new());
        let metrics = Metrics::new(registry).map_err(|e| BusError::other("metrics", e))?;
        let check = health.check(BUS, None);
        let gauge = metrics.connected.clone();
        let slow = metrics.slow.clone();
        let lost = metrics.disconnects.clone();
        let limit = settings.request_limit.to_std();
        let identity = settings.identity.as_deref().map(Identity::load);
        let identity = identity.transpose()?;
        let seal = Seal::of(identity.as_ref()).map_err(|e| BusError::other("identity", e))?;
        let denials = Denials::new(metrics.denied.clone());
        let refusals = denials.clone();
        let on_event = move |event: Event| {
            match &event {
                Event::Connected => {
                    gauge.set(1);
                    check.ok();
                    link_in.modify(|link| {
                        link.up = true;
                        link.generation += 1;
                    });
                }
                Event::Disconnected | Event::Closed => {
                    gauge.set(0);
                    lost.inc();
                    check.fail("not connected");
                    link_in.modify(|link| link.up = false);
                }
                Event::SlowConsumer(_) => {
                    slow.inc();
                    drops.send_modify(|dropped| *dropped += 1);
                }
                _ => {}
            }
            match event {
                Event::SlowConsumer(id) => {
                    let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
                    if said.is_none_or(|said| said.seconds() >= 1.0) {
                        *said = Some(Stopwatch::start());
                        tracing::error!(subscription = id, "messages dropped: consumer too slow");
                    }
                }
                Event::ServerError(error) if refusals.handle(&error.to_string()) => {}
                // An outage is one line, however often its reason comes again.
                other => {
                    let text = other.to_string();
                    let mut last = logged.lock().unwrap_or_else(PoisonError::into_inner);
                    if *last != text {
                        match other {
                            Event::Connected if last.is_empty() => tracing::debug!("bus connected"),
                            Event::Connected => tracing::info!("bus connected again"),
                            _ => tracing::warn!(event = %text, "bus"),
                        }
                        *last = text;
                    }
                }
            }
            std::future::ready(())
        };
        let expiry = Expiry::default();
        let options = credentials(settings, identity.as_ref(), &expiry)
            .await?
            .name(format!("lacuna-{service}"))
            .connection_timeout(Duration::from_secs(5))
            .request_timeout(Some(limit))
            .ping_interval(Duration::from_secs(10))
            .max_reconnects(None)
            .reconnect_delay_callback(|attempt| {
                let ms = u64::try_from(attempt)
                    .unwrap_or(u64::MAX)
                    .saturating_mul(50);
                jittered(ms.min(1000))
            })
            .subscription_capacity(WAITING)
            .event_callback(on_event);
        let client = first_connection(settings, options).await?;
        certificate::watch(
            settings.clone(),
            identity.clone(),
            &expiry,
            metrics.certificate,
        );
        key_end::watch(identity.as_ref().and_then(|own| own.until), metrics.key_end);
        let info = client.server_info();
        if LARGE_SENDERS.contains(&service) && info.max_payload < LARGEST {
            return Err(BusError::SmallPayload {
                url: settings.url.clone(),
                bytes: info.max_payload,
            });
        }
        // A server without keys lets every client claim any name.
        let access = identity
            .as_ref()
            .filter(|_| client.server_info().auth_required)
            .map(|identity| identity.access(cluster));
        let jetstream = async_nats::jetstream::context::ContextBuilder::new()
            .timeout(limit)
            .ack_timeout(limit)
            .max_ack_inflight(ACKS_IN_FLIGHT)
            .backpressure_on_inflight(true)
            .build(client.clone());
        let server = Server::Nats(Box::new(Nats {
            client,
            jetstream,
            limit,
        }));
        let end = End {
            server,
            link,
            dropped,
            user: user(settings, identity.as_ref()),
            denials,
            access,
            seal,
            kept: Kept::new(health),
        };
        let bus = Self::of(
            end,
            cluster,
            service,
            limit,
            metrics.dead_letters.with_label_values(&[service]),
            metrics.failed,
        );
        bus.ready_streams(settings.connect_limit).await?;
        bus.keep_streams();
        Ok(bus)
    }

    /// Connects a client that is no service to a simulated server, with the default settings.
    ///
    /// # Errors
    /// Those of [`Bus::simulated`].
    pub async fn simulated_client(
        server: &SimulatedServer,
        cluster: &ClusterId,
        name: &str,
    ) -> Result<Self, BusError> {
        let (settings, health) = (BusSettings::default(), Health::default());
        Self::simulated(server, &settings, cluster, name, &Registry::new(), &health).await
    }

    /// Connects the host of the calling task to a simulated server, and waits until the connection
    /// is up.
    ///
    /// # Errors
    /// [`BusError::Stream`] if a stream cannot be made; [`BusError::Other`] if a metric's name is
    /// taken.
    pub async fn simulated(
        server: &SimulatedServer,
        settings: &BusSettings,
        cluster: &ClusterId,
        service: &str,
        registry: &Registry,
        health: &Health,
    ) -> Result<Self, BusError> {
        let metrics = Metrics::new(registry).map_err(|e| BusError::other("metrics", e))?;
        let limit = settings.request_limit.to_std();
        let link = LinkSender::default();
        let host = virtual_time::host();
        let name = host.as_ref().map_or(service, |host| host.name());
        let port = server.connect(name, limit, link.clone());
        let end = End {
            dropped: port.dropped(),
            server: Server::Simulated(port),
            link: link.clone(),
            user: service.to_owned(),
            denials: Denials::new(metrics.denied),
            access: None,
            seal: Seal::of(None).map_err(|e| BusError::other("identity", e))?,
            kept: Kept::new(health),
        };
        let bus = Self::of(
            end,
            cluster,
            service,
            limit,
            metrics.dead_letters.with_label_values(&[service]),
            metrics.failed,
        );
        let check = health.check(BUS, None);
        let (gauge, lost) = (metrics.connected, metrics.disconnects);
        let mut changes = bus.link();
        changes.wait_for(|link| link.up).await;
        crate::task::spawn(async move {
            loop {
                let is_up = changes.seen().up;
                gauge.set(i64::from(is_up));
                if is_up {
                    check.ok();
                } else {
                    lost.inc();
                    check.fail("not connected");
                }
                changes.changed().await;
            }
        });
        bus.ready_streams(settings.connect_limit).await?;
        bus.keep_streams();
        Ok(bus)
    }

    fn of(
        end: End,
        cluster: &ClusterId,
        service: &str,
        limit: Duration,
        dead_letters: IntCounter,
        failed: IntCounter,
    ) -> Self {
        let instance = format!("{:032x}", virtual_time::unique());
        Self(Arc::new(Inner {
            server: end.server,
            cluster: cluster.clone(),
            service: service.to_owned(),
            user: end.user,
            source: format!("lacuna/{service}"),
            instance: instance.get(..12).unwrap_or(&instance).to_owned(),
            sent: AtomicU64::new(1),
            link: end.link,
            dropped: end.dropped,
            limit,
            retained: tokio::sync::Mutex::default(),
            denials: end.denials,
            dead_letters: std::sync::Mutex::default(),
            access: end.access,
            gate: super::gate::Gate::default(),
            seal: end.seal,
            kept: end.kept,
            leader_since: AtomicU64::new(super::millis(clock::wall())),
            metrics: BusMetrics {
                dead_letters,
                failed,
            },
        }))
    }
}

/// The connection of a bus, with the state that belongs to it.
struct End {
    server: Server,
    link: LinkSender,
    dropped: watch::Receiver<u64>,
    user: String,
    denials: Denials,
    access: Option<Access>,
    seal: Seal,
    kept: Kept,
}

/// The user of the identity or of the connection, else that of the process.
fn user(settings: &BusSettings, identity: Option<&Identity>) -> String {
    let of_process = || ["LACUNA_USER", "USER", "LOGNAME"].map(|name| std::env::var(name).ok());
    let proven = identity.map(|identity| identity.holder.user.clone());
    let known = proven.into_iter().chain(settings.user.clone());
    let of_system = || User::from_uid(geteuid()).ok().flatten();
    let of_system = std::iter::once_with(of_system).flatten();
    let known = known.chain(of_process().into_iter().flatten());
    let mut known = known.chain(of_system.map(|user| user.name));
    known
        .find(|name| !name.is_empty())
        .unwrap_or_else(|| "anonymous".to_owned())
}

async fn first_connection(
    settings: &BusSettings,
    options: ConnectOptions,
) -> Result<async_nats::Client, BusError> {
    let url = settings.url.clone();
    let servers = servers(&url)?;
    let waiting = Stopwatch::start();
    let mut said = false;
    loop {
        let error = match options.clone().connect(&servers).await {
            Ok(client) => return Ok(client),
            Err(error) => error,
        };
        let reason = reasons(&error);
        if reason.contains(BAD_CERTIFICATE) {
            return Err(BusError::NotTrusted { url, reason });
        }
        if matches!(
            error.kind(),
            ConnectErrorKind::Authentication
                | ConnectErrorKind::AuthorizationViolation
                | ConnectErrorKind::Tls
        ) {
            return Err(BusError::Refused { url, reason });
        }
        if waiting.span() >= settings.connect_limit && reason.contains(TOO_MANY) {
            return Err(BusError::Full { url, reason });
        }
        if waiting.span() >= settings.connect_limit {
            return Err(BusError::Unreachable { url, reason });
        }
        if !std::mem::replace(&mut said, true) {
            let limit: Span = settings.connect_limit;
            tracing::warn!(url, reason, %limit, "no nats-server answers yet, waiting");
        }
        tokio::time::sleep(jittered(200)).await;
    }
}

/// Half to one and a half of these milliseconds, so that thousands of clients do not reconnect to a
/// restarted server at the same moment.
fn jittered(ms: u64) -> Duration {
    let thousandths = u64::try_from(virtual_time::unique() % 1000).unwrap_or_default();
    Duration::from_millis(ms / 2 + ms * thousandths / 1000)
}

/// The end of nats-server's text for too many connections of an account or in all.
const TOO_MANY: &str = "connections exceeded";

/// The text of rustls for a bad certificate of the server.
const BAD_CERTIFICATE: &str = "invalid peer certificate";

/// The text of an error with all its causes.
fn reasons(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let words = cause.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        next = cause.source();
    }
    text
}

crate::metrics! {
    pub(super) struct Metrics {
        connected: IntGauge = "lacuna_bus_connected", "whether the connection to nats-server is up";
        disconnects: IntCounter = "lacuna_bus_disconnects_total", "connections to nats-server lost";
        slow: IntCounter = "lacuna_bus_slow_consumers_total",
            "times that the client dropped messages because a receiver was too slow";
        denied: IntCounter = "lacuna_bus_denied_total",
            "operations that nats-server refused because the key has no permission";
        failed: IntCounter = "lacuna_bus_publish_failures_total",
            "messages that could not be published or were not acknowledged";
        dead_letters: IntCounterVec = "lacuna_bus_dead_letters_total",
            "messages that could not be decoded", by ["service"];
        /// Has no value, and so is absent, until a server has presented a certificate.
        certificate: GaugeVec = "lacuna_bus_certificate_seconds",
            "seconds until the end of nats-server's certificate, as of the last six hours", by [];
        /// Has no value, and so is absent, while the key has no end.
        pub(super) key_end: GaugeVec = "lacuna_bus_key_seconds",
            "seconds until the end of this service's own key; absent if the key has none", by [];
    }
}

/// Declares the metrics of the bus, so that a service's golden exposition includes them without a
/// connection.
///
/// # Errors
/// If a name is taken.
pub fn declare_metrics(registry: &Registry, service: &str) -> Result<(), prometheus::Error> {
    let metrics = Metrics::new(registry)?;
    metrics.dead_letters.with_label_values(&[service]);
    Ok(())
}
