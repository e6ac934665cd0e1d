//! Real programs under a guard: they report, stop on request, and never outlive their agent.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may panic"
)]

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lacuna_agent_service::{
    Command, Launcher, LauncherEvent, Metrics, Names, Process, Safety, Settings,
};
use lacuna_model::{
    Assignment, Directory, Ending, Launch, Members, NodeId, Program, RunId, Span, Timestamp,
    TrainerId, Work,
};
use lacuna_runtime::{ClusterClock, metrics::Registry};
use lacuna_testkit::lives;
use lacuna_trainer::agent::Exit;
use lacuna_trainer::settings::Agent;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tokio::sync::mpsc::{self, UnboundedReceiver};

/// Time limit, long enough on a loaded machine.
const LIMIT: Duration = Duration::from_secs(20);

struct Bench {
    dir: tempfile::TempDir,
    launcher: Command,
    events: UnboundedReceiver<LauncherEvent>,
    /// The newest members that control has published.
    published: Arc<Mutex<Option<Members>>>,
}

fn node() -> NodeId {
    NodeId::new("n1.example").unwrap()
}

fn members(run: u64, names: &[&str]) -> Members {
    Members {
        trainer: TrainerId::new("..").unwrap(),
        run: RunId(run),
        nodes: names.iter().map(|n| NodeId::new(n).unwrap()).collect(),
    }
}

fn bench(grace_ms: i64) -> Bench {
    bench_of_two(grace_ms, Span::from_ms(500))
}

fn bench_of_two(grace_ms: i64, start_limit: Span) -> Bench {
    let published = Some(members(7, &["n1.example", "n2"]));
    bench_with(grace_ms, start_limit, published)
}

fn bench_with(grace_ms: i64, start_limit: Span, published: Option<Members>) -> Bench {
    let dir = tempfile::tempdir().unwrap();
    let (sender, events) = mpsc::unbounded_channel();
    let settings = Settings {
        guard: PathBuf::from(env!("CARGO_BIN_EXE_lacuna-agent")),
        poll_every: Span::from_ms(20),
        ticket: None,
        agent: Agent {
            work_dir: dir.path().join("work"),
            grace: Span::from_ms(grace_ms),
            start_limit,
            torchrun: Vec::new(),
            devices: Vec::new(),
            device_wait: Span::ZERO,
            ..Agent::default()
        },
    };
    let metrics = Metrics::new(&Registry::new()).unwrap();
    let grace = settings.agent.grace.to_std();
    let safety = Safety::start(Process::Shared, false, grace, metrics.clone()).unwrap();
    let published = Arc::new(Mutex::new(published));
    let newest = Arc::clone(&published);
    let names = Names::new(move |_| {
        let newest = newest.lock().unwrap().clone();
        Box::pin(std::future::ready(Ok(newest)))
    });
    let launcher = Command::new(
        settings,
        names,
        safety,
        ClusterClock::new(),
        metrics,
        sender,
    );
    Bench {
        dir,
        launcher,
        events,
        published,
    }
}

fn shell(script: &str) -> Assignment {
    let mut launch = lacuna_testkit::shell(script);
    if let Launch::Command(Program {
        env,
        checkpoint_dir,
        ..
    }) = &mut launch
    {
        env.insert("GREETING".to_owned(), "hello".to_owned());
        *checkpoint_dir = Some("/ckpt".to_owned());
    }
    Assignment {
        nodes: 2,
        work: Work::Samples(500.0),
        samples_before: 120.0,
        checkpoint: Some("step-9".to_owned()),
        ..lacuna_testkit::assignment("..", 7, launch)
    }
}

impl Bench {
    fn start(&mut self, script: &str) {
        let run = shell(script);
        self.launcher.start(&node(), run, Timestamp::from_unix(0));
    }

    fn stop(&mut self) {
        let at = Timestamp::from_unix(0);
        self.launcher.stop(&node(), RunId(7), at);
    }

    async fn next(&mut self) -> LauncherEvent {
        tokio::time::timeout(LIMIT, self.events.recv())
            .await
            .expect("nothing happened in time")
            .expect("the launcher is gone")
    }

    /// How the program ends by itself.
    async fn exit(&mut self) -> Exit {
        match self.next().await {
            LauncherEvent::Exited { exit, .. } => exit,
            other => panic!("no exit: {other:?}"),
        }
    }

    /// The first line of a file that the program writes.
    async fn line(&self, name: &str) -> String {
        let path = self.dir.path().join(name);
        for _ in 0..1000 {
            if let Ok(text) = std::fs::read_to_string(&path)
                && text.ends_with('\n')
            {
                return text.trim().to_owned();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{} was never written", path.display());
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }
}

async fn gone(pid: &str) {
    for _ in 0..1000 {
        if !lives(pid) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("process {pid} still lives");
}

/// All folders below.
fn walkdir(below: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(below).into_iter().flatten().flatten();
    let folders = entries
        .map(|entry| entry.path())
        .filter(|path| path.is_dir());
    folders
        .flat_map(|folder| [vec![folder.clone()], walkdir(&folder)].concat())
        .collect()
}

#[tokio::test]
async fn a_program_has_its_environment_and_its_progress_is_reported() {
    let mut bench = bench(1000);
    let env = bench.path("env");
    bench.start(&format!(
        r#"echo "$LACUNA_TRAINER $LACUNA_RUN $LACUNA_RANK $LACUNA_WORLD_SIZE $LACUNA_MEMBERS $LACUNA_CHECKPOINT_DIR $LACUNA_CHECKPOINT $LACUNA_SAMPLES_DONE $GREETING $PYTHONUNBUFFERED" > {env}
        echo '{{"t":1,"step":5,"samples":40,"world_size":2,"loss":0.25,"checkpoint":"c5"}}' >> "$LACUNA_PROGRESS_FILE"
        echo done; echo last words >&2; exit 3"#
    ));
    let LauncherEvent::Progress(progress) = bench.next().await else {
        panic!("no progress");
    };
    assert_eq!(
        (progress.samples, progress.step, progress.world_size),
        (40.0, Some(5), 2)
    );
    assert_eq!(progress.loss, Some(0.25));
    assert_eq!(progress.checkpoint.as_deref(), Some("c5"));
    let Exit { code, reason, .. } = bench.exit().await;
    assert_eq!((code, reason.as_str()), (3, "last words"));
    assert_eq!(
        bench.line("env").await,
        ".. 7 0 2 n1.example,n2 /ckpt step-9 120 hello 1"
    );
    let output = bench.launcher.output(&node(), "..", 5);
    assert_eq!(output, ["done", "last words"]);
    // The user of the next batch job on this node may not read it.
    let folders = walkdir(&bench.dir.path().join("work"));
    assert!(!folders.is_empty());
    for folder in folders {
        let mode = folder.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}: {mode:o}", folder.display());
    }
    // A name of dots does not lead to another folder.
    assert!(bench.dir.path().join("work").is_dir());
    assert!(!bench.dir.path().join("n1_2Eexample").exists());
}

/// A script that writes the members to a file of the folder.
fn writes(bench: &Bench) -> String {
    let names = bench.path("names");
    format!("echo $LACUNA_MEMBERS $LACUNA_LEADER > {names}.new; mv {names}.new {names}; sleep 600")
}

#[tokio::test]
async fn a_program_waits_for_its_members() {
    let mut bench = bench_with(300, Span::from_secs(600), None);
    let script = writes(&bench);
    bench.start(&script);
    let names = PathBuf::from(bench.path("names"));
    for published in [None, Some(members(6, &["n1.example", "n3"]))] {
        *bench.published.lock().unwrap() = published;
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(
            !names.exists(),
            "it began without its members, or with others"
        );
    }
    *bench.published.lock().unwrap() = Some(members(7, &["n1.example", "n2"]));
    assert_eq!(bench.line("names").await, "n1.example,n2 n1.example");
    bench.stop();
    assert!(matches!(bench.next().await, LauncherEvent::Stopped { .. }));
}

#[tokio::test]
async fn members_must_fit_the_command() {
    for published in [
        members(7, &["n2", "n1.example"]),
        members(7, &["n1.example"]),
        members(7, &[]),
    ] {
        let mut bench = bench_with(300, Span::from_secs(600), Some(published));
        let script = writes(&bench);
        bench.start(&script);
        let Exit { code, reason, .. } = bench.exit().await;
        assert_eq!(code, 127);
        assert!(reason.contains("do not fit the command"), "{reason}");
        assert!(!PathBuf::from(bench.path("names")).exists());
    }
}

#[tokio::test]
async fn a_program_without_its_members_ends_with_the_remedy() {
    let mut bench = bench_with(300, Span::from_ms(500), None);
    bench.start("sleep 600");
    let Exit { code, reason, .. } = bench.exit().await;
    assert_eq!(code, 127);
    assert!(reason.contains("control has not published it"), "{reason}");
    assert!(reason.contains("`lacuna keys init`"), "{reason}");
}

#[tokio::test]
async fn a_program_that_waits_for_its_members_can_be_stopped() {
    // Either no members are published, or those of a later run.
    for published in [None, Some(members(8, &["n2"]))] {
        for kill in [false, true] {
            let mut bench = bench_with(60_000, Span::from_secs(600), published.clone());
            let script = writes(&bench);
            bench.start(&script);
            tokio::time::sleep(Duration::from_millis(100)).await;
            if kill {
                bench.launcher.kill_all();
            } else {
                bench.stop();
            }
            assert!(matches!(bench.next().await, LauncherEvent::Stopped { .. }));
            assert!(!PathBuf::from(bench.path("names")).exists());
        }
    }
}

#[tokio::test]
async fn a_stopped_program_may_save_and_its_last_report_counts() {
    let mut bench = bench(10_000);
    let up = bench.path("up");
    bench.start(&format!(
        r#"trap 'test -s "$LACUNA_DEADLINE_FILE" && echo "{{\"t\":2,\"samples\":77}}" >> "$LACUNA_PROGRESS_FILE"; exit 0' TERM
        echo $$ > {up}; while :; do sleep 0.02; done"#
    ));
    let pid = bench.line("up").await;
    bench.stop();
    let LauncherEvent::Progress(progress) = bench.next().await else {
        panic!("no last report");
    };
    assert_eq!(progress.samples, 77.0);
    let stopped = LauncherEvent::Stopped {
        node: node(),
        run: RunId(7),
    };
    assert_eq!(bench.next().await, stopped);
    gone(&pid).await;
}

#[tokio::test]
async fn a_program_that_will_not_stop_is_killed_with_all_its_children() {
    let mut bench = bench(200);
    let (up, child) = (bench.path("up"), bench.path("child"));
    bench.start(&format!(
        "trap '' TERM; sh -c 'trap \"\" TERM; echo $$ > {child}; while :; do sleep 0.1; done' & \
         echo $$ > {up}; while :; do sleep 0.1; done"
    ));
    let (pid, child) = (bench.line("up").await, bench.line("child").await);
    bench.stop();
    assert!(matches!(bench.next().await, LauncherEvent::Stopped { .. }));
    gone(&pid).await;
    gone(&child).await;
}

#[tokio::test]
async fn remaining_processes_are_killed_and_the_exit_code_is_kept() {
    let mut bench = bench(1000);
    let child = bench.path("child");
    bench.start(&format!(
        "sh -c 'echo $$ > {child}; sleep 600' & while ! test -s {child}; do sleep 0.02; done; exit 5"
    ));
    let code = bench.exit().await.code;
    assert_eq!(code, 5);
    let child = bench.line("child").await;
    gone(&child).await;
}

#[tokio::test]
async fn a_killed_guard_leaves_no_orphan_behind() {
    let mut bench = bench(300);
    let up = bench.path("up");
    bench.start(&format!(
        "echo $$ $PPID > {up}; while :; do sleep 0.1; done"
    ));
    let line = bench.line("up").await;
    let (pid, guard) = line.split_once(' ').unwrap();
    // A death by a signal is reported as such.
    kill(Pid::from_raw(pid.parse().unwrap()), Signal::SIGUSR1).unwrap();
    let code = bench.exit().await.code;
    assert_eq!(code, 128 + Signal::SIGUSR1 as i32);
    gone(guard).await;
}

#[tokio::test]
async fn a_program_runs_in_its_directory_with_the_variables_of_its_owners_file() {
    let secrets = tempfile::tempdir().unwrap();
    let (folder, file) = (secrets.path().join("here"), secrets.path().join("s.env"));
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(&file, "KEY=hush\nGREETING=no\n").unwrap();
    let mode = |mode| std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode));
    let text = |path: &Path| path.display().to_string();
    let (whole, gone) = (text(&folder), text(&secrets.path().join("gone")));
    for (directory, permissions, code, said) in [
        (
            Directory::Required(whole.clone()),
            0o600,
            0,
            vec![whole.as_str(), "hush hello"],
        ),
        (
            Directory::Required(gone.clone()),
            0o600,
            127,
            vec!["cannot enter its directory"],
        ),
        (
            Directory::Preferred(gone.clone()),
            0o600,
            0,
            vec!["the folder of the submit file", "/work/", "hush"],
        ),
        (
            Directory::OfNode,
            0o644,
            127,
            vec!["environment_from: ", "chmod 600"],
        ),
    ] {
        mode(permissions).unwrap();
        let mut bench = bench(1000);
        let mut run = shell("pwd; echo $KEY $GREETING");
        if let Launch::Command(Program {
            directory: wanted,
            environment_from,
            ..
        }) = Arc::make_mut(&mut run.launch)
        {
            *wanted = directory;
            environment_from.push(text(&file));
        }
        bench.launcher.start(&node(), run, Timestamp::from_unix(0));
        let exit = bench.exit().await;
        let output = bench.launcher.output(&node(), "..", 5).join("\n");
        assert_eq!(exit.code, code, "{output}");
        for part in said {
            assert!(output.contains(part), "{part}: {output}");
        }
    }
}

#[tokio::test]
async fn a_program_that_does_not_exist_is_reported() {
    let mut bench = bench(1000);
    let mut run = shell("");
    if let Launch::Command(Program { program, .. }) = Arc::make_mut(&mut run.launch) {
        *program = "/no/such/program".to_owned();
    }
    bench.launcher.start(&node(), run, Timestamp::from_unix(0));
    let Exit { code, reason, .. } = bench.exit().await;
    assert_eq!(code, 127);
    assert!(reason.contains("cannot start /no/such/program"), "{reason}");
}

#[tokio::test]
async fn a_program_that_regroups_and_hangs_at_its_start_is_killed() {
    let mut bench = bench(1000);
    let up = bench.path("up");
    let mut run = shell(&format!("echo $$ > {up}; exec sleep 600"));
    if let Launch::Command(Program { elastic, .. }) = Arc::make_mut(&mut run.launch) {
        *elastic = lacuna_model::Elastic::REGROUP;
    }
    bench.launcher.prepare(&node(), run);
    let Exit { code, reason, .. } = bench.exit().await;
    assert_eq!(code, 128 + Signal::SIGKILL as i32);
    assert_eq!(reason, "was silent for 500ms since its start");
    gone(&bench.line("up").await).await;
}

/// A worker that says hello and that it is ready; more follows.
const WORKER: &str = r#"
import json, os, socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.connect(os.environ["LACUNA_SOCKET"])
rank = int(os.environ["LACUNA_LOCAL_RANK"])
def say(**message):
    s.sendall((json.dumps(message) + "\n").encode())
"#;

/// Prepares a program of two workers.
fn prepare_two(bench: &mut Bench, script: &str) {
    let mut run = shell("");
    if let Launch::Command(Program {
        program,
        args,
        elastic,
        ..
    }) = Arc::make_mut(&mut run.launch)
    {
        "python3".clone_into(program);
        *args = vec!["-c".to_owned(), format!("{WORKER}{script}")];
        *elastic = lacuna_model::Elastic::Regroup {
            workers_per_node: 2,
        };
    }
    bench.launcher.prepare(&node(), run);
}

#[tokio::test]
async fn the_workers_of_a_node_speak_as_one_and_end_as_one() {
    let mut bench = bench_of_two(60_000, Span::from_secs(60));
    prepare_two(
        &mut bench,
        r#"
say(say="hello", pid=1, version=2, local_rank=rank)
say(say="progress", run=7, base=0.0, samples=1.0 + rank, world_size=4)
time.sleep(0.3 * rank)
say(say="ready")
time.sleep(0.3 * rank)
say(say="broken", run=7)
time.sleep(0.6)
if rank == 1:
    sys.exit("boom")
time.sleep(600)
"#,
    );
    let mut seen = Vec::new();
    loop {
        match bench.next().await {
            LauncherEvent::Progress(progress) => seen.push(format!("{} samples", progress.samples)),
            LauncherEvent::Ready { .. } => seen.push("ready".to_owned()),
            LauncherEvent::Group { broken, .. } => seen.push(format!("broken: {broken}")),
            LauncherEvent::Exited {
                exit: Exit { code, reason, .. },
                ..
            } => {
                assert_eq!(
                    (code, reason.as_str()),
                    (1, "worker 1 of 2 ended with exit code 1: boom")
                );
                break;
            }
            LauncherEvent::Stopped { .. } => seen.push("stopped".to_owned()),
            LauncherEvent::Suspended { .. } => seen.push("suspended".to_owned()),
            LauncherEvent::Ends { .. } => {}
        }
    }
    seen.sort();
    // Only the first worker reports progress.
    assert_eq!(seen, ["1 samples", "broken: true", "ready"]);
    let output = bench.launcher.output(&node(), "..", 2);
    assert_eq!(
        output,
        ["[1] boom", "worker 1 of 2 ended with exit code 1: boom"]
    );
}

#[tokio::test]
async fn a_worker_that_hangs_alone_is_named() {
    let mut bench = bench_of_two(60_000, Span::from_secs(1));
    prepare_two(
        &mut bench,
        r#"
while rank == 1:
    time.sleep(1)
say(say="hello", pid=1, version=2, local_rank=rank)
while True:
    say(say="alive")
    time.sleep(0.2)
"#,
    );
    let Exit { code, reason, .. } = bench.exit().await;
    assert_eq!(
        (code, reason.as_str()),
        (137, "worker 1 of 2 was silent for 1s since its start")
    );
}

#[tokio::test]
async fn a_program_that_knows_one_worker_a_node_is_told_the_remedy() {
    let mut bench = bench_of_two(60_000, Span::from_secs(60));
    prepare_two(
        &mut bench,
        "say(say=\"hello\", pid=1, version=1)\ntime.sleep(600)\n",
    );
    let Exit { code, reason, .. } = bench.exit().await;
    assert_eq!(code, 127);
    assert!(reason.contains("workers_per_node = 1"), "{reason}");
}

#[tokio::test]
async fn a_later_agent_kills_remaining_programs_and_no_other_process() {
    use std::os::unix::process::CommandExt;
    let mut bench = bench(60_000);
    let up = bench.path("up");
    bench.start(&format!(
        "trap '' TERM; echo $$ > {up}; while :; do sleep 0.1; done"
    ));
    let pid = bench.line("up").await;
    // The id of an older run's group has been reused since.
    let mut stranger = std::process::Command::new("sleep")
        .arg("600")
        .process_group(0)
        .spawn()
        .unwrap();
    let _group = Group(i32::try_from(stranger.id()).unwrap());
    let dir = bench.dir.path().join("work/older/n1_2Eexample");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("begun"), format!("3 {}\n", stranger.id())).unwrap();

    assert!(bench.launcher.begun(&node(), &shell("")));
    let next = Assignment {
        run: RunId(8),
        ..shell("")
    };
    assert!(!bench.launcher.begun(&node(), &next));
    let elsewhere = [NodeId::new("n2").unwrap()].into();
    assert_eq!(bench.launcher.end_orphans(Some(&elsewhere)), 0);
    assert!(lives(&pid));
    assert_eq!(bench.launcher.end_orphans(Some(&[node()].into())), 1);
    gone(&pid).await;
    assert!(stranger.try_wait().unwrap().is_none());
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

/// Kills the group that a test may have left behind.
struct Group(i32);

impl Drop for Group {
    fn drop(&mut self) {
        let _ = killpg(Pid::from_raw(self.0), Signal::SIGKILL);
    }
}

#[tokio::test]
async fn programs_of_a_killed_agent_end() {
    use std::os::unix::process::CommandExt;
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    // A shell stands in for the agent: it holds the input of the guard, which has its own group,
    // and is killed.
    let script = format!(
        "(echo '{{}}'; sleep 600) | setsid {} guard-process-group 300 1 {} /bin/sh -c 'echo $$ > {}; while :; do sleep 0.1; done'",
        env!("CARGO_BIN_EXE_lacuna-agent"),
        path("deadline"),
        path("up"),
    );
    let mut agent = std::process::Command::new("/bin/sh")
        .args(["-c", &script])
        .process_group(0)
        .spawn()
        .unwrap();
    let group = Group(i32::try_from(agent.id()).unwrap());
    let bench = Bench { dir, ..bench(300) };
    let pid = bench.line("up").await;
    assert!(lives(&pid));
    drop(group);
    agent.wait().unwrap();
    gone(&pid).await;
}

/// How a program of two workers ends that go on like this after `hello`, and how far it says before
/// that its end has come.
async fn end_of(script: &str) -> (Exit, Option<Ending>) {
    let mut bench = bench_of_two(1000, Span::from_secs(60));
    let hello = r#"say(say="hello", pid=1, version=2, local_rank=rank)"#;
    prepare_two(&mut bench, &format!("{hello}\n{script}"));
    let mut ending = None;
    loop {
        match bench.next().await {
            LauncherEvent::Ends { ending: to, .. } => ending = to,
            LauncherEvent::Exited { exit, .. } => return (exit, ending),
            _ => {}
        }
    }
}

#[tokio::test]
async fn an_interpreter_that_hangs_after_its_work_was_done_has_ended_well() {
    // The grace is one second here; the usual limit of silence is five.
    let (exit, ending) = end_of(r#"say(say="done"); say(say="exiting"); time.sleep(600)"#).await;
    assert_eq!((exit.code, exit.killed), (0, true));
    assert_eq!(ending, Some(Ending::Exiting));
    assert!(
        exit.reason.contains("was silent for 1s while it ended"),
        "{}",
        exit.reason
    );
    let crash = r#"say(say="done"); say(say="exiting"); time.sleep(0.5); os.abort()"#;
    let (exit, _) = end_of(crash).await;
    assert_eq!((exit.code, exit.killed), (0, false));
}

#[tokio::test]
async fn code_after_the_work_may_take_its_time_and_may_fail() {
    let long = r#"
say(say="done")
for _ in range(9):
    time.sleep(0.3)
    say(say="alive")
say(say="exiting")
time.sleep(0.5)
sys.exit(3)
"#;
    let (exit, ending) = end_of(long).await;
    assert_eq!((exit.code, exit.killed), (3, false));
    assert_eq!(ending, Some(Ending::Exiting));
    // Words of one worker are none of the node, and without `done` nothing was done.
    let (exit, ending) = end_of(r#"say(say="exiting"); os.abort()"#).await;
    assert_eq!((exit.code, ending), (134, None));
    let (exit, ending) = end_of(
        r#"
if rank == 0:
    say(say="done")
time.sleep(0.3)
os.abort()
"#,
    )
    .await;
    assert_eq!((exit.code, ending), (134, None));
}
