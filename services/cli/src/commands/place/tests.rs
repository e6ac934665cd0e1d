use serde_json::json;

use super::json::value;
use super::page::page;
use super::text::text;
use super::*;

const PROFILE: &str = r#"{
  "name": "small", "batch": 100, "samples": 1e9, "min_rate": 100000,
  "kinds": [
    {"name": "cpu", "price_per_hour": 0.04, "memory_bytes": 8e9, "link_bytes_per_s": 1e9},
    {"name": "gpu", "price_per_hour": 2.4, "memory_bytes": 3.2e10, "link_bytes_per_s": 1e9, "limit": 4}
  ],
  "layers": [
    {"name": "table", "seconds": {"cpu": 1e-5, "gpu": 2e-5}, "out_bytes": 100, "table_bytes": 2e10},
    {"name": "dense", "seconds": {"cpu": 1e-3, "gpu": 1e-5}, "out_bytes": 4, "weight_bytes": 1e4}
  ]}"#;

fn shown(rate: f64) -> Shown {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.json");
    std::fs::write(&path, PROFILE).unwrap();
    found(&PlaceArgs {
        profile: path,
        rate: Some(rate),
        fastest: false,
        samples: None,
        limit: Vec::new(),
        tolerance: 1e-4,
        report: None,
        json: JsonArg::default(),
    })
    .unwrap()
}

#[test]
fn a_placement_names_stages_and_kinds() {
    let shown = shown(100_000.0);
    let text = text(&shown);
    let has = |words: &[&str]| {
        let mut lines = text.lines();
        lines.any(|line| {
            line.split_whitespace()
                .collect::<Vec<_>>()
                .starts_with(words)
        })
    };
    assert!(has(&["table", "cpu"]) && has(&["dense", "gpu"]), "{text}");
    assert!(has(&["rate"]) && has(&["proven", "within"]), "{text}");
    let value = value(&shown);
    assert_eq!(value["is_met"], true);
    assert_eq!(value["stages"][0]["layers"], json!(["table"]));
    assert!(value["gap"].as_f64().unwrap() <= 1.001e-4, "{value}");
    assert!(value["kinds"][0]["one_more_saves"] == 0.0, "{value}");
    assert!(render_layers(&page(&shown)).contains("dense"));
}

#[test]
fn a_rate_out_of_reach_says_what_is_in_the_way() {
    let shown = shown(1e12);
    assert!(!shown.is_met);
    let text = text(&shown);
    assert!(
        text.starts_with("no placement has 1000000000000 samples/s; the nearest:\n"),
        "{text}"
    );
    assert!(text.contains("in the way  "), "{text}");
    // 20 us of the table, of which nothing is serial: more units always bring more.
    assert!(
        text.contains("cpu has no limit, so ") && text.contains("give --limit cpu=N, or --rate "),
        "{text}"
    );
    assert_eq!(value(&shown)["is_met"], false);
}

#[test]
fn limits_are_read() {
    assert_eq!(parse_limit("cpu=4"), Ok(("cpu".to_owned(), Some(4))));
    assert_eq!(parse_limit("a=b=none").ok(), None);
    assert_eq!(parse_limit("cpu=none"), Ok(("cpu".to_owned(), None)));
    assert!(parse_limit("cpu").is_err() && parse_positive("0").is_err());
}
