//! A service with a fake scheduler.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lacuna_ingest_service::run;
use lacuna_ingest_service::{Config, Context};
use lacuna_model::{ClusterId, EventKind, NodeEvent, Span};
use lacuna_runtime::metrics::{Registry, expose};
use lacuna_runtime::{
    Bus, ClusterClock, Follow, Health, NoArgs, Received, ServiceError, Start, Tasks,
};
use lacuna_scheduler::settings::{Marks, Polling, Slurm};
use lacuna_testkit::{TestNats, connect};
use lacuna_wire::address;
use tokio_util::sync::CancellationToken;

pub(crate) fn cluster() -> ClusterId {
    ClusterId::new("c").unwrap()
}

/// A folder with fake commands.
pub(crate) struct Fake {
    pub(crate) dir: tempfile::TempDir,
}

impl Fake {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { dir }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file atomically: a reader finds the old or the new file.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let part = self.path("part");
        std::fs::write(&part, text).unwrap();
        std::fs::rename(part, self.path(name)).unwrap();
    }

    /// Writes a shell script that runs in the folder.
    pub(crate) fn script(&self, name: &str, body: &str) {
        let dir = self.dir.path().display();
        let text = format!("#!/bin/sh\ncd '{dir}' || exit 9\n{body}\n");
        let part = self.path("part.sh");
        std::fs::write(&part, text).unwrap();
        std::fs::set_permissions(&part, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::rename(part, self.path(name)).unwrap();
    }

    /// `sinfo` and `squeue` that print files of the same name with `.txt`.
    pub(crate) fn slurm(&self) {
        self.script("sinfo", "echo \"$@\" >> asked; cat sinfo.txt");
        self.script("squeue", "echo \"$@\" >> asked; cat squeue.txt");
        self.nodes("");
        self.jobs("");
    }

    /// Answer of `sinfo`: `node state` a line, or `node state partition available reason`.
    pub(crate) fn nodes(&self, lines: &str) {
        let mut text = String::new();
        for line in lines.lines().map(str::trim).filter(|l| !l.is_empty()) {
            let mut words = line.splitn(5, ' ').chain([""; 5]);
            let [node, state] = [words.next().unwrap(), words.next().unwrap()];
            let partition = words.next().filter(|w| !w.is_empty()).unwrap_or("filler");
            let available = words.next().filter(|w| !w.is_empty()).unwrap_or("up");
            let reason = words.next().filter(|w| !w.is_empty()).unwrap_or("none");
            text += &format!(
                "{node}\u{1f}{state}\u{1f}{partition}\u{1f}{available}\u{1f}{reason}\u{1e}\n"
            );
        }
        self.write("sinfo.txt", &text);
    }

    /// Answer of `squeue`: `id state partition nodes start preempted planned name` a line, `-` for
    /// an absent value.
    pub(crate) fn jobs(&self, lines: &str) {
        let mut text = String::new();
        for line in lines.lines().map(str::trim).filter(|l| !l.is_empty()) {
            let words: Vec<&str> = line.splitn(8, ' ').collect();
            let or = |at: usize, absent: &'static str| match words.get(at) {
                None | Some(&"-") => absent.to_owned(),
                Some(word) => (*word).to_owned(),
            };
            let fields = [
                or(0, "1"),
                "1700000000".to_owned(),
                "(null)".to_owned(),
                or(1, "RUNNING"),
                or(2, "batch"),
                "(null)".to_owned(),
                "alice".to_owned(),
                or(3, ""),
                "10:00".to_owned(),
                or(4, "N/A"),
                or(5, "N/A"),
                or(6, "(null)"),
                "(null)".to_owned(),
                or(7, "job"),
            ];
            text += &fields.join("\u{1f}");
            text += "\u{1e}\n";
        }
        self.write("squeue.txt", &text);
    }

    /// Number of requests to all commands.
    pub(crate) fn asked(&self) -> usize {
        std::fs::read_to_string(self.path("asked")).map_or(0, |text| text.lines().count())
    }

    /// Settings that poll these commands at a fast pace.
    pub(crate) fn config(&self) -> Config {
        let command = |name: &str| vec![self.path(name).display().to_string()];
        let mut config = Config::default();
        config.ingest.slurm = Some(Slurm {
            sinfo: command("sinfo"),
            squeue: command("squeue"),
            time_zone: Some("UTC".to_owned()),
            pilots: Marks {
                partition: Some("filler".to_owned()),
                ..Marks::default()
            },
            polling: fast(),
            ..Slurm::default()
        });
        config
    }
}

pub(crate) fn fast() -> Polling {
    Polling {
        every: Span::from_ms(100),
        limit: Span::from_secs(2),
        requests_per_minute: 6000,
        slow_after: Span::from_secs(1),
        pause: Span::from_ms(400),
        longest_wait: Span::from_ms(800),
        ..Polling::default()
    }
}

/// A service under test.
pub(crate) struct Service {
    pub(crate) stop: CancellationToken,
    pub(crate) running: tokio::task::JoinHandle<Result<(), ServiceError>>,
    pub(crate) health: Health,
    pub(crate) registry: Registry,
    tasks: Tasks,
}

impl Service {
    pub(crate) async fn start(nats: &TestNats, config: Config) -> Self {
        config.check().unwrap();
        let bus = connect(nats, &cluster(), "ingest").await;
        let stop = CancellationToken::new();
        let (health, registry) = (Health::default(), Registry::new());
        let tasks = Tasks::new(stop.clone());
        let ctx = Context {
            config: Arc::new(config),
            cluster: cluster(),
            bus,
            registry: registry.clone(),
            health: health.clone(),
            clock: ClusterClock::new(),
            tasks: tasks.clone(),
            shutdown: stop.clone(),
        };
        Self {
            running: tokio::spawn(run(ctx, NoArgs {})),
            stop,
            health,
            registry,
            tasks,
        }
    }

    pub(crate) async fn end(self) {
        self.stop.cancel();
        self.running.await.unwrap().unwrap();
        self.tasks.finish(Duration::from_secs(5)).await;
    }

    /// The value of a metric, by its name and labels in the exposition; NaN before the adapter has
    /// started.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let text = expose(&self.registry).unwrap();
        let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
        text.lines().find_map(value).unwrap_or(f64::NAN)
    }

    /// Waits until a condition holds.
    pub(crate) async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        for _ in 0..400 {
            if holds(self) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("never: {what}\n{}", expose(&self.registry).unwrap());
    }

    /// Waits for `more` further polling cycles.
    pub(crate) async fn cycles(&self, fake: &Fake, more: usize) {
        let goal = fake.asked() + 2 * more + 2;
        self.until("further cycles", |_| fake.asked() >= goal).await;
    }

    /// The health check of the adapter: whether it is healthy, with reason and note.
    pub(crate) fn check(&self, name: &str) -> (bool, String) {
        let report = self.health.report();
        match report.checks.into_iter().find(|c| c.name == name) {
            Some(check) => (check.ok, check.note.or(check.reason).unwrap_or_default()),
            None => (false, "no such check".to_owned()),
        }
    }
}

/// Receives events.
pub(crate) struct Consumer {
    pub(crate) bus: Bus,
    events: Follow<NodeEvent>,
}

impl Consumer {
    pub(crate) async fn new(nats: &TestNats) -> Self {
        let bus = connect(nats, &cluster(), "test").await;
        let address = address::event(&cluster());
        let events = bus.follow(&address, Start::All).await.unwrap();
        Self { bus, events }
    }

    pub(crate) async fn event(&mut self) -> NodeEvent {
        let next = tokio::time::timeout(Duration::from_secs(20), self.events.next());
        let Received { message, .. } = next.await.expect("nothing came").unwrap();
        message
    }

    /// The next events, in short form; events of one answer are sorted.
    pub(crate) async fn receive(&mut self, count: usize) -> Vec<String> {
        let mut received = Vec::new();
        for _ in 0..count {
            received.push(short(&self.event().await));
        }
        received
    }

    /// Whether no further event has arrived.
    pub(crate) fn quiet(&mut self) -> bool {
        self.events.try_next().is_none()
    }
}

pub(crate) fn short(event: &NodeEvent) -> String {
    match &event.kind {
        EventKind::NodeIdle { node } => format!("+{node}"),
        EventKind::NodeBusy { node } => format!("-{node}"),
        EventKind::NodeDown { node, reason } => format!("!{node} {reason}"),
        EventKind::NodeWanted { node, .. } => format!("?{node}"),
        EventKind::JobPlanned { job, nodes, start } => {
            let nodes: Vec<_> = nodes.iter().map(|n| n.as_str()).collect();
            format!("plan {job} [{}] {}", nodes.join(","), start.unix_seconds())
        }
        other => format!("{other:?}"),
    }
}

/// Whether the command line of any process contains this word.
pub(crate) fn runs(word: &str) -> bool {
    let Ok(processes) = std::fs::read_dir(Path::new("/proc")) else {
        return false;
    };
    processes.flatten().any(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line)
            .replace('\0', " ")
            .contains(word)
    })
}
