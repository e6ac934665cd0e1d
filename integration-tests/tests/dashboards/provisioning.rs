//! Grafana finds its data source and its dashboards by itself.

use crate::support;

/// The uid that every panel names.
pub(super) const DATA_SOURCE: &str = "lacuna-prometheus";

/// The value of the first line `key: value` (or `- key: value`).
fn value<'t>(yaml: &'t str, key: &str) -> &'t str {
    let mut lines = yaml
        .lines()
        .map(|l| l.trim_start().trim_start_matches("- "));
    lines
        .find_map(|l| l.strip_prefix(key).and_then(|l| l.strip_prefix(": ")))
        .unwrap_or_else(|| panic!("no {key} in:\n{yaml}"))
}

#[test]
fn the_data_source_is_the_one_that_panels_name() {
    let source = support::read("grafana/provisioning/datasources/prometheus.yaml");
    assert_eq!(value(&source, "uid"), DATA_SOURCE);
    assert_eq!(value(&source, "type"), "prometheus");
    let url = value(&source, "url");
    let (host, port) = url
        .strip_prefix("http://")
        .unwrap()
        .split_once(':')
        .unwrap();
    let compose = support::read("deploy/compose.yaml");
    assert!(
        compose.contains(&format!("\n  {host}:\n")),
        "no service {host}"
    );
    assert!(
        compose.contains(&format!("}}:{port}\"")),
        "port {port} of {host}"
    );
}

#[test]
fn the_dashboards_are_mounted_where_the_provider_looks() {
    let provider = support::read("grafana/provisioning/dashboards/lacuna.yaml");
    let path = value(&provider, "path");
    let compose = support::read("deploy/compose.yaml");
    assert!(compose.contains(&format!("../grafana/dashboards:{path}:ro")));
    assert!(compose.contains("../grafana/provisioning:/etc/grafana/provisioning:ro"));
    let home = value(&compose, "GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH");
    let file = home
        .strip_prefix(&format!("{path}/"))
        .expect("beside the others");
    assert!(
        support::root()
            .join("grafana/dashboards")
            .join(file)
            .is_file()
    );
}

#[test]
fn prometheus_reads_its_targets_and_rules_where_they_are_mounted() {
    let prometheus = support::read("deploy/prometheus.yml");
    let compose = support::read("deploy/compose.yaml");
    let inside = |text: &str| text.trim_matches(['[', ']', '"']).to_owned();
    let targets = inside(value(&prometheus, "files"));
    let folder = targets.strip_suffix("/*.yml").expect("files of targets");
    assert!(compose.contains(&format!(":{folder}:ro")), "{folder}");
    let rules = inside(value(&prometheus, "rule_files"));
    let file = rules.rsplit('/').next().unwrap();
    assert!(compose.contains(&format!("./{file}:{rules}:ro")), "{rules}");
    assert!(
        support::root().join("deploy").join(file).is_file(),
        "{rules}"
    );
}
