//! A program cannot hold its agent. Whatever it does to the files, processes and messages of its
//! agent, the node is given back and no process of the program is left.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use lacuna_model::{
    Action, Activity, AgentStatus, Assignment, ClusterId, Command, Elastic, Epoch, Launch, Member,
    Members, NodeId, Program, Progress, RunId, Token, TrainerId,
};
use lacuna_runtime::{Bus, Stopwatch, Subscription};
use lacuna_testkit::{Killed, Need, TestNats, lives, or_skip};
use lacuna_wire::address;
use lacuna_wire::msg::Renewal;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::net::UnixDatagram;

/// Time limit, long enough on a loaded machine.
const LIMIT: Duration = Duration::from_secs(40);
/// Reports that the program is up.
const UP: &str = "echo $$ > $HERE/up.new; mv $HERE/up.new $HERE/up; ";
/// Keeps running; SIGTERM does not end it.
const STAY: &str = "trap '' TERM; echo $$ > $HERE/up.new; mv $HERE/up.new $HERE/up; \
                    while :; do sleep 0.1; done";
/// Starts a process in a session of its own, without a parent and without its environment.
const HIDE: &str = "(env -i setsid sh -c 'echo $$ > '$HERE'/hidden.new; \
                    mv '$HERE'/hidden.new '$HERE'/hidden; exec sleep 600' &); \
                    while ! test -s $HERE/hidden; do sleep 0.02; done; ";

/// Sends messages as the Python package does, without a pause.
const FLOOD: &str = r#"
import json, os, signal, socket
signal.signal(signal.SIGTERM, signal.SIG_IGN)
s = socket.socket(socket.AF_UNIX)
s.connect(os.environ["LACUNA_SOCKET"])
s.sendall(b'{"say":"hello","pid":1,"version":1}\n{"say":"ready"}\n')
here = os.environ["HERE"]
open(here + "/up.new", "w").write("%d\n" % os.getpid())
os.rename(here + "/up.new", here + "/up")
n = 0
while True:
    n += 1
    s.sendall((json.dumps(dict(say="progress", run=1 + n % 3, base=0.0, samples=n, world_size=1)) + "\n").encode())
"#;

/// Fills its temporary folder with more levels than a thread's stack has room for, and ignores SIGTERM.
const DEEP: &str = r#"
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
folder = os.path.dirname(os.environ["LACUNA_SOCKET"])
os.chdir(folder)
for level in range(15000):
    os.mkdir("d")
    os.chdir("d")
here = os.environ["HERE"]
open(here + "/folder", "w").write(folder)
open(here + "/up.new", "w").write("%d\n" % os.getpid())
os.rename(here + "/up.new", here + "/up")
time.sleep(600)
"#;

fn cluster() -> ClusterId {
    ClusterId::new("c").unwrap()
}

fn node() -> NodeId {
    NodeId::new("n1").unwrap()
}

fn trainer() -> TrainerId {
    TrainerId::new("a").unwrap()
}

/// An agent as a process, a server, and a stand-in for control.
struct Harness {
    agent: Killed,
    bus: Bus,
    statuses: Subscription<AgentStatus>,
    seq: u64,
    dir: tempfile::TempDir,
    nats: TestNats,
}

fn agent(dir: &Path, args: &[&str]) -> Killed {
    let log = fs::File::options()
        .create(true)
        .append(true)
        .open(dir.join("log"))
        .unwrap();
    let agent = std::process::Command::new(env!("CARGO_BIN_EXE_lacuna-agent"))
        .args(["--node", "n1", "--listen", "127.0.0.1:0"])
        .args(args)
        .arg("--config")
        .arg(dir.join("lacuna.toml"))
        // In memory: a busy disk takes longer than the removal of a folder may.
        .env("TMPDIR", "/dev/shm")
        .env("SITE_TOKEN", "secret")
        .env("SITE_NAME", "known")
        .env("NOTIFY_SOCKET", dir.join("notify"))
        .env("WATCHDOG_USEC", "300000")
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap();
    Killed(agent)
}

impl Harness {
    async fn start(lease_timeout: &str, more: &str, args: &[&str]) -> Self {
        let nats = TestNats::start();
        let dir = tempfile::tempdir().unwrap();
        let config = format!(
            "[cluster]\nid = \"c\"\n[control]\nrenew_every = \"500ms\"\n[bus]\nurl = \"{}\"\n\
             [agent]\nlease_timeout = \"{lease_timeout}\"\ngrace = \"500ms\"\nreport_every = \"200ms\"\n\
             pass_env = [\"SITE_N*\"]\nwork_dir = \"{}\"\n{more}\n",
            nats.url(),
            dir.path().join("work").display()
        );
        fs::write(dir.path().join("lacuna.toml"), config).unwrap();
        let bus = lacuna_testkit::connect(&nats, &cluster(), "test").await;
        let statuses = bus.subscribe(&address::agents(&cluster())).await.unwrap();
        let agent = agent(dir.path(), args);
        let mut harness = Self {
            agent,
            bus,
            statuses,
            seq: 0,
            dir,
            nats,
        };
        harness.until(|s| s.activity == Activity::Free).await;
        harness
    }

    /// A test cluster in which only guards hold the programs.
    async fn plain(lease_timeout: &str) -> Self {
        Self::start(lease_timeout, "cgroups = false", &[]).await
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    async fn until(&mut self, wanted: impl Fn(&AgentStatus) -> bool) -> AgentStatus {
        let found = tokio::time::timeout(LIMIT, async {
            loop {
                let status = self.statuses.next().await.unwrap().message;
                if wanted(&status) {
                    return status;
                }
            }
        });
        match found.await {
            Ok(status) => status,
            Err(_) => panic!("the agent never reported it:\n{}", self.log()),
        }
    }

    async fn send(&mut self, action: Action) -> u64 {
        self.seq += 1;
        let command = Command {
            node: node(),
            epoch: Epoch(5),
            seq: self.seq,
            action,
        };
        let subject = address::command(&cluster(), &node());
        self.bus.store(&subject, &command, "").await.unwrap();
        self.seq
    }

    /// Starts a program and waits until it reports that it is up. Returns its process id.
    async fn run(&mut self, script: &str, elastic: Elastic) -> i32 {
        let _ = fs::remove_file(self.path("up"));
        self.send_run(script, elastic).await;
        self.number("up").await
    }

    async fn send_run(&mut self, script: &str, elastic: Elastic) {
        let program = match elastic {
            Elastic::Regroup { .. } => "python3",
            _ => "/bin/sh",
        };
        let here = self.dir.path().display().to_string();
        let env = [
            ("HERE".to_owned(), here),
            ("GREETING".to_owned(), "hello".to_owned()),
            ("LD_PRELOAD".to_owned(), "/no/such/library.so".to_owned()),
        ];
        let mut launch = lacuna_testkit::command(program, &["-c", script], elastic);
        if let Launch::Command(Program { env: own, .. }) = &mut launch {
            own.extend(env);
        }
        let run = RunId(self.seq + 1);
        let members = Members {
            trainer: trainer(),
            run,
            nodes: vec![node()],
        };
        let subject = address::members(&cluster(), &trainer());
        self.bus.store(&subject, &members, "").await.unwrap();
        self.send(Action::Run(Box::new(assignment(run, launch))))
            .await;
    }

    async fn release(&mut self) -> u64 {
        let reason = "wanted".to_owned();
        self.send(Action::Release { reason, at: None }).await
    }

    /// The number in a file of this name, once the file exists.
    async fn number(&self, name: &str) -> i32 {
        let watch = Stopwatch::start();
        while watch.seconds() < LIMIT.as_secs_f64() {
            if let Ok(text) = fs::read_to_string(self.path(name)) {
                return text.trim().parse().unwrap();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{name} was never written:\n{}", self.log());
    }

    async fn gone(&self, pid: i32) {
        let watch = Stopwatch::start();
        while lives(pid) {
            if watch.seconds() > LIMIT.as_secs_f64() {
                panic!("process {pid} still lives:\n{}", self.log());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn ends(&mut self) -> i32 {
        let watch = Stopwatch::start();
        while watch.seconds() < LIMIT.as_secs_f64() {
            if let Some(status) = self.agent.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("the agent has not ended:\n{}", self.log());
    }

    fn terminate(&self) {
        let pid = i32::try_from(self.agent.id()).unwrap();
        kill(Pid::from_raw(pid), Signal::SIGTERM).unwrap();
    }
}

fn assignment(run: RunId, launch: Launch) -> Assignment {
    Assignment {
        store: Some("host:29400".to_owned()),
        token: Some(Token::new(7)),
        ..lacuna_testkit::assignment("a", run.0, launch)
    }
}

/// Traps that programs leave for their agent. `$LACUNA_PROGRESS_FILE` is in the folder.
const TRAPS: [(&str, &str); 4] = [
    (
        "pipes",
        "for f in $LACUNA_PROGRESS_FILE $LACUNA_DEADLINE_FILE $LACUNA_DEADLINE_FILE.new \
         output.log begun begun.new progress-9.jsonl; do rm -f $f; mkfifo $f; done; ",
    ),
    (
        "links without an end",
        "for f in $LACUNA_PROGRESS_FILE output.log begun; do ln -sf /dev/zero $f; done; ",
    ),
    (
        "links to files of others",
        "for f in $LACUNA_PROGRESS_FILE $LACUNA_DEADLINE_FILE $LACUNA_DEADLINE_FILE.new \
         output.log begun begun.new; do ln -sf $HERE/precious $f; done; ",
    ),
    (
        "files of a terabyte",
        "for f in $LACUNA_PROGRESS_FILE output.log begun; do truncate -s 1T $f; done; ",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn no_file_of_a_program_holds_its_agent() {
    for (trap, script) in TRAPS {
        println!("{trap}");
        let mut harness = Harness::plain("60s").await;
        fs::write(harness.path("precious"), "precious").unwrap();
        let script = format!("cd $(dirname $LACUNA_PROGRESS_FILE); {script} {STAY}");
        let pid = harness.run(&script, Elastic::Restart).await;
        // Time for some reads of its progress.
        tokio::time::sleep(Duration::from_millis(700)).await;
        let seq = harness.release().await;
        let freed = harness.until(|s| s.seq == seq).await;
        assert_eq!(freed.activity, Activity::Free, "{trap}");
        assert!(!lives(pid), "{trap}: reported free while it ran");
        let kept = fs::read_to_string(harness.path("precious")).unwrap();
        assert_eq!(kept, "precious", "{trap}");

        // A later agent starts in this folder, and ends when it is stopped.
        harness.terminate();
        assert_eq!(harness.ends().await, 0, "{trap}");
        let subject = address::agents(&cluster());
        harness.statuses = harness.bus.subscribe(&subject).await.unwrap();
        harness.agent = agent(harness.dir.path(), &["--pilot"]);
        harness.until(|s| s.activity == Activity::Free).await;
        let pid = harness.run(STAY, Elastic::Restart).await;
        harness.terminate();
        assert_eq!(harness.ends().await, 0, "{trap}");
        assert!(!lives(pid), "{trap}: it outlives its pilot");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_gets_its_members_from_the_stored_message() {
    let mut harness = Harness::plain("60s").await;
    let script = format!("echo $LACUNA_MEMBERS $LACUNA_LEADER > $HERE/names; {STAY}");
    harness.run(&script, Elastic::Restart).await;
    let names = fs::read_to_string(harness.path("names")).unwrap();
    assert_eq!(names, "n1 n1\n");
    harness.release().await;
    harness.until(|s| s.activity == Activity::Free).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_reports_is_thinned_and_does_not_delay_the_lease_timeout() {
    let mut harness = Harness::plain("2s").await;
    let subject = address::progress(&cluster(), &node(), &trainer());
    let mut reports: Subscription<Progress> = harness.bus.subscribe(&subject).await.unwrap();
    let pid = harness.run(FLOOD, Elastic::REGROUP).await;
    let watch = Stopwatch::start();
    let (mut heard, mut number) = (0, 0);
    while watch.seconds() < 3.0 {
        number += 1;
        let renewal = Renewal {
            lead: 1,
            number,
            leases: vec![Member {
                node: node(),
                epoch: Epoch(5),
            }],
            forgotten: Vec::new(),
        };
        let subject = address::renewal(&cluster(), address::shard(&node()));
        harness.bus.publish(&subject, &renewal, "").await.unwrap();
        let pause = tokio::time::sleep(Duration::from_millis(300));
        tokio::pin!(pause);
        loop {
            tokio::select! {
                () = &mut pause => break,
                report = reports.next() => {
                    report.unwrap();
                    heard += 1;
                }
            }
        }
    }
    // It reports three runs in turn. The newest report of each is sent five times a second.
    println!("{heard} reports in {:.1} s", watch.seconds());
    assert!(heard > 0, "no report arrived");
    let most = 15.0 * watch.seconds() + 30.0;
    assert!(f64::from(heard) < most, "{heard} reports");
    assert!(lives(pid), "a program may report much");
    harness.nats.kill();
    harness.gone(pid).await;
    // The agent has no server, and still handles SIGTERM.
    harness.terminate();
    harness.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_kills_its_guard_ends_with_all_hidden_processes() {
    let mut harness = Harness::plain("60s").await;
    let kill_guard = format!("trap '' TERM; {HIDE} {UP} kill -9 $PPID; sleep 600");
    let pid = harness.run(&kill_guard, Elastic::Restart).await;
    let hidden = harness.number("hidden").await;
    let status = harness
        .until(|s| matches!(s.activity, Activity::Exited { .. }))
        .await;
    assert!(
        matches!(status.activity, Activity::Exited { code: 137, .. }),
        "{status:?}"
    );
    assert!(!lives(pid) && !lives(hidden), "reported as ended before");

    // The same during a stop: the program kills its guard on SIGTERM.
    fs::remove_file(harness.path("hidden")).unwrap();
    let on_term = format!("{HIDE} trap 'kill -9 $PPID' TERM; {UP} while :; do sleep 0.1; done");
    let pid = harness.run(&on_term, Elastic::Restart).await;
    let hidden = harness.number("hidden").await;
    assert!(lives(pid) && lives(hidden));
    let seq = harness.release().await;
    let freed = harness.until(|s| s.seq == seq).await;
    assert_eq!(freed.activity, Activity::Free);
    assert!(!lives(pid) && !lives(hidden), "reported free before");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_that_is_stopped_is_killed_with_its_program() {
    let mut harness = Harness::plain("60s").await;
    let script = format!("{HIDE} kill -STOP $PPID; {STAY}");
    let pid = harness.run(&script, Elastic::Restart).await;
    let hidden = harness.number("hidden").await;
    let seq = harness.release().await;
    harness.until(|s| s.seq == seq).await;
    assert!(!lives(pid) && !lives(hidden), "reported free before");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deep_folder_of_a_program_ends_no_agent_and_is_removed() {
    let mut harness = Harness::plain("60s").await;
    let pid = harness.run(DEEP, Elastic::REGROUP).await;
    let folder = fs::read_to_string(harness.path("folder")).unwrap();
    let seq = harness.release().await;
    harness.until(|s| s.seq == seq).await;
    assert!(!lives(pid));
    let watch = Stopwatch::start();
    while Path::new(&folder).exists() {
        assert!(watch.seconds() < LIMIT.as_secs_f64(), "{}", harness.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    harness.terminate();
    assert_eq!(harness.ends().await, 0, "{}", harness.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_stops_its_agent_ends_and_the_agent_goes_on() {
    let mut harness = Harness::plain("60s").await;
    let agent = harness.agent.id();
    let script =
        format!("{HIDE} {UP} trap '' TERM; while :; do kill -STOP {agent}; sleep 0.02; done");
    let pid = harness.run(&script, Elastic::Restart).await;
    let hidden = harness.number("hidden").await;
    harness.terminate();
    assert_eq!(harness.ends().await, 0, "{}", harness.log());
    assert!(!lives(pid) && !lives(hidden), "it outlives its agent");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_ends_since_its_agent_was_suspended_has_not_failed() {
    let mut harness = Harness::plain("60s").await;
    let pid = harness.run(STAY, Elastic::Restart).await;
    let agent = Pid::from_raw(i32::try_from(harness.agent.id()).unwrap());
    kill(agent, Signal::SIGSTOP).unwrap();
    harness.gone(pid).await;
    let ended = |s: &AgentStatus| !matches!(s.activity, Activity::Running { .. });
    let status = harness.until(ended).await;
    assert_eq!(status.activity, Activity::Free, "{}", harness.log());
    assert_eq!(status.released.as_deref(), Some("agent suspended"));
    harness.run(STAY, Elastic::Restart).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_agent_gives_no_sign_of_life() {
    let harness = Harness::plain("60s").await;
    let socket = UnixDatagram::bind(harness.path("notify")).unwrap();
    let mut sign = [0; 64];
    let mut hears = async |limit| {
        let heard = tokio::time::timeout(limit, socket.recv(&mut sign)).await;
        heard.is_ok_and(|length| sign[..length.unwrap()].starts_with(b"WATCHDOG=1"))
    };
    assert!(hears(LIMIT).await, "{}", harness.log());
    let agent = Pid::from_raw(i32::try_from(harness.agent.id()).unwrap());
    kill(agent, Signal::SIGSTOP).unwrap();
    while !fs::read_to_string(format!("/proc/{agent}/stat"))
        .unwrap()
        .contains(") T ")
    {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    while hears(Duration::ZERO).await {}
    assert!(!hears(Duration::from_secs(1)).await);
    kill(agent, Signal::SIGCONT).unwrap();
    assert!(hears(LIMIT).await, "{}", harness.log());
}

/// A process that keeps a file open and is no child of the agent.
fn holder(file: &Path, mark: Option<&Path>) -> Child {
    let file = fs::File::open(file).unwrap();
    let mut command = std::process::Command::new("sleep");
    command.arg("600").stdin(file);
    if let Some(mark) = mark {
        command.env("LACUNA_PROGRESS_FILE", mark);
    }
    command.spawn().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_free_when_no_process_keeps_its_device_open() {
    let folder = tempfile::tempdir().unwrap();
    let device = folder.path().join("gpu0");
    fs::write(&device, "").unwrap();
    let more = format!(
        "cgroups = false\ndevices = [\"{}/gpu*\"]\ndevice_wait = \"3s\"",
        folder.path().display()
    );
    let mut harness = Harness::start("60s", &more, &[]).await;
    let script = format!("echo $LACUNA_PROGRESS_FILE > $HERE/mark; {STAY}");

    // A process that had it open before the program started is not waited for.
    let mut before = holder(&device, None);
    tokio::time::sleep(Duration::from_millis(50)).await;
    harness.run(&script, Elastic::Restart).await;
    // A process of the run is killed, whatever its parent.
    let mark = fs::read_to_string(harness.path("mark")).unwrap();
    let mut own = holder(&device, Some(Path::new(mark.trim())));
    let watch = Stopwatch::start();
    let seq = harness.release().await;
    harness.until(|s| s.seq == seq).await;
    assert!(own.try_wait().unwrap().is_some(), "it was not killed");
    assert!(watch.seconds() < 3.0, "{} s", watch.seconds());
    assert!(before.try_wait().unwrap().is_none());

    // Another process is waited for until it has ended.
    harness.run(&script, Elastic::Restart).await;
    let mut other = holder(&device, None);
    let seq = harness.release().await;
    let early = tokio::time::timeout(Duration::from_millis(1500), harness.until(|s| s.seq == seq));
    assert!(early.await.is_err(), "reported free before");
    other.kill().unwrap();
    other.wait().unwrap();
    harness.until(|s| s.seq == seq).await;
    assert!(
        !harness.log().contains("with an open device"),
        "{}",
        harness.log()
    );

    // The wait has a limit, and the node's last status reports it.
    harness
        .run(&format!("{UP} sleep 1; exit 3"), Elastic::Restart)
        .await;
    let mut other = holder(&device, None);
    let status = harness
        .until(|s| matches!(s.activity, Activity::Exited { .. }))
        .await;
    let Activity::Exited { reason, .. } = &status.activity else {
        panic!("{status:?}");
    };
    assert!(reason.contains("gpu0 open"), "{reason}");
    assert!(
        harness.log().contains("with an open device"),
        "{}",
        harness.log()
    );
    for child in [&mut before, &mut other] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_submitters_environment_reaches_the_program_alone() {
    let mut harness = Harness::plain("60s").await;
    let script = format!("env > $HERE/mine; cat /proc/$PPID/environ > $HERE/guards; {STAY}");
    harness.run(&script, Elastic::Restart).await;
    let read = |name: &str| {
        let bytes = fs::read(harness.path(name)).unwrap();
        String::from_utf8(bytes).unwrap().replace('\0', "\n")
    };
    let (mine, guards) = (read("mine"), read("guards"));
    for name in ["GREETING=hello\n", "LD_PRELOAD=", "LACUNA_RANK=0\n"] {
        assert!(mine.contains(name), "{name} is missing:\n{mine}");
        assert!(
            !guards.contains(name),
            "{name} reached the guard:\n{guards}"
        );
    }
    for (whose, text) in [("program", &mine), ("guard", &guards)] {
        assert!(text.contains("PATH="), "{whose}:\n{text}");
        assert!(text.contains("SITE_NAME=known"), "{whose}:\n{text}");
        assert!(!text.contains("SITE_TOKEN"), "{whose}:\n{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pilot_gives_its_node_back_whatever_its_program_does() {
    let mut harness = Harness::start("60s", "", &["--pilot"]).await;
    let script = format!(
        "{HIDE} cd $(dirname $LACUNA_PROGRESS_FILE); \
         for f in *; do rm -rf $f; mkfifo $f; done; kill -STOP $PPID; {STAY}"
    );
    let pid = harness.run(&script, Elastic::Restart).await;
    let hidden = harness.number("hidden").await;
    harness.nats.kill();
    harness.terminate();
    assert_eq!(harness.ends().await, 0);
    assert!(!lives(pid) && !lives(hidden), "it outlives the pilot");
}

/// Cgroups are an additional fence. Without them the other tests cover everything.
#[tokio::test(flavor = "multi_thread")]
async fn a_cgroup_ends_what_left_its_guard() {
    let mut harness = Harness::start("60s", "", &[]).await;
    let divided = harness.log().contains("each program gets a cgroup");
    or_skip!(Need::Cgroups.given(divided, "no cgroup of version 2 that this user may divide"));
    let script =
        format!("{HIDE} cat /proc/self/cgroup > $HERE/group; {UP} kill -9 $PPID; sleep 600");
    harness.run(&script, Elastic::Restart).await;
    let hidden = harness.number("hidden").await;
    let group = fs::read_to_string(harness.path("group")).unwrap();
    let own = format!("/lacuna-{}/", harness.agent.id());
    assert!(group.contains(&own), "{group}");
    harness
        .until(|s| matches!(s.activity, Activity::Exited { .. }))
        .await;
    assert!(!lives(hidden));
    harness.terminate();
    assert_eq!(harness.ends().await, 0);
    let left = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mounted = left.lines().filter(|line| line.contains(" - cgroup2 "));
    for line in mounted {
        let at = line.split(' ').nth(4).unwrap();
        assert!(!Path::new(&format!("{at}{own}")).exists(), "{at}{own}");
    }
}

#[test]
fn a_work_folder_that_others_may_change_is_refused() {
    let nats = TestNats::start();
    let dir = tempfile::tempdir().unwrap();
    let open = dir.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    let config = format!(
        "[bus]\nurl = \"{}\"\n[agent]\nwork_dir = \"{}\"\n",
        nats.url(),
        open.join("work").display()
    );
    fs::write(dir.path().join("lacuna.toml"), config).unwrap();
    let mut agent = agent(dir.path(), &[]);
    assert_eq!(agent.wait().unwrap().code(), Some(64));
    let log = fs::read_to_string(dir.path().join("log")).unwrap();
    assert!(
        log.contains("agent.work_dir is not this user's alone"),
        "{log}"
    );
}
