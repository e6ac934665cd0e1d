//! The process: messages and exit codes of faults, and its stop.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};

use lacuna_testkit::TestNats;

fn ingest(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lacuna-ingest"));
    command.args(args).env_remove("LACUNA_CONFIG");
    command
}

fn ended(args: &[&str]) -> (i32, String) {
    let Output { status, stderr, .. } = ingest(args).output().unwrap();
    let text = String::from_utf8_lossy(&stderr).into_owned();
    (status.code().unwrap(), text)
}

/// Starts the process, and reads its log up to a line with `mark`.
fn started(command: &mut Command, mark: &str) -> (Child, String) {
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let mut lines = String::new();
    while log.read_line(&mut lines).unwrap() > 0 && !lines.contains(mark) {}
    assert!(lines.contains(mark), "{lines}");
    // Keep reading, so that the process never waits for us.
    std::thread::spawn(move || log.read_to_end(&mut Vec::new()));
    (child, lines)
}

/// Answer of the process with this log to `GET path`.
fn get(log: &str, path: &str) -> String {
    let line = log.lines().find(|l| l.contains("listening")).unwrap();
    let address = line.split("address=").nth(1).unwrap().trim();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_wrong_configuration_exits_64_and_names_the_key() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lacuna.toml");
    std::fs::write(&path, "[ingest]\nsnapshot_evry = \"5s\"\n").unwrap();
    let (code, text) = ended(&["--config", path.to_str().unwrap()]);
    assert_eq!(code, 64, "{text}");
    assert!(
        text.contains("lacuna.toml:2:1: ingest.snapshot_evry"),
        "{text}"
    );
    let (code, text) = ended(&["--config", "/nowhere/lacuna.toml", "--check-config"]);
    assert_eq!(code, 64, "{text}");
    std::fs::write(&path, "[ingest]\nsnapshot_every = \"7s\"\n").unwrap();
    let (code, _) = ended(&["--config", path.to_str().unwrap(), "--check-config"]);
    assert_eq!(code, 0);
    let print = ingest(&["--config", path.to_str().unwrap(), "--print-config"])
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&print.stdout).into_owned();
    assert!(printed.contains("snapshot_every = \"7s\""), "{printed}");
    assert!(!printed.contains("[agent]"), "{printed}");
    // A section of no service is refused by all; a key of another service by that one.
    std::fs::write(&path, "[ingst]\nsnapshot_every = \"7s\"\n").unwrap();
    let (code, text) = ended(&["--config", path.to_str().unwrap(), "--check-config"]);
    assert_eq!(code, 64, "{text}");
    assert!(text.contains("lacuna.toml:1:2: ingst: unknown"), "{text}");
    std::fs::write(&path, "[agent]\ngrase = \"7s\"\n").unwrap();
    let (code, text) = ended(&["--config", path.to_str().unwrap(), "--check-config"]);
    assert_eq!(code, 0, "{text}");
}

#[test]
fn a_busy_port_exits_64_and_no_server_exits_69() {
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = busy.local_addr().unwrap().to_string();
    let (code, text) = ended(&["--listen", &address]);
    assert_eq!(code, 64, "{text}");
    assert!(
        text.contains(&address) && text.contains("--listen"),
        "{text}"
    );
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lacuna.toml");
    std::fs::write(&path, "[bus]\nconnect_limit = \"300ms\"\n").unwrap();
    // The system gives this port to no program.
    let url = "nats://127.0.0.1:1";
    let config = path.to_str().unwrap();
    let args = ["--config", config, "--nats", url, "--listen", "127.0.0.1:0"];
    let (code, text) = ended(&args);
    assert_eq!(code, 69, "{text}");
    assert!(text.contains(url) && text.contains("lacuna up"), "{text}");
}

#[test]
fn a_process_is_healthy_until_its_parent_is_gone() {
    let nats = TestNats::start();
    let url = nats.url();
    let mut command = ingest(&["--nats", &url, "--listen", "127.0.0.1:0"]);
    command.env("LACUNA_PARENT_PIPE", "1").stdin(Stdio::piped());
    let (mut child, log) = started(&mut command, "ready");
    let get = |path: &str| get(&log, path);
    let healthy = (0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        get("/healthz").starts_with("HTTP/1.1 200")
    });
    assert!(healthy, "{}", get("/healthz"));
    assert!(get("/metrics").contains("lacuna_ingest_seq 0"));
    drop(child.stdin.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn it_stops_with_an_unread_log_and_without_the_server() {
    let nats = TestNats::start();
    let url = nats.url();
    let mut command = ingest(&["--nats", &url, "--listen", "127.0.0.1:0"]);
    command.env("LACUNA_PARENT_PIPE", "1").stdin(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let mut lines = String::new();
    while log.read_line(&mut lines).unwrap() > 0 && !lines.contains("ready") {}
    drop(log);
    drop(nats);
    let connected = |count| format!("lacuna_bus_connected {count}");
    let noticed = (0..200).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        get(&lines, "/metrics").contains(&connected(0))
    });
    assert!(noticed, "it does not notice that the server is gone");
    drop(child.stdin.take());
    // 70: without a server, its last messages may not be sent.
    let code = child.wait().unwrap().code();
    assert!(matches!(code, Some(0 | 70)), "{code:?}");
}

#[test]
fn a_malformed_trace_exits_64_and_names_file_line_and_column() {
    let nats = TestNats::start();
    let dir = tempfile::tempdir().unwrap();
    let holes = dir.path().join("holes.csv");
    let header = "node,idle_from,idle_until,censored";
    std::fs::write(&holes, format!("{header}\nn1,100,soon,0\n")).unwrap();
    let path = dir.path().join("lacuna.toml");
    let text = format!("[ingest.recording]\npath = {:?}\n", holes.to_str().unwrap());
    std::fs::write(&path, text).unwrap();
    let config = path.to_str().unwrap();
    let url = nats.url();
    let (code, text) = ended(&[
        "--config",
        config,
        "--nats",
        &url,
        "--listen",
        "127.0.0.1:0",
    ]);
    assert_eq!(code, 64, "{text}");
    for part in ["holes.csv", "line 2", "idle_until", "soon"] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
}

#[test]
fn the_later_of_two_is_standby_until_the_earlier_is_gone() {
    let nats = TestNats::start();
    let url = nats.url();
    let args = ["--nats", &url, "--listen", "127.0.0.1:0"];
    let begun = |log: &str| {
        let metrics = get(log, "/metrics");
        let kept = metrics
            .lines()
            .find_map(|l| l.strip_prefix("lacuna_ingest_snapshots_total "));
        kept.is_some_and(|count| count != "0")
    };
    let soon = |done: &dyn Fn() -> bool| {
        (0..400).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(50));
            done()
        })
    };
    let (mut first, one) = started(&mut ingest(&args), "ready");
    assert!(soon(&|| begun(&one)), "{one}");
    let (mut second, other) = started(&mut ingest(&args), "standby");
    assert!(get(&other, "/metrics").contains("lacuna_leader 0"));
    let health = get(&other, "/healthz");
    assert!(
        health.starts_with("HTTP/1.1 200") && health.contains("standby: "),
        "{health}"
    );
    assert!(!begun(&other), "it works beside the first");
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(soon(&|| begun(&other)), "it does not take over");
    assert!(get(&other, "/metrics").contains("lacuna_leader 1"));
    assert!(second.try_wait().unwrap().is_none());
    second.kill().unwrap();
    second.wait().unwrap();
}
