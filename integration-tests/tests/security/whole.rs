//! The whole of Lacuna with keys: each service does its work with just its permissions.

use std::collections::BTreeMap;
use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lacuna_testkit::Killed;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::keyed_server::{lacuna, program, until};
use crate::support::{count, get};

/// A running `lacuna up --secure`.
pub(crate) struct Up {
    /// Its children end with it.
    child: Killed,
    pub(crate) dir: PathBuf,
}

impl Up {
    /// Starts it in a folder, and waits until every service answers.
    pub(crate) async fn start(dir: &Path, args: &[&str], env: &[(&str, &str)]) -> Self {
        std::fs::create_dir_all(dir).unwrap();
        let log = File::options()
            .create(true)
            .append(true)
            .open(dir.join("up.log"))
            .unwrap();
        let child = Command::new(program("lacuna"))
            .args(["up", "--secure", "--data-dir"])
            .arg(dir)
            .args(args)
            .env_remove("LACUNA_IDENTITY")
            .envs(env.iter().copied())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let up = Self {
            child: Killed(child),
            dir: dir.to_owned(),
        };
        until("lacuna up --secure is up", || {
            let said = std::fs::read_to_string(up.dir.join("up.log")).unwrap_or_default();
            said.matches("up after").count() > said.matches("ended by the test").count()
        })
        .await;
        up
    }

    /// The content of up.json.
    pub(crate) fn file(&self) -> Value {
        let text = std::fs::read_to_string(self.dir.join("up.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// Addresses of all services.
    pub(crate) fn addresses(&self) -> BTreeMap<String, String> {
        serde_json::from_value(self.file()["http"].clone()).unwrap()
    }

    /// Runs a command against it as the operator.
    pub(crate) fn lacuna(&self, args: &[&str]) -> Result<String, String> {
        let dir = self.dir.display().to_string();
        lacuna(args, &[("LACUNA_DATA_DIR", dir.as_str())])
    }

    /// Makes four nodes idle, and submits trainer `t` with this work in samples.
    pub(crate) fn train(&self, samples: u32) {
        let file = self.dir.join("t.toml");
        let text = format!(
            "[[trainer]]\nname = \"t\"\nlauncher = \"simulated\"\nsamples = {samples}.0\n\
             min_nodes = 1\nmax_nodes = 4\n\
             scaling = {{ nodes = [1, 4], samples_per_s = [50.0, 200.0] }}\n\
             rescale = {{ up = \"1s\", down = \"1s\" }}\n"
        );
        std::fs::write(&file, text).unwrap();
        self.lacuna(&["events", "publish", "node.idle", "n1", "n2", "n3", "n4"])
            .unwrap();
        self.lacuna(&["submit", &file.display().to_string()])
            .unwrap();
    }

    /// The log of a service or of nats-server.
    pub(crate) fn log(&self, name: &str) -> String {
        let path = self.dir.join("logs").join(format!("{name}.log"));
        std::fs::read_to_string(path).unwrap_or_default()
    }

    /// Sends SIGTERM, and waits for the end.
    pub(crate) fn stop(mut self) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        kill(pid, Signal::SIGTERM).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
        let mut log = File::options()
            .append(true)
            .open(self.dir.join("up.log"))
            .unwrap();
        log.write_all(b"ended by the test\n").unwrap();
    }

    /// Checks that no request was refused and no service died.
    pub(crate) fn nothing_was_refused(&self) {
        for (name, at) in self.addresses() {
            let metrics = get(&at, "/metrics").unwrap_or_default();
            let denied = count(&metrics, "lacuna_bus_denied_total");
            assert_eq!(denied, 0, "{name}: {}", self.log(&name));
        }
        let nats = self.log("nats");
        assert!(!nats.contains("Violation"), "{nats}");
        let said = std::fs::read_to_string(self.dir.join("up.log")).unwrap();
        assert!(!said.contains("died"), "{said}");
    }
}

pub(crate) fn phase(up: &Up, trainer: &str) -> String {
    let text = up.lacuna(&["trainers", "--all", "--json"]).unwrap();
    let value: Value = serde_json::from_str(&text).unwrap();
    let all = value["trainers"].as_array().unwrap().clone();
    let found = all.iter().find(|t| t["trainer"] == trainer);
    found.map_or_else(String::new, |t| t["phase"].to_string())
}

#[tokio::test]
async fn a_trainer_trains_to_its_end_with_keys_and_no_request_is_refused() {
    let dir = tempfile::Builder::new()
        .prefix("lacuna-secure-")
        .tempdir()
        .unwrap();
    let data = dir.path().join("data");
    let up = Up::start(&data, &[], &[]).await;
    up.train(600);
    until("the trainer has ended", || phase(&up, "t").contains("done")).await;
    // All views for people.
    for look in [
        &["nodes"][..],
        &["plan"],
        &["explain", "t"],
        &["trainers"],
        &["observe", "report"],
    ] {
        if let Err(said) = up.lacuna(look) {
            assert!(!said.contains("L004"), "{look:?}: {said}");
        }
    }
    up.nothing_was_refused();
    let page = up.file()["page"].as_str().unwrap().to_owned();
    let page = page.trim_start_matches("http://").trim_end_matches('/');
    assert!(get(page, "/").unwrap_or_default().contains("Lacuna"));
    up.stop();
    // With the same keys and streams.
    let up = Up::start(&data, &[], &[]).await;
    assert!(phase(&up, "t").contains("done"));
    up.nothing_was_refused();
    // A person without one of these keys cannot connect.
    let nats = up.file()["nats"].as_str().unwrap().to_owned();
    let refused = lacuna(
        &["trainers", "--nats", &nats, "--cluster", "main"],
        &[("LACUNA_DATA_DIR", "/nonexistent")],
    )
    .unwrap_err();
    assert!(refused.contains("L0044"), "{refused}");
    up.stop();
}

/// A service that has lost its connection asks the server whether its consumers are still there. A
/// refusal would raise the alert of an attack at each restart of the bus.
#[tokio::test]
async fn a_restart_of_the_bus_refuses_nothing_to_a_service() {
    let dir = tempfile::Builder::new()
        .prefix("lacuna-secure-")
        .tempdir()
        .unwrap();
    let up = Up::start(&dir.path().join("data"), &[], &[]).await;
    let of_all = |name: &str| -> Vec<u64> {
        let addresses = up.addresses().into_values();
        let metrics = addresses.map(|at| get(&at, "/metrics").unwrap_or_default());
        metrics.map(|text| count(&text, name)).collect()
    };
    let nats = up.file()["children"]["nats"].as_i64().unwrap();
    kill(Pid::from_raw(nats.try_into().unwrap()), Signal::SIGKILL).unwrap();
    until("all have lost the bus", || {
        of_all("lacuna_bus_disconnects_total")
            .iter()
            .all(|n| *n > 0)
    })
    .await;
    // Trained work needs every consumer.
    up.train(600);
    until("the trainer has ended", || phase(&up, "t").contains("done")).await;
    let denied = of_all("lacuna_bus_denied_total");
    let nats = up.log("nats");
    assert!(
        denied.iter().all(|n| *n == 0) && !nats.contains("Violation"),
        "{denied:?}: {nats}"
    );
    up.stop();
}

/// Secrets by a file of the nodes and by `environment` reach the program. No answer, log, metric or
/// page has them, whether the program trains or has failed.
#[tokio::test]
async fn values_of_an_environment_reach_the_program_alone() {
    let dir = tempfile::Builder::new()
        .prefix("lacuna-secure-")
        .tempdir()
        .unwrap();
    let file = dir.path().join("key.env");
    std::fs::write(&file, "FILE_KEY=hush-of-the-file\n").unwrap();
    std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    let up = Up::start(&dir.path().join("data"), &[], &[]).await;
    let submit = dir.path().join("s.toml");
    let text = "[[trainer]]\nname = \"s\"\nlauncher = \"command\"\nprogram = \"/bin/sh\"\n\
                arguments = [\"-c\", \"echo got ${#FILE_KEY} ${#TOKEN}; while [ ! -e end ]; do \
                sleep 0.1; done; exit 3\"]\nenvironment = { TOKEN = \"hush-of-it\" }\n\
                environment_from = [\"key.env\"]\nuntil = \"exit\"\nmin_nodes = 1\nmax_nodes = 1\n";
    std::fs::write(&submit, text).unwrap();
    let submit = submit.display().to_string();
    up.lacuna(&["events", "publish", "node.idle", "n1"])
        .unwrap();
    let mut said = up
        .lacuna(&["submit", "--test-only", "--json", &submit])
        .unwrap();
    said += &up.lacuna(&["submit", "--json", &submit]).unwrap();
    let logs = || up.lacuna(&["logs", "s"]).unwrap_or_default();
    until("the program has both", || logs().contains("got 16 10")).await;
    let looks = [
        "trainers --all --json",
        "trainers",
        "explain s --json",
        "explain s",
        "explain n1 --json",
        "nodes --json",
        "plan --json",
        "audit --json",
        "audit",
        "logs s --json",
    ];
    let mut look = || {
        for args in looks {
            let args: Vec<&str> = args.split(' ').collect();
            said += &up.lacuna(&args).unwrap_or_else(|error| error);
        }
        for (service, at) in up.addresses() {
            said += &get(&at, "/metrics").unwrap_or_default();
            said += &up.log(&service);
        }
        let page = up.file()["page"].as_str().unwrap().to_owned();
        let page = page.trim_start_matches("http://").trim_end_matches('/');
        said += &get(page, "/").unwrap_or_default();
        said += &up.log("nats");
    };
    look();
    std::fs::write(dir.path().join("end"), "").unwrap();
    until("it has failed", || {
        let text = up.lacuna(&["explain", "s"]).unwrap_or_default();
        text.contains("exit code 3")
    })
    .await;
    look();
    assert!(said.contains("exit code 3") && said.contains("key.env"));
    assert!(!said.contains("hush"), "{said}");
    up.stop();
}
