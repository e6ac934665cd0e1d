//! Two clusters under load, and a real Prometheus that scrapes both: it answers every query of
//! every panel, variable and alert, for each cluster by itself.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use lacuna_testkit::or_skip;

use super::alerts;
use super::exposition::asked;
use super::panels::{OF_ALL, dashboards, list, panels};
use super::prometheus::{Prometheus, has_a_number};
use crate::support;

/// The clusters and their sizes.
const CLUSTERS: [(&str, usize); 2] = [("alpha", 96), ("beta", 40)];

/// Panels that may be empty here, with the reason. `*` is every panel of a dashboard.
const MAY_BE_EMPTY: [(&str, &str, &str); 11] = [
    (
        "pilots.json",
        "*",
        "no main scheduler is asked, so nothing of pilots is exported",
    ),
    (
        "centre.json",
        "Alerts that fire or will",
        "nothing is wrong",
    ),
    (
        "centre.json",
        "Node-hours an hour by kind: idle and harvested",
        "no kinds are set",
    ),
    (
        "centre.json",
        "Harm by kind: median and 99 %",
        "no kinds are set",
    ),
    (
        "centre.json",
        "Harm, median of an hour",
        "no time without a node asked back is a number",
    ),
    (
        "control.json",
        "From the signal to the batch job",
        "there are no pilots, which alone are signalled",
    ),
    (
        "control.json",
        "Limit of use",
        "no operator has set a limit",
    ),
    (
        "forecast.json",
        "Time of forecasts and fits",
        "a model is fitted only when enough holes have ended",
    ),
    (
        "planner.json",
        "Gap",
        "where the method has no bound there is no gap",
    ),
    (
        "planner.json",
        "Judged decisions: below the bound",
        "one decision in a hundred is judged",
    ),
    (
        "training.json",
        "*",
        "simulated programs do not time their steps",
    ),
];

/// Metrics of alerts that are not exported here: there are no main scheduler, pilots or keys.
const ABSENT: [&str; 7] = [
    "lacuna_bus_account_connections_limit",
    "lacuna_bus_certificate_",
    "lacuna_bus_key_seconds",
    "lacuna_ingest_scheduler_",
    "lacuna_ingest_follow_",
    "lacuna_control_pilots_",
    "lacuna_pilot_helper_",
];

/// `lacuna up` in a folder; ends with this value.
struct Up(Child);

impl Drop for Up {
    fn drop(&mut self) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.0.id()).unwrap());
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        let _ = self.0.wait();
    }
}

fn lab(args: &[&str]) {
    let program = lacuna_testkit::program("lacuna-lab").display().to_string();
    let said = support::run(&program, args, &[]).unwrap();
    assert!(
        said.ok,
        "lacuna-lab {args:?}: {}{}",
        said.stdout, said.stderr
    );
}

/// Starts a cluster that plays a generated machine at 300 times its speed, and writes the targets
/// of its services for Prometheus.
fn start(dir: &Path, machine: &str, id: &str, nodes: usize) -> Up {
    let data = dir.join(id);
    let log = File::create(dir.join(format!("{id}.log"))).unwrap();
    let child = Command::new(support::lacuna())
        .args(["up", "--cluster", id, "--holes", machine, "--rate", "300"])
        .args(["--first-nodes", &nodes.to_string()])
        .arg("--data-dir")
        .arg(&data)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap();
    let up = Up(child);
    let found = eventually("up.json", || {
        let text = std::fs::read_to_string(data.join("up.json")).map_err(|e| e.to_string())?;
        let found: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
        let services = found["http"].as_object().map_or(0, serde_json::Map::len);
        let all = services == 6;
        all.then_some(found).ok_or(text)
    });
    let mut targets = String::new();
    for (service, at) in found["http"].as_object().unwrap() {
        targets.push_str(&format!(
            "- targets: [{at}]\n  labels: {{ cluster: {id}, service: {service} }}\n"
        ));
    }
    std::fs::write(dir.join(format!("targets/{id}.yml")), targets).unwrap();
    up
}

/// Trainers of all lengths, so that some end while others wait.
fn submit(dir: &Path, id: &str) {
    let path = dir.join(format!("{id}.jsonl"));
    let mut file = File::create(&path).unwrap();
    for number in 0..24 {
        let samples = 20_000 << (number % 8);
        writeln!(
            file,
            r#"{{"name":"{id}-{number}","submit":0,"min_nodes":1,"max_nodes":16,"rescale_up_s":18,"rescale_down_s":12,"samples":{samples},"nodes":[1,4,16],"samples_per_s":[10,38,140]}}"#
        )
        .unwrap();
    }
    let data = dir.join(id).display().to_string();
    let path = path.display().to_string();
    let args = ["submit", "--data-dir", &data, &path];
    eventually("trainers are queued", || {
        let said = support::run(&support::lacuna(), &args, &[]).map_err(|e| e.to_string())?;
        // A busy machine may have accepted them and answered too late.
        let there = said.ok || said.stderr.contains("L0008");
        there.then_some(()).ok_or(said.stderr)
    });
}

/// Tries until it works, long enough for a busy machine.
fn eventually<T>(what: &str, mut attempt: impl FnMut() -> Result<T, String>) -> T {
    let mut last = String::new();
    for _ in 0..240 {
        match attempt() {
            Ok(done) => return done,
            Err(why) => last = why,
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    panic!("{what}: {last}");
}

/// One query of a panel.
#[derive(Clone)]
struct Query {
    file: String,
    title: String,
    expression: String,
    instant: bool,
}

impl Query {
    /// The query with Grafana's values for its variables.
    fn of(&self, cluster: &str) -> String {
        self.expression
            .replace("$cluster", cluster)
            .replace("$__rate_interval", "10s")
            .replace("$__range", "2m")
    }

    fn may_be_empty(&self) -> bool {
        MAY_BE_EMPTY.iter().any(|(file, title, _)| {
            self.file.ends_with(file) && (*title == "*" || *title == self.title)
        })
    }

    fn answer(&self, prometheus: &Prometheus, cluster: &str) -> Vec<Value> {
        let expression = self.of(cluster);
        let answer = if self.instant {
            prometheus.query(&expression)
        } else {
            prometheus.query_range(&expression)
        };
        answer.unwrap_or_else(|e| panic!("{}, {}: {e}: {expression}", self.file, self.title))
    }
}

fn queries() -> Vec<Query> {
    let mut all = Vec::new();
    for (file, dashboard) in dashboards() {
        for panel in panels(&dashboard) {
            for target in list(panel, "targets") {
                all.push(Query {
                    file: file.clone(),
                    title: panel["title"].as_str().unwrap().to_owned(),
                    expression: target["expr"].as_str().unwrap().to_owned(),
                    instant: target["instant"] == true,
                });
            }
        }
    }
    for (file, title, _) in MAY_BE_EMPTY {
        let known = |q: &Query| q.file.ends_with(file) && (title == "*" || q.title == title);
        assert!(all.iter().any(known), "{file} has no panel {title}");
    }
    all
}

#[test]
fn a_real_prometheus_answers_every_query_from_two_clusters_under_load() {
    let folder = tempfile::Builder::new()
        .prefix("lacuna-dashboards-")
        .tempdir()
        .unwrap();
    let dir = folder.path();
    let prometheus = or_skip!(Prometheus::start(dir));
    let machine = dir.join("machine.csv.gz").display().to_string();
    lab(&[
        "generate",
        "--nodes",
        "96",
        "--days",
        "3",
        "--seed",
        "5",
        "--utilisation",
        "0.8",
        "-o",
        &machine,
    ]);
    let mut clusters = Vec::new();
    for (id, nodes) in CLUSTERS {
        clusters.push(start(dir, &machine, id, nodes));
    }
    eventually("both clusters are scraped", || {
        let up = prometheus.query(r#"count(up{job="lacuna"} == 1)"#)?;
        let count = up.first().map(|s| s["value"][1].clone());
        (count == Some("12".into()))
            .then_some(())
            .ok_or(format!("{up:?}"))
    });
    for (id, _) in CLUSTERS {
        submit(dir, id);
    }
    the_variable_offers_both_clusters(&prometheus);
    every_panel_is_answered(&prometheus);
    an_unknown_cluster_has_no_answers(&prometheus);
    a_cluster_is_shown_by_itself(&prometheus);
    every_alert_is_judged(&prometheus);
    // Beta ends, and an alert names beta alone.
    clusters.pop();
    eventually("an alert says that beta is down", || {
        let alerts =
            prometheus.query(r#"count by (cluster) (ALERTS{alertname="LacunaServiceDown"})"#)?;
        let named: Vec<&str> = alerts
            .iter()
            .filter_map(|a| a["metric"]["cluster"].as_str())
            .collect();
        (named == ["beta"])
            .then_some(())
            .ok_or(format!("{alerts:?}"))
    });
}

fn the_variable_offers_both_clusters(prometheus: &Prometheus) {
    let mut asked = BTreeSet::new();
    for (_, dashboard) in dashboards() {
        for variable in list(&dashboard["templating"], "list") {
            asked.extend(variable["definition"].as_str().map(str::to_owned));
        }
    }
    assert!(!asked.is_empty());
    for definition in asked {
        let (selector, label) = definition
            .strip_prefix("label_values(")
            .and_then(|d| d.strip_suffix(')'))
            .and_then(|d| d.rsplit_once(", "))
            .unwrap_or_else(|| panic!("{definition}"));
        let path = format!("label/{label}/values");
        let values = prometheus.ask(&path, &[("match[]", selector)]).unwrap();
        assert_eq!(values, serde_json::json!(["alpha", "beta"]), "{definition}");
    }
}

fn every_panel_is_answered(prometheus: &Prometheus) {
    let all = queries();
    let mut open: Vec<(Query, &str)> = Vec::new();
    for (cluster, _) in CLUSTERS {
        open.extend(all.iter().map(|q| (q.clone(), cluster)));
    }
    let asked = open.len();
    eventually("every query that may not be empty has an answer", || {
        open.retain(|(query, cluster)| {
            !has_a_number(&query.answer(prometheus, cluster)) && !query.may_be_empty()
        });
        let empty: Vec<String> = open
            .iter()
            .map(|(q, c)| format!("{}, {}: {}", q.file, q.title, q.of(c)))
            .collect();
        empty.is_empty().then_some(()).ok_or(empty.join("\n"))
    });
    println!("{asked} queries of panels were answered");
}

/// A query without the cluster's label would have an answer for a cluster that does not exist.
fn an_unknown_cluster_has_no_answers(prometheus: &Prometheus) {
    for query in queries().iter().filter(|q| q.title != OF_ALL) {
        let answer = query.answer(prometheus, "no-such-cluster").len();
        let counts = usize::from(query.expression.ends_with("or vector(0)"));
        assert_eq!(answer, counts, "{}", query.of("no-such-cluster"));
    }
}

fn a_cluster_is_shown_by_itself(prometheus: &Prometheus) {
    let memory = queries().into_iter().find(|q| q.title == "Memory").unwrap();
    for (cluster, _) in CLUSTERS {
        // One for each process of that cluster.
        let answer = prometheus.query(&memory.of(cluster)).unwrap();
        assert_eq!(answer.len(), 6, "{answer:?}");
        let own = |s: &Value| s["metric"]["cluster"] == cluster;
        assert!(answer.iter().all(own), "{answer:?}");
    }
    let all = queries().into_iter().find(|q| q.title == OF_ALL).unwrap();
    assert_eq!(prometheus.query(&all.expression).unwrap().len(), 2);
}

fn every_alert_is_judged(prometheus: &Prometheus) {
    let groups = prometheus.ask("rules", &[]).unwrap();
    let evaluated: Vec<&Value> = list(&groups, "groups")
        .iter()
        .flat_map(|g| list(g, "rules"))
        .collect();
    let rules = alerts::read();
    assert_eq!(evaluated.len(), rules.len());
    for rule in evaluated {
        assert_eq!(rule["health"], "ok", "{rule}");
    }
    // An alert whose metric no service exports would stay silent forever.
    for rule in rules {
        for metric in asked(&rule.expression).metrics {
            if ABSENT.iter().any(|m| metric.starts_with(m)) {
                continue;
            }
            let answer = prometheus.query(&format!("count by (cluster) ({metric})"));
            assert_eq!(answer.unwrap().len(), 2, "{}: {metric}", rule.name);
        }
    }
}
