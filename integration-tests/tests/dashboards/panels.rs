//! The dashboards: sound by Grafana's rules, and asking only for what is there.

use std::collections::BTreeSet;

use serde_json::Value;

use super::exposition::{Asked, Exported, asked};
use super::provisioning::DATA_SOURCE;
use crate::support;

/// Labels that Prometheus gives to every series by `deploy/prometheus.yml`.
const SCRAPED: [&str; 4] = ["job", "instance", "service", "le"];

fn dashboards() -> Vec<(String, Value)> {
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

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// Panels, those inside collapsed rows too.
fn panels(dashboard: &Value) -> Vec<&Value> {
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
                check(
                    &place,
                    target["expr"].as_str().unwrap_or_default(),
                    &exported,
                );
                count += 1;
            }
        }
    }
    assert!(count >= 10, "only {count} queries found");
}

#[test]
fn alert_rules_ask_only_for_metrics_that_exist() {
    let exported = Exported::read();
    let rules = support::read("deploy/alerts.yml");
    let expressions: Vec<&str> = rules
        .lines()
        .filter_map(|l| l.trim_start().strip_prefix("expr: "))
        .collect();
    assert!(
        expressions.len() >= 3,
        "only {} rules found",
        expressions.len()
    );
    assert_eq!(expressions.len(), rules.matches("- alert:").count());
    for expression in expressions {
        check("deploy/alerts.yml", expression, &exported);
    }
}

#[test]
fn dashboards_show_the_essential() {
    let shown = dashboards();
    for (name, essential) in [
        (
            "lacuna.json",
            ["pool", "node-hours", "trainers", "solve time"],
        ),
        ("pilots.json", ["pilots", "harm", "requests", "observed"]),
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

#[test]
fn dashboards_keep_grafanas_rules() {
    let mut uids = BTreeSet::new();
    for (file, dashboard) in dashboards() {
        let uid = dashboard["uid"].as_str().unwrap_or_default().to_owned();
        assert!((1..=40).contains(&uid.len()), "{file}: uid {uid:?}");
        assert!(uids.insert(uid), "{file}: its uid is another dashboard's");
        assert!(!dashboard["title"].as_str().unwrap_or_default().is_empty());
        assert!(
            dashboard["id"].is_null(),
            "{file}: an id of one installation"
        );
        assert!(dashboard["schemaVersion"].as_u64() >= Some(39), "{file}");
        let mut ids = BTreeSet::new();
        let mut taken = BTreeSet::new();
        for panel in panels(&dashboard) {
            let place = format!("{file}, panel {}", panel["title"]);
            assert!(
                ids.insert(panel["id"].as_u64().expect("an id")),
                "{place}: its id is taken"
            );
            place_is_free(&place, &panel["gridPos"], &mut taken);
            if panel["type"] == "row" || panel["type"] == "text" {
                continue;
            }
            assert_eq!(panel["datasource"]["uid"], DATA_SOURCE, "{place}");
            assert!(!list(panel, "targets").is_empty(), "{place}: no query");
            assert!(
                panel["description"].as_str().is_some_and(|d| d.len() > 20),
                "{place}: say in its description how to read it"
            );
            let mut letters = BTreeSet::new();
            for target in list(panel, "targets") {
                let letter = target["refId"].as_str().expect("a refId");
                assert!(letters.insert(letter), "{place}: refId {letter} twice");
                assert_eq!(target["datasource"]["uid"], DATA_SOURCE, "{place}");
            }
        }
    }
}

/// The grid is 24 wide; no two panels share a cell.
fn place_is_free(place: &str, at: &Value, taken: &mut BTreeSet<(u64, u64)>) {
    let number = |key: &str| {
        at[key]
            .as_u64()
            .unwrap_or_else(|| panic!("{place}: gridPos.{key}"))
    };
    let (x, y, w, h) = (number("x"), number("y"), number("w"), number("h"));
    assert!(w > 0 && h > 0 && x + w <= 24, "{place}: outside the grid");
    for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
        assert!(taken.insert(cell), "{place}: lies over another panel");
    }
}
