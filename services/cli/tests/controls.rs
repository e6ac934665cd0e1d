//! The operator's controls through a running `lacuna up`: what is wanted happens within seconds,
//! what is refused is refused, and all of it is noted.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests may panic"
)]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use lacuna_testkit::{Missing, Need, or_skip};

const NODES: [&str; 6] = ["a01", "a02", "a03", "a04", "a05", "a06"];

/// That everything is there that `lacuna up` starts.
fn all_built() -> Result<(), Missing> {
    let beside = Path::new(env!("CARGO_BIN_EXE_lacuna")).parent().unwrap();
    for service in ["ingest", "forecast", "planner", "control", "agent"] {
        let built = beside.join(format!("lacuna-{service}")).is_file();
        Need::Services.given(built, format!("lacuna-{service} is not built"))?;
    }
    Ok(())
}

/// A running `lacuna up`, ended with the test.
struct Up {
    child: Child,
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
                return Self { child, dir };
            }
        }
        let ended = child.wait().unwrap();
        panic!("lacuna up ended, {ended}: {text}");
    }

    fn ask_as(&self, user: &str, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_lacuna"))
            .args(arguments)
            .env_remove("LACUNA_NATS")
            .env_remove("LACUNA_CLUSTER")
            .env("LACUNA_DATA_DIR", self.dir.path().join("data"))
            .env("LACUNA_USER", user)
            .output()
            .unwrap()
    }

    /// Asks as the operator, and expects that it is done.
    fn op(&self, arguments: &[&str]) -> String {
        let output = self.ask_as("op", arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Asks as somebody, and expects a refusal with this code.
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

    /// Nodes on which an agent says that training runs.
    fn training(&self) -> Vec<String> {
        let list = self.json(&["nodes"]);
        let nodes = list["nodes"].as_array().unwrap().iter();
        nodes
            .filter(|n| n["state"] == "leased" && n["agent"] == "running")
            .map(|n| n["node"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Nodes under a lease, and nodes where an agent still does something.
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

    /// Writes a trainer that runs until it is ended, and submits it.
    fn submit(&self, user: &str, name: &str, min: u32) -> Output {
        let path = self.dir.path().join(format!("{name}.jsonl"));
        let line = format!(
            r#"{{"name":"{name}","submit":0,"min_nodes":{min},"max_nodes":8,"rescale_up_s":0,"rescale_down_s":0,"samples":1e12,"nodes":[1,8],"samples_per_s":[1.0,8.0]}}"#
        );
        std::fs::write(&path, line).unwrap();
        self.ask_as(user, &["submit", path.to_str().unwrap()])
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
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

    // All nodes back, and none again until it is resumed.
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

    // Drained nodes go back; others go on.
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

    // What is not there is an error where it is typed, and nothing is drained.
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
    // A pattern drains what matches, and a name that is not known yet may be meant.
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

    // Who may end what, and how many trainers there may be.
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

    // All of it is noted.
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
