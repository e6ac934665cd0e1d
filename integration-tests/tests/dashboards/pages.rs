//! Each alert has a page with its remedy.

use std::collections::BTreeSet;

use super::alerts;
use crate::support;

const RUNBOOKS: &str = "deploy/runbooks.md";

/// The parts of every page of an alert.
const PARTS: [&str; 5] = [
    "**Means:**",
    "**Noticed:**",
    "**Look:**",
    "**Do:**",
    "**Escalate:**",
];

/// Sections of a document by their heading of the second order.
fn sections(document: &str) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for line in document.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            all.push((title.to_owned(), String::new()));
        } else if let Some((_, text)) = all.last_mut() {
            text.push_str(line);
            text.push('\n');
        }
    }
    all
}

#[test]
fn every_alert_has_its_page_and_every_page_its_alert() {
    let document = support::read(RUNBOOKS);
    let pages = sections(&document);
    let titles: Vec<&str> = pages.iter().map(|(title, _)| title.as_str()).collect();
    let alerts = alerts::read();
    let names: Vec<&str> = alerts.iter().map(|a| a.name.as_str()).collect();
    // In the same order, so that the place of a new page is clear.
    assert_eq!(titles, names);
    for (title, text) in &pages {
        let places: Vec<Option<usize>> = PARTS.iter().map(|part| text.find(part)).collect();
        assert!(places.iter().all(Option::is_some), "{title}: {PARTS:?}");
        assert!(places.is_sorted(), "{title}: in the order {PARTS:?}");
    }
}

/// Metrics, settings and commands that the pages name exist.
#[test]
fn runbooks_name_what_exists() {
    let document = support::read(RUNBOOKS);
    let exported = super::exposition::Exported::read();
    let mut commands = BTreeSet::new();
    for code in document.split('`').skip(1).step_by(2) {
        if code.starts_with("lacuna_") || code.starts_with("process_") {
            let name = code.split('{').next().unwrap_or_default();
            let parts = ["", "_bucket", "_count"];
            let known = |part: &&str| exported.labels.contains_key(&format!("{name}{part}"));
            assert!(parts.iter().any(known), "no metric {name}");
        } else if let Some(rest) = code.strip_prefix("lacuna ") {
            let words = rest.split_whitespace();
            let verbs = words.take_while(|w| w.chars().all(|c| c.is_ascii_lowercase()));
            commands.insert(verbs.map(str::to_owned).collect::<Vec<_>>());
        }
    }
    assert!(commands.len() >= 10, "{commands:?}");
    let program = support::lacuna();
    for mut words in commands {
        words.push("--help".to_owned());
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let said = support::run(&program, &words, &[]).unwrap();
        assert!(said.ok, "lacuna {}: {}", words.join(" "), said.stderr);
    }
}

/// At three in the morning a command is faster to find than a document.
#[test]
fn the_command_prints_the_page_of_an_alert() {
    let program = support::lacuna();
    for (title, text) in sections(&support::read(RUNBOOKS)) {
        let said = support::run(&program, &["help", &title], &[]).unwrap();
        assert!(said.ok, "lacuna help {title}: {}", said.stderr);
        assert!(said.stdout.contains(text.trim()), "lacuna help {title}");
    }
}
