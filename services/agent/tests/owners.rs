//! Programs under their owners' accounts: each has what is its own, and reaches nothing of others.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may panic"
)]

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lacuna_agent_service::{
    Command, Launcher, LauncherEvent, Metrics, Names, Process, Safety, Settings,
};
use lacuna_model::{
    Assignment, ClusterId, Directory, Elastic, Launch, Members, NodeId, Program, RunId, Span,
    Timestamp,
};
use lacuna_owner::{Ticket, digest};
use lacuna_runtime::{ClusterClock, metrics::Registry};
use lacuna_testkit::{Need, or_skip};
use lacuna_trainer::agent::Exit;
use lacuna_trainer::settings::{Agent, RunAs};
use nix::unistd::{User, geteuid};
use tokio::sync::mpsc::{self, UnboundedReceiver};

/// Time limit, long enough on a loaded machine.
const LIMIT: Duration = Duration::from_secs(20);
/// Two accounts that each system has.
const ANN: &str = "daemon";
const BOB: &str = "bin";

struct Bench {
    dir: tempfile::TempDir,
    launcher: Command,
    events: UnboundedReceiver<LauncherEvent>,
}

fn bench(run_as: RunAs) -> Bench {
    bench_of(run_as, None)
}

fn bench_of(run_as: RunAs, ticket: Option<Ticket>) -> Bench {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o711)).unwrap();
    let (sender, events) = mpsc::unbounded_channel();
    let settings = Settings {
        guard: PathBuf::from(env!("CARGO_BIN_EXE_lacuna-agent")),
        poll_every: Span::from_ms(20),
        ticket,
        agent: Agent {
            work_dir: dir.path().join("work"),
            grace: Span::from_secs(10),
            run_as,
            min_uid: 1,
            ..Agent::default()
        },
    };
    let metrics = Metrics::new(&Registry::new()).unwrap();
    let grace = settings.agent.grace.to_std();
    let safety = Safety::start(Process::Shared, false, grace, metrics.clone()).unwrap();
    // Each trainer has one node, with its own name.
    let names = Names::new(|trainer| {
        let members = Members {
            trainer: trainer.clone(),
            run: RunId(7),
            nodes: vec![node(trainer.as_str())],
        };
        Box::pin(std::future::ready(Ok(Some(members))))
    });
    let clock = ClusterClock::new();
    let launcher = Command::new(settings, names, safety, clock, metrics, sender);
    Bench {
        dir,
        launcher,
        events,
    }
}

fn node(name: &str) -> NodeId {
    NodeId::new(name).unwrap()
}

fn of(owner: Option<&str>, name: &str, script: &str) -> Assignment {
    Assignment {
        owner: owner.map(str::to_owned),
        ..lacuna_testkit::assignment(name, 7, lacuna_testkit::shell(script))
    }
}

impl Bench {
    fn start(&mut self, part: Assignment) {
        let node = node(part.trainer.as_str());
        self.launcher.start(&node, part, Timestamp::from_unix(0));
    }

    async fn next(&mut self) -> LauncherEvent {
        tokio::time::timeout(LIMIT, self.events.recv())
            .await
            .expect("nothing happened in time")
            .expect("the launcher is gone")
    }

    /// The exit code and the reason of a program that ends by itself.
    async fn end(&mut self) -> (i32, String) {
        match self.next().await {
            LauncherEvent::Exited {
                exit: Exit { code, reason, .. },
                ..
            } => (code, reason),
            other => panic!("no exit: {other:?}"),
        }
    }

    fn output(&self, name: &str) -> Vec<String> {
        self.launcher.output(&node(name), name, 100)
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.dir.path().join("work").join(name).join(name)
    }
}

/// What a program says of itself, then one line of progress. Its user can read when it must end.
const HONEST: &str = r#"
    echo "$(id -u) $(id -g) $(id -G)"; echo "$USER $HOME"; echo $$; echo "$TMPDIR"
    grep NoNewPrivs /proc/self/status; stat -c %a "$TMPDIR"; touch "$TMPDIR/own" && echo wrote
    trap 'test -s "$LACUNA_DEADLINE_FILE" && cat "$LACUNA_DEADLINE_FILE" >/dev/null && echo read; exit 0' TERM
    echo '{"t":1,"samples":40}' >> "$LACUNA_PROGRESS_FILE"
    while :; do sleep 0.02; done"#;

/// Prints what succeeded: nothing may that reaches beyond its own.
fn attempts(agent: u32, victim: &str, folder: &Path, tmp: &str, key: &Path) -> String {
    let work = folder.ancestors().nth(2).unwrap().display();
    let (folder, key) = (folder.display(), key.display());
    format!(
        r#"
    try() {{ if (eval "$1") >/dev/null 2>&1; then echo "done: $1"; else echo refused; fi; }}
    own() {{ if (eval "$1") >/dev/null 2>&1; then echo own; else echo "not even: $1"; fi; }}
    try 'cat {folder}/output.log'; try 'echo x >> {folder}/output.log'
    try 'cat {folder}/progress-7.jsonl'; try 'cat {folder}/begun'
    try 'ls {folder}'; try 'ls {work}'; try 'ls {work}/ann'
    try 'touch {folder}/x'; try 'touch {work}/x'; try 'mv {folder} {work}/bob'
    try 'ls {tmp}'; try 'touch {tmp}/x'
    try 'cat {key}'; try 'ls {work}/.locks'
    for process in {victim} {agent} $PPID; do
        try "kill -WINCH $process"; try "cat /proc/$process/environ"
        try "head -c 1 /proc/$process/mem"; try "ls /proc/$process/fd"
    done
    own 'test -w "$LACUNA_SOCKET"'; own 'test -w "$LACUNA_PROGRESS_FILE"'
    own 'touch "$TMPDIR/x"'; own 'cd "$TMPDIR"'
    exit 0"#
    )
}

#[tokio::test]
async fn each_program_has_its_own_account_and_reaches_nothing_of_others() {
    or_skip!(Need::Root.given(
        geteuid().is_root(),
        "only root may switch to another account"
    ));
    let mut bench = bench(RunAs::Owner);
    let key = bench.dir.path().join("agent.toml");
    fs::write(&key, "seed").unwrap();
    fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    bench.start(of(Some(ANN), "ann", HONEST));
    let LauncherEvent::Progress(progress) = bench.next().await else {
        panic!("no progress: {:?}", bench.output("ann"));
    };
    assert_eq!(progress.samples, 40.0);
    let said = bench.output("ann");
    let [ids, names, pid, tmp, no_new, mode, wrote] = said.as_slice() else {
        panic!("{said:?}");
    };
    let user = User::from_name(ANN).unwrap().unwrap();
    // What a login has: the groups too.
    let groups = std::process::Command::new("id").args(["-G", ANN]).output();
    let groups = String::from_utf8(groups.unwrap().stdout).unwrap();
    assert_eq!(*ids, format!("{} {} {}", user.uid, user.gid, groups.trim()));
    assert_eq!(*names, format!("{ANN} {}", user.dir.display()));
    assert!(no_new.ends_with('1'), "{no_new}");
    assert_eq!((mode.as_str(), wrote.as_str()), ("700", "wrote"));
    assert_eq!(fs::metadata(tmp).unwrap().uid(), user.uid.as_raw());

    let folder = bench.folder("ann");
    let script = attempts(std::process::id(), pid, &folder, tmp, &key);
    let mut part = of(Some(BOB), "bob", &script);
    if let Launch::Command(Program { elastic, .. }) = std::sync::Arc::make_mut(&mut part.launch) {
        *elastic = Elastic::REGROUP;
    }
    bench.start(part);
    assert_eq!(bench.end().await, (0, "own".to_owned()));
    let said = bench.output("bob");
    let reached: Vec<&String> = said
        .iter()
        .filter(|l| *l != "refused" && *l != "own")
        .collect();
    assert!(reached.is_empty(), "{reached:#?}");
    let count = |word: &str| said.iter().filter(|line| *line == word).count();
    assert_eq!((count("refused"), count("own")), (26, 4));

    let at = Timestamp::from_unix(0);
    bench.launcher.stop(&node("ann"), RunId(7), at);
    assert!(matches!(bench.next().await, LauncherEvent::Stopped { .. }));
    assert_eq!(bench.output("ann").last().unwrap(), "read");
    for _ in 0..500 {
        if !Path::new(tmp).exists() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{tmp} is still there");
}

#[tokio::test]
async fn an_owner_without_an_account_runs_nothing_and_learns_why() {
    or_skip!(Need::Root.given(
        geteuid().is_root(),
        "only root may switch to another account"
    ));
    let mut bench = bench(RunAs::Owner);
    for (owner, why) in [
        (
            Some("no-such-user"),
            "the owner no-such-user has no account on this node",
        ),
        (Some("root"), "an account of the system (user 0"),
        (None, "its trainer has no owner"),
    ] {
        bench.start(of(owner, "t", "touch /ran"));
        let (code, reason) = bench.end().await;
        assert_eq!(code, 127);
        assert!(reason.contains(why), "{reason}");
    }
    assert!(!bench.folder("t").exists());
}

#[tokio::test]
async fn the_submitted_environment_is_never_that_of_a_process_of_root() {
    or_skip!(Need::Root.given(
        geteuid().is_root(),
        "only root may switch to another account"
    ));
    let mut bench = bench(RunAs::Owner);
    let mut part = of(Some(ANN), "t", "echo $HOME; exit 3");
    if let Launch::Command(Program { env, .. }) = std::sync::Arc::make_mut(&mut part.launch) {
        env.insert("LD_PRELOAD".to_owned(), "/no/such/code.so".to_owned());
        env.insert("HOME".to_owned(), "/elsewhere".to_owned());
    }
    bench.start(part);
    assert_eq!(bench.end().await, (3, "/elsewhere".to_owned()));
    // The loader complains once for each program that it starts with it: the shell alone.
    let said = bench.output("t");
    let loaded = said.iter().filter(|line| line.contains("/no/such/code.so"));
    assert_eq!(loaded.count(), 1, "{said:?}");
}

#[tokio::test]
async fn a_folder_that_an_owner_cannot_enter_ends_the_program_with_the_remedy() {
    or_skip!(Need::Root.given(
        geteuid().is_root(),
        "only root may switch to another account"
    ));
    let mut bench = bench(RunAs::Owner);
    fs::set_permissions(bench.dir.path(), Permissions::from_mode(0o700)).unwrap();
    bench.start(of(Some(ANN), "t", "touch /ran"));
    let (code, reason) = bench.end().await;
    assert_eq!(code, 127);
    assert!(reason.contains("chmod o+x"), "{reason}");
}

#[tokio::test]
async fn the_folder_and_the_variables_of_an_owner_are_looked_at_under_their_account() {
    or_skip!(Need::Root.given(
        geteuid().is_root(),
        "only root may switch to another account"
    ));
    let mut bench = bench(RunAs::Owner);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("s.env");
    fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
    fs::write(&file, "KEY=hush\n").unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    let text = |path: &Path| path.display().to_string();
    let around = |name: &str, directory, file: Option<&Path>| {
        let mut part = of(Some(ANN), name, "pwd; echo $KEY");
        if let Launch::Command(Program {
            directory: wanted,
            environment_from,
            ..
        }) = Arc::make_mut(&mut part.launch)
        {
            *wanted = directory;
            environment_from.extend(file.map(text));
        }
        part
    };
    // Root could enter the folder and read the file; its owner cannot.
    bench.start(around("a", Directory::Required(text(folder.path())), None));
    let (code, reason) = bench.end().await;
    assert!(
        code == 127 && reason.contains("Permission denied"),
        "{reason}"
    );
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    bench.start(around("b", Directory::OfNode, Some(&file)));
    let (code, reason) = bench.end().await;
    assert!(
        code == 127 && reason.contains("Permission denied"),
        "{reason}"
    );
    assert!(!reason.contains("hush"), "{reason}");
    let uid = nix::unistd::User::from_name(ANN)
        .unwrap()
        .unwrap()
        .uid
        .as_raw();
    std::os::unix::fs::chown(&file, Some(uid), None).unwrap();
    let here = Directory::Preferred(text(folder.path()));
    bench.start(around("c", here, Some(&file)));
    assert_eq!(bench.end().await.0, 0);
    assert_eq!(bench.output("c"), [text(folder.path()), "hush".to_owned()]);
}

#[tokio::test]
async fn one_account_for_several_owners_is_the_one_that_control_names() {
    let own = User::from_uid(geteuid()).unwrap();
    let own = own.map_or_else(|| geteuid().to_string(), |user| user.name);
    for (shared, expected) in [(own.as_str(), 3), ("another", 127)] {
        let mut bench = bench(RunAs::Agent);
        bench.start(Assignment {
            shared_account: Some(shared.to_owned()),
            ..of(Some("ann"), "t", "exit 3")
        });
        let (code, reason) = bench.end().await;
        assert_eq!(code, expected, "{reason}");
        if expected == 127 {
            assert!(
                reason.contains("control.shared_account is another"),
                "{reason}"
            );
        }
    }
}

#[tokio::test]
async fn a_pilot_of_an_owner_starts_the_signed_program_alone() {
    let part = of(Some("ann"), "t", "exit 3");
    let ticket = Ticket {
        cluster: ClusterId::new("main").unwrap(),
        trainer: part.trainer.clone(),
        owner: "ann".to_owned(),
        program: digest(&part.launch).unwrap(),
        pilots: 1,
        not_after: Timestamp::from_unix(0),
    };
    let mut bench = bench_of(RunAs::Agent, Some(ticket));
    for (part, expected) in [
        (part, 3),
        (of(Some("ann"), "t", "touch /ran"), 127),
        (of(Some("ann"), "u", "exit 3"), 127),
        (of(Some("bob"), "t", "exit 3"), 127),
    ] {
        bench.start(part);
        let (code, reason) = bench.end().await;
        assert_eq!(code, expected, "{reason}");
        assert_eq!(
            reason.contains("by its ticket"),
            expected == 127,
            "{reason}"
        );
    }
}
