//! Fault injection in virtual time: the same services, workload and checker on one thread, over a
//! simulated server, with faults from a seed. A world of minutes takes seconds, and its seed runs
//! the same world again. Trainers of most worlds are simulated; those of `ends` have programs, which
//! are played.

mod ends;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lacuna_agent_service::StandIn;
use lacuna_cli::Config;
use lacuna_model::{NodeId, Timestamp};
use lacuna_runtime::virtual_time::{self, Host};
use lacuna_runtime::{Bus, Delays, SimulatedServer, Stopwatch, Trap, Weather, telemetry};
use lacuna_wire::{address, token};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::check::Checker;
use super::cluster::{Cluster, LED, View, begin, config, converge, record_counts};
use super::history::{History, Observation, Recorder};
use super::number;
use super::workload::Workload;
use crate::virtual_cluster;

/// After a fault everything agrees again within this time, seconds.
const LIMIT_S: f64 = 45.0;

const NODES: usize = 16;

/// Faults of a world.
const FAULTS_EACH: usize = 5;

/// An aimed fault waits so long for the message at which it begins, seconds.
const AIM_S: f64 = 10.0;

/// A run of at most this many worlds is printed world by world.
const MANY: u64 = 20;

#[derive(Debug, Clone, Copy)]
enum Fault {
    /// `kill -9`; started again after some seconds.
    Kill,
    /// SIGSTOP, and SIGCONT some seconds later.
    Pause,
    /// The network is cut.
    Cut,
    /// The network loses, repeats or swaps messages.
    Lost,
    Twice,
    Swapped,
    /// The clock is wrong by some minutes, from a restart to the next.
    Skew,
    /// The server is killed, and started again.
    KillServer,
    /// All processes are killed at once, the server too.
    Reboot,
    /// The server's disk is full; then it is killed, and started again.
    FullDisk,
    /// The server is killed, and started again with an empty store. Not in [`FAULTS`]: an ingest or a
    /// control that starts before the present ones have written again knows nothing of them.
    Emptied,
    /// The network holds all that a leader sends, from one of its writes on. Its connection stays, so
    /// its writes arrive when another instance leads.
    Stall,
    /// The machine of a leader fails at one of its writes: what follows that is lost.
    Crash,
}

const FAULTS: [Fault; 12] = [
    Fault::Kill,
    Fault::Pause,
    Fault::Cut,
    Fault::Lost,
    Fault::Twice,
    Fault::Swapped,
    Fault::Skew,
    Fault::KillServer,
    Fault::Reboot,
    Fault::FullDisk,
    Fault::Stall,
    Fault::Crash,
];

/// The writes at which aimed faults begin: the service that leads, and the subjects.
fn aims(bus: &Bus) -> [(&'static str, String); 7] {
    let id = bus.cluster();
    [
        ("control", address::leases_bucket(id).all().to_string()),
        ("control", address::trainers_bucket(id).all().to_string()),
        ("control", address::commands(id).to_string()),
        ("ingest", address::event(id).to_string()),
        ("ingest", address::snapshot(id).to_string()),
        ("planner", address::plan(id).to_string()),
        ("forecast", address::pool(id).to_string()),
    ]
}

/// One simulated process, started again when it ends.
struct Process {
    service: &'static str,
    name: String,
    nodes: Vec<NodeId>,
    host: Host,
    /// Whether it stays down when it has ended.
    held: bool,
    skew_ms: i64,
    ended: Option<Stopwatch>,
}

struct World {
    server: SimulatedServer,
    processes: Vec<Process>,
    bus: Bus,
    recorder: Recorder,
    workload: Workload,
    config: Config,
    programs: Option<Arc<dyn StandIn>>,
}

impl World {
    /// `programs` plays those of trainers that have one.
    async fn start(
        nodes: usize,
        seed: u64,
        dir: PathBuf,
        programs: Option<Arc<dyn StandIn>>,
    ) -> Self {
        let delays = Delays {
            least_ms: 0,
            most_ms: 20,
        };
        let server = SimulatedServer::new(seed, delays);
        let mut config = config(&dir);
        if programs.is_some() {
            // Where their members would meet.
            config.control.store = Some("store:1".to_owned());
        }
        let bus = virtual_cluster::connect(&server, &config).await;
        let recorder = Recorder::start(&bus).await;
        let names: Vec<String> = (0..nodes).map(|n| format!("n{n:02}")).collect();
        let workload = Workload::start(bus.clone(), recorder.writer.clone(), &names, seed);
        let mut world = Self {
            server,
            processes: Vec::new(),
            bus,
            recorder,
            workload,
            config,
            programs,
        };
        for service in LED.into_iter().chain(["agent"]) {
            for copy in 0..2 {
                let plays = |(at, _): &(usize, &String)| service == "agent" && at % 2 == copy;
                let played = names.iter().enumerate().filter(plays);
                let played = played.map(|(_, name)| NodeId::new(name.clone()).unwrap());
                let name = format!("{service}-{copy}");
                let mut process = Process {
                    service,
                    host: Host::new(&name),
                    name,
                    nodes: played.collect(),
                    held: false,
                    skew_ms: 0,
                    ended: None,
                };
                world.run(&mut process);
                world.processes.push(process);
            }
        }
        world
    }

    /// Starts a process.
    fn run(&self, process: &mut Process) {
        process.host = Host::new(&process.name);
        process.host.set_skew(process.skew_ms);
        process.ended = None;
        let mut config = self.config.clone();
        config.agent.nodes.clone_from(&process.nodes);
        let (server, programs) = (&self.server, self.programs.clone());
        virtual_cluster::start(&process.host, process.service, server, &config, programs);
    }

    /// Lets time pass; supervisors go on.
    async fn wait(&mut self, seconds: f64) {
        let since = Stopwatch::start();
        while since.seconds() < seconds {
            self.tend();
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn process(&mut self, at: usize) -> &mut Process {
        self.processes.get_mut(at).unwrap()
    }

    /// The place of the process that leads a service.
    async fn leader(&self, service: &str) -> Option<usize> {
        let lead = address::leader(self.bus.cluster(), service);
        let lead = self.bus.last(&lead).await.ok()??.message;
        self.processes.iter().position(|p| p.name == lead.seat)
    }

    /// Injects a fault that begins at a write of a leader.
    async fn inject_aimed(&mut self, fault: Fault, rng: &mut ChaCha8Rng) -> String {
        let aims = aims(&self.bus);
        let (service, subject) = &aims[rng.random_range(0..aims.len())];
        let pass = rng.random_range(0..3);
        let Some(at) = self.leader(service).await else {
            return format!("{fault:?}: {service} has no leader");
        };
        let name = self.process(at).name.clone();
        let trap = match fault {
            Fault::Crash => Trap::Lose,
            _ => Trap::Stall,
        };
        let mut sprung = self.server.set_trap(&name, subject, pass, trap);
        let since = Stopwatch::start();
        let caught = loop {
            if let Ok(subject) = sprung.try_recv() {
                break subject;
            }
            if since.seconds() > AIM_S {
                return format!("{fault:?} {name}: no message of {subject}");
            }
            self.tend();
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        let lasts = match trap {
            Trap::Stall => rng.random_range(2.0..20.0),
            Trap::Lose => rng.random_range(0.5..9.5),
        };
        match trap {
            Trap::Stall => {
                // Half of the time the node that the message is about is taken meanwhile.
                if rng.random_bool(0.5)
                    && let Some(node) = token::last_name(&caught)
                {
                    self.workload.take(&node).await;
                }
                self.wait(lasts).await;
                self.server.flow(&name);
            }
            Trap::Lose => {
                let process = self.process(at);
                process.held = true;
                process.host.kill();
                self.wait(lasts).await;
                self.process(at).held = false;
            }
        }
        format!("{fault:?} {name} at {subject} {lasts:.1} s")
    }

    async fn inject(&mut self, fault: Fault, rng: &mut ChaCha8Rng) -> String {
        if matches!(fault, Fault::Stall | Fault::Crash) {
            return self.inject_aimed(fault, rng).await;
        }
        let at = match fault {
            // Only agents compare their clock with that of others.
            Fault::Skew => self.processes.len() - 1 - rng.random_range(0..2),
            _ => rng.random_range(0..self.processes.len()),
        };
        // Within a cut an agent's lease may time out, and its node be wanted.
        let longest = if matches!(fault, Fault::Cut) {
            40.0
        } else {
            9.5
        };
        let lasts = rng.random_range(0.5..longest);
        self.inject_at(fault, at, lasts, rng).await
    }

    /// Injects a fault that is not aimed at a process, for this number of seconds.
    async fn inject_at(
        &mut self,
        fault: Fault,
        at: usize,
        lasts: f64,
        rng: &mut ChaCha8Rng,
    ) -> String {
        let name = self.process(at).name.clone();
        match fault {
            Fault::Kill => {
                let process = self.process(at);
                process.held = true;
                process.host.kill();
                self.wait(lasts).await;
                self.process(at).held = false;
            }
            Fault::Pause => {
                self.process(at).host.pause();
                self.wait(lasts).await;
                self.process(at).host.go_on();
            }
            Fault::Cut => {
                self.server.cut(&name);
                self.wait(lasts).await;
                self.server.mend(&name);
            }
            Fault::Lost | Fault::Twice | Fault::Swapped => {
                let bad = |is: bool| if is { 100 } else { 0 };
                let weather = Weather {
                    lost: bad(matches!(fault, Fault::Lost)),
                    twice: bad(matches!(fault, Fault::Twice)),
                    swapped: bad(matches!(fault, Fault::Swapped)),
                };
                self.server.set_weather(&name, weather);
                self.wait(lasts).await;
                self.server.set_weather(&name, Weather::default());
            }
            Fault::Skew => {
                let process = self.process(at);
                process.skew_ms = rng.random_range(-300_000..300_000);
                process.host.kill();
                self.wait(lasts).await;
                let process = self.process(at);
                process.skew_ms = 0;
                process.host.kill();
            }
            Fault::KillServer | Fault::Reboot | Fault::FullDisk | Fault::Emptied => {
                if matches!(fault, Fault::Reboot) {
                    for process in &self.processes {
                        process.host.kill();
                    }
                }
                self.recorder.writer.note(Observation::WritesAtRisk);
                if matches!(fault, Fault::FullDisk) {
                    self.server.fill();
                    self.wait(lasts).await;
                    self.recorder.writer.note(Observation::WritesAtRisk);
                }
                self.server.kill();
                if matches!(fault, Fault::Emptied) {
                    self.recorder.writer.note(Observation::Emptied);
                    self.server.empty();
                }
                self.wait(lasts).await;
                self.server.start();
            }
            Fault::Stall | Fault::Crash => {}
        }
        format!("{fault:?} {name} {lasts:.1} s")
    }
}

impl Cluster for World {
    fn tend(&mut self) {
        let mut processes = std::mem::take(&mut self.processes);
        for process in &mut processes {
            if !process.host.has_ended() || process.held {
                continue;
            }
            let ended = process.ended.get_or_insert_with(Stopwatch::start);
            if ended.seconds() > 0.2 {
                self.run(process);
            }
        }
        self.processes = processes;
    }

    async fn led(&self, since: Timestamp) -> Result<(), String> {
        for service in LED {
            let lead = address::leader(self.bus.cluster(), service);
            let lead = self.bus.last(&lead).await.map_err(|e| e.to_string())?;
            let lead = lead.filter(|lead| lead.kept.is_some_and(|kept| kept >= since));
            if lead.is_none_or(|lead| lead.message.resigned) {
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

    fn explains(&self) -> bool {
        std::env::var_os("LACUNA_CHAOS_HISTORY").is_some()
    }
}

/// The outcome of a world: violations, faults, and a digest of its history.
struct Outcome {
    wrong: Vec<String>,
    faults: Vec<String>,
    seen: usize,
    digest: u64,
    lasted_s: f64,
}

impl Outcome {
    fn text(&self, seed: u64, real_s: f64) -> String {
        let mut text = format!(
            "seed {seed}: {:.0} s in {real_s:.2} s, {} seen, digest {:016x}: {}",
            self.lasted_s,
            self.seen,
            self.digest,
            self.faults.join(", ")
        );
        for wrong in &self.wrong {
            text.push_str(&format!("\n         VIOLATED {wrong}"));
        }
        text
    }
}

/// Runs one world to its end.
fn live(seed: u64, nodes: usize, faults: usize, of: &'static [Fault]) -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().to_owned();
    let world = virtual_time::run(seed, async move {
        let whole = Stopwatch::start();
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut world = World::start(nodes, seed, at, None).await;
        let mut checker = Checker::default();
        let mut wrong = Vec::new();
        let mut done = Vec::new();
        if let Err(why) = begin(&mut world).await {
            wrong.push(format!("not in order at first: {why}"));
        }
        for _ in 0..faults {
            let fault = of[rng.random_range(0..of.len())];
            done.push(world.inject(fault, &mut rng).await);
            // The scheduler says the state of all nodes again where events are lost for good.
            let forgetful = matches!(fault, Fault::Emptied);
            let settled = converge(&mut world, LIMIT_S, forgetful).await;
            checker.read(&world.recorder.writer.since(checker.read));
            wrong.extend(checker.found());
            if let Err(why) = settled {
                wrong.push(format!("not in order after {LIMIT_S} s: {why}"));
                break;
            }
        }
        record_counts(world.view()).await;
        checker.read(&world.recorder.writer.since(checker.read));
        let seen = checker.read;
        wrong.extend(checker.end());
        for process in &world.processes {
            process.host.kill();
        }
        let history = world.recorder.writer.history();
        if let Some(path) = std::env::var_os("LACUNA_CHAOS_HISTORY") {
            let lines = history.iter().map(|said| format!("{said:?}\n"));
            std::fs::write(path, lines.collect::<String>()).unwrap();
        }
        Outcome {
            wrong,
            faults: done,
            seen,
            digest: digest(&history),
            lasted_s: whole.seconds(),
        }
    });
    world.unwrap()
}

/// The hash of a history. This hasher has no random key, so it is the same in all processes.
fn digest(history: &History) -> u64 {
    let mut hasher = DefaultHasher::new();
    format!("{history:?}").hash(&mut hasher);
    hasher.finish()
}

/// Runs `LACUNA_SIMULATE_SEEDS` worlds on all cores. `make simulate FROM=7 SEEDS=1` runs the world
/// of seed 7 again, and `LACUNA_SIMULATE_LOG=debug` before it prints the log of all services.
fn simulate(live: fn(u64) -> Outcome) {
    if let Ok(filter) = std::env::var("LACUNA_SIMULATE_LOG") {
        let mut settings = Config::default().telemetry;
        settings.log = filter;
        // Another test of this process may have done it.
        let _ = telemetry::init(&settings);
    }
    let first = number("LACUNA_SIMULATE_FROM", 1);
    let end = first + number("LACUNA_SIMULATE_SEEDS", 20);
    let (next, bad) = (AtomicU64::new(first), Mutex::new(Vec::new()));
    let whole = Stopwatch::start();
    let worlds = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                return;
            }
            let watch = Stopwatch::start();
            let outcome = live(seed);
            if !outcome.wrong.is_empty() || end - first <= MANY {
                println!("{}", outcome.text(seed, watch.seconds()));
            } else if seed % 100 == 0 {
                println!("seed {seed}, {:.0} s since the start", whole.seconds());
            }
            if !outcome.wrong.is_empty() {
                bad.lock().unwrap().push(seed);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(worlds);
        }
    });
    let mut bad = bad.into_inner().unwrap();
    bad.sort_unstable();
    println!(
        "{} worlds in {:.0} s, {} of them broke a promise",
        end - first,
        whole.seconds(),
        bad.len()
    );
    assert!(
        bad.is_empty(),
        "of seeds {bad:?} see above; `make simulate FROM=SEED SEEDS=1` runs one again"
    );
}

#[test]
fn in_virtual_time_invariants_hold_after_every_fault() {
    simulate(|seed| live(seed, NODES, FAULTS_EACH, &FAULTS));
}

#[test]
fn in_virtual_time_no_training_is_begun_again_after_its_end() {
    simulate(|seed| {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().to_owned();
        virtual_time::run(seed, async move { ends::live(seed, at).await }).unwrap()
    });
}

#[test]
fn a_world_is_the_same_again_by_its_seed() {
    let (one, again) = (live(3, 8, 2, &FAULTS), live(3, 8, 2, &FAULTS));
    assert_eq!((one.seen, one.digest), (again.seen, again.digest));
    assert_ne!(one.digest, live(4, 8, 2, &FAULTS).digest);
}

#[test]
fn an_emptied_server_has_all_records_and_leases_again() {
    let world = live(1, 8, 1, &[Fault::Emptied]);
    assert!(world.wrong.is_empty(), "{:?}", world.wrong);
}
