//! Two of each service and two agents, each behind a network of its own, around one nats-server.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use lacuna_model::{ClusterId, Span, Timestamp};
use lacuna_runtime::config::BusSettings;
use lacuna_runtime::metrics::Registry;
use lacuna_runtime::nats_server::{NatsServer, find};
use lacuna_runtime::{Bus, Health, Stopwatch, exit};
use lacuna_testkit::logged_address;
use lacuna_wire::address;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::cluster::{Cluster, LED, View, begin, config};
use super::history::{Observation, Recorder};
use super::place::{SmallDisk, faketime};
use super::proxy::Proxy;
use super::workload::Workload;

/// One process, started again when it ends, as a supervisor does.
pub(super) struct Process {
    pub(super) service: &'static str,
    pub(super) name: String,
    pub(super) proxy: Proxy,
    /// Whether it stays down when it has ended.
    pub(super) held: bool,
    /// The error of its clock, seconds.
    pub(super) skew: i64,
    pub(super) ends: BTreeMap<String, u32>,
    /// The port on which it listens, also after a restart; 0 until its log names it.
    port: u16,
    /// Its former port, which another program took while it was dead.
    taken: u16,
    nodes: Vec<String>,
    child: Option<Child>,
    ended: Stopwatch,
}

impl Process {
    pub(super) fn signal(&self, signal: Signal) {
        if let Some(child) = &self.child {
            let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
            let _ = kill(pid, signal);
        }
    }

    /// `kill -9`, and waits for its end.
    pub(super) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
            self.ended = Stopwatch::start();
        }
    }
}

pub(super) struct World {
    pub(super) processes: Vec<Process>,
    pub(super) nats: NatsServer,
    pub(super) bus: Bus,
    pub(super) id: ClusterId,
    pub(super) recorder: Recorder,
    pub(super) workload: Workload,
    config: PathBuf,
    disk: SmallDisk,
}

fn binary(service: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let dir = own.parent().and_then(Path::parent).unwrap();
    dir.join(format!("lacuna-{service}"))
}

impl World {
    /// Starts all processes, with `nodes` idle nodes; waits until all has settled.
    pub(super) async fn start(nodes: usize, seed: u64) -> Self {
        let disk = SmallDisk::new();
        let dir = disk.dir.path().to_owned();
        let program = find().unwrap();
        let mut nats = NatsServer::start(&program, &dir.join("nats"), 0).unwrap();
        // A client that does not read is dropped sooner than by default.
        nats.stop();
        let conf = dir.join("nats/nats.conf");
        let text = std::fs::read_to_string(&conf).unwrap();
        let (deadline, short) = ("write_deadline: \"10s\"", "write_deadline: \"2s\"");
        assert!(text.contains(deadline), "{text}");
        std::fs::write(&conf, text.replace(deadline, short)).unwrap();
        nats.restart().unwrap();
        let mut config = config(&dir);
        config.bus.url = nats.url();
        let path = dir.join("lacuna.toml");
        std::fs::write(&path, toml::to_string(&config).unwrap()).unwrap();
        let id = config.cluster.id.clone();
        let settings = BusSettings {
            url: nats.url(),
            connect_limit: Span::from_secs(20),
            ..BusSettings::default()
        };
        let (registry, health) = (Registry::new(), Health::default());
        let bus = Bus::connect(&settings, &id, "test", &registry, &health)
            .await
            .unwrap();
        let recorder = Recorder::start(&bus).await;
        let names: Vec<String> = (0..nodes).map(|n| format!("n{n:02}")).collect();
        let workload = Workload::start(bus.clone(), recorder.writer.clone(), &names, seed);
        let mut world = Self {
            processes: Vec::new(),
            nats,
            bus,
            id,
            recorder,
            workload,
            config: path,
            disk,
        };
        for (n, service) in LED.into_iter().chain(["agent"]).enumerate() {
            for copy in 0..2 {
                let number = u64::try_from(2 * n + copy).unwrap();
                let plays = |(at, _): &(usize, &String)| service == "agent" && at % 2 == copy;
                let played = names.iter().enumerate().filter(plays);
                let process = Process {
                    service,
                    name: format!("{service}-{copy}"),
                    proxy: Proxy::start(world.nats.port(), seed ^ (number << 32)).await,
                    held: false,
                    skew: 0,
                    ends: BTreeMap::new(),
                    port: 0,
                    taken: 0,
                    nodes: played.map(|(_, name)| name.clone()).collect(),
                    child: None,
                    ended: Stopwatch::start(),
                };
                world.processes.push(process);
            }
        }
        world.tend();
        let begun = begin(&mut world).await;
        assert!(begun.is_ok(), "{begun:?}\n{}", world.logs());
        world
    }

    /// Whether a disk can be filled here.
    pub(super) fn disk_can_be_filled(&self) -> bool {
        self.disk.mounted
    }

    fn filler(&self) -> PathBuf {
        self.disk.dir.path().join("filler")
    }

    /// Fills the disk of nats-server and of forecast's models.
    pub(super) fn fill_disk(&self) {
        use std::io::Write;
        let mut file = File::create(self.filler()).unwrap();
        let block = vec![1; 1 << 20];
        while file.write_all(&block).is_ok() {}
        let block = vec![1; 512];
        while file.write_all(&block).is_ok() {}
    }

    pub(super) fn empty_disk(&self) {
        let _ = std::fs::remove_file(self.filler());
    }

    /// Deletes nats-server's store; only while it does not run.
    pub(super) fn wipe(&self) {
        let _ = std::fs::remove_dir_all(self.disk.dir.path().join("nats/jetstream"));
        self.recorder.writer.note(Observation::Emptied);
    }

    pub(super) fn process(&mut self, at: usize) -> &mut Process {
        self.processes.get_mut(at).unwrap()
    }

    fn spawn(&self, at: usize) -> Child {
        let process = self.processes.get(at).unwrap();
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.log_path(&process.name))
            .unwrap();
        let mut command = Command::new(binary(process.service));
        command
            .arg("--config")
            .arg(&self.config)
            .args([
                "--nats",
                &format!("nats://127.0.0.1:{}", process.proxy.port),
            ])
            .args(["--listen", &format!("127.0.0.1:{}", process.port)]);
        for node in &process.nodes {
            command.args(["--node", node]);
        }
        if let Some(library) = faketime().filter(|_| process.skew != 0) {
            command
                .env("LD_PRELOAD", library)
                .env("FAKETIME", format!("{:+}s", process.skew))
                .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        }
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap()
    }

    fn log_path(&self, name: &str) -> PathBuf {
        self.disk.dir.path().join(format!("{name}.log"))
    }

    /// The process that leads a service, by its record on the bus.
    pub(super) async fn active(&self, service: &str) -> Option<usize> {
        self.leads(service, None).await
    }

    /// The same, if its record is newer than a moment of this machine's clock, since the record of
    /// a dead process stays on the bus.
    async fn leads(&self, service: &str, after: Option<Timestamp>) -> Option<usize> {
        let lead = self.bus.last(&address::leader(&self.id, service)).await;
        let lead = lead.ok()??;
        if after.is_some_and(|after| lead.kept.is_none_or(|kept| kept < after)) {
            return None;
        }
        let lead = lead.message;
        let port: u16 = lead.seat.rsplit(':').next()?.parse().ok()?;
        let at = self.processes.iter().position(|p| p.port == port)?;
        (!lead.resigned).then_some(at)
    }

    /// Panics in logs, which no fault excuses.
    pub(super) fn panics(&self) -> Vec<String> {
        let mut found = Vec::new();
        for process in &self.processes {
            let log = std::fs::read_to_string(self.log_path(&process.name)).unwrap_or_default();
            let bad = log.lines().filter(|l| l.contains("panicked"));
            found.extend(bad.map(|l| format!("{}: {l}", process.name)));
        }
        found
    }

    /// The ends of all logs.
    pub(super) fn logs(&self) -> String {
        let mut all = String::new();
        for process in &self.processes {
            let log = std::fs::read_to_string(self.log_path(&process.name)).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let tail = lines.get(lines.len().saturating_sub(12)..);
            let tail = tail.unwrap_or_default().join("\n");
            all.push_str(&format!(
                "--- {} {:?}\n{tail}\n",
                process.name, process.ends
            ));
        }
        all
    }
}

impl Cluster for World {
    fn tend(&mut self) {
        for at in 0..self.processes.len() {
            let name = self.process(at).name.clone();
            let path = self.log_path(&name);
            let process = self.process(at);
            if process.port == 0
                && let Ok(log) = std::fs::read_to_string(path)
                && let Some(said) = logged_address(&log, "address")
                && said.port() != process.taken
            {
                process.port = said.port();
            }
            if let Some(child) = &mut process.child
                && let Ok(Some(status)) = child.try_wait()
            {
                *process.ends.entry(status.to_string()).or_default() += 1;
                if status.code() == Some(i32::from(exit::CONFIG)) {
                    println!("{name} ends with 64, is port {} taken?", process.port);
                    process.taken = std::mem::take(&mut process.port);
                }
                process.child = None;
                process.ended = Stopwatch::start();
            }
            if process.child.is_none() && !process.held && process.ended.seconds() > 0.2 {
                let child = self.spawn(at);
                self.process(at).child = Some(child);
            }
        }
    }

    async fn led(&self, since: Timestamp) -> Result<(), String> {
        for service in LED {
            if self.leads(service, Some(since)).await.is_none() {
                return Err(format!("{service} has no leader"));
            }
        }
        Ok(())
    }

    fn view(&self) -> View<'_> {
        View {
            bus: &self.bus,
            writer: &self.recorder.writer,
            workload: &self.workload,
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for process in &mut self.processes {
            process.signal(Signal::SIGCONT);
            process.kill();
        }
        if let Ok(pid) = i32::try_from(self.nats.pid()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGCONT);
        }
        self.nats.kill();
        if let Some(keep) = std::env::var_os("LACUNA_CHAOS_LOGS") {
            let _ = std::fs::create_dir_all(&keep);
            for process in &self.processes {
                let to = Path::new(&keep).join(format!("{}.log", process.name));
                let _ = std::fs::copy(self.log_path(&process.name), to);
            }
        }
    }
}
