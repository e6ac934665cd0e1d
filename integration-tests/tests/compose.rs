//! `deploy/compose.yaml` is really brought up: images of the binaries that were just built, the
//! bus, every service in its own container, Prometheus. It needs a Docker engine and compose,
//! and for the base image a registry or debootstrap; where these lack it is left out.
//! Grafana's image is used where it is available; `dashboards` checks its files anyway.

mod http;
mod stack;

use std::time::Duration;

use serde_json::Value;

use stack::{Stack, eventually};

use lacuna_testkit::or_skip;

use crate::support;

/// The services of `make up`, and the instances of each here.
const SERVICES: [(&str, usize); 6] = [
    ("ingest", 2),
    ("forecast", 2),
    ("planner", 2),
    ("control", 2),
    ("gateway", 1),
    ("demo-agent", 1),
];

/// The services of which one instance leads.
const LED: [&str; 4] = ["ingest", "forecast", "planner", "control"];

/// A trainer with an end that it reaches in seconds on four nodes, and worth more to the planner
/// than those of the demonstration.
const TRAINER: &str = r#"{"name":"compose-1","submit":0,"min_nodes":1,"max_nodes":8,"rescale_up_s":0,"rescale_down_s":0,"samples":4000000,"nodes":[1,8],"samples_per_s":[100000,800000]}"#;

#[test]
fn lacuna_runs_in_containers() {
    let stack = or_skip!(Stack::up());
    containers_are_confined(&stack);
    secrets_are_files_of_their_own(&stack);
    prometheus_sees_every_service(&stack);
    expressions_are_promql(&stack);
    the_demonstration_is_harvested(&stack);
    a_trainer_uses_a_hole_and_is_done(&stack);
    the_operators_page_opens_only_with_its_token(&stack);
    the_bus_learns_of_new_keys(&stack);
    every_service_comes_back(&stack);
    a_stopped_leader_is_followed(&stack);
    let left = stack.down();
    assert_eq!(left, [""; 0], "left behind");
}

/// Containers have as few rights as possible, whatever the images say.
fn containers_are_confined(stack: &Stack) {
    let others = [
        "nats",
        "prometheus",
        "alertmanager",
        "demo-machine",
        "demo-researcher",
    ];
    for name in SERVICES.iter().map(|(name, _)| *name).chain(others) {
        for id in stack.containers(name) {
            let inspected = stack.docker(&["inspect", &id]);
            let inspected: Value = serde_json::from_str(&inspected).unwrap();
            is_confined(name, &inspected[0]);
        }
    }
}

fn is_confined(name: &str, container: &Value) {
    let host = &container["HostConfig"];
    let user = container["Config"]["User"].as_str().unwrap_or_default();
    assert!(
        !user.is_empty() && !user.starts_with('0') && user != "root",
        "{name}: user {user:?}"
    );
    assert_eq!(
        host["ReadonlyRootfs"], true,
        "{name}: its file system can be written"
    );
    assert_eq!(host["CapDrop"], serde_json::json!(["ALL"]), "{name}");
    assert_eq!(host["Privileged"], false, "{name}");
    let options = host["SecurityOpt"].to_string();
    assert!(options.contains("no-new-privileges"), "{name}: {options}");
    assert_eq!(host["RestartPolicy"]["Name"], "unless-stopped", "{name}");
    for limit in ["Memory", "NanoCpus", "PidsLimit"] {
        let value = host[limit].as_i64().unwrap_or_default();
        assert!(value > 0, "{name}: {limit} is unlimited");
    }
    let ports = host["PortBindings"].to_string();
    assert!(
        ports.matches("HostIp").count() == ports.matches(r#""HostIp":"127.0.0.1""#).count(),
        "{name} can be reached from other machines: {ports}"
    );
}

/// The engine shows no secret of a container, and each container has only its own.
fn secrets_are_files_of_their_own(stack: &Stack) {
    let mut seeds = Vec::new();
    for (name, _) in SERVICES {
        let user = name.trim_start_matches("demo-");
        let text = std::fs::read_to_string(stack.key(&format!("{user}.toml"))).unwrap();
        let identity: toml::Table = text.parse().unwrap();
        seeds.push(identity["seed"].as_str().unwrap().to_owned());
    }
    let token = std::fs::read_to_string(stack.key("page-token")).unwrap();
    seeds.push(token.trim().to_owned());
    for (place, (name, _)) in SERVICES.iter().enumerate() {
        for id in stack.containers(name) {
            let shown = stack.docker(&["inspect", &id]);
            assert!(!seeds.iter().any(|seed| shown.contains(seed)), "{name}");
            let held = stack.docker(&["exec", &id, "bash", "-c", "cat /run/secrets/*"]);
            for (of, seed) in seeds.iter().enumerate() {
                let own = of == place || (*name == "gateway" && of == SERVICES.len());
                assert_eq!(held.contains(seed), own, "{name} and secret {of}");
            }
        }
    }
}

fn prometheus_sees_every_service(stack: &Stack) {
    let wanted: usize = SERVICES.iter().map(|(_, count)| count).sum();
    eventually(
        "prometheus scrapes every service",
        Duration::from_secs(60),
        || {
            let up = stack.query(r#"up{job="lacuna"} == 1"#)?;
            let seen = up.as_array().map_or(0, Vec::len);
            (seen == wanted)
                .then_some(())
                .ok_or(format!("{seen} of {wanted}: {up}"))
        },
    );
    let ask = |path| http::get(stack.port("prometheus", 9090), path).expect(path);
    let rules = ask("/api/v1/rules");
    assert!(rules.contains("LacunaServiceDown"), "{rules}");
    eventually("alerts have a way", Duration::from_secs(60), || {
        let managers: Value = serde_json::from_str(&ask("/api/v1/alertmanagers")).unwrap();
        let active = managers["data"]["activeAlertmanagers"].as_array();
        (active.map(Vec::len) == Some(1))
            .then_some(())
            .ok_or(managers.to_string())
    });
}

/// Simulated trainers harvest the generated machine, and Prometheus shows it.
fn the_demonstration_is_harvested(stack: &Stack) {
    let harvested = || {
        let found = stack.query("sum(lacuna_control_harvested_node_seconds_total)")?;
        let value = found[0]["value"][1].as_str().unwrap_or_default();
        value.parse::<f64>().map_err(|_| found.to_string())
    };
    let mut first = None;
    eventually(
        "harvested node-seconds rise",
        Duration::from_secs(90),
        || {
            let now = harvested()?;
            let before = *first.get_or_insert(now);
            (now > before && now > 0.0)
                .then_some(())
                .ok_or(format!("{before} and {now}"))
        },
    );
}

/// Prometheus itself reads every expression of the dashboards and of the alert rules.
fn expressions_are_promql(stack: &Stack) {
    let mut count = 0;
    for file in support::files("grafana/dashboards", "json") {
        let dashboard: Value = serde_json::from_str(&support::read(&file)).unwrap();
        for panel in dashboard["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().unwrap_or(&Vec::new()) {
                let expression = target["expr"].as_str().unwrap();
                let plain = expression
                    .replace("$__rate_interval", "1m")
                    .replace("$__range", "1h");
                let answer = stack.query(&plain);
                assert!(
                    answer.is_ok(),
                    "{file}, {}: {expression}: {answer:?}",
                    panel["title"]
                );
                count += 1;
            }
        }
    }
    assert!(count >= 10, "only {count} expressions");
}

/// The whole loop through the containers: nodes become idle, a trainer gets some and does its
/// work; a user without the right to submit is refused.
fn a_trainer_uses_a_hole_and_is_done(stack: &Stack) {
    for node in ["c1", "c2", "c3", "c4"] {
        stack.lacuna(&["events", "publish", "node.idle", node]);
    }
    let file = tempfile::NamedTempFile::with_suffix(".jsonl").unwrap();
    std::fs::write(file.path(), TRAINER).unwrap();
    let path = file.path().to_string_lossy().into_owned();
    let said = stack.lacuna_as("gateway", &["submit", &path]);
    assert!(!said.ok, "a gateway has submitted: {}", said.stdout);
    stack.lacuna(&["submit", &path]);
    eventually("the trainer is done", Duration::from_secs(120), || {
        let trainers = stack.lacuna_json(&["trainers", "--all"]);
        let all = trainers["trainers"].as_array().cloned().unwrap_or_default();
        let ours = all.iter().find(|t| t["trainer"] == "compose-1");
        let done = ours.is_some_and(|t| t["phase"] == "done" && t["samples"] == 4_000_000.0);
        done.then_some(()).ok_or(format!("{ours:?}"))
    });
}

/// The operator's page opens with its token, and shows the figures of the cluster.
fn the_operators_page_opens_only_with_its_token(stack: &Stack) {
    let port = stack.port("gateway", 9480);
    let refused = http::get(port, "/past").unwrap_err();
    assert!(refused.contains("401"), "{refused}");
    let token = std::fs::read_to_string(stack.key("page-token")).unwrap();
    let bearer = format!("Authorization: Bearer {}\r\n", token.trim());
    let get = |path| http::get_with(port, path, &bearer);
    let page = get("/").expect("the page");
    assert!(page.contains("<title>Lacuna</title>"), "{page}");
    eventually("the page knows the nodes", Duration::from_secs(30), || {
        let past = get("/past")?;
        let known = ["c1", "c2", "c3", "c4", "compose-1"];
        let all = known
            .iter()
            .all(|name| past.contains(&format!("\"{name}\"")));
        all.then_some(()).ok_or(past)
    });
}

/// Each command that changes keys has the bus read them. That must not spoil its restart policy:
/// `every_service_comes_back` kills the bus after it.
fn the_bus_learns_of_new_keys(stack: &Stack) {
    stack.keys(&["add-user", "carol", "--role", "researcher"]);
    let said = stack.lacuna_as("carol", &["trainers", "--json"]);
    assert!(said.ok, "carol is unknown: {}", said.stderr);
    stack.keys(&["renew-tls"]);
    stack.keys(&["revoke", "carol"]);
    let said = stack.lacuna_as("carol", &["trainers", "--json"]);
    assert!(!said.ok, "carol has been revoked: {}", said.stdout);
}

/// Whether the engine calls a container healthy.
fn inspect(stack: &Stack, id: &str, format: &str) -> String {
    let state = stack.docker(&["inspect", "-f", format, id]);
    state.trim().to_owned()
}

/// A container that dies comes back by the restart policy, one after the other, and in the end
/// all are healthy again.
fn every_service_comes_back(stack: &Stack) {
    let services = SERVICES.iter().map(|(name, _)| *name).chain(["nats"]);
    let all: Vec<(&str, String)> = services
        .flat_map(|name| stack.containers(name).into_iter().map(move |id| (name, id)))
        .collect();
    for (name, id) in &all {
        // By its process, since the restart policy ignores a `docker kill`.
        let before = inspect(stack, id, "{{.State.Pid}} {{.RestartCount}}");
        let (pid, restarts) = before.split_once(' ').unwrap();
        stack.kill(pid);
        let what = format!("{name} starts again");
        eventually(&what, Duration::from_secs(30), || {
            let now = inspect(
                stack,
                id,
                "{{.State.Running}} {{.State.Pid}} {{.RestartCount}}",
            );
            let words: Vec<&str> = now.split(' ').collect();
            let again = words[0] == "true" && words[1] != pid && words[2] != restarts;
            again.then_some(()).ok_or(now)
        });
    }
    eventually("all are healthy again", Duration::from_secs(120), || {
        let ill: Vec<String> = all
            .iter()
            .map(|(name, id)| (name, inspect(stack, id, "{{.State.Health.Status}}")))
            .filter(|(_, health)| health != "healthy")
            .map(|(name, health)| format!("{name} is {health}"))
            .collect();
        ill.is_empty().then_some(()).ok_or(ill.join(", "))
    });
    // Earlier counts are still known.
    let trainers = stack.lacuna_json(&["trainers", "--all"]);
    let all = trainers["trainers"].as_array().cloned().unwrap_or_default();
    let ours = all.iter().find(|t| t["trainer"] == "compose-1");
    assert_eq!(ours.map(|t| &t["samples"]), Some(&4_000_000.0.into()));
}

/// Of two instances exactly one leads; when its container is stopped, the other does.
fn a_stopped_leader_is_followed(stack: &Stack) {
    let leaders = |service: &str| {
        let query =
            format!(r#"lacuna_leader{{service="{service}"}} == 1 and on (instance) up == 1"#);
        let found = stack.query(&query)?;
        let names = found.as_array().cloned().unwrap_or_default();
        let names = names
            .iter()
            .filter_map(|m| m["metric"]["instance"].as_str());
        Ok::<Vec<String>, String>(names.map(ToOwned::to_owned).collect())
    };
    for service in LED {
        let mut leader = String::new();
        let what = format!("one {service} leads");
        eventually(&what, Duration::from_secs(60), || {
            let names = leaders(service)?;
            leader = names.first().cloned().unwrap_or_default();
            (names.len() == 1).then_some(()).ok_or(names.join(", "))
        });
        stack.docker(&["stop", &leader]);
        let what = format!("the other {service} leads");
        eventually(&what, Duration::from_secs(60), || {
            let names = leaders(service)?;
            (names.len() == 1 && names[0] != leader)
                .then_some(())
                .ok_or(format!("{leader} was stopped, now {}", names.join(", ")))
        });
    }
}
