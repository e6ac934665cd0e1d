//! The web server of the page: its files, the history, and the present state as server-sent events.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::Write as _;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::Stream;
use lacuna_model::{ClusterId, NodeId};
use lacuna_planner::explain;
use percent_encoding::percent_decode_str;
use prometheus::IntGauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::metrics::Metrics;
use crate::token::Token;
use crate::view::View;

/// The cookie in which a browser keeps the token of a cluster's page. Cookies do not depend on
/// ports, and one machine may serve the pages of several clusters.
pub(crate) fn cookie(cluster: &ClusterId) -> String {
    format!("lacuna_token_{cluster}")
}

/// The page loads nothing from other servers, and no other page may embed it.
const HEADERS: [(HeaderName, &str); 5] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-cache"),
];

/// The newest snapshot, made once for all browsers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shown {
    /// The number of the snapshot.
    pub(crate) number: u64,
    /// The version of the list of names.
    pub(crate) version: u64,
    /// [`crate::snapshot::Names`] as JSON.
    pub(crate) names: Arc<str>,
    /// [`crate::change::Whole`] as JSON.
    pub(crate) whole: Arc<str>,
    /// [`crate::change::Change`] since the snapshot before, as JSON.
    pub(crate) change: Arc<str>,
    /// [`crate::snapshot::Snapshot`] as JSON.
    pub(crate) now: Arc<str>,
}

/// The history in its encoded form, made once for each snapshot.
#[derive(Debug, Clone)]
pub(crate) struct Past {
    /// The number of the snapshot.
    number: u64,
    plain: Bytes,
    gzip: Bytes,
}

/// The shared state of all requests.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    pub(crate) view: Arc<Mutex<View>>,
    pub(crate) shown: watch::Receiver<Shown>,
    pub(crate) token: Option<Token>,
    /// The name of [`cookie`].
    pub(crate) cookie: Arc<str>,
    /// Whether browsers may send the cookie over TLS only.
    pub(crate) behind_tls: bool,
    /// Names under which a page without a token is served.
    pub(crate) hosts: Arc<[String]>,
    /// One permit for each browser that may follow.
    pub(crate) places: Arc<Semaphore>,
    /// The history as of one snapshot.
    pub(crate) past: Arc<tokio::sync::Mutex<Option<Past>>>,
    pub(crate) metrics: Metrics,
}

impl Site {
    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, what: &str) {
        self.metrics.requests.with_label_values(&[what]).inc();
    }
}

/// All routes. Only GET is allowed.
pub(crate) fn router(site: Site) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/style.css", get(style))
        .route("/app.js", get(script))
        .route("/draw.js", get(drawing))
        .route("/icon.svg", get(icon))
        .route("/live", get(live))
        .route("/past", get(past))
        .route("/node/{name}", get(node))
        .layer(from_fn_with_state(site.clone(), guard))
        .with_state(site)
}

/// Lets only requests with the token pass, and sets the security headers of answers.
async fn guard(State(site): State<Site>, request: Request, next: Next) -> Response {
    let mut answer = match &site.token {
        None if !is_own(request.headers(), &site.hosts) => {
            site.metrics.refused.inc();
            let words = "This page is not served under that name: gateway.hosts lists others.\n";
            (StatusCode::MISDIRECTED_REQUEST, words).into_response()
        }
        None => next.run(request).await,
        Some(token) if is_known(request.headers(), &site.cookie, token) => next.run(request).await,
        Some(token) => match query(request.uri().query(), "token").filter(|t| token.is(t)) {
            // The token is removed from the address bar, and so from the browser's history.
            Some(given) => {
                let name = &site.cookie;
                let secure = if site.behind_tls { "; Secure" } else { "" };
                let cookie = format!("{name}={given}; HttpOnly; SameSite=Strict; Path=/{secure}");
                let headers = [
                    (header::SET_COOKIE, cookie),
                    (header::LOCATION, "/".to_owned()),
                ];
                (StatusCode::SEE_OTHER, headers).into_response()
            }
            None => {
                site.metrics.refused.inc();
                let words = "This page needs a token: open it as /?token=... with the contents of \
                             the file that gateway.token_file names.\n";
                let headers = [(header::WWW_AUTHENTICATE, "Bearer")];
                (StatusCode::UNAUTHORIZED, headers, words).into_response()
            }
        },
    };
    for (name, value) in HEADERS {
        answer
            .headers_mut()
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
    answer
}

/// Whether the token comes as a cookie or as `Authorization: Bearer`.
fn is_known(headers: &HeaderMap, cookie: &str, token: &Token) -> bool {
    let text = |name| headers.get_all(name).iter().filter_map(|v| v.to_str().ok());
    let bearer = text(header::AUTHORIZATION).filter_map(|value| value.strip_prefix("Bearer "));
    let cookies = text(header::COOKIE)
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().strip_prefix(cookie)?.strip_prefix('='));
    bearer.chain(cookies).any(|given| token.is(given.trim()))
}

/// Whether the host name of a request cannot belong to a foreign page: it is an address,
/// `localhost`, or a name of the list.
fn is_own(headers: &HeaderMap, hosts: &[String]) -> bool {
    let Some(host) = headers.get(header::HOST) else {
        // Every browser sends it.
        return true;
    };
    let Some(host) = host
        .to_str()
        .ok()
        .and_then(|host| host.parse::<Authority>().ok())
    else {
        return false;
    };
    let name = host.host();
    let address = name.trim_start_matches('[').trim_end_matches(']');
    address.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || hosts.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// The value of a key of a query.
fn query(query: Option<&str>, key: &str) -> Option<String> {
    let pairs = query?.split('&').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.into_iter().find(|(name, _)| *name == key)?;
    let decoded = percent_decode_str(value).decode_utf8().ok()?;
    Some(decoded.into_owned())
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const JSON: &str = "application/json";

fn file(kind: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

async fn page(State(site): State<Site>) -> Response {
    site.count("page");
    file(HTML, include_str!("page/index.html"))
}

async fn style() -> Response {
    file(CSS, include_str!("page/style.css"))
}

async fn script() -> Response {
    file(SCRIPT, include_str!("page/app.js"))
}

async fn drawing() -> Response {
    file(SCRIPT, include_str!("page/draw.js"))
}

async fn icon() -> Response {
    file("image/svg+xml", include_str!("page/icon.svg"))
}

/// Counts a browser for as long as it follows the page.
struct Viewer {
    viewers: IntGauge,
    _place: OwnedSemaphorePermit,
}

impl Viewer {
    fn new(viewers: &IntGauge, place: OwnedSemaphorePermit) -> Self {
        viewers.inc();
        Self {
            viewers: viewers.clone(),
            _place: place,
        }
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.viewers.dec();
    }
}

async fn live(State(site): State<Site>) -> Response {
    site.count("live");
    let Ok(place) = site.places.clone().try_acquire_owned() else {
        let words = "as many browsers as gateway.viewers follow this page already\n";
        return (StatusCode::SERVICE_UNAVAILABLE, words).into_response();
    };
    let viewer = Viewer::new(&site.metrics.viewers, place);
    let events = watched(site.shown.clone(), viewer);
    Sse::new(events)
        .keep_alive(KeepAlive::default())
        .into_response()
}

/// The progress of one browser: the events still to send, and its snapshot.
struct Watching {
    shown: watch::Receiver<Shown>,
    /// The number of its snapshot, and the version of its list of names.
    has: Option<(u64, u64)>,
    due: VecDeque<Event>,
    _viewer: Viewer,
}

/// `names` when the list of nodes has changed; `whole`, or `change` for a browser with the snapshot
/// before; then `now`. A slow browser skips snapshots, but never the newest one.
fn watched(
    mut shown: watch::Receiver<Shown>,
    viewer: Viewer,
) -> impl Stream<Item = Result<Event, Infallible>> {
    shown.mark_changed();
    let watching = Watching {
        shown,
        has: None,
        due: VecDeque::new(),
        _viewer: viewer,
    };
    futures::stream::unfold(watching, |mut at| async move {
        loop {
            if let Some(event) = at.due.pop_front() {
                return Some((Ok(event), at));
            }
            at.shown.changed().await.ok()?;
            let newest = at.shown.borrow_and_update().clone();
            if newest.number == 0 {
                // No snapshot has been made yet.
                continue;
            }
            at.due = due(&newest, at.has);
            at.has = Some((newest.number, newest.version));
        }
    })
}

/// The events that bring a browser to the newest snapshot.
fn due(newest: &Shown, has: Option<(u64, u64)>) -> VecDeque<Event> {
    let event = |kind, data: &str| Event::default().event(kind).data(data);
    let mut due = VecDeque::new();
    let (number, version) = has.unzip();
    if version != Some(newest.version) {
        due.push_back(event("names", &newest.names));
        due.push_back(event("whole", &newest.whole));
    } else if number.is_some_and(|number| number + 1 == newest.number) {
        due.push_back(event("change", &newest.change));
    } else if number != Some(newest.number) {
        due.push_back(event("whole", &newest.whole));
    }
    due.push_back(event("now", &newest.now));
    due
}

fn json(value: &impl serde::Serialize) -> Response {
    match serde_json::to_string(value) {
        Ok(text) => ([(header::CONTENT_TYPE, JSON)], text).into_response(),
        Err(error) => failed(&error),
    }
}

/// Long and repetitive, so compressed for browsers that accept it.
async fn past(State(site): State<Site>, headers: HeaderMap) -> Response {
    site.count("past");
    let past = match newest_past(&site).await {
        Ok(past) => past,
        Err(error) => return failed(&error),
    };
    let accepted = headers.get(header::ACCEPT_ENCODING);
    let accepted = accepted.and_then(|value| value.to_str().ok());
    let kind = (header::CONTENT_TYPE, JSON);
    if accepted.is_some_and(|value| value.contains("gzip")) {
        ([kind, (header::CONTENT_ENCODING, "gzip")], past.gzip).into_response()
    } else {
        ([kind], past.plain).into_response()
    }
}

/// The history as of the newest snapshot or later. One request at a time makes it, outside the
/// loop.
async fn newest_past(site: &Site) -> std::io::Result<Past> {
    let mut kept = site.past.lock().await;
    let number = site.shown.borrow().number;
    if let Some(past) = kept.as_ref().filter(|past| past.number == number) {
        return Ok(past.clone());
    }
    let of = site.clone();
    let made = tokio::task::spawn_blocking(move || {
        let plain = serde_json::to_vec(&of.view().history.past())?;
        let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
        packer.write_all(&plain)?;
        Ok::<_, std::io::Error>(Past {
            number,
            plain: plain.into(),
            gzip: packer.finish()?.into(),
        })
    });
    let past = made.await.map_err(std::io::Error::other)??;
    Ok(kept.insert(past).clone())
}

fn failed(error: &dyn std::fmt::Display) -> Response {
    (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response()
}

/// The explanation of a node's use.
async fn node(State(site): State<Site>, Path(name): Path<String>) -> Response {
    site.count("node");
    let Ok(node) = NodeId::new(name.as_str()) else {
        return (StatusCode::BAD_REQUEST, "this is no name of a node\n").into_response();
    };
    let view = site.view();
    let plan = view.plan.as_ref().map(|plan| &plan.value.plan);
    let why = plan.and_then(|plan| explain::node(plan, &node));
    let pool = view.pool.as_ref().map(|pool| &pool.value.pool);
    let hole = pool.and_then(|pool| {
        let at = pool
            .holes
            .binary_search_by(|pooled| pooled.hole.node.cmp(&node));
        let pooled = pool.holes.get(at.ok()?)?;
        let quantile = |open| pool.forecast(pooled)?.quantile(open);
        Some(serde_json::json!({
            "since": pooled.hole.since.unix_ms(),
            "likely_s": [quantile(0.9), quantile(0.5), quantile(0.1)],
        }))
    });
    let above = view.topology.path(&node);
    json(&serde_json::json!({ "node": node, "above": above, "why": why, "hole": hole }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_host_name_is_refused() {
        let hosts = ["page.example.org".to_owned()];
        let own = |host: &'static str| {
            let host = HeaderValue::from_static(host);
            is_own(&HeaderMap::from_iter([(header::HOST, host)]), &hosts)
        };
        for name in [
            "127.0.0.1:9480",
            "[::1]:9480",
            "10.1.2.3",
            "LocalHost:1",
            "Page.example.org",
        ] {
            assert!(own(name), "{name}");
        }
        for name in [
            "evil.example",
            "127.0.0.1.evil.example:9480",
            "localhost.evil",
            "",
            "a b",
        ] {
            assert!(!own(name), "{name}");
        }
        assert!(is_own(&HeaderMap::new(), &hosts));
    }

    #[test]
    fn a_value_is_found_in_a_query() {
        assert_eq!(
            query(Some("a=1&token=x%2Dy"), "token").as_deref(),
            Some("x-y")
        );
        assert_eq!(query(Some("tokens=1"), "token"), None);
        assert_eq!(query(None, "token"), None);
    }
}
