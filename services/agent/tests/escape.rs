//! Programs that leave their process group and their parent end with the rest.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::io::Write as _;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lacuna_runtime::Stopwatch;
use lacuna_testkit::lives;

/// Time limit, long enough on a loaded machine.
const LIMIT: Duration = Duration::from_secs(20);
/// Starts a process in a session of its own, whose parent has ended, and writes down its id.
const HIDE: &str = "(setsid sh -c 'echo $$ > hidden; exec sleep 600' &)";

fn guarded(dir: &Path, script: &str) -> Child {
    let mut guard = Command::new(env!("CARGO_BIN_EXE_lacuna-agent"))
        .args(["guard-process-group", "300", "1", "deadline"])
        .args(["/bin/sh", "-c", script])
        .current_dir(dir)
        .stdin(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    // The program's environment, which the guard needs before it starts anything.
    let input = guard.stdin.as_mut().unwrap();
    input.write_all(b"{}\n").unwrap();
    guard
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Stopwatch::start();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(
            started.seconds() < LIMIT.as_secs_f64(),
            "not in time: {what}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn hidden(dir: &Path) -> String {
    until("the hidden process has started", || {
        let text = std::fs::read_to_string(dir.join("hidden")).ok()?;
        text.ends_with('\n').then(|| text.trim().to_owned())
    })
}

fn ends(pid: &str) {
    until("the hidden process has ended", || {
        (!lives(pid)).then_some(())
    });
}

#[test]
fn a_process_that_left_its_group_ends_with_the_program() {
    let dir = tempfile::tempdir().unwrap();
    let script = format!("{HIDE}; while ! test -s hidden; do sleep 0.02; done; exit 3");
    let mut guard = guarded(dir.path(), &script);
    // Waiting would close the input, which stops the program.
    let _input = guard.stdin.take();
    assert_eq!(guard.wait().unwrap().code(), Some(3));
    ends(&hidden(dir.path()));
}

#[test]
fn a_process_that_left_its_group_ends_when_the_program_is_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let mut guard = guarded(dir.path(), &format!("{HIDE}; sleep 600"));
    let pid = hidden(dir.path());
    assert!(lives(&pid));
    drop(guard.stdin.take());
    guard.wait().unwrap();
    ends(&pid);
}
