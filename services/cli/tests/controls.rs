//! Users of a running `lacuna up`. Controls of operators act within seconds, forbidden requests are
//! refused, and all are audited. Researchers wait for their trainers, and shells complete names.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests may panic"
)]

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use lacuna_testkit::{Killed, or_skip};

use crate::common::all_built;

const NODES: [&str; 6] = ["a01", "a02", "a03", "a04", "a05", "a06"];

/// A running `lacuna up`, ended with the test.
struct Up {
    _child: Killed,
    dir: tempfile::TempDir,
}

impl Up {
    fn start(config: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("lacuna.toml");
        std::fs::write(&file, config).unwrap();
        let data = dir.path().join("data");
        let mut child = Command::new(env!("CARGO_BIN_EXE_lacuna"))
            .args(["up", "--json", "--config", file.to_str().unwrap()])
            .env_remove("LACUNA_NATS")
            .env_remove("LACUNA_CLUSTER")
            .env("LACUNA_DATA_DIR", &data)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let mut text = String::new();
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            text.push_str(&line.unwrap());
            if serde_json::from_str::<Value>(&text).is_ok() {
                return Self {
                    _child: Killed(child),
                    dir,
                };
            }
        }
        let ended = child.wait().unwrap();
        panic!("lacuna up ended, {ended}: {text}");
    }

    fn command_as(&self, user: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lacuna"));
        command
            .args(arguments)
            .env_remove("LACUNA_NATS")
            .env_remove("LACUNA_CLUSTER")
            .env("LACUNA_DATA_DIR", self.dir.path().join("data"))
            .env("LACUNA_USER", user);
        command
    }

    fn ask_as(&self, user: &str, arguments: &[&str]) -> Output {
        self.command_as(user, arguments).output().unwrap()
    }

    /// Runs a command as the operator and expects success.
    fn op(&self, arguments: &[&str]) -> String {
        let output = self.ask_as("op", arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a command as this user and expects a refusal with this code.
    fn refused(&self, user: &str, arguments: &[&str], code: &str) {
        let output = self.ask_as(user, arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && said.contains(code),
            "{user} {arguments:?}: {said}"
        );
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let text = self.op(&[arguments, &["--json"]].concat());
        serde_json::from_str(&text).unwrap()
    }

    /// Nodes on which an agent reports training.
    fn training(&self) -> Vec<String> {
        let list = self.json(&["nodes"]);
        let nodes = list["nodes"].as_array().unwrap().iter();
        nodes
            .filter(|n| n["state"] == "leased" && n["agent"] == "running")
            .map(|n| n["node"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Number of nodes that are leased or where an agent still runs a program.
    fn busy(&self) -> usize {
        let list = self.json(&["nodes"]);
        let nodes = list["nodes"].as_array().unwrap().iter();
        nodes
            .filter(|n| !n["trainer"].is_null() || n["agent"] == "running")
            .count()
    }

    fn until(&self, what: &str, done: impl Fn(&Self) -> bool) {
        for _ in 0..300 {
            if done(self) {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("not yet: {what}: {}", self.op(&["nodes", "--all"]));
    }

    /// Submits a trainer that runs until it is cancelled.
    fn submit(&self, user: &str, name: &str, min: u32) -> Output {
        self.submit_of(user, name, (min, 8), 1e12)
    }

    /// Submits a trainer with this many samples to do, one a second and node.
    fn submit_of(&self, user: &str, name: &str, nodes: (u32, u32), samples: f64) -> Output {
        let (min, max) = nodes;
        let path = self.dir.path().join(format!("{name}.jsonl"));
        let line = format!(
            r#"{{"name":"{name}","submit":0,"min_nodes":{min},"max_nodes":{max},"rescale_up_s":0,"rescale_down_s":0,"samples":{samples},"nodes":[1,8],"samples_per_s":[1.0,8.0]}}"#
        );
        std::fs::write(&path, line).unwrap();
        self.ask_as(user, &["submit", path.to_str().unwrap()])
    }
}

#[test]
fn the_operator_pauses_drains_and_caps_and_others_may_not() {
    or_skip!(all_built());
    let up = Up::start(
        "[control.access]\noperators = [\"op\"]\nenforce = true\n\
         [control.access.users.bob]\ntrainers = 1\n",
    );
    up.op(&[&["events", "publish", "node.idle"][..], &NODES].concat());
    let output = up.submit("ann", "t", 1);
    assert!(output.status.success(), "{output:?}");
    up.until("all nodes train", |up| up.training().len() == 6);

    // A pause returns all nodes, until it is lifted.
    up.refused("ann", &["pause", "--now"], "L0020");
    let said = up.op(&["pause", "--now", "--for", "1h", "--reason", "power"]);
    assert!(
        said.contains("nothing by op") && said.contains("power"),
        "{said}"
    );
    up.until("all nodes are back", |up| up.busy() == 0);
    let nodes = up.op(&["nodes"]);
    assert!(
        nodes.contains("WITHHELD") && nodes.contains("paused"),
        "{nodes}"
    );
    let why = up.op(&["explain", "a01"]);
    assert!(why.contains("paused by op: power"), "{why}");
    let top = up.op(&["top", "-n", "1"]);
    assert!(top.contains("limited"), "{top}");
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(up.busy(), 0, "nothing is used while it is paused");
    up.op(&["resume"]);
    up.until("all nodes train again", |up| up.training().len() == 6);

    // Drained nodes go back; the others stay.
    up.op(&["drain", "a[02-03]", "--reason", "fan"]);
    let rest = ["a01", "a04", "a05", "a06"];
    up.until("two are drained", |up| {
        up.training() == rest && up.busy() == 4
    });
    let why = up.op(&["explain", "a02"]);
    assert!(
        why.contains("drained by op") && why.contains("fan"),
        "{why}"
    );

    // An unknown node is an error of its command, and no node is drained.
    for which in ["n12*", "a0[6-7]", "b*", "a07"] {
        up.refused("op", &["drain", which], "L0010");
    }
    up.refused("op", &["undrain", "a05*"], "L0010");
    up.refused("op", &["nodes", "b01"], "L0010");
    up.refused("op", &["explain", "a[05-09]"], "L0010");
    let drained = up.json(&["limits"]);
    assert_eq!(drained["drained"].as_array().unwrap().len(), 2);
    let some = up.json(&["nodes", "a0[2-3]", "a06"]);
    assert_eq!(some["nodes"].as_array().unwrap().len(), 3, "{some}");
    let several = up.json(&["explain", "a0[2-3]"]);
    assert_eq!(
        several["nodes"][1]["node"]["withheld"], "drained",
        "{several}"
    );
    // A pattern drains matching nodes; with --unnamed a node may be unknown.
    up.op(&["drain", "*6", "b01", "--unnamed"]);
    up.op(&["undrain", "b*", "a06"]);

    // A cap and a list.
    up.op(&["limits", "set", "--max-nodes", "2"]);
    up.until("two are left", |up| {
        up.training().len() == 2 && up.busy() == 2
    });
    let limits = up.json(&["limits"]);
    assert_eq!(limits["now"]["at_most"], 2);
    assert_eq!(limits["drained"].as_array().unwrap().len(), 2);
    up.op(&["limits", "set", "--max-nodes", "none", "--avoid", "a0[4-5]"]);
    up.until("all but four", |up| up.training() == ["a01", "a06"]);
    up.op(&["limits", "set", "--avoid", "none"]);
    up.op(&["undrain", "a[02-03]"]);
    up.until("all again", |up| up.training().len() == 6);

    // A window that is open all day.
    let window = [
        "--from",
        "00:00",
        "--to",
        "24:00",
        "--zone",
        "UTC",
        "--nothing",
    ];
    up.op(&[&["limits", "add-window", "always"][..], &window].concat());
    up.until("the window holds", |up| up.busy() == 0);
    up.op(&["limits", "remove-window", "always"]);
    up.until("the window is gone", |up| up.training().len() == 6);
    up.refused("op", &["limits", "remove-window", "always"], "L0023");
    up.refused("op", &["pause", "--until", "2020-01-01T00:00:00Z"], "L0023");

    // Access rules: who may end which trainer, and how many trainers a user may have.
    up.refused("bob", &["cancel", "t"], "L0021");
    up.refused("bob", &["logs", "t"], "L0021");
    assert!(up.submit("bob", "u", 1).status.success());
    let output = up.submit("bob", "v", 1);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("L0022"), "{said}");
    let trainers = up.json(&["trainers"]);
    assert_eq!(trainers["trainers"][0]["user"], "ann");
    let done = up.ask_as("ann", &["cancel", "t"]);
    assert!(done.status.success(), "{done:?}");

    // All requests are in the audit.
    let audit = up.json(&["audit", "--refused"]);
    let seen: Vec<(&str, &str, &str)> = audit["records"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| {
            let text = |field: &str| r[field].as_str().unwrap();
            (text("user"), text("action"), text("code"))
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("ann", "pause", "L0020"),
            ("op", "window", "L0023"),
            ("op", "pause", "L0023"),
            ("bob", "cancel", "L0021"),
            ("bob", "logs", "L0021"),
            ("bob", "submit", "L0022"),
        ]
    );
    let of_op = up.json(&["audit", "--user", "op", "--action", "drain"]);
    assert_eq!(of_op["records"][0]["target"][0], "a02");
    assert_eq!(of_op["records"][0]["proven"], false);
}

/// Standard output, standard error and exit code of a command.
fn said(output: &Output) -> (String, String, Option<i32>) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        text(&output.stdout),
        text(&output.stderr),
        output.status.code(),
    )
}

#[test]
fn a_wait_ends_with_its_trainers_and_prints_their_ends() {
    or_skip!(all_built());
    let up = Up::start("");
    let ask = |arguments: &[&str]| said(&up.ask_as("ann", arguments));
    up.op(&["events", "publish", "node.idle", "a01", "a02"]);
    for (name, samples) in [("brief", 3.0), ("long", 1e12)] {
        let (out, err, _) = said(&up.submit_of("ann", name, (1, 1), samples));
        assert!(out.contains(&format!("lacuna wait {name}")), "{out}{err}");
    }
    let (_, err, code) = ask(&["wait", "lon"]);
    assert_eq!(code, Some(1), "{err}");
    assert!(
        err.contains("L0009") && err.contains("such as long"),
        "{err}"
    );

    // One of several trainers is enough, and the others continue.
    let (out, err, code) = ask(&["wait", "long", "brief", "--any", "--timeout", "1m"]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.ends_with("brief done\n"), "{out}");
    let (out, err, code) = ask(&["wait", "long", "--for", "running", "--timeout", "1m"]);
    assert_eq!(code, Some(0), "{out}{err}");
    let (out, err, code) = ask(&["wait", "brief", "--for", "failed"]);
    assert_eq!((code, out.as_str()), (Some(1), "brief done\n"), "{err}");

    // A timeout has its own exit code.
    let (out, err, code) = ask(&["wait", "long", "brief", "--timeout", "1s"]);
    assert_eq!(code, Some(124), "{out}{err}");
    assert!(err.contains("not ended within 1s"), "{err}");
    let (out, err, code) = ask(&["wait", "long", "--timeout", "0s", "--json"]);
    assert_eq!(code, Some(124), "{out}{err}");
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(value["outcome"], "timed_out");
    assert_eq!(value["trainers"][0]["phase"], "active");

    // Ctrl-C ends the wait alone.
    let waiting = |arguments: &[&str]| {
        let mut command = up.command_as("ann", arguments);
        command.stdout(Stdio::piped()).spawn().unwrap()
    };
    let child = waiting(&["wait", "long"]);
    std::thread::sleep(Duration::from_millis(500));
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let status = child.wait_with_output().unwrap().status;
    // On a slow machine the signal comes before the process has a handler for it.
    let interrupted = status.code() == Some(130) || status.signal() == Some(2);
    assert!(interrupted, "{status}");
    let list = up.json(&["trainers", "long"]);
    assert_eq!(list["trainers"][0]["phase"], "active");

    // A later end of a trainer ends the wait.
    let child = waiting(&["wait", "long", "brief"]);
    up.op(&["cancel", "long"]);
    let (out, _, code) = said(&child.wait_with_output().unwrap());
    let expected = (Some(1), "long cancelled\nbrief done\n");
    assert_eq!((code, out.as_str()), expected);
    let (out, err, code) = ask(&["wait", "long", "--for", "cancelled"]);
    assert_eq!((code, out.as_str()), (Some(0), "long cancelled\n"), "{err}");
}

#[test]
fn a_shell_offers_the_names_of_a_running_cluster() {
    or_skip!(all_built());
    let up = Up::start("");
    up.op(&["events", "publish", "node.idle", "a01", "a02"]);
    for name in ["hpo-1", "hpo-2", "mixed"] {
        assert!(up.submit("ann", name, 1).status.success());
    }
    up.op(&["cancel", "mixed"]);
    let offered = |line: &[&str]| {
        let (out, err, code) =
            said(&up.ask_as("ann", &[&["complete", "--", "lacuna"], line].concat()));
        assert_eq!((code, err.as_str()), (Some(0), ""), "{line:?}");
        out
    };
    for (line, expected) in [
        (&["cancel", "hp"][..], "hpo-1\nhpo-2\n"),
        (&["logs", "--lines", "5", ""], "hpo-1\nhpo-2\n"),
        // An ended trainer, if no other fits.
        (&["logs", "m"], "mixed\n"),
        (&["drain", "a0"], "a01\na02\n"),
        (&["explain", "a01"], "a01\n"),
        (&["events", "tail", "--node=a02"], "--node=a02\n"),
    ] {
        // A busy machine may not answer within half a second; then no name is offered.
        up.until(&format!("{line:?} is completed"), |_| {
            offered(line) == expected
        });
    }
    for line in [
        &["cancel", "hpo-1", "hpo-1"][..],
        &["wait", "--cluster", "another", "hp"],
        &["explain", "nothing-like-it"],
    ] {
        assert_eq!(offered(line), "", "{line:?}");
    }
}
