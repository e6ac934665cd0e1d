//! Several workers under one guard: they start, print and end together.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};

/// A guard with its program, and the input that holds it.
struct Guarded {
    guard: Child,
    input: Option<ChildStdin>,
    dir: tempfile::TempDir,
}

/// Starts a script as `count` workers, in a folder of its own.
fn guarded(count: u32, grace_ms: u32, script: &str) -> Guarded {
    let dir = tempfile::tempdir().unwrap();
    let mut guard = Command::new(env!("CARGO_BIN_EXE_lacuna-agent"))
        .args(["guard-process-group", &grace_ms.to_string()])
        .args([&count.to_string(), "deadline", "/bin/sh", "-c", script])
        .current_dir(dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let mut input = guard.stdin.take().unwrap();
    input
        .write_all(b"{\"environment\":{\"GREETING\":\"hello\"}}\n")
        .unwrap();
    Guarded {
        guard,
        input: Some(input),
        dir,
    }
}

impl Guarded {
    /// Waits for the end: the exit code, and the sorted lines of the output.
    fn end(mut self) -> (i32, Vec<String>) {
        let mut output = String::new();
        let mut from = self.guard.stdout.take().unwrap();
        from.read_to_string(&mut output).unwrap();
        let code = self.guard.wait().unwrap().code().unwrap();
        drop(self.input.take());
        let mut lines: Vec<String> = output.lines().map(str::to_owned).collect();
        lines.sort();
        (code, lines)
    }
}

/// Waits until the other worker is up.
const AWAIT: &str = "while ! test -e up; do sleep 0.02; done; ";

#[test]
fn each_worker_has_its_local_rank_and_prints_behind_it() {
    let script = "echo $GREETING $LACUNA_LOCAL_RANK of $LACUNA_LOCAL_WORLD_SIZE; echo oops >&2";
    let (code, lines) = guarded(2, 60_000, script).end();
    assert_eq!(code, 0);
    let wanted = [
        "[0] hello 0 of 2",
        "[0] oops",
        "[1] hello 1 of 2",
        "[1] oops",
    ];
    assert_eq!(lines, wanted);
    // The one worker of a node prints as it is, and may be started under torchrun.
    let script = "echo $GREETING ${LACUNA_LOCAL_RANK-none}";
    assert_eq!(
        guarded(1, 60_000, script).end(),
        (0, vec!["hello none".to_owned()])
    );
}

#[test]
fn a_worker_that_fails_ends_the_others_at_once() {
    for (end, code) in [("echo boom; exit 3", 3), ("kill -KILL $$", 137)] {
        // With this grace the test would not end in time.
        let script = format!(
            "if [ $LACUNA_LOCAL_RANK = 1 ]; then {AWAIT} {end}; fi; \
             trap '' TERM USR1; touch up; while :; do sleep 0.1; done"
        );
        let (ended, lines) = guarded(3, 3_600_000, &script).end();
        assert_eq!(ended, code, "{lines:?}");
    }
}

#[test]
fn a_worker_that_leaves_asks_the_others_to_leave() {
    let script = format!(
        "if [ $LACUNA_LOCAL_RANK = 1 ]; then {AWAIT} exit 75; fi; \
         trap 'echo saved; exit 75' USR1; touch up; while :; do sleep 0.02; done"
    );
    let (code, lines) = guarded(2, 3_600_000, &script).end();
    assert_eq!((code, lines), (75, vec!["[0] saved".to_owned()]));
}

#[test]
fn others_have_the_grace_when_a_worker_is_done() {
    let script = |rest: &str| format!("[ $LACUNA_LOCAL_RANK = 1 ] && exit 0; {rest}");
    let saves = script("sleep 0.3; echo saved");
    assert_eq!(
        guarded(2, 60_000, &saves).end(),
        (0, vec!["[0] saved".to_owned()])
    );
    let hangs = script("trap '' TERM; while :; do sleep 0.1; done");
    assert_eq!(guarded(2, 300, &hangs).end().0, 137);
}

#[test]
fn all_workers_are_asked_to_end_and_none_ends_the_others_early() {
    // Worker 2 fails while the others save. The shell tells of its `sleep` that ended.
    let script = "exec 2>/dev/null; trap 'sleep 0.2; [ $LACUNA_LOCAL_RANK = 2 ] && exit 9; sleep 0.3; echo saved; \
                  exit 75' TERM; touch up$LACUNA_LOCAL_RANK; while :; do sleep 0.02; done";
    let mut workers = guarded(4, 60_000, script);
    for rank in 0..4 {
        let up = workers.dir.path().join(format!("up{rank}"));
        while !up.exists() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
    drop(workers.input.take());
    let (_, lines) = workers.end();
    assert_eq!(lines, ["[0] saved", "[1] saved", "[3] saved"]);
}
