//! `lacuna stalls` and `lacuna recommend` on readings: a shell stands for the program that writes them.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

/// The readings of a member whose batch takes 50 ms to fetch beside 20 ms of work; the other member is
/// `late` microseconds behind.
fn readings(rank: u32, late: u32) -> String {
    let all = |time: u32| vec![time; 40];
    let value = json!({
        "version": 1, "members": 2, "workers": 0, "depth": 0, "passes": 1, "bytes": [1000],
        "ends_known": true,
        "ranks": [{
            "rank": rank, "wait": all(50_000), "hand": all(0), "prep": all(0), "fetch": all(50_000),
            "update": all(1000), "rest": all(0),
            "ready": [all(20_000 - 10_000 * rank + late)], "done": [all(21_000)],
        }],
    });
    format!("{value}\n")
}

fn lacuna(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lacuna"));
    command
        .current_dir(folder)
        .args(arguments)
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for rank in 0..2 {
        let name = format!("rank-{rank}.json");
        std::fs::write(folder.path().join(name), readings(rank, 0)).unwrap();
    }
    folder
}

#[test]
fn a_program_is_run_with_modules_in_front_and_its_readings_are_answered() {
    let folder = folder();
    let program = "ls ${PYTHONPATH%%:*}; cp rank-*.json $LACUNA_STALLS_INTO";
    let arguments = ["stalls", "--save", "kept.jsonl", "--", "sh", "-c", program];
    let output = lacuna(folder.path(), &arguments);
    let text = said(&output);
    assert!(output.status.success(), "{text}");
    assert!(
        text.contains("lacuna_stalls\nreadings\nsitecustomize.py"),
        "{text}"
    );
    assert!(text.contains("a step of 2 members takes 72.0 ms"), "{text}");
    assert!(text.contains("fetch        ####"), "{text}");
    let again = lacuna(folder.path(), &["stalls", "kept.jsonl", "--json"]);
    let value: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(value.get("trusted"), Some(&true.into()));
}

#[test]
fn a_failed_program_and_missing_readings_are_errors() {
    let folder = folder();
    for (program, words) in [
        ("exit 3", "exit status: 3"),
        ("true", "has timed no step"),
        (
            "cp rank-1.json $LACUNA_STALLS_INTO",
            "members [0] are missing",
        ),
        (
            "echo 7 > $LACUNA_STALLS_INTO/rank-0.json",
            "rank-0.json, line 1",
        ),
    ] {
        let output = lacuna(folder.path(), &["stalls", "--", "sh", "-c", program]);
        assert_eq!(output.status.code(), Some(1));
        assert!(said(&output).contains(words), "{}", said(&output));
    }
    // On one of several nodes the readings are only kept.
    let program = "cp rank-1.json $LACUNA_STALLS_INTO";
    let arguments = ["stalls", "--save", "a.jsonl", "--", "sh", "-c", program];
    let output = lacuna(folder.path(), &arguments);
    assert!(output.status.success() && said(&output).is_empty());
}

#[test]
fn the_cheapest_in_time_is_recommended_and_else_the_fastest() {
    let folder = folder();
    let prices =
        "start = 60\n[[kind]]\nname = \"a\"\nprice = 2\nnodes = [1, 2, 4]\nworkers = [0, 2]\n";
    std::fs::write(folder.path().join("prices.toml"), prices).unwrap();
    let asked = |within: &str| {
        let files = [
            "recommend",
            "rank-0.json",
            "rank-1.json",
            "--prices",
            "prices.toml",
        ];
        let more = ["--steps", "10000", "--within", within];
        lacuna(folder.path(), &[files.as_slice(), more.as_slice()].concat())
    };
    let output = asked("10h");
    assert!(output.status.success(), "{}", said(&output));
    assert!(
        said(&output).contains("the cheapest in time is "),
        "{}",
        said(&output)
    );
    let output = asked("1s");
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("nothing is in time; the fastest is 4 nodes of a"));
}
