//! A test that lacks something, run by itself: what it writes, and when it fails.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::path::Path;
use std::process::{Command, Output};

use lacuna_skip::{Need, or_skip};

#[test]
#[ignore = "is run by the tests below"]
fn lacks_a_disk() {
    or_skip!(Need::DevFull.given(false, "no such disk"));
    panic!("it went on");
}

#[test]
#[ignore = "is run by the tests below"]
fn lacks_a_part() {
    Need::Root.missing("not root").skip_part();
    println!("and it goes on");
}

/// Runs one of the two above as a process of its own.
fn run(test: &str, list: Option<&Path>, required: &str) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([test, "--exact", "--ignored", "--nocapture"])
        .env("LACUNA_REQUIRE", required)
        .env_remove("LACUNA_SKIPPED");
    if let Some(list) = list {
        command.env("LACUNA_SKIPPED", list);
    }
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn what_is_left_out_stands_in_the_list() {
    let dir = tempfile::tempdir().unwrap();
    let list = dir.path().join("list");
    for test in ["lacks_a_disk", "lacks_a_part"] {
        let output = run(test, Some(&list), "torch");
        assert!(output.status.success(), "{}", said(&output));
        assert!(said(&output).contains("1 passed"), "{}", said(&output));
        assert!(said(&output).contains("SKIPPED"), "{}", said(&output));
    }
    let text = std::fs::read_to_string(&list).unwrap();
    let begins: Vec<String> = text
        .lines()
        .map(|line| line.split('\t').take(4).collect::<Vec<_>>().join(" "))
        .collect();
    let file = file!();
    assert_eq!(
        begins,
        [
            format!("test dev-full {file} lacks_a_disk"),
            format!("part root {file} lacks_a_part")
        ]
    );
}

#[test]
fn what_is_required_fails() {
    let dir = tempfile::tempdir().unwrap();
    let list = dir.path().join("list");
    for required in ["dev-full", "torch,dev-full", "all", "dev-ful"] {
        let output = run("lacks_a_disk", Some(&list), required);
        assert!(!output.status.success(), "{required}: {}", said(&output));
        assert!(
            said(&output).contains("LACUNA_REQUIRE"),
            "{}",
            said(&output)
        );
    }
    assert!(!list.exists(), "a failure is not left out");
}

#[test]
fn without_a_list_it_is_left_out_all_the_same() {
    let output = run("lacks_a_disk", None, "");
    assert!(output.status.success(), "{}", said(&output));
}
