//! Panels query existing metrics, and only of the chosen cluster.

use std::collections::BTreeSet;

use serde_json::Value;

use super::exposition::{Asked, Exported, asked};
use crate::support;

/// Labels that Prometheus gives to every series by `deploy/prometheus.yml`.
const SCRAPED: [&str; 5] = ["job", "instance", "service", "cluster", "le"];

/// The one panel that shows all clusters, whichever is chosen.
pub(super) const OF_ALL: &str = "All clusters";

/// Every dashboard, with its file's name.
pub(super) fn dashboards() -> Vec<(String, Value)> {
    let files = support::files("grafana/dashboards", "json");
    assert!(!files.is_empty(), "no dashboard found");
    files
        .into_iter()
        .map(|file| {
            let text = support::read(&file);
            let value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{file}: {e}"));
            (file, value)
        })
        .collect()
}

/// A list by its key; empty if there is none.
pub(super) fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// Panels, those inside collapsed rows too.
pub(super) fn panels(dashboard: &Value) -> Vec<&Value> {
    let top = list(dashboard, "panels");
    top.iter()
        .flat_map(|panel| std::iter::once(panel).chain(list(panel, "panels")))
        .collect()
}

fn check(place: &str, expression: &str, exported: &Exported) {
    let Asked { metrics, labels } = asked(expression);
    assert!(
        !metrics.is_empty(),
        "{place} asks for no metric: {expression}"
    );
    let mut known: BTreeSet<&str> = SCRAPED.into();
    for metric in &metrics {
        let of_metric = exported.labels.get(metric);
        let of_metric = of_metric.unwrap_or_else(|| {
            panic!("{place} asks for {metric}, which no service exports: {expression}")
        });
        known.extend(of_metric.iter().map(String::as_str));
    }
    for label in &labels {
        assert!(
            known.contains(label.as_str()),
            "{place} asks for label {label}, which {metrics:?} do not have: {expression}"
        );
    }
}

#[test]
fn panels_ask_only_for_metrics_that_exist() {
    let exported = Exported::read();
    let mut count = 0;
    for (file, dashboard) in dashboards() {
        for panel in panels(&dashboard) {
            let place = format!("{file}, panel {}", panel["title"]);
            for target in list(panel, "targets") {
                let expression = target["expr"].as_str().unwrap_or_default();
                check(&place, expression, &exported);
                count += 1;
            }
        }
    }
    assert!(count >= 100, "only {count} queries found");
}

/// With two clusters in one Prometheus, a query without the label adds them up unnoticed.
#[test]
fn panels_ask_for_the_chosen_cluster_alone() {
    for (file, dashboard) in dashboards() {
        for panel in panels(&dashboard) {
            for target in list(panel, "targets") {
                let expression = target["expr"].as_str().unwrap_or_default();
                let forgotten = without_cluster(expression);
                if panel["title"] == OF_ALL {
                    assert!(!expression.contains("$cluster"), "{file}: {expression}");
                } else {
                    assert_eq!(forgotten, Vec::<String>::new(), "{file}: {expression}");
                }
            }
        }
    }
    let text = r#"sum(lacuna_a{cluster="$cluster"}) / lacuna_b{x="y"} + lacuna_a"#;
    assert_eq!(without_cluster(text), ["lacuna_a", "lacuna_b"]);
}

/// Metrics of an expression that are selected somewhere without the label of the cluster.
fn without_cluster(expression: &str) -> Vec<String> {
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    let names = asked(expression).metrics.into_iter();
    names
        .filter(|name| {
            expression.match_indices(name.as_str()).any(|(at, _)| {
                let rest = &expression[at + name.len()..];
                let selector = rest.strip_prefix('{').and_then(|r| r.split_once('}'));
                ends(rest) && !selector.is_some_and(|(s, _)| s.contains(r#"cluster="$cluster""#))
            })
        })
        .collect()
}

/// The divisions of an expression whose divisor may be zero: it is neither a number nor `(... > 0)`.
fn open_divisions(expression: &str) -> Vec<&str> {
    // Selectors may contain slashes.
    let (mut found, mut quoted) = (Vec::new(), false);
    for (at, letter) in expression.char_indices() {
        quoted ^= letter == '"';
        if letter != '/' || quoted {
            continue;
        }
        let mut divisor = expression[at + 1..].trim_start();
        for word in ["on", "ignoring", "group_left", "group_right"] {
            if let Some(rest) = divisor.strip_prefix(word) {
                let rest = rest.trim_start();
                // Prometheus takes what is in brackets there for labels.
                let labels = rest.starts_with('(');
                let after = labels.then(|| rest.split_once(')')).flatten();
                divisor = after.map_or(rest, |(_, rest)| rest).trim_start();
            }
        }
        let mut depth = 0;
        let within = divisor.strip_prefix('(').map(|inner| {
            let end = inner.find(|c: char| {
                depth += i32::from(c == '(') - i32::from(c == ')');
                depth < 0
            });
            &inner[..end.unwrap_or(inner.len())]
        });
        let is_number = divisor.starts_with(|c: char| c.is_ascii_digit());
        if !is_number && !within.is_some_and(|text| text.ends_with("> 0")) {
            found.push(divisor);
        }
    }
    found
}

#[test]
fn a_ratio_with_nothing_below_it_is_none() {
    let mut divisions = 0;
    let mut check = |place: &str, expression: &str| {
        assert_eq!(open_divisions(expression), [""; 0], "{place}: {expression}");
        divisions += expression.matches(" / ").count();
    };
    for (file, dashboard) in dashboards() {
        for panel in panels(&dashboard) {
            for target in list(panel, "targets") {
                check(&file, target["expr"].as_str().unwrap_or_default());
            }
        }
    }
    for alert in super::alerts::read() {
        check(&alert.name, &alert.expression);
    }
    assert!(divisions > 5, "only {divisions} divisions found");
    for (open, expression) in [
        (1, r#"a{b="c/d"} / sum(rate(e[5m]))"#),
        (1, "a / ignoring (part) group_left b{c=\"d\"}"),
        (0, "a / on (cluster, instance) (b > 0) > 0.8"),
        (0, "a / ignoring (part) group_left () (sum(b) > 0) <= 1"),
        (0, "sum(a) / 3600"),
    ] {
        assert_eq!(open_divisions(expression).len(), open, "{expression}");
    }
}

#[test]
fn alert_rules_ask_only_for_metrics_that_exist() {
    let exported = Exported::read();
    for alert in super::alerts::read() {
        check(&alert.name, &alert.expression, &exported);
        let by_cluster = alert.expression.contains("by (cluster")
            || !["sum", "max by", "min by", "count"]
                .iter()
                .any(|f| alert.expression.contains(f));
        assert!(by_cluster, "{} adds clusters up", alert.name);
    }
}

#[test]
fn dashboards_show_the_essential() {
    let shown = dashboards();
    for (name, essential) in [
        (
            "centre.json",
            ["harm", "node-hours", "efficiency", "trainers", "alerts"].as_slice(),
        ),
        (
            "forecast.json",
            &["lengths", "calibration", "error", "skill"],
        ),
        (
            "planner.json",
            &[
                "solve time",
                "gap",
                "outcome",
                "churn",
                "verdicts",
                "judged",
            ],
        ),
        (
            "control.json",
            &["leases", "release latency", "preemptions", "quarantines"],
        ),
        (
            "services.json",
            &[
                "waiting",
                "dead letters",
                "slow consumers",
                "restarts",
                "lead",
                "denied",
                "memory",
            ],
        ),
        ("pilots.json", &["pilots", "requests", "observed"]),
        (
            "training.json",
            &["by cause", "goodput", "noise scale", "batch"],
        ),
    ] {
        let (_, dashboard) = shown
            .iter()
            .find(|(file, _)| file.ends_with(name))
            .unwrap_or_else(|| panic!("no dashboard {name}"));
        let titles: Vec<String> = panels(dashboard)
            .iter()
            .map(|p| p["title"].as_str().unwrap_or_default().to_lowercase())
            .collect();
        for wanted in essential {
            assert!(
                titles.iter().any(|t| t.contains(wanted)),
                "{name} shows no {wanted}: {titles:?}"
            );
        }
    }
}
