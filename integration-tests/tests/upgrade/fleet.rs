//! Services around one nats-server.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use lacuna_model::{
    ClusterId, Phase, RescaleCost, ScalingCurve, TrainerId, TrainerRecord, TrainerSpec, Work,
};
use lacuna_runtime::{Bus, Stopwatch};
use lacuna_testkit::{TestNats, connect};
use lacuna_wire::msg::{Reply, Request, Totals};
use lacuna_wire::{Message, address};

/// Services in the order of an upgrade: the writer of a message comes after its readers.
pub(crate) const SERVICES: [&str; 5] = ["planner", "forecast", "ingest", "agent", "control"];

pub(crate) struct Fleet {
    services: BTreeMap<&'static str, Child>,
    pub(crate) bus: Bus,
    pub(crate) id: ClusterId,
    nats: TestNats,
    dir: tempfile::TempDir,
}

/// A trainer of a second's work.
pub(crate) fn trainer(name: &str) -> TrainerSpec {
    TrainerSpec {
        owner: Some("ada".to_owned()),
        max_nodes: 2,
        rescale: RescaleCost::of(0.1, 0.1),
        work: Work::Samples(150.0),
        ..TrainerSpec::simulated(
            TrainerId::new(name.to_lowercase()).unwrap(),
            ScalingCurve::new([(1, 100.0), (2, 190.0)]).unwrap(),
        )
    }
}

impl Fleet {
    pub(crate) async fn new() -> Self {
        let nats = TestNats::start();
        let dir = tempfile::Builder::new()
            .prefix("lacuna-up-")
            .tempdir()
            .unwrap();
        let id = ClusterId::new("up").unwrap();
        let bus = connect(&nats, &id, "test").await;
        Self {
            services: BTreeMap::new(),
            bus,
            id,
            nats,
            dir,
        }
    }

    fn config(&self, service: &str) -> PathBuf {
        let url = self.nats.url();
        let work = self.dir.path().join("work");
        let text = format!(
            "[cluster]\nid = \"up\"\n[bus]\nurl = \"{url}\"\n[control]\n\
             renew_every = \"1s\"\nreconcile_every = \"500ms\"\n[agent]\nall_nodes = true\n\
             work_dir = \"{}\"\nreport_every = \"200ms\"\n",
            work.display()
        );
        let path = self.dir.path().join(format!("{service}.toml"));
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn start(&mut self, service: &'static str) {
        self.start_with(service, &[]);
    }

    /// Starts a service with further variables of the environment.
    pub(crate) fn start_with(&mut self, service: &'static str, env: &[(&str, &Path)]) {
        let log = self.log_path(service);
        let log = File::options().create(true).append(true).open(log).unwrap();
        let child = Command::new(binary(service))
            .arg("--config")
            .arg(self.config(service))
            .args(["--listen", "127.0.0.1:0"])
            .envs(env.iter().copied())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let before = self.services.insert(service, child);
        assert!(before.is_none(), "{service} runs already");
    }

    /// Sends SIGTERM, as an operator does.
    pub(crate) fn stop(&mut self, service: &'static str) {
        let mut child = self.services.remove(service).unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
        kill(pid, Signal::SIGTERM).unwrap();
        assert!(
            child.wait().unwrap().success(),
            "{service}: {}",
            self.logs()
        );
    }

    /// Waits for a service that ends by itself.
    pub(crate) fn ended(&mut self, service: &'static str, limit: Duration) -> ExitStatus {
        let mut child = self.services.remove(service).unwrap();
        let begun = Stopwatch::start();
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return status;
            }
            if begun.span().to_std() > limit {
                let _ = child.kill();
                let _ = child.wait();
                panic!("{service} has not ended by itself\n{}", self.logs());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    pub(crate) fn url(&self) -> String {
        self.nats.url()
    }

    /// Publishes an event, with an acknowledgement of its stream.
    pub(crate) async fn publish_until_kept(&self, kind: &str, node: &str) {
        let id = self.bus.new_id();
        let headers = [("ce-id", id.as_str()), ("ce-source", "upgrade")];
        let subject = address::incoming_from(&self.id, "upgrade");
        let text = format!(r#"{{"type": "{kind}", "node": "{node}"}}"#);
        let stored = self
            .bus
            .store_raw(subject.as_str(), &headers, text.into_bytes());
        stored.await.unwrap().wait().await.unwrap();
    }

    async fn ask(&self, request: &Request) -> Reply {
        let subject = address::requests_of(&self.id, self.bus.user());
        let mut last = String::new();
        for _ in 0..120 {
            let asked = self.bus.request(&subject, request, Duration::from_secs(2));
            match asked.await {
                Ok(reply) => return reply,
                Err(error) => last = error.to_string(),
            }
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
        panic!(
            "control does not answer {request:?}: {last}\n{}",
            self.logs()
        );
    }

    pub(crate) async fn trainers(&self) -> Vec<TrainerRecord> {
        match self.ask(&Request::Trainers { all: true }).await {
            Reply::Trainers { trainers, .. } => trainers,
            other => panic!("no trainers: {other:?}"),
        }
    }

    pub(crate) async fn totals(&self) -> Totals {
        match self.ask(&Request::Totals).await {
            Reply::Totals(totals) => totals,
            other => panic!("no totals: {other:?}"),
        }
    }

    pub(crate) async fn submits(&self, spec: TrainerSpec) {
        let request = lacuna_testkit::submission(vec![spec]);
        let reply = self.ask(&request).await;
        assert!(matches!(reply, Reply::Accepted { .. }), "{reply:?}");
    }

    /// Submits a trainer and waits until its work is done.
    pub(crate) async fn trains(&self, name: &str, limit: Duration) {
        let spec = trainer(name);
        let id = spec.id.clone();
        self.submits(spec).await;
        let begun = Stopwatch::start();
        loop {
            let all = self.trainers().await;
            let record = all.iter().find(|r| r.spec.id == id).unwrap();
            if record.phase == Phase::Done {
                assert!(
                    (record.samples() - 150.0).abs() < 1e-6,
                    "{}",
                    record.samples()
                );
                return;
            }
            assert!(
                begun.span().to_std() < limit,
                "{name}: {record:?}\n{}",
                self.logs()
            );
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Puts the bytes of a record into its bucket as a build of this version does.
    pub(crate) async fn keep_record(&self, name: &str, version: u16, bytes: Vec<u8>) -> u64 {
        let subject = address::trainers_bucket(&self.id).key(name);
        let kind = TrainerRecord::KIND;
        self.store(subject.as_str(), kind, version, bytes).await
    }

    /// Publishes a message of an unknown version.
    pub(crate) async fn say(&self, subject: &str, kind: &str, version: u16) {
        self.store(subject, kind, version, vec![0x80]).await;
    }

    async fn store(&self, subject: &str, kind: &str, version: u16, bytes: Vec<u8>) -> u64 {
        let version = version.to_string();
        let headers = [
            ("ce-id", "1"),
            ("ce-type", kind),
            ("ce-dataversion", version.as_str()),
        ];
        let stored = self.bus.store_raw(subject, &headers, bytes).await.unwrap();
        stored.wait().await.unwrap()
    }

    /// The number of the newest write to a record.
    pub(crate) async fn revision(&self, name: &str) -> u64 {
        let bucket = address::trainers_bucket(&self.id);
        let stream = self
            .bus
            .nats()
            .unwrap()
            .jetstream
            .get_stream(bucket.stream())
            .await
            .unwrap();
        let key = bucket.key(name);
        let last = stream.get_last_raw_message_by_subject(key.as_str());
        last.await.unwrap().sequence
    }

    /// The dead letters: service and reason of each.
    pub(crate) async fn refused(&self) -> Vec<String> {
        let name = address::dead(&self.id, "any").stream().unwrap().to_owned();
        let mut stream = self
            .bus
            .nats()
            .unwrap()
            .jetstream
            .get_stream(name)
            .await
            .unwrap();
        match stream.info().await.unwrap().state.messages {
            0 => Vec::new(),
            _ => {
                let letters = address::dead_all(&self.id);
                let last = self.bus.last(&letters).await.unwrap().unwrap().message;
                vec![format!(
                    "{}: {}: {}",
                    last.service, last.subject, last.reason
                )]
            }
        }
    }

    pub(crate) fn log_path(&self, service: &str) -> PathBuf {
        self.dir.path().join(format!("{service}.log"))
    }

    pub(crate) fn log(&self, service: &str) -> String {
        std::fs::read_to_string(self.log_path(service)).unwrap_or_default()
    }

    pub(crate) fn logs(&self) -> String {
        let tail = |service: &str| {
            let log = self.log(service);
            let lines: Vec<&str> = log.lines().collect();
            let from = lines.len().saturating_sub(15);
            format!("--- {service}\n{}\n", lines[from..].join("\n"))
        };
        SERVICES.iter().map(|service| tail(service)).collect()
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for child in self.services.values_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn binary(service: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let dir = own.parent().and_then(std::path::Path::parent).unwrap();
    let path = dir.join(format!("lacuna-{service}"));
    assert!(
        path.is_file(),
        "{} is missing: `make test` builds it first (cargo build --release --workspace)",
        path.display()
    );
    path
}
