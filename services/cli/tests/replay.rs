//! `lacuna replay` as a user meets it: figures, one JSON value, and clear errors.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const HOLES: &str = "\
node,idle_from,idle_until,censored
a,1600000000,1600000100,0
b,1600000010,1600000020,0
b,1600000030,1600000031,0
";
const TRAINERS: &str = r#"{"name":"t0","submit":1600000000,"min_nodes":1,"max_nodes":2,"rescale_up_s":3,"rescale_down_s":2,"samples":400,"nodes":[1,2],"samples_per_s":[10,20]}"#;

struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let bench = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        bench.file("holes.csv", HOLES);
        bench.file("trainers.jsonl", TRAINERS);
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn file(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn replay(&self, more: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_lacuna"))
            .current_dir(self.folder.path())
            .args(["replay", "holes.csv", "--trainers", "trainers.jsonl"])
            .args(if more.contains(&"--horizon") {
                &[][..]
            } else {
                &["--horizon", "5s"]
            })
            .args(more)
            .output()
            .unwrap()
    }

    fn complaint(&self, more: &[&str]) -> String {
        let output = self.replay(more);
        assert!(!output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    }
}

fn json(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn all_policies_give_the_figures_worked_out_by_hand() {
    let bench = Bench::new();
    for policy in ["milp", "dp"] {
        let figures = json(&bench.replay(&["--policy", policy, "--verify", "--json"]));
        // 43 s of which the second and third hole cost 60 samples to take and 80 to lose.
        let seconds = figures["hours"].as_f64().unwrap() * 3600.0;
        assert!((seconds - 43.0).abs() < 1e-6, "{figures}");
        assert_eq!(figures["rescales"], 2);
        assert_eq!(figures["preemptions"], 2);
        assert_eq!(figures["verified"]["disagreements"], 0);
        assert_eq!(figures["policy"], policy);
        assert_eq!(figures["seed"], 1);
        assert_eq!(figures["start"], "2020-09-13T12:26:40Z");
        assert!(figures["wall_seconds"].as_f64().unwrap() > 0.0);
        assert!(figures["peak_rss_bytes"].as_u64().unwrap() > 1_000_000);
        for key in [
            "efficiency",
            "equivalent_nodes",
            "samples",
            "rescale_cost_fraction",
            "preempt_cost_fraction",
            "events",
            "trainers_done",
        ] {
            assert!(figures[key].is_number(), "{key}: {figures}");
        }
        for key in ["p50", "p99", "max", "total"] {
            assert!(
                figures["solve_seconds"][key].is_number(),
                "{key}: {figures}"
            );
        }
    }
    let figures = json(&bench.replay(&["--endless", "--json", "--policy", "equal-share"]));
    assert!(
        figures["zero_cost_fraction"].as_f64().unwrap() <= 1.0,
        "{figures}"
    );
}

#[test]
fn a_report_is_written_and_stands_alone() {
    let bench = Bench::new();
    let output = bench.replay(&["--report", "out.html"]);
    assert!(output.status.success(), "{output:?}");
    let page = std::fs::read_to_string(bench.path("out.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("<svg"));
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(
        table.contains("efficiency U") && table.contains("seed 1"),
        "{table}"
    );
}

#[test]
fn bad_input_is_named() {
    let bench = Bench::new();
    bench.file("holes.csv", &HOLES.replace("1600000020", "soon"));
    let text = bench.complaint(&["--strict"]);
    assert!(
        text.contains(
            "line 3, column 3 (idle_until): expected a time in Unix seconds, found \"soon\""
        ),
        "{text}"
    );
    let bench = Bench::new();
    bench.file(
        "trainers.jsonl",
        &TRAINERS.replace("\"min_nodes\":1", "\"min_nodes\":3"),
    );
    let text = bench.complaint(&[]);
    assert!(
        text.contains("expected 1 <= min_nodes <= max_nodes"),
        "{text}"
    );
    let bench = Bench::new();
    for (arguments, expected) in [
        (["--first-nodes", "9"], "has only 2"),
        (["--max-parallel", "0"], "max-parallel: expected at least 1"),
        (
            ["--cost-scale", "NaN"],
            "cost-scale: expected a finite number",
        ),
        (["--horizon", "120"], "is not a length of time"),
        (["--start", "tomorrow"], "is no time"),
        (
            ["--start", "99999999999"],
            "--from is 5138-11-16T09:46:39Z, but holes.csv ends at 2020-09-13T12:28:20Z",
        ),
        (
            ["--end", "1600000000"],
            "--until 2020-09-13T12:26:40Z is not after the first submission",
        ),
    ] {
        let text = bench.complaint(&arguments);
        assert!(text.contains(expected), "{arguments:?}: {text}");
    }
}

#[test]
fn a_report_that_cannot_be_written_is_an_error() {
    let bench = Bench::new();
    let text = bench.complaint(&["--report", "no/such/out.html"]);
    assert!(
        text.contains("cannot write the report to no/such/out.html"),
        "{text}"
    );
    if Path::new("/dev/full").exists() {
        let text = bench.complaint(&["--report", "/dev/full"]);
        assert!(text.contains("No space left on device"), "{text}");
    }
}
