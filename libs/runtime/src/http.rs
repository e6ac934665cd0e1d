//! `/metrics` and `/healthz` of a service, the server of any page, and requests to others' pages.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::serve::Listener;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use lacuna_model::Span;
use prometheus::{GaugeVec, Registry};
use serde::Serialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::clock::Stopwatch;
use crate::metrics::{self, Metric as _, Row};

/// The health check of a service's main loop.
pub const LOOP: &str = "loop";

/// The health check of the connection to nats-server.
pub(crate) const BUS: &str = "bus";

/// Why a check fails that has not held yet since its service's start.
pub const NOT_YET: &str = "not yet ready";

/// Longest time for the head of a request, and until the next request on a connection.
const HEAD: Duration = Duration::from_secs(10);

/// Connections to `/metrics` and `/healthz` at a time.
const CONNECTIONS: usize = 64;
/// Most failing checks that a message names.
const FAILING: usize = 8;
/// Most characters of the reason of each.
const REASON: usize = 200;

/// The health of a service: named checks, each renewed by its owner. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Health(Arc<Mutex<BTreeMap<String, Entry>>>);

#[derive(Debug)]
struct Entry {
    max_age: Option<Span>,
    since: Stopwatch,
    failure: Option<String>,
    note: Option<String>,
}

/// One check. Its owner calls [`HealthCheck::ok`] again and again, or [`HealthCheck::fail`].
#[derive(Debug, Clone)]
pub struct HealthCheck {
    name: String,
    health: Health,
}

/// The state of one check.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckReport {
    /// Its name.
    pub name: String,
    /// Whether it holds.
    pub ok: bool,
    /// Seconds since its owner's last call.
    pub age_s: f64,
    /// Why it fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// A note for the operator, although it holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The answer of `/healthz`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HealthReport {
    /// `ok` or `failing`.
    pub status: &'static str,
    /// All checks, by name.
    pub checks: Vec<CheckReport>,
}

impl Health {
    /// Adds a check. It fails until its owner first calls [`HealthCheck::ok`]. With a `max_age`, it
    /// also fails when the last call is older.
    #[must_use]
    pub fn check(&self, name: &str, max_age: Option<Span>) -> HealthCheck {
        let entry = Entry {
            max_age,
            since: Stopwatch::start(),
            failure: Some(NOT_YET.to_owned()),
            note: None,
        };
        self.lock().insert(name.to_owned(), entry);
        HealthCheck {
            name: name.to_owned(),
            health: self.clone(),
        }
    }

    /// The present state of all checks.
    #[must_use]
    pub fn report(&self) -> HealthReport {
        let mut checks = Vec::new();
        for (name, entry) in self.lock().iter() {
            let age_s = entry.since.seconds();
            let reason = entry.failure.clone().or_else(|| {
                let limit = entry.max_age?;
                (age_s > limit.as_secs_f64()).then(|| format!("no sign of life for over {limit}"))
            });
            checks.push(CheckReport {
                name: name.clone(),
                ok: reason.is_none(),
                age_s: (age_s * 1000.0).round() / 1000.0,
                reason,
                note: entry.note.clone(),
            });
        }
        let ok = checks.iter().all(|c| c.ok);
        HealthReport {
            status: if ok { "ok" } else { "failing" },
            checks,
        }
    }

    /// The checks that fail, each with the beginning of its reason. A reader of the bus knows this
    /// service by them.
    #[must_use]
    pub fn failing(&self) -> Vec<String> {
        let failing = self.report().checks.into_iter();
        let failing = failing.filter_map(|check| {
            let reason: String = check.reason?.chars().take(REASON).collect();
            Some(format!("{}: {reason}", check.name))
        });
        failing.take(FAILING).collect()
    }

    /// Whether the main loop has turned and does so no more, as `/healthz` judges it. While the bus is
    /// away a loop may wait for it.
    pub(crate) fn is_stuck(&self) -> bool {
        let has_turned = self.silence(LOOP).is_some_and(|(_, has_turned)| has_turned);
        let checks = self.report().checks;
        let holds = |name| checks.iter().all(|check| check.name != name || check.ok);
        has_turned && !holds(LOOP) && holds(BUS)
    }

    /// Seconds since a check with a `max_age` last held, and whether it ever has: if not, they are those
    /// since it was added. Nothing if there is no such check.
    pub(crate) fn silence(&self, name: &str) -> Option<(f64, bool)> {
        let checks = self.lock();
        let entry = checks.get(name)?;
        let beats = entry.failure.is_none();
        let beating = entry.max_age.is_some();
        beating.then(|| (entry.since.seconds(), beats))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Entry>> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl HealthCheck {
    /// The check holds now.
    pub fn ok(&self) {
        self.set(None, None);
    }

    /// The check holds now, with a note for the operator.
    pub fn ok_but(&self, note: impl Into<String>) {
        self.set(None, Some(note.into()));
    }

    /// The check fails until it next holds.
    pub fn fail(&self, reason: impl Into<String>) {
        self.set(Some(reason.into()), None);
    }

    fn set(&self, failure: Option<String>, note: Option<String>) {
        if let Some(entry) = self.health.lock().get_mut(&self.name) {
            entry.since = Stopwatch::start();
            entry.failure = failure;
            entry.note = note;
        }
    }
}

/// Why an address cannot be bound.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot listen on {address}: {source}: give another with --listen ADDR (port 0 takes a free one)"
)]
pub struct ListenError {
    /// The address.
    pub address: SocketAddr,
    /// The reason.
    pub source: std::io::Error,
}

/// Binds an address, so that a port in use is found at once.
///
/// # Errors
/// [`ListenError`] with a remedy.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, ListenError> {
    TcpListener::bind(address)
        .await
        .map_err(|source| ListenError { address, source })
}

/// Serves pages until `stop`, and then finishes the running answers. Above a number of connections,
/// further ones wait. A connection without the head of a request within ten seconds ends.
pub async fn serve_pages(
    mut listener: TcpListener,
    pages: Router,
    connections: usize,
    stop: CancellationToken,
) {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD);
    let places = Arc::new(Semaphore::new(connections.min(Semaphore::MAX_PERMITS)));
    let open = GracefulShutdown::new();
    loop {
        let next = async {
            let place = places.clone().acquire_owned().await;
            let (stream, _) = Listener::accept(&mut listener).await;
            (place, stream)
        };
        let (place, stream) = tokio::select! {
            next = next => next,
            () = stop.cancelled() => break,
        };
        let service = TowerToHyperService::new(pages.clone());
        let served = open.watch(builder.serve_connection(TokioIo::new(stream), service));
        tokio::spawn(async move {
            if let Err(error) = served.await {
                tracing::trace!(%error, "connection ended");
            }
            drop(place);
        });
    }
    drop(listener);
    open.shutdown().await;
}

/// Longest time for an answer of another's page, and its greatest length in bytes.
const ANSWER: Duration = Duration::from_secs(2);
const ANSWER_BYTES: u64 = 32 << 20;

/// Asks the page of another program, without TLS, for a path. `address` is a host and a port. Returns
/// the status and the body.
///
/// # Errors
/// It cannot be reached, does not answer in two seconds, or answers with something else than HTTP.
pub async fn ask(address: &str, path: &str) -> std::io::Result<(u16, String)> {
    let talk = async {
        let mut stream = TcpStream::connect(address).await?;
        // HTTP/1.0: the answer ends with the connection, and is not sent in chunks.
        let request =
            format!("GET {path} HTTP/1.0\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.take(ANSWER_BYTES).read_to_end(&mut answer).await?;
        let text = String::from_utf8_lossy(&answer);
        let parts = text.split_once("\r\n\r\n").and_then(|(head, body)| {
            let status = head.split_whitespace().nth(1)?.parse().ok()?;
            Some((status, body.to_owned()))
        });
        parts.ok_or_else(|| std::io::Error::other("it does not speak HTTP"))
    };
    let answer = tokio::time::timeout(ANSWER, talk).await;
    answer.unwrap_or_else(|_| {
        let limit = format!("no answer within {} s", ANSWER.as_secs());
        Err(std::io::Error::new(std::io::ErrorKind::TimedOut, limit))
    })
}

/// Serves `/metrics` and `/healthz` until `stop`.
///
/// # Errors
/// If the name of a metric is taken.
pub async fn serve(
    listener: TcpListener,
    registry: Registry,
    health: Health,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let gauge = declare_metrics(&registry).map_err(std::io::Error::other)?;
    let router = Router::new()
        .route("/metrics", get(show_metrics))
        .route("/healthz", get(show_health))
        .with_state((registry, health, gauge));
    serve_pages(listener, router, CONNECTIONS, stop).await;
    Ok(())
}

/// Declares the metric, so that a service's golden exposition includes it.
///
/// # Errors
/// If the name is taken.
pub fn declare_metrics(registry: &Registry) -> Result<GaugeVec, prometheus::Error> {
    let row = Row::new(
        "lacuna_health",
        "whether a check of /healthz holds (1) or fails (0)",
    );
    GaugeVec::register(registry, row.by(&["check"]))
}

type Shown = (Registry, Health, GaugeVec);

async fn show_metrics(State((registry, health, gauge)): State<Shown>) -> Response {
    for check in health.report().checks {
        let labels = [check.name.as_str()];
        gauge
            .with_label_values(&labels)
            .set(f64::from(u8::from(check.ok)));
    }
    match metrics::expose(&registry) {
        Ok(text) => ([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response(),
        Err(e) => (StatusCode::INTERNAL_SERVER_ERROR, e.to_string()).into_response(),
    }
}

async fn show_health(State((_, health, _)): State<Shown>) -> Response {
    let report = health.report();
    let status = if report.status == "ok" {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let body = serde_json::to_string(&report).unwrap_or_default();
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_fails_until_ready_and_when_it_grows_old() {
        let health = Health::default();
        let check = health.check("loop", Some(Span::from_ms(20)));
        assert_eq!(health.report().status, "failing");
        check.ok();
        assert_eq!(health.report().status, "ok");
        std::thread::sleep(std::time::Duration::from_millis(40));
        let report = health.report();
        assert_eq!(report.status, "failing");
        assert!(
            report.checks[0]
                .reason
                .as_ref()
                .unwrap()
                .contains("no sign of life")
        );
        check.fail("disk full");
        assert_eq!(
            health.report().checks[0].reason.as_deref(),
            Some("disk full")
        );
        check.ok_but("disk nearly full");
        let report = health.report();
        assert_eq!(report.status, "ok");
        assert_eq!(report.checks[0].note.as_deref(), Some("disk nearly full"));
    }

    #[test]
    fn a_loop_is_stuck_if_it_has_turned_and_the_bus_is_there() {
        let health = Health::default();
        assert!(!health.is_stuck(), "a standby has no loop");
        let bus = health.check(BUS, None);
        bus.ok();
        let turns = health.check(LOOP, Some(Span::from_ms(20)));
        let wait = || std::thread::sleep(Duration::from_millis(40));
        wait();
        assert!(!health.is_stuck(), "it has not begun");
        turns.ok();
        wait();
        assert!(health.is_stuck());
        bus.fail("no server");
        assert!(!health.is_stuck());
        bus.ok();
        turns.ok();
        assert!(!health.is_stuck());
    }

    #[tokio::test]
    async fn a_busy_port_is_a_clear_error() {
        let first = bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let error = bind(first.local_addr().unwrap())
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("in use") && error.contains("--listen"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn metrics_and_health_are_served() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let registry = Registry::new();
        let row = Row::new("lacuna_test_total", "a test");
        let counter = prometheus::IntCounter::register(&registry, row).unwrap();
        counter.inc();
        let health = Health::default();
        let check = health.check("bus", None);
        let listener = bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let server = tokio::spawn(serve(listener, registry, health, stop.clone()));
        let get = async |path: &str| {
            let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
            let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer
        };
        let answer = get("/healthz").await;
        assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
        assert!(answer.contains("\"name\":\"bus\",\"ok\":false"), "{answer}");
        check.ok();
        assert!(get("/healthz").await.starts_with("HTTP/1.1 200"));
        assert!(get("/metrics").await.contains("lacuna_test_total 1"));
        stop.cancel();
        server.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn half_a_request_keeps_its_connection_for_a_limited_time() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let listener = bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (pages, stop) = (
            Router::new().route("/", get(async || "hello")),
            CancellationToken::new(),
        );
        let server = tokio::spawn(serve_pages(listener, pages, 1, stop.clone()));
        let ask = async |request: &str| {
            let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            stream
        };
        let mut half = ask("GET / HTTP/1.1\r\nhost: x\r\n").await;
        // The second request waits for the only connection.
        let mut whole = ask("GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
        let mut answer = String::new();
        let limit = Duration::from_secs(120);
        let read = tokio::time::timeout(limit, whole.read_to_string(&mut answer));
        read.await.expect("no place becomes free").unwrap();
        assert!(answer.ends_with("hello"), "{answer}");
        let mut rest = Vec::new();
        let read = tokio::time::timeout(limit, half.read_to_end(&mut rest));
        let _ = read.await.expect("it is still open");
        assert!(!rest.starts_with(b"HTTP/1.1 200"));
        stop.cancel();
        server.await.unwrap();
    }
}
