//! The metrics of the services, by the golden expositions that their tests keep in files or inside
//! their sources.

use std::collections::{BTreeMap, BTreeSet};

use crate::support;

/// Every metric by name, with its labels.
pub(super) struct Exported {
    pub(super) labels: BTreeMap<String, BTreeSet<String>>,
    /// Services whose golden exposition exists.
    pub(super) services: BTreeSet<String>,
}

impl Exported {
    pub(super) fn read() -> Self {
        let mut all = Self {
            labels: BTreeMap::new(),
            services: BTreeSet::new(),
        };
        for kind in ["txt", "prom", "snap", "rs"] {
            for file in support::files("services", kind) {
                let text = support::read(&file);
                if text
                    .lines()
                    .any(|l| l.trim_start().starts_with("# TYPE lacuna_"))
                {
                    let service = file.split('/').nth(1).unwrap_or_default();
                    all.services.insert(service.to_owned());
                    all.take(&text);
                }
            }
        }
        // Metrics of the runtime, whose values are not golden.
        for source in ["process", "leader", "http", "bus/connect"] {
            let source = support::read(&format!("libs/runtime/src/{source}.rs"));
            let literals = source.split('"').skip(1).step_by(2);
            for name in literals.filter(|l| is_metric(l)) {
                all.labels.entry(name.to_owned()).or_default();
            }
        }
        // Prometheus adds these labels.
        for (name, labels) in [
            ("up", [].as_slice()),
            ("scrape_duration_seconds", &[]),
            ("ALERTS", &["alertname", "alertstate", "severity"]),
        ] {
            let labels = labels.iter().map(|l| (*l).to_owned()).collect();
            all.labels.insert(name.to_owned(), labels);
        }
        all
    }

    fn take(&mut self, exposition: &str) {
        // Snapshots inside sources are indented.
        for line in exposition.lines().map(str::trim_start) {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let mut words = rest.split_whitespace();
                let (Some(name), Some(kind)) = (words.next(), words.next()) else {
                    continue;
                };
                if kind == "histogram" {
                    for part in ["_bucket", "_sum", "_count"] {
                        self.labels.entry(format!("{name}{part}")).or_default();
                    }
                } else {
                    self.labels.entry(name.to_owned()).or_default();
                }
            } else if line.starts_with("lacuna_")
                && let Some((name, rest)) = line.split_once('{')
                && let Some((labels, _)) = rest.rsplit_once('}')
            {
                let keys = labels.split("\",").filter_map(|l| l.split_once('='));
                let known = self.labels.entry(name.to_owned()).or_default();
                known.extend(keys.map(|(key, _)| key.trim_start_matches(',').to_owned()));
            }
        }
    }
}

/// Whether a text is the name of a metric of the runtime's.
fn is_metric(text: &str) -> bool {
    (text.starts_with("process_") || text.starts_with("lacuna_")) && text.chars().all(is_name)
}

/// The metrics of a PromQL expression, and the labels that it selects or groups by.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Asked {
    pub(super) metrics: BTreeSet<String>,
    pub(super) labels: BTreeSet<String>,
}

/// Reads the names out of an expression. No parser of PromQL: names before `{` or alone are
/// metrics, names before `(` are functions, and the lists after `by` and its like are labels.
pub(super) fn asked(expression: &str) -> Asked {
    const LISTS: [&str; 6] = [
        "by",
        "without",
        "on",
        "ignoring",
        "group_left",
        "group_right",
    ];
    const WORDS: [&str; 7] = ["and", "or", "unless", "offset", "bool", "inf", "nan"];
    let mut asked = Asked::default();
    let mut rest = expression;
    while let Some(c) = rest.chars().next() {
        if c == '"' {
            rest = after(&rest[1..], '"');
        } else if c == '[' {
            rest = after(rest, ']');
        } else if c == '$' || c.is_ascii_digit() {
            let end = rest[1..]
                .find(|c: char| !is_name(c))
                .map_or(rest.len(), |i| i + 1);
            rest = &rest[end..];
        } else if is_name(c) {
            let end = rest.find(|c: char| !is_name(c)).unwrap_or(rest.len());
            let (name, behind) = rest.split_at(end);
            let behind = behind.trim_start();
            // An aggregation may have its list before its argument.
            let lists = ["by", "without"].iter().any(|l| {
                let after = behind.strip_prefix(l).map(str::trim_start);
                after.is_some_and(|a| a.starts_with('('))
            });
            if LISTS.contains(&name) {
                // `group_left` may have no list.
                rest = behind;
                if let Some(list) = behind.strip_prefix('(') {
                    let list = &list[..list.find(')').unwrap_or(list.len())];
                    asked.labels.extend(names(list));
                    rest = after(behind, ')');
                }
            } else if WORDS.contains(&name) || behind.starts_with('(') || lists {
                rest = behind;
            } else {
                asked.metrics.insert(name.to_owned());
                rest = behind;
                if let Some(selector) = behind.strip_prefix('{') {
                    let selector = &selector[..selector.find('}').unwrap_or(selector.len())];
                    let keys = selector
                        .split(',')
                        .filter_map(|m| m.split(['=', '!']).next());
                    asked.labels.extend(keys.flat_map(names));
                    rest = after(behind, '}');
                }
            }
        } else {
            rest = &rest[c.len_utf8()..];
        }
    }
    asked
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}

fn after(text: &str, end: char) -> &str {
    text.find(end).map_or("", |i| &text[i + end.len_utf8()..])
}

fn names(list: &str) -> impl Iterator<Item = String> + '_ {
    list.split(',')
        .map(|n| n.trim().to_owned())
        .filter(|n| !n.is_empty())
}

#[test]
fn names_are_read_out_of_expressions() {
    let set = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
    let expression = r#"histogram_quantile(0.99, sum by (le) (rate(lacuna_a_bucket{outcome!="x y",service=~"p.*"}[$__rate_interval]))) / on (service) group_left lacuna_b > bool 1e3 or up"#;
    assert_eq!(
        asked(expression),
        Asked {
            metrics: set(&["lacuna_a_bucket", "lacuna_b", "up"]),
            labels: set(&["le", "outcome", "service"]),
        }
    );
}

#[test]
fn every_service_keeps_a_golden_exposition() {
    let exported = Exported::read();
    for service in [
        "ingest", "forecast", "planner", "control", "agent", "gateway",
    ] {
        assert!(
            exported.services.contains(service),
            "services/{service} keeps no golden exposition"
        );
    }
    let stray: Vec<&String> = exported
        .labels
        .keys()
        .filter(|m| {
            let ours = m.starts_with("lacuna_") || m.starts_with("process_");
            !ours && !["up", "ALERTS", "scrape_duration_seconds"].contains(&m.as_str())
        })
        .collect();
    assert!(stray.is_empty(), "metrics without our prefix: {stray:?}");
}
