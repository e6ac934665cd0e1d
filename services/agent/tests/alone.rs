//! Agents as processes: a node has one agent only.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use lacuna_runtime::Stopwatch;
use lacuna_testkit::{Killed, TestNats};

/// Time limit, long enough on a loaded machine.
const LIMIT_S: f64 = 30.0;

/// An agent that ends with the test.
struct Agent {
    child: Killed,
    log: PathBuf,
}

impl Agent {
    fn start(dir: &Path, nats: &TestNats, name: &str, which: &[&str]) -> Self {
        let log = dir.join(format!("{name}.log"));
        let config = dir.join("lacuna.toml");
        std::fs::write(
            &config,
            format!("[agent]\nwork_dir = \"{}\"\n", dir.join("work").display()),
        )
        .unwrap();
        let file = std::fs::File::create(&log).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_lacuna-agent"))
            .args(["--config", &config.display().to_string()])
            .args(["--nats", &nats.url(), "--listen", "127.0.0.1:0"])
            .args(which)
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn()
            .unwrap();
        Self {
            child: Killed(child),
            log,
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// The exit code, when it has ended.
    fn code(&mut self) -> Option<i32> {
        let watch = Stopwatch::start();
        while watch.seconds() < LIMIT_S {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("it has not ended:\n{}", self.log());
    }

    /// Waits until this file of the work folder is locked, which happens before the agent receives
    /// any command.
    fn holds(&mut self, file: &Path) {
        let watch = Stopwatch::start();
        while watch.seconds() < LIMIT_S {
            let locked = std::fs::File::open(file).is_ok_and(|file| file.try_lock().is_err());
            if locked {
                assert!(self.child.try_wait().unwrap().is_none(), "{}", self.log());
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("{} is not locked:\n{}", file.display(), self.log());
    }
}

#[test]
fn a_second_agent_of_a_node_ends_with_64_and_an_error() {
    let nats = TestNats::start();
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (work, locks) = (dir.join("work"), dir.join("work/.locks"));
    let mut first = Agent::start(dir, &nats, "first", &["--node", "n1"]);
    first.holds(&locks.join("n1"));
    for (name, which) in [("second", &["--node", "n1"][..]), ("all", &["--all-nodes"])] {
        let mut second = Agent::start(dir, &nats, name, which);
        let code = second.code();
        let log = second.log();
        assert_eq!(code, Some(64), "{log}");
        assert!(log.contains(&work.display().to_string()), "{log}");
    }
    let mut other = Agent::start(dir, &nats, "other", &["--node", "n2"]);
    other.holds(&locks.join("n2"));
    // `kill -9` frees the node.
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    let mut next = Agent::start(dir, &nats, "next", &["--node", "n1"]);
    next.holds(&locks.join("n1"));
    assert!(other.child.try_wait().unwrap().is_none(), "{}", other.log());
}
