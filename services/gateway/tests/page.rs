//! The page over a real nats-server, with the requests of a browser.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on stops"
)]

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lacuna_gateway_service::{Config, Context};
use lacuna_gateway_service::{GatewayArgs, Metrics, run_at};
use lacuna_model::{AgentStatus, ClusterId, Span, Timestamp, Topology};
use lacuna_runtime::config::Gateway;
use lacuna_runtime::metrics::{Registry, expose};
use lacuna_runtime::{Bus, ClusterClock, Health, Tasks, bus};
use lacuna_testkit::{TestNats, connect, events, golden, node, pool, record, spec};
use lacuna_wire::address;
use lacuna_wire::msg::{Controls, Leader, PoolState, TopologyState, TrainersState};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

const TOKEN: &str = "a-token-of-32-characters-01234567";

fn cluster() -> ClusterId {
    ClusterId::new("c").unwrap()
}

struct Running {
    page: SocketAddr,
    registry: Registry,
    shutdown: CancellationToken,
    ended: tokio::task::JoinHandle<Result<(), String>>,
}

impl Running {
    async fn start(nats: &TestNats, token_file: Option<PathBuf>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let page = listener.local_addr().unwrap();
        let mut config = Config::default();
        config.gateway.token_file = token_file;
        let (registry, shutdown) = (Registry::new(), CancellationToken::new());
        let ctx = Context {
            config: Arc::new(config),
            cluster: cluster(),
            bus: connect(nats, &cluster(), "gateway").await,
            registry: registry.clone(),
            health: Health::default(),
            clock: ClusterClock::new(),
            tasks: Tasks::new(shutdown.clone()),
            shutdown: shutdown.clone(),
        };
        let ended = tokio::spawn(async move {
            run_at(listener, ctx, GatewayArgs::default())
                .await
                .map_err(|e| e.to_string())
        });
        Self {
            page,
            registry,
            shutdown,
            ended,
        }
    }

    async fn open(&self, request: &str) -> TcpStream {
        let connected = async {
            loop {
                match TcpStream::connect(self.page).await {
                    Ok(stream) => return stream,
                    Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                }
            }
        };
        let limit = Duration::from_secs(20);
        let mut stream = tokio::time::timeout(limit, connected).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    /// The whole answer, head and body.
    async fn ask(&self, method: &str, path: &str, headers: &str) -> String {
        String::from_utf8(self.bytes(method, path, headers).await).unwrap()
    }

    async fn bytes(&self, method: &str, path: &str, headers: &str) -> Vec<u8> {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n"
        );
        let mut answer = Vec::new();
        let mut stream = self.open(&request).await;
        stream.read_to_end(&mut answer).await.unwrap();
        answer
    }

    async fn json(&self, path: &str) -> Value {
        let answer = self.ask("GET", path, "").await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
        serde_json::from_str(body).unwrap()
    }

    async fn stop(self) {
        self.shutdown.cancel();
        let limit = Duration::from_secs(10);
        let ended = tokio::time::timeout(limit, self.ended).await;
        ended.expect("it does not stop").unwrap().unwrap();
    }
}

/// The events of `/live` in order, and the snapshot that they add up to.
struct Live {
    stream: TcpStream,
    text: String,
    names: Value,
    cells: Vec<Value>,
    /// Number of bytes received.
    bytes: usize,
}

impl Live {
    async fn open(page: &Running) -> Self {
        let stream = page
            .open("GET /live HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .await;
        Self {
            stream,
            text: String::new(),
            names: Value::Null,
            cells: Vec::new(),
            bytes: 0,
        }
    }

    /// The next event; nothing when the stream has ended.
    async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some((_, rest)) = self.text.split_once("event: ")
                && let Some((event, rest)) = rest.split_once("\n\n")
                && let Some((kind, data)) = event.split_once("\ndata: ")
            {
                // A chunk's length may split an answer, but not one with lines this short.
                let event = (kind.to_owned(), serde_json::from_str(data).unwrap());
                self.text = rest.to_owned();
                return Some(event);
            }
            let mut bytes = vec![0; 65_536];
            let read = self.stream.read(&mut bytes);
            let read = tokio::time::timeout(Duration::from_secs(20), read).await;
            let read = read.expect("nothing comes").unwrap();
            if read == 0 {
                return None;
            }
            self.bytes += read;
            bytes.truncate(read);
            self.text += &String::from_utf8_lossy(&bytes);
        }
    }

    /// The next snapshot, after all its events.
    async fn snapshot(&mut self) -> Option<Value> {
        loop {
            let (kind, value) = self.next().await?;
            match kind.as_str() {
                "names" => self.names = value.get("nodes").unwrap().clone(),
                "whole" => self.cells = cells(&value).clone(),
                "change" => {
                    for change in cells(&value) {
                        let at = change.get(0).and_then(Value::as_u64).unwrap();
                        let place = usize::try_from(at).unwrap();
                        *self.cells.get_mut(place).unwrap() = change.get(1).unwrap().clone();
                    }
                }
                _ => return Some(value),
            }
        }
    }
}

/// The states of nodes in a message.
fn cells(value: &Value) -> &Vec<Value> {
    value.get("cells").and_then(Value::as_array).unwrap()
}

async fn publish_pool(bus: &Bus, seq: u64, names: &[&str]) {
    let as_of = i64::try_from(seq).unwrap();
    let state = PoolState {
        pool: pool(seq, as_of, names),
        predictor: "constant".to_owned(),
    };
    bus.store(&address::pool(&cluster()), &state, "")
        .await
        .unwrap();
}

async fn publish_trainers(bus: &Bus, version: u64, nodes: &[&str]) {
    let state = TrainersState {
        version,
        as_of: Timestamp::from_unix(i64::try_from(version).unwrap()),
        trainers: vec![record(spec("t", 4), 1, nodes)],
        unusable: vec![],
        pilot_s: 0.0,
        followed: lacuna_model::Generation(0),
    };
    bus.store(&address::trainers(&cluster()), &state, "")
        .await
        .unwrap();
}

#[tokio::test]
async fn nodes_are_shown_by_leaf() {
    let nats = TestNats::start();
    let bus = connect(&nats, &cluster(), "other").await;
    publish_pool(&bus, 1, &["a", "b", "c"]).await;
    let page = Running::start(&nats, None).await;
    let mut live = Live::open(&page).await;
    while live.names != serde_json::json!(["a", "b", "c"]) {
        live.snapshot().await.unwrap();
    }
    assert_eq!(page.json("/node/a").await["above"], Value::Null);
    let path = |leaf: &str| vec![leaf.to_owned(), "top".to_owned()];
    let paths = [
        (node("a"), path("l2")),
        (node("b"), path("l1")),
        (node("c"), path("l2")),
    ];
    let state = TopologyState {
        topology: Topology::new(paths.into()).unwrap(),
        source: "slurm".to_owned(),
        ..TopologyState::default()
    };
    bus.store(&address::topology(&cluster()), &state, "")
        .await
        .unwrap();
    while live.names != serde_json::json!(["b", "a", "c"]) {
        live.snapshot().await.unwrap();
    }
    let shown = page.json("/node/a").await;
    assert_eq!(shown["above"], serde_json::json!(["l2", "top"]));
    page.stop().await;
}

#[tokio::test]
async fn states_of_the_services_are_shown_as_they_change() {
    let nats = TestNats::start();
    let bus = connect(&nats, &cluster(), "other").await;
    publish_pool(&bus, 1, &["a", "b"]).await;
    publish_trainers(&bus, 1, &["a"]).await;
    let page = Running::start(&nats, None).await;
    let mut live = Live::open(&page).await;
    let shown = loop {
        let now = live.snapshot().await.unwrap();
        if now["training"] == 1 && now["pool"] == 2 {
            break now;
        }
    };
    assert_eq!(live.names, serde_json::json!(["a", "b"]));
    assert_eq!(live.cells, [3, 1], "{shown}");
    // One node is taken, another becomes idle, and an agent reports how fast its node was given
    // back.
    for event in events(2, &[("busy", "a"), ("idle", "c")]) {
        bus.store(&address::event(&cluster()), &event, "")
            .await
            .unwrap();
    }
    publish_pool(&bus, 3, &["b", "c"]).await;
    publish_trainers(&bus, 3, &["c"]).await;
    let status = AgentStatus {
        released: Some("wanted".to_owned()),
        leaving: true,
        gave_back_in: Some(Span::from_ms(7)),
        ..lacuna_testkit::status("a")
    };
    bus.publish(&address::agent(&cluster(), &node("a")), &status, "")
        .await
        .unwrap();
    let shown = loop {
        let now = live.snapshot().await.unwrap();
        let all = now["harm"]["count"] == 1 && live.cells == [0, 1, 3];
        if all && now["events"].as_array().unwrap().len() == 2 {
            break now;
        }
    };
    assert_eq!(shown["harm"]["median_s"], 0.007);
    assert_eq!(shown["events"][0]["whom"], "c", "the newest first");
    let past = page.json("/past").await;
    assert_eq!(past["trainers"]["3"], "t");
    let of_a = &past["rows"][0]["turns"];
    let codes: Vec<&Value> = of_a.as_array().unwrap().iter().map(|t| &t[1]).collect();
    assert_eq!(codes, [&Value::from(3), &Value::from(0)], "{past}");
    let hole = page.json("/node/b").await;
    assert_eq!(hole["hole"]["since"], 0);
    assert_eq!(page.json("/node/nowhere").await["hole"], Value::Null);
    assert!(expose(&page.registry).unwrap().contains("viewers 1"));
    // A browser that follows does not keep the service from stopping.
    page.stop().await;
    while live.snapshot().await.is_some() {}
}

#[tokio::test]
async fn the_page_is_read_only_and_loads_nothing_from_other_servers() {
    let nats = TestNats::start();
    let page = Running::start(&nats, None).await;
    let answer = page.ask("GET", "/", "").await;
    assert!(
        answer.contains("content-security-policy: default-src 'self'"),
        "{answer}"
    );
    for file in ["/style.css", "/app.js", "/draw.js", "/icon.svg"] {
        assert!(answer.contains(&file[1..]) || file == "/draw.js", "{file}");
        let answer = page.ask("GET", file, "").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    for (method, path, status) in [
        ("POST", "/", "405"),
        ("DELETE", "/node/a", "405"),
        ("GET", "/nothing", "404"),
        ("GET", "/node/%0a", "400"),
    ] {
        let answer = page.ask(method, path, "content-length: 0\r\n").await;
        let expected = format!("HTTP/1.1 {status}");
        assert!(answer.starts_with(&expected), "{method} {path}: {answer}");
    }
    page.stop().await;
}

#[tokio::test]
async fn half_a_request_loses_its_connection_and_a_follower_keeps_it() {
    let nats = TestNats::start();
    let page = Running::start(&nats, None).await;
    let mut live = Live::open(&page).await;
    live.snapshot().await.unwrap();
    let mut half = page.open("GET / HTTP/1.1\r\nhost: localhost\r\n").await;
    let mut rest = Vec::new();
    let limit = Duration::from_secs(120);
    let ended = tokio::time::timeout(limit, half.read_to_end(&mut rest)).await;
    let _ = ended.expect("it is still open");
    assert!(!rest.starts_with(b"HTTP/1.1 200"));
    // The request came in time, however long the answer takes.
    live.snapshot().await.unwrap();
    page.stop().await;
}

fn token_file(folder: &Path) -> PathBuf {
    let file = folder.join("token");
    std::fs::write(&file, format!("{TOKEN}\n")).unwrap();
    file
}

#[tokio::test]
async fn without_the_token_nothing_is_shown() {
    let nats = TestNats::start();
    let folder = std::env::temp_dir().join(format!("lacuna-gateway-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let page = Running::start(&nats, Some(token_file(&folder))).await;
    for path in ["/", "/live", "/past", "/node/a", "/app.js", "/?token=wrong"] {
        let answer = page.ask("GET", path, "").await;
        assert!(answer.starts_with("HTTP/1.1 401"), "{path}: {answer}");
        assert!(!answer.contains(TOKEN));
    }
    let refused = expose(&page.registry).unwrap();
    assert!(
        refused.contains("lacuna_gateway_refused_total 6"),
        "{refused}"
    );
    // The address with the token sets a cookie, and redirects to the address without it.
    let answer = page.ask("GET", &format!("/?token={TOKEN}"), "").await;
    assert!(answer.starts_with("HTTP/1.1 303"), "{answer}");
    assert!(
        answer.contains("location: /\r\n") && answer.contains("HttpOnly"),
        "{answer}"
    );
    for header in [
        format!("cookie: other=1; lacuna_token_c={TOKEN}\r\n"),
        format!("authorization: Bearer {TOKEN}\r\n"),
    ] {
        let answer = page.ask("GET", "/past", &header).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    page.stop().await;
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn a_page_that_cannot_be_served_is_an_error_with_a_reason() {
    let nats = TestNats::start();
    let page = Running::start(&nats, Some(PathBuf::from("/nonexistent/token"))).await;
    let error = page.ended.await.unwrap().unwrap_err();
    assert!(error.contains("/nonexistent/token"), "{error}");
}

#[test]
fn the_exposition_is_as_written_down() {
    let registry = Registry::new();
    bus::declare_metrics(&registry, "gateway").unwrap();
    let _metrics = Metrics::new(&registry).unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/metrics.txt");
    golden(path, &expose(&registry).unwrap());
}

#[tokio::test]
async fn controls_and_active_instances_are_shown() {
    let nats = TestNats::start();
    let bus = connect(&nats, &cluster(), "other").await;
    let page = Running::start(&nats, None).await;
    let mut live = Live::open(&page).await;
    let mut controls = Controls {
        version: 1,
        max_nodes: Some(7),
        ..Controls::default()
    };
    let at = address::controls(&cluster());
    bus.store(&at, &controls, "").await.unwrap();
    let leader = Leader {
        instance: "1".to_owned(),
        seat: "boot/net/127.0.0.1:9101".to_owned(),
        since: Timestamp::from_unix(5),
        ttl_ms: 3_600_000,
        resigned: false,
        failing: Vec::new(),
    };
    let subject = address::leader(&cluster(), "control");
    bus.store(&subject, &leader, "").await.unwrap();
    let shown = loop {
        let now = live.snapshot().await.unwrap();
        let all = now["controls"] != Value::Null && now["services"] != serde_json::json!([]);
        if all {
            break now;
        }
    };
    assert_eq!(shown["controls"]["max_nodes"], 7);
    assert_eq!(shown["services"][0]["name"], "control");
    assert_eq!(shown["services"][0]["state"], "active");
    controls = Controls {
        version: 2,
        ..Controls::default()
    };
    bus.store(&at, &controls, "").await.unwrap();
    while live.snapshot().await.unwrap()["controls"] != Value::Null {}
    page.stop().await;
}

/// The exact figures are in the operator's guide.
#[tokio::test]
async fn with_ten_thousand_nodes_a_change_is_small() {
    let nats = TestNats::start();
    let bus = connect(&nats, &cluster(), "other").await;
    let all: Vec<String> = (0..10_000).map(|i| format!("n{i:05}")).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    publish_pool(&bus, 1, &all).await;
    publish_trainers(&bus, 1, all.get(..3000).unwrap()).await;
    let page = Running::start(&nats, None).await;
    let mut live = Live::open(&page).await;
    while live.snapshot().await.unwrap()["training"] != 3000 {}
    let first = live.bytes;
    live.bytes = 0;
    let mut snapshots = 0;
    for version in 2..6 {
        publish_trainers(
            &bus,
            version,
            all.get(..3000 + 5 * version as usize).unwrap(),
        )
        .await;
        let expected = 3000 + 5 * version;
        loop {
            let now = live.snapshot().await.unwrap();
            snapshots += 1;
            if now["training"] == expected {
                break;
            }
        }
    }
    let training = live.cells.iter().filter(|cell| **cell == 3).count();
    assert_eq!(training, 3025);
    let each = live.bytes / snapshots;
    let plain = page.ask("GET", "/past", "").await.len();
    let gzip = "accept-encoding: gzip, br\r\n";
    let packed = page.bytes("GET", "/past", gzip).await.len();
    println!("first {first} bytes, a snapshot {each}, the past {plain}, compressed {packed}");
    assert!(each < 5000, "{each} bytes per snapshot");
    assert!(packed < plain / 5, "{packed} of {plain}");
    page.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_names_and_too_many_viewers_are_refused() {
    let nats = TestNats::start();
    let page = Running::start(&nats, None).await;
    for (host, expected) in [("localhost", "200"), ("evil.example", "421")] {
        let request = format!("GET / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        let mut answer = Vec::new();
        let mut stream = page.open(&request).await;
        stream.read_to_end(&mut answer).await.unwrap();
        let head = format!("HTTP/1.1 {expected}");
        assert!(answer.starts_with(head.as_bytes()), "{host}");
    }
    let mut followers = Vec::new();
    for _ in 0..Gateway::default().viewers {
        let mut stream = page
            .open("GET /live HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .await;
        let mut head = [0; 12];
        stream.read_exact(&mut head).await.unwrap();
        assert_eq!(&head, b"HTTP/1.1 200");
        followers.push(stream);
    }
    let answer = page.ask("GET", "/live", "").await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    drop(followers);
    page.stop().await;
}
