//! One composition, brought up under a name of its own, on ports that the engine chooses, and taken
//! down with its volumes at the end.

use std::time::Duration;

use serde_json::Value;

use lacuna_testkit::{Missing, Need};

use super::http;
use crate::support;

/// The limit of images, start and the wait for health together, so that no test run hangs.
const LIMIT_S: &str = "420";

/// The exit code of `deploy/up.sh` where images or containers are not available.
const CANNOT_HERE: i32 = 75;

pub(super) struct Stack {
    project: String,
    env: Vec<(String, String)>,
    /// The folder of keys and scrape targets.
    state: tempfile::TempDir,
}

impl Stack {
    /// Starts the composition.
    ///
    /// # Errors
    /// The reason why Docker cannot run it here. Where Docker runs, a composition that does not
    /// start is a failure, and panics.
    pub(super) fn up() -> Result<Self, Missing> {
        match support::run("docker", &["info"], &[]) {
            Ok(said) => Need::Docker.given(
                said.ok,
                format!("no Docker engine answers: {}", last_line(&said.stderr)),
            )?,
            Err(e) => return Err(Need::Docker.missing(format!("docker cannot be run: {e}"))),
        }
        let works = |program, args: &[&str]| support::run(program, args, &[]).is_ok_and(|s| s.ok);
        let composes =
            works("docker", &["compose", "version"]) || works("docker-compose", &["--version"]);
        Need::Docker.given(
            composes,
            "there is neither docker compose nor docker-compose",
        )?;
        let control = support::root().join("target/release/lacuna-control");
        Need::Services.given(control.exists(), "the services are not built")?;
        let project = format!("lacuna-test-{}", std::process::id());
        let state = tempfile::tempdir().unwrap();
        let env = [
            ("COMPOSE_PROJECT_NAME", project.clone()),
            ("LACUNA_IMAGE", "lacuna:test".to_owned()),
            ("LACUNA_LAB_IMAGE", "lacuna-lab:test".to_owned()),
            ("LACUNA_NATS_IMAGE", "lacuna-nats:test".to_owned()),
            ("LACUNA_NATS_PORT", "0".to_owned()),
            ("LACUNA_PAGE_PORT", "0".to_owned()),
            ("LACUNA_PROMETHEUS_PORT", "0".to_owned()),
            ("LACUNA_ALERTMANAGER_PORT", "0".to_owned()),
            ("LACUNA_GRAFANA_PORT", "0".to_owned()),
            ("LACUNA_SKIP_CARGO", "1".to_owned()),
            ("LACUNA_INSTANCES", "2".to_owned()),
            ("COMPOSE_PROFILES", "core,monitoring,demo".to_owned()),
            ("LACUNA_STATE", state.path().display().to_string()),
        ];
        let stack = Self {
            project,
            env: env.map(|(k, v)| (k.to_owned(), v)).into(),
            state,
        };
        let said = stack.run("timeout", &[LIMIT_S, "deploy/up.sh", "up"]);
        println!("{}", said.stdout);
        if said.code == CANNOT_HERE {
            return Err(Need::Docker.missing(last_line(&said.stderr)));
        }
        if !said.ok {
            let logs = stack.logs();
            panic!("the composition does not start: {}\n{logs}", said.stderr);
        }
        Ok(stack)
    }

    fn run(&self, program: &str, args: &[&str]) -> support::Output {
        let env: Vec<(&str, &str)> = self
            .env
            .iter()
            .map(|(k, v)| (k.as_str(), v.as_str()))
            .collect();
        support::run(program, args, &env).unwrap_or_else(|e| panic!("{program}: {e}"))
    }

    /// Runs a command on the keys of the composition.
    pub(super) fn keys(&self, args: &[&str]) {
        let said = self.run("deploy/up.sh", &[&["keys"], args].concat());
        assert!(said.ok, "up.sh keys {args:?}: {}", said.stderr);
    }

    /// The output of a docker command.
    pub(super) fn docker(&self, args: &[&str]) -> String {
        let said = self.run("docker", args);
        assert!(said.ok, "docker {args:?}: {}\n{}", said.stderr, said.stdout);
        said.stdout
    }

    /// The ids of a service's containers.
    pub(super) fn containers(&self, service: &str) -> Vec<String> {
        let project = format!("label=com.docker.compose.project={}", self.project);
        let service = format!("label=com.docker.compose.service={service}");
        let ids = self.docker(&["ps", "-aq", "--filter", &project, "--filter", &service]);
        ids.lines().map(ToOwned::to_owned).collect()
    }

    /// The port of this machine that leads to a port of a service. A container that has started
    /// again has another.
    pub(super) fn port(&self, service: &str, inside: u16) -> u16 {
        let ids = self.containers(service);
        let said = self.docker(&["port", &ids[0], &format!("{inside}/tcp")]);
        let port = said.trim().strip_prefix("127.0.0.1:");
        let port = port.and_then(|port| port.parse().ok());
        port.unwrap_or_else(|| panic!("{service} is published as {said:?}"))
    }

    /// A file of the keys of the cluster.
    pub(super) fn key(&self, name: &str) -> std::path::PathBuf {
        let keys = self.state.path().join(&self.project).join("keys");
        keys.join("main").join(name)
    }

    /// Runs the command line on this machine as a user.
    pub(super) fn lacuna_as(&self, user: &str, args: &[&str]) -> support::Output {
        let program = support::root().join("target/release/lacuna");
        let identity = self.key(&format!("{user}.toml"));
        let identity = identity.to_string_lossy();
        let nats = format!("tls://127.0.0.1:{}", self.port("nats", 4222));
        let all = [args, &["--nats", &nats, "--identity", &identity]].concat();
        self.run(&program.to_string_lossy(), &all)
    }

    /// Runs the command line on this machine, as the operator.
    pub(super) fn lacuna(&self, args: &[&str]) -> String {
        let said = self.lacuna_as("operator", args);
        assert!(said.ok, "lacuna {args:?}: {}\n{}", said.stderr, said.stdout);
        said.stdout
    }

    /// The JSON value that a command of `lacuna` prints.
    pub(super) fn lacuna_json(&self, args: &[&str]) -> Value {
        let text = self.lacuna(&[args, &["--json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("lacuna {args:?}: {e}: {text}"))
    }

    /// Kills the first process of a container, by its process id on this machine.
    pub(super) fn kill(&self, pid: &str) {
        assert!(
            pid.parse::<u32>().is_ok_and(|p| p > 1),
            "no process {pid:?}"
        );
        let said = self.run("kill", &["-9", pid]);
        assert!(said.ok, "kill {pid}: {}", said.stderr);
    }

    /// The result of an instant query.
    pub(super) fn query(&self, expression: &str) -> Result<Value, String> {
        let path = format!("/api/v1/query?query={}", http::encode(expression));
        let body = http::get(self.port("prometheus", 9090), &path)?;
        let answer: Value = serde_json::from_str(&body).map_err(|e| e.to_string())?;
        Ok(answer["data"]["result"].clone())
    }

    fn logs(&self) -> String {
        let project = format!("label=com.docker.compose.project={}", self.project);
        let ids = self
            .run("docker", &["ps", "-aq", "--filter", &project])
            .stdout;
        let mut logs = String::new();
        for id in ids.lines() {
            let said = self.run("docker", &["logs", "--tail", "15", id]);
            logs += &format!("--- {id}\n{}{}", said.stdout, said.stderr);
        }
        logs
    }
}

impl Stack {
    /// Stops the composition; returns its remains: containers, volumes, keys.
    pub(super) fn down(&self) -> Vec<String> {
        let said = self.run("timeout", &["120", "deploy/up.sh", "down", "--volumes"]);
        assert!(said.ok, "not taken down: {}", said.stderr);
        let project = format!("label=com.docker.compose.project={}", self.project);
        let mut left = Vec::new();
        // `up.sh` fails for a network on which something is left, and says when the engine keeps an
        // empty one.
        println!("{}", said.stderr);
        for what in [
            vec!["ps", "-aq", "--filter", &project],
            vec!["volume", "ls", "-q", "--filter", &project],
        ] {
            let found = self.docker(&what);
            left.extend(found.lines().map(|id| format!("{} {id}", what[0])));
        }
        let files = std::fs::read_dir(self.state.path()).unwrap();
        left.extend(files.map(|file| file.unwrap().path().display().to_string()));
        left
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
        }
        let said = self.run("timeout", &["120", "deploy/up.sh", "down", "--volumes"]);
        if !said.ok {
            eprintln!("{} could not be taken down: {}", self.project, said.stderr);
        }
    }
}

/// Tries until it succeeds; panics with the last reason when the time is over.
pub(super) fn eventually(
    what: &str,
    limit: Duration,
    mut check: impl FnMut() -> Result<(), String>,
) {
    let pause = Duration::from_millis(500);
    let tries = limit.as_millis() / pause.as_millis();
    let mut reason = String::new();
    for _ in 0..=tries {
        match check() {
            Ok(()) => return,
            Err(why) => reason = why,
        }
        std::thread::sleep(pause);
    }
    panic!("{what}: not within {limit:?}: {reason}");
}

fn last_line(text: &str) -> &str {
    text.trim().lines().next_back().unwrap_or_default()
}
