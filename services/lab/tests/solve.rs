//! `lacuna-lab solve` and `lacuna-lab bench solve`, as their user calls them.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use lacuna_testkit::{Bench, Need, or_skip};

fn lab(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lacuna-lab"))
        .args(args)
        // Without recorded data, synthetic instances are made.
        .env("LACUNA_DATA", "/nonexistent")
        .output()
        .unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stdout)))
}

fn problems() -> Vec<PathBuf> {
    let folder = Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../libs/planner/tests/problems"
    ));
    let entries = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|e| e.unwrap().path()).collect();
    paths.sort();
    paths
}

#[test]
fn every_solver_comes_to_the_known_answer() {
    for path in problems() {
        let path = path.to_str().unwrap();
        for solver in ["dp", "highs"] {
            let output = lab(&["solve", path, "--solver", solver, "--json"]);
            assert!(output.status.success(), "{path} {solver}");
            let solved = json(&output);
            assert_eq!(solved["status"], "optimal", "{path} {solver}");
            assert_eq!(solved["solver"], solver);
            let (found, known) = (
                solved["objective"].as_f64().unwrap(),
                solved["known_objective"].as_f64().unwrap(),
            );
            assert!(
                (found - known).abs() <= 1e-6 * known.abs(),
                "{path} {solver}: {found}, known is {known}"
            );
            assert!(solved["seconds"].as_f64().unwrap() > 0.0);
        }
    }
}

#[test]
fn a_decision_that_a_replay_saved_is_solved() {
    let bench = Bench::with(&[
        (
            "holes.csv",
            "node,idle_from,idle_until,censored\na,1600000000,1600000100,0\nb,1600000010,1600000020,0\n",
        ),
        (
            "trainers.jsonl",
            r#"{"name":"t0","submit":1600000000,"min_nodes":1,"max_nodes":2,"rescale_up_s":3,"rescale_down_s":2,"samples":400,"nodes":[1,2],"samples_per_s":[10,20]}"#,
        ),
    ]);
    let saving = ["--trainers", "trainers.jsonl", "--save-problem", "p.json"];
    let output = bench.lab(&[&["replay", "holes.csv"], &saving[..]].concat());
    assert!(output.status.success(), "{output:?}");
    let output = bench.lab(&["solve", "p.json", "--solver", "dp", "--json"]);
    assert!(output.status.success(), "{output:?}");
    assert!(json(&output)["objective"].as_f64().unwrap() >= 0.0);
}

#[test]
fn changed_trainers_are_shown_by_name() {
    let folder = problems()[0].parent().unwrap().to_owned();
    let path = folder.join("large-minimum.json");
    let output = lab(&["solve", path.to_str().unwrap()]);
    let text = String::from_utf8(output.stdout).unwrap();
    let words: Vec<&str> = text.split_whitespace().collect();
    assert!(text.contains("11 of 11 used"), "{text}");
    for row in [["0", "large", "0", "8"], ["1", "s1", "4", "1"]] {
        assert!(words.windows(4).any(|found| found == row), "{text}");
    }
}

#[test]
fn a_solve_that_its_time_stops_has_an_answer_with_a_gap() {
    let folder = problems()[0].parent().unwrap().to_owned();
    let path = folder.join("shufflenet-10x83.json");
    let path = path.to_str().unwrap();
    let limits = ["--solver", "highs", "--time-limit", "0ms", "--json"];
    let output = lab(&[&["solve", path][..], &limits].concat());
    let solved = json(&output);
    assert_eq!(solved["status"], "feasible", "{solved}");
    let figure = |key: &str| solved[key].as_f64().unwrap();
    assert!(figure("gap") > 0.0 && figure("objective") < figure("known_objective"));
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_file_that_is_no_problem_is_refused_by_name_and_field() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.json");
    let good = std::fs::read_to_string(&problems()[0]).unwrap();
    for (from, to, says) in [
        ("\"version\": 1", "\"version\": 9", "version 9"),
        ("\"min\":1", "\"min\":0", "field min"),
        ("allocation-problem", "soup", "kind \"soup\""),
        ("{", "", "no allocation problem"),
    ] {
        assert!(good.contains(from));
        std::fs::write(&path, good.replacen(from, to, 1)).unwrap();
        let output = lab(&["solve", path.to_str().unwrap()]);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(says) && text.contains("bad.json"), "{text}");
        assert_eq!(output.status.code(), Some(1));
    }
    let output = lab(&["solve", "/nonexistent/x.json", "--json"]);
    assert!(
        json(&output)["error"]["message"]
            .as_str()
            .unwrap()
            .contains("x.json")
    );
    for bad in [
        "--gap=1",
        "--gap=-1",
        "--repeat=0",
        "--solver=cbc",
        "--time-limit=3",
    ] {
        let output = lab(&["solve", path.to_str().unwrap(), bad]);
        assert_eq!(output.status.code(), Some(2), "{bad}");
    }
}

#[test]
fn dp_leaves_no_gap_whatever_gap_is_allowed() {
    let path = problems()[0].to_str().unwrap().to_owned();
    let output = lab(&["solve", &path, "--gap", "0.1", "--json"]);
    assert_eq!(json(&output)["gap"], 0.0);
}

#[test]
fn impossible_sizes_are_refused() {
    for (instances, solver, says) in [
        ("99999999x99999999", "dp", "at most 10000x1000000"),
        ("0x10", "dp", "is no size"),
    ] {
        let arguments = ["--instances", instances, "--solvers", solver, "--json"];
        let output = lab(&[&["bench", "solve"][..], &arguments].concat());
        let error = json(&output)["error"]["message"].to_string();
        assert!(error.contains(says), "{error}");
        assert_eq!(output.status.code(), Some(1));
    }
}

#[test]
fn an_unwritable_value_is_an_error() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
    let full = or_skip!(full.map_err(|e| Need::DevFull.missing(format!("/dev/full: {e}"))));
    let output = Command::new(env!("CARGO_BIN_EXE_lacuna-lab"))
        .args(["solve", problems()[0].to_str().unwrap(), "--json"])
        .stdout(full)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("No space left on device"), "{text}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn the_benchmark_lists_every_solve_with_the_documented_keys() {
    let output = lab(&[
        "bench",
        "solve",
        "--instances",
        "3x9,4x16",
        "--repeat",
        "3",
        "--seed",
        "5",
        "--json",
    ]);
    assert!(output.status.success());
    let rows = json(&output);
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), 4, "{rows:?}");
    for (at, row) in rows.iter().enumerate() {
        let keys: Vec<&String> = row.as_object().unwrap().keys().collect();
        let mut expected = [
            "instance",
            "solver",
            "seconds",
            "objective",
            "gap",
            "status",
        ];
        expected.sort_unstable();
        let mut keys: Vec<&str> = keys.iter().map(|k| k.as_str()).collect();
        keys.sort_unstable();
        assert_eq!(keys, expected);
        assert_eq!(row["instance"], ["3x9", "4x16"][at / 2]);
        assert_eq!(row["solver"], ["dp", "highs"][at % 2]);
        assert_eq!(row["status"], "optimal", "{row}");
        // The dynamic program is at least as good as the others.
        let best = rows[at - at % 2]["objective"].as_f64().unwrap();
        let this = row["objective"].as_f64().unwrap();
        assert!(best >= this - 1e-6 * this.abs(), "{row}: dp has {best}");
    }
    // The same seed makes the same instances.
    let again = json(&lab(&[
        "bench",
        "solve",
        "--instances",
        "4x16",
        "--solvers",
        "dp",
        "--seed",
        "5",
        "--json",
    ]));
    assert_eq!(again[0]["objective"], rows[2]["objective"]);
}
