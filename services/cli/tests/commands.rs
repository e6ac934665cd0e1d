//! The command as a process: its output, its exit codes, its child processes.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests may panic"
)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use lacuna_testkit::{Killed, Need, TestNats, data, lives, or_skip, torch_python};

use lacuna_runtime::nats_server;

use crate::common::all_built;

fn lacuna(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lacuna"));
    command
        .args(arguments)
        .env_remove("LACUNA_NATS")
        .env_remove("LACUNA_CLUSTER");
    command.env("LACUNA_DATA_DIR", "/nonexistent/lacuna");
    command
}

fn run(arguments: &[&str]) -> Output {
    lacuna(arguments).output().unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| {
        panic!(
            "{e}: not one json value: {}",
            String::from_utf8_lossy(&output.stdout)
        )
    })
}

/// An address without a server: the system gives this port to no program.
const DEAD_URL: &str = "nats://127.0.0.1:1";

fn wait_until(what: &str, done: impl FnMut() -> bool) {
    wait_for(30, what, done);
}

fn wait_for(seconds: u32, what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..seconds * 20 {
        if done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("after {seconds} s: not yet: {what}");
}

#[test]
fn without_nats_the_remedy_is_named_and_the_code_is_69() {
    let output = run(&["trainers", "--nats", DEAD_URL]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(69), "{text}");
    assert!(
        text.contains(DEAD_URL) && text.contains("lacuna up") && text.contains("L0001"),
        "{text}"
    );
    let output = run(&["nodes", "--json", "--nats", DEAD_URL]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(json(&output)["error"]["code"], "L0001");
}

#[test]
fn a_shell_offers_words_and_names_but_no_names_without_a_cluster() {
    let url = DEAD_URL.to_owned();
    let output = run(&["complete", "--", "lacuna", "logs", "--nats", &url, ""]);
    assert!(
        output.status.success() && output.stdout.is_empty(),
        "{output:?}"
    );
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("lacuna.bash");
    std::fs::write(&script, run(&["completions", "bash"]).stdout).unwrap();
    // A cluster of two trainers, and lines as bash passes them on.
    let lines = r#"
        source "$1"
        lacuna() { [[ "$*" != "complete -- lacuna logs h" ]] || printf 'hpo-1\nhpo-2\n'; }
        try() {
            COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
            _lacuna lacuna "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
            echo "${COMPREPLY[@]}"
        }
        try lacuna logs h
        try lacuna lo
        try lacuna drain --rea
    "#;
    let output = Command::new("bash")
        .args(["-c", lines, "bash", script.to_str().unwrap()])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said, "hpo-1 hpo-2\nlogs\n--reason\n", "{output:?}");
}

#[test]
fn a_wrong_command_line_is_code_2_or_a_json_error() {
    assert_eq!(run(&["trainer"]).status.code(), Some(2));
    let output = run(&["trainer", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        json(&output)["error"]["message"]
            .as_str()
            .unwrap()
            .contains("trainers")
    );
}

#[test]
fn help_has_pages_for_codes_and_commands() {
    for (arguments, expected) in [
        (&["help"][..], "L0007"),
        (&["help", "l0007"][..], "min_nodes"),
        (&["help", "events", "publish"][..], "node.wanted"),
        (&["--help"][..], "Exit codes"),
    ] {
        let output = run(arguments);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && text.contains(expected),
            "{arguments:?}: {text}"
        );
    }
    assert_eq!(run(&["help", "L9999"]).status.code(), Some(1));
}

#[test]
fn the_example_configuration_is_sound_and_a_wrong_one_is_code_64() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lacuna.toml");
    let name = path.to_str().unwrap();
    std::fs::write(&path, run(&["config", "example"]).stdout).unwrap();
    let output = run(&["config", "check", name]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    std::fs::write(&path, "[planer]\n").unwrap();
    let output = run(&["config", "check", name]);
    assert_eq!(output.status.code(), Some(64));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.contains("lacuna.toml:1") && text.contains("planer"),
        "{text}"
    );
    assert_eq!(
        json(&run(&["config", "check", "--json", name]))["error"]["code"],
        "L0003"
    );
}

#[test]
fn an_invalid_trainer_is_refused_before_a_message_is_sent() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.jsonl");
    let line = r#"{"name":"a","submit":0,"min_nodes":9,"max_nodes":4,"rescale_up_s":1,"rescale_down_s":1,"samples":10,"nodes":[1,4],"samples_per_s":[1.0,4.0]}"#;
    std::fs::write(&path, line).unwrap();
    let output = run(&[
        "submit",
        "--test-only",
        path.to_str().unwrap(),
        "--nats",
        DEAD_URL,
    ]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.contains("L0007") && text.contains("min_nodes 9"),
        "{text}"
    );
}

#[test]
fn a_child_ends_when_its_parent_is_killed() {
    // The shell is the parent; its child becomes `sleep`.
    let script = format!(
        "{} child-of $$ -- sleep 600 & echo $!; wait",
        env!("CARGO_BIN_EXE_lacuna")
    );
    let mut parent = Command::new("sh")
        .args(["-c", &script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(parent.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let child: i32 = line.trim().parse().unwrap();
    let name = || std::fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
    wait_until("the child has become sleep", || name().trim() == "sleep");
    parent.kill().unwrap();
    parent.wait().unwrap();
    wait_until("the child has ended", || !lives(child));
}

#[test]
fn a_child_without_its_parent_does_not_start() {
    let output = run(&["child-of", "1", "--", "sleep", "600"]);
    assert!(!output.status.success());
}

/// A running `lacuna up --json`, ended with the test.
struct Up {
    child: Killed,
    file: Value,
    dir: tempfile::TempDir,
}

impl Up {
    fn start() -> Self {
        Self::start_in(tempfile::tempdir().unwrap())
    }

    fn start_in(dir: tempfile::TempDir) -> Self {
        Self::start_by(lacuna(&["up", "--json"]), dir)
    }

    fn start_by(mut command: Command, dir: tempfile::TempDir) -> Self {
        let mut child = command
            .env("LACUNA_DATA_DIR", dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut text = String::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let file = loop {
            let Some(Ok(line)) = lines.next() else {
                let mut said = String::new();
                child
                    .stderr
                    .take()
                    .unwrap()
                    .read_to_string(&mut said)
                    .unwrap();
                panic!("lacuna up ended: {text}{said}");
            };
            text.push_str(&line);
            if let Ok(value) = serde_json::from_str(&text) {
                break value;
            }
        };
        Self {
            child: Killed(child),
            file,
            dir,
        }
    }

    fn ask(&self, arguments: &[&str]) -> Output {
        lacuna(arguments)
            .env("LACUNA_DATA_DIR", self.dir.path())
            .output()
            .unwrap()
    }

    fn children(&self) -> Vec<(String, i32)> {
        let text = std::fs::read_to_string(self.dir.path().join("up.json")).unwrap();
        let file: Value = serde_json::from_str(&text).unwrap();
        let children = file["children"].as_object().unwrap();
        children
            .iter()
            .map(|(name, pid)| (name.clone(), pid.as_i64().unwrap() as i32))
            .collect()
    }
}

#[test]
fn up_serves_restarts_and_leaves_nothing_behind() {
    or_skip!(all_built());
    let mut up = Up::start();
    assert!(
        up.file["nats"]
            .as_str()
            .unwrap()
            .starts_with("nats://127.0.0.1:")
    );
    let children = up.children();
    assert_eq!(children.len(), 7, "{children:?}");

    // A second one in the same place is refused.
    let second = up.ask(&["up"]);
    assert!(String::from_utf8_lossy(&second.stderr).contains("L0006"));

    // An event goes in, a hole comes out.
    let output = up.ask(&["events", "publish", "node.idle", "a01", "a02"]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let nodes = |up: &Up| {
        let list = json(&up.ask(&["nodes", "--json"]));
        list["nodes"].as_array().map_or(0, Vec::len)
    };
    wait_until("two holes", || nodes(&up) == 2);

    // A trainer takes the holes, and is explained.
    let trainer = up.dir.path().join("t.jsonl");
    let line = r#"{"name":"t1","submit":0,"min_nodes":1,"max_nodes":4,"rescale_up_s":1,"rescale_down_s":1,"samples":1e12,"nodes":[1,4],"samples_per_s":[1.0,4.0]}"#;
    std::fs::write(&trainer, line).unwrap();
    let output = up.ask(&["submit", "--parsable", trainer.to_str().unwrap()]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "t1\n");
    let held = |up: &Up| {
        let list = json(&up.ask(&["trainers", "--json"]));
        list["trainers"][0]["nodes"].as_array().map_or(0, Vec::len)
    };
    wait_until("the trainer has both nodes", || held(&up) == 2);
    let text = up.ask(&["explain", "t1"]).stdout;
    assert!(String::from_utf8_lossy(&text).contains("t1"));
    let why = json(&up.ask(&["explain", "a01", "--json"]));
    assert_eq!(why["node"]["trainer"], "t1", "{why}");
    assert_eq!(json(&up.ask(&["plan", "--json"]))["nodes_used"], 2);
    let unknown = up.ask(&["explain", "no-such-trainer"]);
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("L0010"));

    // A service that dies is restarted.
    let pid = |up: &Up, name: &str| up.children().into_iter().find(|c| c.0 == name).unwrap().1;
    let planner = pid(&up, "planner");
    kill(Pid::from_raw(planner), Signal::SIGKILL).unwrap();
    wait_until("the planner is started again", || {
        pid(&up, "planner") != planner
    });

    // If up.json cannot be written, as on a full disk, the cluster continues; it is written later.
    let half = up.dir.path().join(".up.json.new");
    std::fs::create_dir(&half).unwrap();
    let planner = pid(&up, "planner");
    let at = up.file["http"]["planner"].as_str().unwrap().to_owned();
    kill(Pid::from_raw(planner), Signal::SIGKILL).unwrap();
    wait_until("the planner has ended", || !lives(planner));
    wait_until("the planner answers again", || {
        std::net::TcpStream::connect(&at).is_ok()
    });
    assert_eq!(up.child.try_wait().unwrap(), None);
    assert_eq!(pid(&up, "planner"), planner, "up.json is behind");
    std::fs::remove_dir(&half).unwrap();
    let forecast = pid(&up, "forecast");
    kill(Pid::from_raw(forecast), Signal::SIGKILL).unwrap();
    wait_until("up.json is written", || {
        pid(&up, "forecast") != forecast && pid(&up, "planner") != planner
    });

    // SIGTERM ends all processes.
    let children = up.children();
    kill(Pid::from_raw(up.child.id() as i32), Signal::SIGTERM).unwrap();
    assert!(up.child.wait().unwrap().success());
    for (name, pid) in children {
        assert!(!lives(pid), "{name} is still there");
    }
    assert!(!up.dir.path().join("up.json").exists());
}

#[test]
fn a_signal_ends_the_program_that_a_command_waits_for_and_leaves_no_file() {
    for (signal, name, arguments) in [
        (Signal::SIGINT, "sacct", ["holes", "--from-slurm", "2d"]),
        (Signal::SIGTERM, "scontrol", ["check", "slurm", "--json"]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let hangs = format!(
            "#!/bin/sh\necho $$ > {}\nexec sleep 600\n",
            at("pid").display()
        );
        std::fs::write(at(name), hangs).unwrap();
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(at(name), mode).unwrap();
        std::fs::create_dir(at("temporary")).unwrap();
        let path = std::env::var("PATH").unwrap();
        let mut command = lacuna(&arguments)
            .env("PATH", format!("{}:{path}", dir.path().display()))
            .env("TMPDIR", at("temporary"))
            .spawn()
            .unwrap();
        let asked = || {
            let said = std::fs::read_to_string(at("pid")).ok()?;
            said.strip_suffix('\n')?.parse::<i32>().ok()
        };
        wait_until("it is asked", || asked().is_some());
        kill(Pid::from_raw(command.id() as i32), signal).unwrap();
        assert_eq!(command.wait().unwrap().code(), Some(130), "{name}");
        wait_until("it has ended", || !lives(asked().unwrap()));
        let left = std::fs::read_dir(at("temporary")).unwrap().count();
        assert_eq!(left, 0, "{name}");
    }
}

#[test]
fn a_flux_is_judged_by_its_answers_live_or_in_files() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let queues = file("queues", "debug|enabled|started\nbatch*|enabled|started\n");
    let plugins = file("plugins", ".update-duration\nkillbot.so\n");
    let config = file(
        "config",
        r#"{"job-manager": {"killbot": {"kill-after": 1}}}"#,
    );
    let none = file("none", "");
    // A program that answers as these files do.
    let flux = format!(
        "#!/bin/sh\ncase \"$1\" in queue) cat {queues};; jobtap) cat {plugins};; config) cat {config};; esac\n"
    );
    file("flux", &flux);
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(dir.path().join("flux"), mode).unwrap();
    let path = format!(
        "{}:{}",
        dir.path().display(),
        std::env::var("PATH").unwrap()
    );
    let check = |more: &[&str], path: &str| {
        let words = [&["check", "flux", "--partition", "batch", "--json"], more].concat();
        let output = lacuna(&words).env("PATH", path).output().unwrap();
        (output.status.code(), json(&output)["verdict"].clone())
    };
    let recorded = ["--answers", &queues, &plugins, &config];
    let without_killbot = ["--answers", &queues, &none, &config];
    let empty = dir.path().join("empty").display().to_string();
    assert_eq!(check(&[], &path), (Some(0), "ok".into()));
    assert_eq!(check(&recorded, &empty), (Some(0), "ok".into()));
    assert_eq!(check(&without_killbot, &path), (Some(1), "fatal".into()));
    // Where no Flux is, nothing proves that pilots yield.
    assert_eq!(check(&[], &empty), (Some(1), "fatal".into()));
}

/// A disk of 64 MiB, as long as it lives.
struct Disk(std::path::PathBuf);

impl Disk {
    fn at(dir: &std::path::Path) -> Option<Self> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=64m", "lacuna-test"]);
        let mounted = mount.arg(dir).stderr(Stdio::null()).status();
        mounted
            .is_ok_and(|status| status.success())
            .then(|| Self(dir.to_owned()))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// What a service says of its health.
fn health(address: &str) -> String {
    let mut service = std::net::TcpStream::connect(address).unwrap();
    service.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").unwrap();
    let mut said = String::new();
    service.read_to_string(&mut said).unwrap();
    said
}

/// nats-server remembers a failed write until its end, so room on the disk is not enough. Control leads when
/// the disk fills up.
#[test]
fn a_full_disk_is_named_and_with_room_again_all_goes_on_by_itself() {
    or_skip!(all_built());
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::at(dir.path());
    or_skip!(Need::Root.given(disk.is_some(), "only root can mount a small disk"));
    let mut up = Up::start_in(dir);
    let answers = |up: &Up| up.ask(&["trainers", "--json"]).status.success();
    wait_until("control answers", || answers(&up));

    // Elsewhere nothing is known but the answers.
    let url = up.file["nats"].as_str().unwrap();
    let away = |arguments: &[&str]| {
        let said = run(&[arguments, &["--nats", url]].concat());
        let text = String::from_utf8_lossy(&said.stderr).into_owned();
        (said.status.code(), text)
    };
    let fill = up.dir.path().join("fill");
    let mut file = std::fs::File::create(&fill).unwrap();
    while file.write_all(&[0; 1 << 16]).is_ok() {}
    wait_until("the full disk is named", || {
        let said = up.ask(&["trainers"]);
        said.status.code() == Some(69)
            && String::from_utf8_lossy(&said.stderr).contains("is full: nats-server keeps nothing")
    });
    wait_until("it is named elsewhere", || {
        let (code, text) = away(&["trainers"]);
        code == Some(69) && text.contains("its disk may be full") && text.contains("make room")
    });
    let (code, text) = away(&["pause"]);
    assert_eq!(code, Some(69), "{text}");
    assert!(text.contains("nothing was done"), "{text}");
    wait_until("its health names it", || {
        health(up.file["http"]["control"].as_str().unwrap()).contains("its disk may be full")
    });
    drop(file);
    std::fs::remove_file(&fill).unwrap();
    wait_until("control answers again", || answers(&up));
    let limits = String::from_utf8(up.ask(&["limits"]).stdout).unwrap();
    assert!(
        limits.contains("pause   none"),
        "refused, then done: {limits}"
    );

    kill(Pid::from_raw(up.child.id() as i32), Signal::SIGTERM).unwrap();
    assert!(up.child.wait().unwrap().success());
}

/// deploy/systemd runs the health check of the containers beside a nats-server that a supervisor starts again.
#[test]
fn the_health_check_ends_a_server_that_keeps_nothing_once_its_disk_has_room() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::at(dir.path());
    or_skip!(Need::Root.given(disk.is_some(), "only root can mount a small disk"));
    let beside = tempfile::tempdir().unwrap();
    let at = |name: &str| beside.path().join(name);
    let store = dir.path().to_str().unwrap();
    let free = "127.0.0.1:-1";
    let words = [
        "config",
        "nats-server",
        "--store",
        store,
        "--listen",
        free,
        "--monitor",
        free,
    ];
    let mut conf = run(&words).stdout;
    writeln!(conf, "ports_file_dir: {:?}", beside.path()).unwrap();
    std::fs::write(at("conf"), conf).unwrap();
    // The server, and where it is for clients and for its health.
    let start = || {
        let mut server = Command::new(nats_server::find().unwrap());
        server
            .arg("--config")
            .arg(at("conf"))
            .arg("--pid")
            .arg(at("pid"));
        let server = server.stderr(Stdio::null()).spawn().unwrap();
        let ports = at(&format!("nats-server_{}.ports", server.id()));
        let ports = || serde_json::from_slice::<Value>(&std::fs::read(&ports).ok()?).ok();
        wait_until("nats-server answers", || ports().is_some());
        let ports = ports().unwrap();
        let place = |what: &str| {
            let url = ports[what][0].as_str().unwrap();
            url.rsplit('/').next().unwrap().to_owned()
        };
        (server, place("nats"), place("monitoring"))
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/healthcheck.sh");
    let check = |monitor: &str| {
        let mut bash = Command::new("bash");
        let said = bash
            .args([script, monitor, store])
            .arg(at("pid"))
            .output()
            .unwrap();
        (said.status.code(), String::from_utf8(said.stdout).unwrap())
    };
    let send = |clients: &str, messages: &[(&str, &str)]| {
        let mut client = std::net::TcpStream::connect(clients).unwrap();
        client
            .write_all(b"CONNECT {\"verbose\":false}\r\n")
            .unwrap();
        for (subject, text) in messages {
            write!(client, "PUB {subject} {}\r\n{text}\r\n", text.len()).unwrap();
        }
        client.write_all(b"PING\r\n").unwrap();
        let answers = BufReader::new(client).lines();
        answers
            .map_while(Result::ok)
            .find(|line| line == "PONG")
            .unwrap();
    };

    let (mut server, clients, monitor) = start();
    let stream = r#"{"name":"s","subjects":["s"],"storage":"file"}"#;
    send(
        &clients,
        &[("$JS.API.STREAM.CREATE.s", stream), ("s", "kept")],
    );
    wait_until("it is healthy", || {
        check(&monitor) == (Some(0), String::new())
    });
    let fill = dir.path().join("fill");
    let mut file = std::fs::File::create(&fill).unwrap();
    while file.write_all(&[0; 1 << 12]).is_ok() {}
    send(&clients, &[("s", &"x".repeat(1 << 16))]);
    wait_until("it is ill", || check(&monitor).0 == Some(1));
    let (code, said) = check(&monitor);
    assert!(
        code == Some(1) && said.contains("there is no room"),
        "{said}"
    );
    assert_eq!(server.try_wait().unwrap(), None, "ended without room");
    drop(file);
    std::fs::remove_file(&fill).unwrap();
    let (code, said) = check(&monitor);
    assert!(
        code == Some(1) && said.contains("there is room again"),
        "{said}"
    );
    wait_until("it ends", || server.try_wait().unwrap().is_some());
    let (mut server, _, monitor) = start();
    wait_until("it is healthy again", || {
        check(&monitor) == (Some(0), String::new())
    });
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn a_killed_up_takes_its_children_along() {
    or_skip!(all_built());
    let mut up = Up::start();
    let children = up.children();
    up.child.kill().unwrap();
    up.child.wait().unwrap();
    for (name, pid) in children {
        wait_until(&format!("{name} has ended"), || !lives(pid));
    }
}

#[test]
fn up_refuses_a_malformed_recording_before_anything_starts() {
    let dir = tempfile::tempdir().unwrap();
    let holes = dir.path().join("bad.csv");
    std::fs::write(&holes, "node,idle_from,idle_until,censored\na,100,soon,0\n").unwrap();
    let data = dir.path().join("data");
    let output = lacuna(&["up", "--holes", holes.to_str().unwrap()])
        .env("LACUNA_DATA_DIR", &data)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(64), "{text}");
    assert!(
        text.contains("bad.csv: line 2, column 3 (idle_until)") && text.contains("L0011"),
        "{text}"
    );
    assert!(!data.exists());
}

#[test]
fn up_refuses_a_program_that_is_no_nats_server() {
    or_skip!(all_built());
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("logs")).unwrap();
    std::fs::write(dir.path().join("logs/nats.log"), "of an earlier run\n").unwrap();
    let up = |program: &str| {
        let output = lacuna(&["up"])
            .env("LACUNA_DATA_DIR", dir.path())
            .env("LACUNA_NATS_SERVER", program)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(text.matches("more:").count(), 1, "{text}");
        assert!(!text.contains("earlier"), "{text}");
        (output.status.code(), text)
    };
    let (code, text) = up("/nonexistent/nats-server");
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("LACUNA_NATS_SERVER is /nonexistent/nats-server") && text.contains("L0005"),
        "{text}"
    );
    // A program that is too old, or no nats-server, is not started at all.
    let (code, text) = up("/bin/true");
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("/bin/true does not tell its version") && text.contains("L0005"),
        "{text}"
    );
    let server = dir.path().join("server");
    let path = server.to_str().unwrap();
    let says = |version: &str| {
        let text = format!("#!/bin/sh\n[ \"$1\" != --version ] || echo nats-server: {version}\n");
        std::fs::write(&server, text).unwrap();
        std::fs::set_permissions(&server, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    says("v2.9.10");
    let (code, text) = up(path);
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("server is nats-server 2.9.10: nats-server 2.12.3 or newer is needed"),
        "{text}"
    );
    says("v2.12.3");
    let (code, text) = up(path);
    assert_eq!(code, Some(69), "{text}");
    assert!(
        text.contains("server ended at once (exit code 0)") && text.contains("L0001"),
        "{text}"
    );
}

#[test]
fn a_crash_loop_shows_as_retrying_and_an_ended_trainer_keeps_its_output() {
    or_skip!(all_built());
    let up = Up::start();
    assert!(
        up.ask(&["events", "publish", "node.idle", "a01"])
            .status
            .success()
    );
    let trainer = up.dir.path().join("t.toml");
    let text = r#"
[[trainer]]
name = "broken"
launcher = "command"
program = "/bin/sh"
arguments = ["-c", "echo the reason is here\nexit 3"]
samples = 1e9
min_nodes = 1
max_nodes = 1
scaling = { nodes = [1], samples_per_s = [100.0] }
rescale = { up = "0s", down = "0s" }
"#;
    std::fs::write(&trainer, text).unwrap();
    let output = up.ask(&["submit", trainer.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    wait_until("the trainer waits for its retry, at rate 0", || {
        let list = json(&up.ask(&["trainers", "--json"]));
        let row = &list["trainers"][0];
        row["state"] == "retrying" && row["rate"] == 0.0
    });
    assert!(up.ask(&["cancel", "broken"]).status.success());
    let output = up.ask(&["cancel", "broken", "--json"]);
    assert_eq!(json(&output)["error"]["code"], "L0016");
    let list = json(&up.ask(&["trainers", "--all", "--json"]));
    assert_eq!(list["trainers"][0]["state"], "cancelled");
    wait_until("its output is found after its end", || {
        let output = up.ask(&["logs", "broken", "-n", "1"]);
        String::from_utf8_lossy(&output.stdout) == "the reason is here\n"
    });
}

#[test]
fn a_submission_that_cannot_run_is_refused_with_the_remedy() {
    or_skip!(all_built());
    let up = Up::start();
    let file = up.dir.path().join("t.toml");
    let submit = |lines: &str, flags: &[&str]| {
        let text = format!("[[trainer]]\nname = \"t\"\nuntil = \"exit\"\nmin_nodes = 1\n{lines}\n");
        std::fs::write(&file, text).unwrap();
        let mut arguments = vec!["submit", file.to_str().unwrap()];
        arguments.extend(flags);
        up.ask(&arguments)
    };
    let script = up.dir.path().join("train.sh");
    std::fs::write(&script, "#!/bin/sh\n").unwrap();
    let of_script = format!(
        "max_nodes = 1\nlauncher = \"command\"\nprogram = \"{}\"",
        script.display()
    );
    for (lines, remedy) in [
        (of_script.as_str(), "chmod +x"),
        (
            "max_nodes = 1\nlauncher = \"command\"\nprogram = \"/nonexistent/train\"",
            "there is no file /nonexistent/train",
        ),
        (
            "max_nodes = 2\nlauncher = \"regroup\"\nprogram = \"python3\"\narguments = [\"a.py\"]",
            "there is no file",
        ),
        (
            "max_nodes = 2\nlauncher = \"torchrun\"\nprogram = \"a.py\"",
            "there is no file",
        ),
        (
            "max_nodes = 1\nlauncher = \"command\"\nprogram = \"sh\"\ndirectory = \"c\"",
            "there is no folder",
        ),
        (
            "max_nodes = 1\nlauncher = \"command\"\nprogram = \"sh\"\nnodes = 3",
            "write min_nodes = 1 and max_nodes",
        ),
    ] {
        let output = submit(lines, &[]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{said}");
        assert!(said.contains("L0007") && said.contains(remedy), "{said}");
    }
    let none = json(&up.ask(&["trainers", "--all", "--json"]));
    assert_eq!(none["trainers"].as_array().unwrap().len(), 0, "{none}");
    // A trainer that waits for nodes is queued: they may come.
    let many = "max_nodes = 64\nlauncher = \"command\"\nprogram = \"sh\"";
    let checked = json(&submit(many, &["--test-only", "--json"]));
    let warning = checked["warnings"][0].as_str().unwrap();
    assert!(warning.contains("needs 1 node, and"), "{checked}");
    // Members of two nodes meet in control's store.
    let meets = "max_nodes = 2\nlauncher = \"regroup\"\nprogram = \"sh\"";
    let output = submit(meets, &["--test-only"]);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn logs_show_the_newest_state_of_a_bar_of_a_program_in_the_folder_of_its_file() {
    or_skip!(all_built());
    let case = or_skip!(data("cases/logs-progress-bar"));
    let up = Up::start();
    let (script, file) = (
        up.dir.path().join("input.py"),
        up.dir.path().join("bar.toml"),
    );
    let program = std::fs::read_to_string(case.join("input.py")).unwrap();
    std::fs::write(&script, format!("{program}import os; print(os.getcwd())\n")).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let text = std::fs::read_to_string(case.join("input.toml")).unwrap();
    // A relative path begins at the folder of the file.
    std::fs::write(&file, text.replace("@HERE@", ".")).unwrap();
    for arguments in [
        &["submit", file.to_str().unwrap()][..],
        &["events", "publish", "node.idle", "a1"],
    ] {
        let output = up.ask(arguments);
        assert!(output.status.success(), "{output:?}");
    }
    let logs = |more: &[&str]| {
        let output = up.ask(&[&["logs", "bar"], more].concat());
        String::from_utf8(output.stdout).unwrap()
    };
    wait_until("the bar", || logs(&[]).contains("loss"));
    let text = logs(&["--node", "a*"]);
    let lines: Vec<&str> = text.lines().collect();
    let [begin, bar] = lines.as_slice() else {
        panic!("{text}");
    };
    assert!(
        *begin == "begin" && bar.starts_with("step ") && !bar.contains('\u{fffd}'),
        "{text}"
    );
    assert!(
        bar.matches("step").count() == 1 && bar.matches("loss").count() == 1,
        "{text}"
    );
    assert!(up.ask(&["wait", "bar"]).status.success());
    let text = logs(&[]);
    let lines: Vec<&str> = text.lines().collect();
    let folder = up.dir.path().canonicalize().unwrap();
    assert_eq!(lines[0], "begin");
    assert!(
        lines[1].starts_with("step 399/400") && lines[1].ends_with("end"),
        "{text}"
    );
    assert_eq!(lines[2..], [folder.to_str().unwrap()]);
    assert!(logs(&["--raw"]).matches('\r').count() == 400);
    assert_eq!(logs(&["--since", "1h"]), text);
    assert_eq!(logs(&["--since", "2100-01-01T00:00:00Z"]), "");
    let explained = up.ask(&["explain", "bar"]);
    let said = String::from_utf8(explained.stdout).unwrap();
    assert!(
        said.contains("launcher ") && said.contains("where a node has it"),
        "{said}"
    );
}

#[test]
fn logs_follow_a_trainer_over_its_nodes_to_its_end() {
    or_skip!(all_built());
    let up = Up::start();
    let folder = up.dir.path().join("state");
    std::fs::create_dir(&folder).unwrap();
    let script = folder.join("count.sh");
    let count = r#"cd "$LACUNA_CHECKPOINT_DIR"
trap 'exit_now=1' TERM
n=$(cat at 2>/dev/null || echo 0)
while [ -z "$exit_now" ] && [ "$n" -lt 60 ]; do
    n=$((n + 1))
    # By the shell alone: SIGTERM ends any other program, and the line would come again.
    echo "$n" > at
    echo "line $n"
    sleep 0.1
done
[ "$n" -ge 60 ]
"#;
    std::fs::write(&script, count).unwrap();
    let file = up.dir.path().join("t.toml");
    let text = format!(
        r#"
[[trainer]]
name = "counts"
launcher = "command"
program = "/bin/sh"
arguments = ["{script}"]
checkpoint_dir = "{folder}"
until = "exit"
min_nodes = 1
max_nodes = 1
rescale = {{ up = "0s", down = "0s" }}
"#,
        script = script.display(),
        folder = folder.display()
    );
    std::fs::write(&file, text).unwrap();
    let submitted = up.ask(&["submit", file.to_str().unwrap()]);
    assert!(submitted.status.success(), "{submitted:?}");
    let list = json(&up.ask(&["trainers", "--json"]));
    assert!(list["trainers"][0]["owner"].is_string(), "{list}");
    let said = up.dir.path().join("said.txt");
    let mut follow = lacuna(&["logs", "-f", "counts", "-n", "100"])
        .env("LACUNA_DATA_DIR", up.dir.path())
        .stdout(std::fs::File::create(&said).unwrap())
        .spawn()
        .unwrap();
    let said = || std::fs::read_to_string(&said).unwrap();
    let event = |kind: &str, node: &str| {
        let output = up.ask(&["events", "publish", kind, node]);
        assert!(output.status.success(), "{output:?}");
    };
    event("node.idle", "a01");
    wait_until("the first lines", || said().contains("line 5\n"));
    event("node.busy", "a01");
    event("node.idle", "b01");
    wait_until("the view has ended", || {
        follow.try_wait().unwrap().is_some()
    });
    assert!(follow.wait().unwrap().success());
    let text = said();
    assert!(text.contains("==> b01 <==\n"), "{text}");
    assert!(text.ends_with("line 60\n"), "{text}");
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("line"))
        .collect();
    let all: Vec<String> = (1..=60).map(|n| format!("line {n}")).collect();
    assert_eq!(lines, all, "each line comes once: {text}");
    assert!(up.ask(&["wait", "counts"]).status.success());
}

/// The state, the failures and the reason of a trainer.
fn of_trainer(up: &Up, name: &str) -> Value {
    let list = json(&up.ask(&["trainers", "--all", "--json"]));
    let mut rows = list["trainers"].as_array().unwrap().iter();
    rows.find(|row| row["trainer"] == name)
        .cloned()
        .unwrap_or(Value::Null)
}

/// Submits a trainer of one node that runs this shell script.
fn script(up: &Up, name: &str, text: &str) {
    let dir = up.dir.path();
    let program = dir.join(format!("{name}.sh"));
    std::fs::write(&program, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let file = dir.join(format!("{name}.toml"));
    let spec = format!(
        "[[trainer]]\nname = \"{name}\"\nlauncher = \"command\"\nprogram = \"{}\"\nuntil = \"exit\"\n\
         min_nodes = 1\nmax_nodes = 1\n",
        program.display()
    );
    std::fs::write(&file, spec).unwrap();
    let output = up.ask(&["submit", file.to_str().unwrap()]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{error}");
}

/// Submits a trainer of a case, whose files are copied beside the data of `up`.
fn submit_case(up: &Up, case: &Path, file: &str) {
    submit_case_in(up.dir.path(), |arguments| up.ask(arguments), case, file);
}

/// The same from this folder, by a command that asks.
fn submit_case_in(within: &Path, ask: impl Fn(&[&str]) -> Output, case: &Path, file: &str) {
    let dir = within.join("case");
    std::fs::create_dir_all(&dir).unwrap();
    for entry in std::fs::read_dir(case).unwrap() {
        let path = entry.unwrap().path();
        let to = dir.join(path.file_name().unwrap());
        if path.extension().is_some_and(|of| of == "sh") && !to.exists() {
            std::fs::copy(&path, to).unwrap();
        }
    }
    let text = std::fs::read_to_string(case.join(file)).unwrap();
    let to = within.join(file);
    std::fs::write(&to, text.replace("@HERE@", dir.to_str().unwrap())).unwrap();
    let output = ask(&["submit", to.to_str().unwrap()]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{error}");
}

#[test]
fn a_broken_node_is_named_and_its_trainer_goes_elsewhere() {
    or_skip!(all_built());
    let case = or_skip!(data("cases/blackhole-node"));
    let up = Up::start();
    up.ask(&["events", "publish", "node.idle", "bad1"]);
    submit_case(&up, &case, "input.toml");
    wait_until("it has failed", || {
        of_trainer(&up, "t1")["state"] == "retrying"
    });
    up.ask(&["events", "publish", "node.idle", "ok1", "ok2"]);
    let waited = up.ask(&["wait", "t1"]);
    let said = String::from_utf8_lossy(&waited.stdout).into_owned();
    assert!(waited.status.success(), "{said}");
    assert!(
        said.starts_with("t1 done; its program failed on one node: exit code 1 on node bad1"),
        "{said}"
    );
    let reason = of_trainer(&up, "t1")["reason"].to_string();
    assert!(reason.contains("No space left"), "{reason}");
    let nodes = json(&up.ask(&["nodes", "bad1", "--json"]));
    let trouble = &nodes["nodes"][0]["trouble"];
    assert_eq!(trouble["kind"], "suspect", "{nodes}");
    let why = trouble["why"].as_str().unwrap();
    assert!(
        why.contains("t1 failed there (exit code 1") && why.contains("No space left"),
        "{why}"
    );
    // It failed once, on that node, and was sound at its next try.
    let log = std::fs::read_to_string(up.dir.path().join("logs/control.log")).unwrap();
    assert_eq!(log.matches("program failed trainer=t1").count(), 1, "{log}");
    let opened = up.ask(&["undrain", "bad1"]);
    let said = String::from_utf8_lossy(&opened.stderr).into_owned();
    assert!(
        opened.status.success() && said.contains("nothing speaks against bad1"),
        "{said}"
    );
    let nodes = json(&up.ask(&["nodes", "bad1", "--json"]));
    assert_eq!(nodes["nodes"][0]["trouble"], Value::Null, "{nodes}");
}

#[test]
fn scripts_with_a_bug_keep_no_node_from_a_good_one() {
    or_skip!(all_built());
    let up = Up::start();
    up.ask(&["events", "publish", "node.idle", "a1", "a2"]);
    for (name, error) in [("wrong1", "NameError"), ("wrong2", "ImportError")] {
        script(&up, name, &format!("echo {error} >&2; exit 1"));
        wait_until("it has failed on both nodes", || {
            let why = json(&up.ask(&["explain", name, "--json"]));
            why["hindrances"][0]
                .as_str()
                .is_some_and(|why| why.contains("its program is the cause"))
        });
    }
    script(&up, "good", "sleep 1");
    wait_until("it is done", || of_trainer(&up, "good")["state"] == "done");
    for name in ["wrong1", "wrong2"] {
        assert_eq!(
            of_trainer(&up, name)["state"],
            "retrying",
            "the good one did not wait"
        );
    }
    let nodes = json(&up.ask(&["nodes", "--json"]));
    assert_eq!(nodes["nodes"][0]["trouble"], Value::Null, "{nodes}");
    assert_eq!(nodes["nodes"][1]["trouble"], Value::Null, "{nodes}");
}

#[test]
fn programs_with_a_bug_close_no_only_node_of_their_owner() {
    or_skip!(all_built());
    let case = or_skip!(data("cases/closed-nodes-untold"));
    let up = Up::start();
    up.ask(&["events", "publish", "node.idle", "a1"]);
    submit_case(&up, &case, "input-1.toml");
    let waited = up.ask(&["wait", "try1", "--timeout", "60s"]);
    let said = String::from_utf8_lossy(&waited.stdout).into_owned();
    assert!(
        said.contains("try1 failed") && said.contains("no_such_module"),
        "{said}"
    );
    submit_case(&up, &case, "input-2.toml");
    wait_until("it has failed", || {
        of_trainer(&up, "try2")["state"] == "retrying"
    });
    up.ask(&["cancel", "try2"]);
    submit_case(&up, &case, "input-3.toml");
    let waited = up.ask(&["wait", "try3", "--timeout", "30s"]);
    let said = String::from_utf8_lossy(&waited.stdout).into_owned();
    assert_eq!(said.trim(), "try3 done");
    let nodes = json(&up.ask(&["nodes", "--json"]));
    assert_eq!(nodes["nodes"][0]["trouble"], Value::Null, "{nodes}");
}

#[test]
fn names_that_no_trainer_has_get_the_nearest_ones() {
    or_skip!(all_built());
    let up = Up::start();
    script(&up, "sweep-07", "sleep 60");
    for arguments in [
        &["cancel", "sweep-70"][..],
        &["logs", "sweep-70"],
        &["logs", "-f", "sweep-70"],
        &["wait", "sweep-70"],
        &["trainers", "sweep-70"],
    ] {
        let output = up.ask(arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            said.contains("L0009") && said.contains("such as sweep-07"),
            "{arguments:?}: {said}"
        );
    }
}

#[test]
fn a_wrong_name_among_several_keeps_no_other_from_what_is_asked() {
    or_skip!(all_built());
    let up = Up::start();
    for name in ["one", "two", "three"] {
        script(&up, name, "sleep 60");
    }
    let said = |output: &std::process::Output| {
        let (out, err) = (&output.stdout, &output.stderr);
        [out, err].map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    };
    let output = up.ask(&["cancel", "oen", "one", "x-*", "one", "two", "tow"]);
    let [out, err] = said(&output);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert_eq!(out, "cancelled one two\n", "{err}");
    for wrong in ["named oen", "x-* matches no trainer", "named tow"] {
        assert!(err.contains(wrong), "{err}");
    }
    let output = up.ask(&["cancel", "three", "one", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let found = json(&output);
    assert_eq!(found["cancelled"], serde_json::json!(["three"]));
    assert_eq!(found["errors"][0]["code"], "L0016", "{found}");
    let output = up.ask(&["cancel", "tree", "oen", "--json"]);
    let words = json(&output)["error"]["message"].to_string();
    assert!(words.contains("tree") && words.contains("oen"), "{words}");
    up.ask(&["events", "publish", "node.idle", "a1"]);
    wait_until("the node is known", || {
        !json(&up.ask(&["nodes", "--json"]))["nodes"][0].is_null()
    });
    for (command, is_drained) in [("drain", true), ("undrain", false)] {
        let output = up.ask(&[command, "zz-*", "a1"]);
        let [out, err] = said(&output);
        assert_eq!(output.status.code(), Some(1), "{out}{err}");
        assert!(err.contains("zz-* matches no node"), "{err}");
        let controls = json(&up.ask(&["limits", "--json"])).to_string();
        assert_eq!(controls.contains("\"a1\""), is_drained, "{controls}");
    }
}

#[test]
fn an_agent_that_speaks_under_another_name_is_named_where_nothing_runs() {
    or_skip!(all_built());
    let case = or_skip!(data("cases/agent-with-another-name"));
    let nats = TestNats::start();
    let dir = tempfile::tempdir().unwrap();
    let ask = |arguments: &[&str]| {
        let mut command = lacuna(arguments);
        command.env("LACUNA_NATS", nats.url()).output().unwrap()
    };
    let text = std::fs::read_to_string(case.join("input-lacuna.toml")).unwrap();
    let work = dir.path().join("work");
    let config = dir.path().join("lacuna.toml");
    std::fs::write(
        &config,
        text.replace("/tmp/fqdn-work", work.to_str().unwrap()),
    )
    .unwrap();
    let beside = Path::new(env!("CARGO_BIN_EXE_lacuna")).parent().unwrap();
    let log = |service: &str| dir.path().join(format!("{service}.log"));
    let start = |service: &str, more: &[&str]| {
        let log = std::fs::File::create(log(service)).unwrap();
        let mut command = Command::new(beside.join(format!("lacuna-{service}")));
        command
            .args(["--config", config.to_str().unwrap()])
            .args(["--listen", "127.0.0.1:0"])
            .args(more)
            .env("LACUNA_NATS", nats.url())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        command.spawn().unwrap()
    };
    let mut services = Vec::new();
    for service in ["ingest", "forecast", "planner", "control"] {
        services.push(Killed(start(service, &[])));
    }
    let agent = "n1.cluster.local";
    services.push(Killed(start("agent", &["--node", agent])));
    wait_until("control and the agent", || {
        let output = ask(&["nodes", "--all"]);
        String::from_utf8_lossy(&output.stdout).contains(agent)
    });
    submit_case_in(dir.path(), ask, &case, "input.toml");
    let published = ask(&["events", "publish", "node.idle", "n1"]);
    assert!(published.status.success(), "{published:?}");
    let explained = |name: &str| {
        let output = ask(&["explain", name]);
        let words = String::from_utf8(output.stdout).unwrap();
        words.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let asked = format!("the agent {agent} speaks, which no scheduler has named");
    for name in ["f1", "n1"] {
        wait_until("the other name", || {
            let said = explained(name);
            said.contains("no agent has ever spoken on n1") && said.contains(&asked)
        });
    }
    let said = explained(agent);
    assert!(
        said.contains("no scheduler has named") && !said.contains("main scheduler uses it"),
        "{said}"
    );
    // Control looks after its plans: its warning may come later than the answers.
    wait_until("control's warning", || {
        let said = std::fs::read_to_string(log("control")).unwrap();
        said.contains("no agent has ever spoken on this node") && said.contains(agent)
    });
}

#[test]
fn another_agent_in_its_group_takes_no_cgroup_from_an_agents_programs() {
    or_skip!(all_built());
    let case = or_skip!(data("cases/two-agents-one-cgroup"));
    let up = Up::start();
    let log = || std::fs::read_to_string(up.dir.path().join("logs/agent.log")).unwrap();
    let divided = log().contains("each program gets a cgroup");
    or_skip!(Need::Cgroups.given(divided, "no cgroup of version 2 that this user may divide"));
    let _other = Up::start();
    up.ask(&["events", "publish", "node.idle", "a1"]);
    submit_case(&up, &case, "input.toml");
    let waited = up.ask(&["wait", "c1", "--timeout", "60s"]);
    assert!(waited.status.success(), "{waited:?}");
    assert!(!log().contains("no cgroup for a program"), "{}", log());
}

/// Two nodes train by torchrun, and the worker of one fails while the other waits for it.
const FAILS_ON_ONE: &str = r#"
import os, signal, sys, time
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
one = torch.ones(1)
dist.all_reduce(one)
way = sys.argv[1]
if os.environ["LACUNA_NODE"] == "bad1":
    # The other program may well end before this one.
    if way == "close":
        dist.destroy_process_group()
        time.sleep(2)
    if way == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    raise OSError(28, "No space left on device")
dist.all_reduce(one)
"#;

#[test]
fn the_node_whose_worker_fails_under_torchrun_is_blamed() {
    or_skip!(all_built());
    let python = or_skip!(torch_python());
    let dir = tempfile::tempdir().unwrap();
    let torchrun =
        format!("[agent]\ntorchrun = [\"{python}\", \"-m\", \"torch.distributed.run\"]\n");
    let config = dir.path().join("site.toml");
    std::fs::write(&config, torchrun).unwrap();
    let mut command = lacuna(&["up", "--json"]);
    command.env("LACUNA_CONFIG", &config);
    let up = Up::start_by(command, dir);
    let program = up.dir.path().join("fails.py");
    std::fs::write(&program, FAILS_ON_ONE).unwrap();
    up.ask(&["events", "publish", "node.idle", "bad1", "ok1"]);
    for (way, words) in [
        ("close", "No space left"),
        ("kill", "SIGKILL"),
        ("raise", "No space left"),
    ] {
        let file = up.dir.path().join("t.toml");
        let spec = format!(
            "[[trainer]]\nname = \"{way}\"\nlauncher = \"torchrun\"\nprogram = \"{}\"\n\
             arguments = [\"{way}\"]\nuntil = \"exit\"\nmin_nodes = 2\nmax_nodes = 2\n",
            program.display()
        );
        std::fs::write(&file, spec).unwrap();
        let output = up.ask(&["submit", file.to_str().unwrap()]);
        assert!(output.status.success(), "{output:?}");
        // Importing torch takes its time on a loaded machine.
        wait_for(240, "it has failed", || {
            of_trainer(&up, way)["state"] == "retrying"
        });
        let reason = of_trainer(&up, way)["reason"].to_string();
        assert!(
            reason.contains("on node bad1") && reason.contains(words),
            "{way}: {reason}"
        );
        up.ask(&["cancel", way]);
    }
}
