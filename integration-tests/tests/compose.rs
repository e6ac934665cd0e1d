//! `deploy/compose.yaml` is really brought up: images of the binaries that were just built, the
//! bus, every service in its own container, Prometheus. It needs a Docker engine and compose,
//! and for the base image a registry or debootstrap; where these lack it says SKIPPED and why.
//! Grafana's image is used where it can be had; its files are checked in `dashboards` anyway.

mod http;
mod stack;

use std::time::Duration;

use serde_json::Value;

use stack::{Stack, eventually};

use crate::support;

const SERVICES: [&str; 6] = [
    "ingest", "forecast", "planner", "control", "agent", "gateway",
];

/// A trainer with an end that it reaches in seconds on four nodes.
const TRAINER: &str = r#"{"name":"compose-1","submit":0,"min_nodes":1,"max_nodes":8,"rescale_up_s":0,"rescale_down_s":0,"samples":4000,"nodes":[1,8],"samples_per_s":[100,800]}"#;

#[test]
fn lacuna_runs_in_containers() {
    let stack = match Stack::up() {
        Ok(stack) => stack,
        Err(why) => {
            println!("SKIPPED lacuna_runs_in_containers: {why}");
            return;
        }
    };
    containers_are_confined(&stack);
    prometheus_sees_every_service(&stack);
    expressions_are_promql(&stack);
    a_trainer_uses_a_hole_and_is_done(&stack);
    the_page_shows_it(&stack);
    every_service_comes_back(&stack);
}

/// As little as possible is allowed, whatever the images say.
fn containers_are_confined(stack: &Stack) {
    for name in SERVICES.iter().chain(&["nats", "prometheus"]) {
        let inspected = stack.docker(&["inspect", &stack.container(name)]);
        let inspected: Value = serde_json::from_str(&inspected).unwrap();
        let container = &inspected[0];
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
        let ports = host["PortBindings"].to_string();
        assert!(
            ports.matches("HostIp").count() == ports.matches(r#""HostIp":"127.0.0.1""#).count(),
            "{name} can be reached from other machines: {ports}"
        );
    }
}

fn prometheus_sees_every_service(stack: &Stack) {
    eventually(
        "prometheus scrapes every service",
        Duration::from_secs(30),
        || {
            let up = stack.query(r#"up{job="lacuna"} == 1"#)?;
            let seen = up.as_array().map_or(0, Vec::len);
            (seen == SERVICES.len())
                .then_some(())
                .ok_or(format!("{seen} of {}: {up}", SERVICES.len()))
        },
    );
    let rules = http::get(stack.prometheus_port, "/api/v1/rules").expect("rules");
    assert!(rules.contains("LacunaServiceDown"), "{rules}");
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

/// The whole loop through the containers: four nodes become idle, a trainer gets them and does
/// its work.
fn a_trainer_uses_a_hole_and_is_done(stack: &Stack) {
    for node in ["c1", "c2", "c3", "c4"] {
        stack.lacuna(&["events", "publish", "node.idle", node]);
    }
    stack.write("/tmp/trainer.jsonl", TRAINER);
    stack.lacuna(&["submit", "/tmp/trainer.jsonl"]);
    eventually(
        "the trainer gets the four nodes",
        Duration::from_secs(30),
        || {
            let nodes = stack.lacuna_json(&["nodes"]);
            let leased = nodes["nodes"].as_array().map_or(0, |nodes| {
                nodes.iter().filter(|n| n["trainer"] == "compose-1").count()
            });
            (leased == 4).then_some(()).ok_or(nodes.to_string())
        },
    );
    eventually("the trainer is done", Duration::from_secs(60), || {
        let trainers = stack.lacuna_json(&["trainers", "--all"]);
        let trainer = &trainers["trainers"][0];
        let done = trainer["phase"] == "done" && trainer["samples"] == 4000.0;
        done.then_some(()).ok_or(trainers.to_string())
    });
    eventually(
        "the harvest is in prometheus",
        Duration::from_secs(30),
        || {
            let harvested = stack.query("lacuna_control_harvested_node_seconds_total > 0")?;
            let seen = harvested.as_array().is_some_and(|a| !a.is_empty());
            seen.then_some(()).ok_or(harvested.to_string())
        },
    );
}

/// The operator's page is there, and its figures are those of the cluster.
fn the_page_shows_it(stack: &Stack) {
    let page = http::get(stack.page_port, "/").expect("the page");
    assert!(page.contains("<title>Lacuna</title>"), "{page}");
    eventually("the page knows the nodes", Duration::from_secs(30), || {
        let past = http::get(stack.page_port, "/past")?;
        let known = ["c1", "c2", "c3", "c4", "compose-1"];
        let all = known
            .iter()
            .all(|name| past.contains(&format!("\"{name}\"")));
        all.then_some(()).ok_or(past)
    });
}

/// A container that dies comes back by the restart policy, one after the other, and in the end
/// all are healthy again.
fn every_service_comes_back(stack: &Stack) {
    let names = || SERVICES.iter().chain(&["nats"]);
    let inspect = |name: &str, format: &str| {
        let state = stack.docker(&["inspect", "-f", format, &stack.container(name)]);
        state.trim().to_owned()
    };
    for name in names() {
        // By its process: a `docker kill` would count as the operator's wish.
        let before = inspect(name, "{{.State.Pid}}");
        stack.kill(&before);
        let what = format!("{name} starts again");
        eventually(&what, Duration::from_secs(30), || {
            let now = inspect(name, "{{.State.Running}} {{.State.Pid}} {{.RestartCount}}");
            let words: Vec<&str> = now.split(' ').collect();
            let again = words[0] == "true" && words[1] != before && words[2] == "1";
            again.then_some(()).ok_or(now)
        });
    }
    eventually("all are healthy again", Duration::from_secs(90), || {
        let ill: Vec<String> = names()
            .map(|name| (name, inspect(name, "{{.State.Health.Status}}")))
            .filter(|(_, health)| health != "healthy")
            .map(|(name, health)| format!("{name} is {health}"))
            .collect();
        ill.is_empty().then_some(()).ok_or(ill.join(", "))
    });
    // What was counted before is still known.
    let trainers = stack.lacuna_json(&["trainers", "--all"]);
    assert_eq!(trainers["trainers"][0]["samples"], 4000.0, "{trainers}");
}
