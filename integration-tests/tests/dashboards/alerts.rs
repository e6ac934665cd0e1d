//! The alert rules: Prometheus's own tool reads them, and each fires when it should, and only then.

use std::collections::BTreeSet;

use lacuna_testkit::{Need, or_skip};

use crate::support;

/// Rules and their unit tests.
pub(super) const RULES: &str = "deploy/alerts.yml";
const TESTS: &str = "integration-tests/tests/dashboards/alerts.test.yml";

/// One rule.
#[derive(Debug, Default)]
pub(super) struct Alert {
    pub(super) name: String,
    pub(super) expression: String,
    severity: String,
    summary: String,
    runbook: String,
}

/// All rules, read from their lines, since each key has a line of its own.
pub(super) fn read() -> Vec<Alert> {
    let mut alerts: Vec<Alert> = Vec::new();
    for line in support::read(RULES).lines().map(str::trim_start) {
        if let Some(name) = line.strip_prefix("- alert: ") {
            alerts.push(Alert {
                name: name.to_owned(),
                ..Alert::default()
            });
        }
        let Some(alert) = alerts.last_mut() else {
            continue;
        };
        for (key, value) in [
            ("expr: ", &mut alert.expression),
            ("labels: { severity: ", &mut alert.severity),
            ("summary: ", &mut alert.summary),
            ("runbook: ", &mut alert.runbook),
        ] {
            if let Some(text) = line.strip_prefix(key) {
                *value = text.trim_end_matches(" }").trim_matches('"').to_owned();
            }
        }
    }
    assert!(alerts.len() >= 20, "only {} rules found", alerts.len());
    alerts
}

#[test]
fn every_alert_says_which_cluster_how_urgent_and_where_to_read_on() {
    let mut names = BTreeSet::new();
    for alert in read() {
        assert!(names.insert(alert.name.clone()), "{} twice", alert.name);
        assert!(
            ["page", "ticket"].contains(&alert.severity.as_str()),
            "{alert:?}"
        );
        let named = alert.summary.starts_with("{{ $labels.cluster }}: ");
        assert!(named, "{}: {}", alert.name, alert.summary);
        let (name, anchor) = (&alert.name, alert.name.to_lowercase());
        assert_eq!(
            alert.runbook,
            format!("lacuna help {name}, or deploy/runbooks.md#{anchor}")
        );
    }
}

#[test]
fn every_alert_has_a_test_in_which_it_fires() {
    let tests = support::read(TESTS);
    for alert in read() {
        let fires = format!(r#"alertname="{}", cluster="bad""#, alert.name);
        assert!(tests.contains(&fires), "no test lets {} fire", alert.name);
    }
}

#[test]
fn alerts_fire_when_they_should_and_are_silent_else() {
    let there = support::run("promtool", &["--version"], &[]).is_ok();
    or_skip!(Need::Prometheus.given(there, "no promtool"));
    for args in [["check", "rules", RULES], ["test", "rules", TESTS]] {
        let said = support::run("promtool", &args, &[]).unwrap();
        assert!(
            said.ok,
            "promtool {}:\n{}{}",
            args.join(" "),
            said.stdout,
            said.stderr
        );
    }
}
