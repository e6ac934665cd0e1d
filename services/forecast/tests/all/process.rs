//! The service as a process, and the bus beside it.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lacuna_model::{ClusterId, NodeEvent, Timestamp};
use lacuna_runtime::{Bus, Follow, Received};
use lacuna_testkit::{TestNats, logged_address};
use lacuna_wire::address;
use lacuna_wire::msg::{Clock, Pace, PoolState};

pub(crate) struct Service {
    child: Child,
    address: SocketAddr,
}

impl Service {
    pub(crate) fn start(nats: &TestNats) -> Self {
        Self::with(nats, &[])
    }

    /// With a configuration file.
    pub(crate) fn configured(nats: &TestNats, config: &Path) -> Self {
        Self::with(nats, &["--config", config.to_str().unwrap()])
    }

    fn with(nats: &TestNats, more: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_lacuna-forecast"))
            .args(["--nats", &nats.url(), "--cluster", "t"])
            .args(["--listen", "127.0.0.1:0"])
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        let address = loop {
            assert!(log.read_line(&mut said).unwrap() > 0, "it ends: {said}");
            if let Some(address) = logged_address(&said, "address") {
                break address;
            }
        };
        // Output is read all the time, so that the process never waits.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::stderr()));
        Self { child, address }
    }

    /// The answer of an HTTP path: status line, headers and body.
    pub(crate) fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// The value of a metric, with its labels as in the exposition.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let answer = self.get("/metrics");
        let of = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
        match answer.lines().find_map(of) {
            Some(value) => value,
            None => panic!("no {name} in\n{answer}"),
        }
    }

    /// Waits until the value of a metric is as wanted, at most ten seconds.
    pub(crate) async fn until(&self, name: &str, wanted: impl Fn(f64) -> bool) {
        for _ in 0..100 {
            if wanted(self.metric(name)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{name} stayed at {}", self.metric(name));
    }

    /// Sends SIGTERM, waits for the end and returns the exit code.
    pub(crate) fn stop(mut self) -> Option<i32> {
        let id = self.child.id().to_string();
        Command::new("kill").args(["-TERM", &id]).status().unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Service {
    /// Sends SIGKILL.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn cluster() -> ClusterId {
    ClusterId::new("t").unwrap()
}

pub(crate) async fn send(bus: &Bus, event: &NodeEvent, correlation: &str) {
    let subject = address::event(&cluster());
    bus.store(&subject, event, correlation).await.unwrap();
}

pub(crate) async fn tick(bus: &Bus, clock: Clock) {
    bus.store(&address::clock(&cluster()), &clock, "")
        .await
        .unwrap();
}

pub(crate) fn lock_step(step: u64, now: i64, events_upto: u64, complete: bool) -> Clock {
    Clock {
        now: Timestamp::from_unix(now),
        pace: Pace::LockStep,
        step,
        events_upto,
        complete,
        ended: false,
        recording: String::new(),
    }
}

/// The time of a trace, which hardly moves.
pub(crate) fn slow(now: i64) -> Clock {
    Clock {
        pace: Pace::Scaled {
            rate: 1e-6,
            wall_at: lacuna_runtime::clock::wall(),
        },
        ..lock_step(0, now, 0, false)
    }
}

/// The first pool for which `wanted` holds, within ten seconds.
pub(crate) async fn pool(
    pools: &mut Follow<PoolState>,
    wanted: impl Fn(&PoolState) -> bool,
) -> Received<PoolState> {
    let found = async {
        loop {
            let pool = pools.next().await.unwrap();
            if wanted(&pool.message) {
                return pool;
            }
        }
    };
    match tokio::time::timeout(Duration::from_secs(10), found).await {
        Ok(pool) => pool,
        Err(_) => panic!("no such pool came within ten seconds"),
    }
}

pub(crate) fn names(state: &PoolState) -> Vec<&str> {
    state
        .pool
        .holes
        .iter()
        .map(|pooled| pooled.hole.node.as_str())
        .collect()
}
