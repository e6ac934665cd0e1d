//! The agent's process as a pilot, with a program that regroups: its messages in both directions,
//! and its end.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may panic"
)]

use std::process::Stdio;
use std::time::Duration;

use lacuna_model::{
    Action, Activity, AgentStatus, Assignment, ClusterId, Command, Elastic, Epoch, Member, Members,
    NodeId, Progress, RunId, Token, TrainerId, Work,
};
use lacuna_runtime::bus::Bus;
use lacuna_runtime::metrics::Registry;
use lacuna_runtime::{Health, Stopwatch, Subscription};
use lacuna_testkit::{Killed, TestNats, lives};
use lacuna_wire::address;
use lacuna_wire::msg::Renewal;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Time limit, long enough on a loaded machine.
const LIMIT: Duration = Duration::from_secs(20);

/// The job of the pilot.
const JOB: &str = "4711";

/// A program that sends messages as the Python package does, ignores SIGTERM, and never ends by
/// itself.
const PROGRAM: &str = r#"
import json, os, signal, socket, sys, threading, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
mute = "mute" in sys.argv
s = socket.socket(socket.AF_UNIX)
s.connect(os.environ["LACUNA_SOCKET"])
def say(**words):
    s.sendall((json.dumps(words) + "\n").encode())
open(sys.argv[1], "w").write("%d\n" % os.getpid())
say(say="hello", pid=os.getpid(), version=1)
say(say="ready")
def alive():
    while True:
        time.sleep(0.3)
        say(say="alive")
if not mute:
    threading.Thread(target=alive, daemon=True).start()
for line in s.makefile():
    told = json.loads(line)
    if told["tell"] == "run":
        s.sendall(b"no json\n")
        say(say="progress", run=told["run"], base=100.0, samples=8.0, step=1,
            world_size=len(told["members"]), loss=0.5, checkpoint=None, saved=None, t=0)
        if len(told["members"]) > 2:
            say(say="broken", run=told["run"])
        print(told["store"], told["token"], told["rank"], flush=True)
time.sleep(600)
"#;

fn cluster() -> ClusterId {
    ClusterId::new("c").unwrap()
}

fn node() -> NodeId {
    NodeId::new("n1").unwrap()
}

struct Pilot {
    child: Killed,
    bus: Bus,
    statuses: Subscription<AgentStatus>,
    dir: tempfile::TempDir,
    nats: TestNats,
}

impl Pilot {
    async fn start(lease_timeout: &str) -> Self {
        Self::start_with(lease_timeout, "1s").await
    }

    async fn start_with(lease_timeout: &str, hang_after: &str) -> Self {
        let nats = TestNats::start();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("train.py"), PROGRAM).unwrap();
        let config = format!(
            "[cluster]\nid = \"c\"\n[control]\nrenew_every = \"1s\"\n[bus]\nurl = \"{}\"\n[agent]\nlease_timeout = \"{lease_timeout}\"\n\
             report_every = \"200ms\"\nhang_after = \"{hang_after}\"\nwork_dir = \"{}\"\n",
            nats.url(),
            dir.path().join("work").display()
        );
        let file = dir.path().join("lacuna.toml");
        std::fs::write(&file, config).unwrap();
        let (registry, health) = (Registry::new(), Health::default());
        let bus = Bus::connect(&nats.settings(), &cluster(), "test", &registry, &health)
            .await
            .unwrap();
        let statuses = bus.subscribe(&address::agents(&cluster())).await.unwrap();
        let child = std::process::Command::new(env!("CARGO_BIN_EXE_lacuna-agent"))
            .args(["--pilot", "--node", "n1", "--listen", "127.0.0.1:0"])
            .env("SLURM_JOB_ID", JOB)
            .arg("--config")
            .arg(&file)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let mut pilot = Self {
            child: Killed(child),
            bus,
            statuses,
            dir,
            nats,
        };
        pilot.until(|s| s.activity == Activity::Free).await;
        pilot
    }

    /// The first status for which `wanted` holds.
    async fn until(&mut self, wanted: impl Fn(&AgentStatus) -> bool) -> AgentStatus {
        let found = tokio::time::timeout(LIMIT, async {
            loop {
                let status = self.statuses.next().await.unwrap().message;
                if wanted(&status) {
                    return status;
                }
            }
        });
        found.await.expect("the agent never reported it")
    }

    async fn command(&self, seq: u64, action: Action) {
        let command = Command {
            node: node(),
            epoch: Epoch(5),
            seq,
            action,
        };
        let subject = address::command(&cluster(), &node());
        self.bus.store(&subject, &command, "").await.unwrap();
    }

    /// Members are published before the command, as control does.
    async fn run(&self, run: u64, members: &[&str], args: &[String]) {
        self.say(run, members).await;
        let part = assignment(run, members.len(), args);
        self.command(run, Action::Run(Box::new(part))).await;
    }

    async fn say(&self, run: u64, members: &[&str]) {
        let trainer = TrainerId::new("a").unwrap();
        let subject = address::members(&cluster(), &trainer);
        let members = Members {
            trainer,
            run: RunId(run),
            nodes: members.iter().map(|n| NodeId::new(n).unwrap()).collect(),
        };
        self.bus.store(&subject, &members, "").await.unwrap();
    }

    async fn prepare(&mut self, mute: bool) -> i32 {
        let (script, up) = (self.path("train.py"), self.path("up"));
        let mut args = vec![script, up.clone()];
        args.extend(mute.then(|| "mute".to_owned()));
        self.command(3, Action::Prepare(Box::new(assignment(3, 0, &args))))
            .await;
        self.until(|s| matches!(s.activity, Activity::Prepared { ready: true, .. }))
            .await;
        std::fs::read_to_string(up).unwrap().trim().parse().unwrap()
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    async fn ended(&mut self) -> i32 {
        let watch = Stopwatch::start();
        while watch.seconds() < LIMIT.as_secs_f64() {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("the pilot has not ended");
    }
}

fn assignment(run: u64, nodes: usize, args: &[String]) -> Assignment {
    let launch = lacuna_testkit::command("python3", args, Elastic::REGROUP);
    Assignment {
        nodes: u32::try_from(nodes).unwrap(),
        work: Work::Samples(500.0),
        samples_before: 100.0,
        store: Some("host:29400".to_owned()),
        token: Some(Token::new(7)),
        ..lacuna_testkit::assignment("a", run, launch)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pilot_prepares_regroups_and_is_gone_at_once_when_its_node_is_wanted() {
    let mut pilot = Pilot::start("60s").await;
    let mut reports: Subscription<Progress> = pilot
        .bus
        .subscribe(&address::progress(
            &cluster(),
            &node(),
            &TrainerId::new("a").unwrap(),
        ))
        .await
        .unwrap();
    let program = pilot.prepare(false).await;
    let args = vec![pilot.path("train.py"), pilot.path("up")];
    for (run, members) in [(4, vec!["n1"]), (6, vec!["n1", "n2"])] {
        if run == 4 {
            pilot.run(run, &members, &args).await;
        } else {
            // Members are published late, after the command.
            let part = assignment(run, members.len(), &args);
            pilot.command(run, Action::Run(Box::new(part))).await;
            tokio::time::sleep(Duration::from_millis(300)).await;
            pilot.say(run, &members).await;
        }
        let report = tokio::time::timeout(LIMIT, reports.next())
            .await
            .expect("no report")
            .unwrap()
            .message;
        assert_eq!((report.run, report.base), (RunId(run), Some(100.0)));
        assert_eq!(report.world_size as usize, members.len());
    }
    let status = pilot.until(|s| s.seq == 6).await;
    assert!(matches!(
        status.activity,
        Activity::Running { run: RunId(6), .. }
    ));
    assert!(lives(program), "it lives on over its runs");

    // With two other members its group breaks. The next run has a new group.
    for (run, members, broken) in [
        (7, vec!["n1", "n2", "n3"], Some(RunId(7))),
        (9, vec!["n1", "n2"], None),
    ] {
        pilot.run(run, &members, &args).await;
        let status = pilot.until(|s| s.seq == run && s.broken == broken).await;
        assert!(matches!(status.activity, Activity::Running { .. }));
    }

    let watch = Stopwatch::start();
    let pid = i32::try_from(pilot.child.id()).unwrap();
    kill(Pid::from_raw(pid), Signal::SIGTERM).unwrap();
    let last = pilot.until(|s| s.leaving).await;
    let said = watch.seconds();
    assert_eq!(last.released.as_deref(), Some("wanted"));
    assert_eq!(last.activity, Activity::Free);
    assert_eq!(
        last.gave_back_in, None,
        "control is informed before everything has ended"
    );
    let gone = pilot.until(|s| s.gave_back_in.is_some()).await;
    let took = gone.gave_back_in.unwrap_or_default();
    assert!(gone.leaving && !lives(program), "reported while it ran");
    assert!(took.as_secs_f64() <= watch.seconds(), "{took}");
    assert_eq!(pilot.ended().await, 0);
    println!(
        "reported after {said:.4} s, ended after {:.4} s",
        watch.seconds()
    );
    assert!(!lives(program), "an orphan");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_whose_members_do_not_fit_the_command_ends() {
    let mut pilot = Pilot::start("60s").await;
    let program = pilot.prepare(false).await;
    let args = vec![pilot.path("train.py"), pilot.path("up")];
    pilot.say(4, &["n2", "n1"]).await;
    let part = assignment(4, 2, &args);
    pilot.command(4, Action::Run(Box::new(part))).await;
    let status = pilot
        .until(|s| matches!(s.activity, Activity::Exited { .. }))
        .await;
    let Activity::Exited { code, reason, .. } = status.activity else {
        panic!("{status:?}");
    };
    assert_eq!(code, 127);
    assert!(reason.contains("do not fit the command"), "{reason}");
    assert!(!lives(program));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_program_is_killed() {
    let mut pilot = Pilot::start("60s").await;
    let program = pilot.prepare(true).await;
    let status = pilot
        .until(|s| matches!(s.activity, Activity::Exited { .. }))
        .await;
    let Activity::Exited { code, reason, .. } = status.activity else {
        panic!("{status:?}");
    };
    assert_eq!(code, 137);
    assert!(reason.contains("was silent for 1s"), "{reason}");
    assert!(!lives(program));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_sends_no_status_for_a_silent_program() {
    let mut pilot = Pilot::start_with("60s", "5s").await;
    let _ = pilot.prepare(true).await;
    let args = vec![pilot.path("train.py"), pilot.path("up"), "mute".to_owned()];
    pilot.run(4, &["n1"], &args).await;
    // Its last message is the report on that run. After five seconds it is killed.
    let mut said = Stopwatch::start();
    let silence = loop {
        let status = pilot.until(|_| true).await;
        match status.activity {
            Activity::Exited { .. } => break said.seconds(),
            _ => said = Stopwatch::start(),
        }
    };
    assert!(silence > 2.0, "a status {silence} s before the end");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pilot_that_its_scheduler_has_forgotten_ends_with_its_program() {
    let mut pilot = Pilot::start("60s").await;
    let program = pilot.prepare(false).await;
    let renewed = async |number: u64, forgotten: &str| {
        let renewal = Renewal {
            lead: 1,
            number,
            leases: Vec::new(),
            forgotten: vec![forgotten.to_owned()],
        };
        let subject = address::renewal(&cluster(), address::shard(&node()));
        pilot.bus.publish(&subject, &renewal, "").await.unwrap();
    };
    renewed(1, "4712").await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(lives(program), "another pilot was meant");
    renewed(2, JOB).await;
    let last = pilot.until(|s| s.leaving).await;
    assert_eq!(last.released.as_deref(), Some("forgotten"));
    assert_eq!(pilot.ended().await, 0);
    assert!(!lives(program), "an orphan");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pilot_without_control_or_server_gives_its_node_back_by_itself() {
    let mut pilot = Pilot::start("2s").await;
    let program = pilot.prepare(false).await;
    for number in 1..=6 {
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
        pilot.bus.publish(&subject, &renewal, "").await.unwrap();
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(pilot.child.try_wait().unwrap().is_none(), "too early");
    }
    pilot.nats.kill();
    assert_eq!(pilot.ended().await, 0);
    assert!(!lives(program), "an orphan");
}
