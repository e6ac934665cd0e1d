//! Grafana's rules of dashboards, as far as files can break them, and this project's rules.

use std::collections::BTreeSet;

use serde_json::Value;

use super::panels::{dashboards, list, panels};
use super::provisioning::DATA_SOURCE;

/// How a panel names its data source: by the variable, whose value is the provisioned one.
const BY_VARIABLE: &str = "${datasource}";

/// Kinds of panels that are used; each is part of Grafana itself.
const KINDS: [&str; 6] = [
    "row",
    "stat",
    "timeseries",
    "heatmap",
    "table",
    "state-timeline",
];

/// Units by Grafana's ids.
const UNITS: [&str; 6] = ["none", "short", "percentunit", "s", "ops", "bytes"];

#[test]
fn dashboards_keep_grafanas_rules() {
    let mut uids = BTreeSet::new();
    for (file, dashboard) in dashboards() {
        let uid = dashboard["uid"].as_str().unwrap_or_default().to_owned();
        assert!((1..=40).contains(&uid.len()), "{file}: uid {uid:?}");
        assert!(
            uid.chars().all(|c| c.is_ascii_lowercase() || c == '-'),
            "{file}: uid {uid:?} in a URL"
        );
        assert!(uids.insert(uid), "{file}: its uid is another dashboard's");
        assert!(!dashboard["title"].as_str().unwrap_or_default().is_empty());
        assert!(
            dashboard["id"].is_null(),
            "{file}: an id of one installation"
        );
        // The version of Grafana 10 and 11; newer ones read it.
        assert_eq!(dashboard["schemaVersion"], 39, "{file}");
        assert_eq!(dashboard["editable"], false, "{file}");
        let mut ids = BTreeSet::new();
        let mut titles = BTreeSet::new();
        let mut taken = BTreeSet::new();
        for panel in panels(&dashboard) {
            let place = format!("{file}, panel {}", panel["title"]);
            assert!(
                ids.insert(panel["id"].as_u64().expect("an id")),
                "{place}: its id is taken"
            );
            assert!(
                titles.insert((
                    panel["type"].as_str(),
                    panel["title"].as_str().expect("a title")
                )),
                "{place}: two of this title"
            );
            place_is_free(&place, &panel["gridPos"], &mut taken);
            let kind = panel["type"].as_str().unwrap_or_default();
            assert!(KINDS.contains(&kind), "{place}: {kind}");
            if kind == "row" {
                assert_eq!(
                    panel["gridPos"]["w"], 24,
                    "{place}: a row is as wide as the page"
                );
            } else {
                panel_is_sound(&place, kind, panel);
            }
        }
    }
    assert_eq!(uids.len(), 7, "{uids:?}");
}

fn panel_is_sound(place: &str, kind: &str, panel: &Value) {
    assert_eq!(panel["datasource"]["uid"], BY_VARIABLE, "{place}");
    assert_eq!(panel["datasource"]["type"], "prometheus", "{place}");
    assert!(!list(panel, "targets").is_empty(), "{place}: no query");
    assert!(
        panel["description"].as_str().is_some_and(|d| d.len() > 20),
        "{place}: say in its description how to read it"
    );
    let mut letters = BTreeSet::new();
    for target in list(panel, "targets") {
        let letter = target["refId"].as_str().expect("a refId");
        assert!(letters.insert(letter), "{place}: refId {letter} twice");
        assert!(
            target["datasource"].is_null(),
            "{place}: queries use the panel's data source"
        );
        let format = target["format"].as_str();
        match kind {
            // Without it, buckets of Prometheus are drawn as if each held those below it.
            "heatmap" => assert_eq!(format, Some("heatmap"), "{place}"),
            "table" => {
                assert_eq!(format, Some("table"), "{place}");
                assert_eq!(target["instant"], true, "{place}");
            }
            _ => {
                assert_eq!(format, None, "{place}");
                let legend = target["legendFormat"].as_str().unwrap_or_default();
                assert!(!legend.is_empty(), "{place}: a legend for {letter}");
            }
        }
    }
    let defaults = &panel["fieldConfig"]["defaults"];
    let unit = match kind {
        "heatmap" => &panel["options"]["yAxis"]["unit"],
        _ => &defaults["unit"],
    };
    if ["stat", "timeseries", "heatmap"].contains(&kind) {
        let unit = unit.as_str().unwrap_or_default();
        assert!(UNITS.contains(&unit), "{place}: unit {unit:?}");
    }
    let steps = list(&defaults["thresholds"], "steps");
    if let Some((first, rest)) = steps.split_first() {
        assert!(first["value"].is_null(), "{place}: the base step");
        let values: Vec<f64> = rest.iter().filter_map(|s| s["value"].as_f64()).collect();
        assert_eq!(values.len(), rest.len(), "{place}: steps have values");
        assert!(
            values.windows(2).all(|w| w.first() < w.last()),
            "{place}: steps rise"
        );
    } else {
        assert!(
            !["stat", "state-timeline"].contains(&kind),
            "{place}: colours need steps"
        );
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

#[test]
fn each_dashboard_lets_the_data_source_and_the_cluster_be_chosen() {
    for (file, dashboard) in dashboards() {
        let variables = list(&dashboard["templating"], "list");
        let names: Vec<&str> = variables
            .iter()
            .filter_map(|v| v["name"].as_str())
            .collect();
        assert_eq!(names, ["datasource", "cluster"], "{file}");
        let [source, cluster] = variables else {
            panic!("{file}: two variables");
        };
        assert_eq!(source["type"], "datasource", "{file}");
        assert_eq!(source["query"], "prometheus", "{file}");
        assert_eq!(source["current"]["value"], DATA_SOURCE, "{file}");
        assert_eq!(cluster["type"], "query", "{file}");
        assert_eq!(cluster["datasource"]["uid"], BY_VARIABLE, "{file}");
        assert_eq!(cluster["query"]["query"], cluster["definition"], "{file}");
        // One cluster at a time: sums over several mean nothing.
        assert_eq!(cluster["multi"], false, "{file}");
        assert_eq!(cluster["includeAll"], false, "{file}");
    }
}

#[test]
fn links_lead_to_dashboards_that_exist() {
    let all = dashboards();
    let uids: BTreeSet<&str> = all.iter().filter_map(|(_, d)| d["uid"].as_str()).collect();
    let mut count = 0;
    for (file, dashboard) in &all {
        let [to_all] = list(dashboard, "links") else {
            panic!("{file}: one link, to all dashboards of Lacuna");
        };
        assert_eq!(to_all["type"], "dashboards", "{file}");
        assert_eq!(to_all["includeVars"], true, "{file}: keep the cluster");
        assert_eq!(to_all["keepTime"], true, "{file}");
        let tags: BTreeSet<&str> = list(dashboard, "tags")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        for tag in list(to_all, "tags") {
            assert!(tags.contains(tag.as_str().unwrap_or_default()), "{file}");
        }
        for panel in panels(dashboard) {
            for link in list(panel, "links") {
                let url = link["url"].as_str().unwrap_or_default();
                let (uid, rest) = url
                    .strip_prefix("/d/")
                    .and_then(|u| u.split_once('?'))
                    .unwrap_or_else(|| panic!("{file}: {url}"));
                assert!(uids.contains(uid), "{file}: {url} leads nowhere");
                assert_eq!(rest, "${__url_time_range}&${__all_variables}", "{file}");
                count += 1;
            }
        }
    }
    assert!(count >= 5, "only {count} links");
}
