//! Services as child processes around a nats-server of their own.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use lacuna_cli::Config;
use lacuna_model::{ClusterId, TrainerRecord, TrainerSpec};
use lacuna_runtime::Bus;
use lacuna_testkit::{TestNats, connect};
use lacuna_wire::address;
use lacuna_wire::msg::{Clock, Reply, Request, Totals};

/// The services in the order of their start; the source of events comes last.
pub(crate) const SERVICES: [&str; 5] = ["control", "agent", "planner", "forecast", "ingest"];

/// A nats-server, services, and a connection to ask them.
pub(crate) struct Cluster {
    services: BTreeMap<&'static str, Child>,
    pilots: BTreeMap<String, Child>,
    pub(crate) bus: Bus,
    pub(crate) id: ClusterId,
    _nats: TestNats,
    config: PathBuf,
    dir: tempfile::TempDir,
}

/// The folder of the services' binaries, beside the test's own.
fn binary(service: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let dir = own.parent().and_then(Path::parent).unwrap();
    let path = dir.join(format!("lacuna-{service}"));
    assert!(
        path.is_file(),
        "{} is missing: `make test` builds it first (cargo build --release --workspace)",
        path.display()
    );
    path
}

impl Cluster {
    /// Starts a nats-server, writes the configuration, and connects. No service runs yet.
    pub(crate) async fn new(config: Config) -> Self {
        let nats = TestNats::start();
        let dir = tempfile::Builder::new()
            .prefix("lacuna-it-")
            .tempdir()
            .unwrap();
        let mut config = config;
        config.bus.url = nats.url();
        config.agent.all_nodes = !config.control.require_agents;
        config.agent.work_dir = dir.path().join("work");
        let path = dir.path().join("lacuna.toml");
        std::fs::write(&path, toml::to_string(&config).unwrap()).unwrap();
        let id = config.cluster.id.clone();
        let bus = connect(&nats, &id, "test").await;
        Self {
            services: BTreeMap::new(),
            pilots: BTreeMap::new(),
            bus,
            id,
            _nats: nats,
            config: path,
            dir,
        }
    }

    /// Starts one service; its log goes to a file of its name.
    pub(crate) fn start(&mut self, service: &'static str) {
        let child = self.spawn(service, service, &[]);
        let before = self.services.insert(service, child);
        assert!(before.is_none(), "{service} runs already");
    }

    /// Starts an agent as a pilot on a node.
    pub(crate) fn start_pilot(&mut self, node: &str) {
        let child = self.spawn("agent", node, &["--pilot", "--node", node]);
        let before = self.pilots.insert(node.to_owned(), child);
        assert!(before.is_none(), "{node} has a pilot already");
    }

    /// SIGTERM to the pilot of a node, as when the scheduler wants it back; waits for its end.
    pub(crate) fn end_pilot(&mut self, node: &str) {
        let mut child = self.pilots.remove(node).unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
        kill(pid, Signal::SIGTERM).unwrap();
        assert!(child.wait().unwrap().success());
    }

    fn spawn(&self, service: &str, name: &str, args: &[&str]) -> Child {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.log_path(name))
            .unwrap();
        Command::new(binary(service))
            .arg("--config")
            .arg(&self.config)
            .args(["--listen", "127.0.0.1:0"])
            .args(args)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap()
    }

    fn log_path(&self, service: &str) -> PathBuf {
        self.dir.path().join(format!("{service}.log"))
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self, service: &'static str) {
        let mut child = self.services.remove(service).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Sends control a request until it answers or a minute has passed.
    pub(crate) async fn ask(&self, request: &Request) -> Reply {
        let mut last = String::new();
        for _ in 0..120 {
            let subject = address::requests_of(&self.id, "tester");
            match self
                .bus
                .request::<Request, Reply>(&subject, request, Duration::from_secs(2))
                .await
            {
                Ok(reply) => return reply,
                Err(error) => last = error.to_string(),
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        panic!(
            "control does not answer {request:?}: {last}\n{}",
            self.logs()
        );
    }

    /// Submits trainers; all must be accepted.
    pub(crate) async fn submit(&self, trainers: Vec<TrainerSpec>) {
        for chunk in trainers.chunks(100) {
            let request = lacuna_testkit::submission(chunk.to_vec());
            match self.ask(&request).await {
                Reply::Accepted { trainers } => assert_eq!(trainers.len(), chunk.len()),
                other => panic!("not accepted: {other:?}"),
            }
        }
    }

    /// Totals now.
    pub(crate) async fn totals(&self) -> Totals {
        match self.ask(&Request::Totals).await {
            Reply::Totals(totals) => totals,
            other => panic!("no totals: {other:?}"),
        }
    }

    /// Records of all trainers, finished ones too.
    pub(crate) async fn trainers(&self) -> Vec<TrainerRecord> {
        match self.ask(&Request::Trainers { all: true }).await {
            Reply::Trainers { trainers, .. } => trainers,
            other => panic!("no trainers: {other:?}"),
        }
    }

    /// The newest clock message, if there is one.
    pub(crate) async fn clock(&self) -> Option<Clock> {
        self.bus
            .last(&address::clock(&self.id))
            .await
            .ok()
            .flatten()
            .map(|found| found.message)
    }

    /// Waits until the trace has ended.
    pub(crate) async fn ended(&mut self, limit: Duration) {
        let arrived = tokio::time::timeout(limit, async {
            loop {
                if self.clock().await.is_some_and(|clock| clock.ended) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        })
        .await;
        if arrived.is_err() {
            panic!(
                "the trace has not ended within {limit:?}; the clock is at {:?}\n{}",
                self.clock().await,
                self.logs()
            );
        }
    }

    /// The folder in which agents keep the output of programs.
    pub(crate) fn work_dir(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    /// The last lines of every service's log.
    pub(crate) fn logs(&self) -> String {
        let mut all = String::new();
        let pilots = self.pilots.keys().map(String::as_str);
        for service in SERVICES.into_iter().chain(pilots) {
            let text = std::fs::read_to_string(self.log_path(service)).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let tail = lines
                .get(lines.len().saturating_sub(15)..)
                .unwrap_or_default();
            all.push_str(&format!("--- {service}\n{}\n", tail.join("\n")));
        }
        all
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in self.services.values_mut().chain(self.pilots.values_mut()) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
