//! Tests with a missing requirement, run by themselves: their reports and their failures.
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

/// Runs one of the two tests above as a separate process.
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

fn text_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn a_skipped_test_is_in_the_list() {
    let dir = tempfile::tempdir().unwrap();
    let list = dir.path().join("list");
    for test in ["lacks_a_disk", "lacks_a_part"] {
        let output = run(test, Some(&list), "torch");
        assert!(output.status.success(), "{}", text_of(&output));
        assert!(
            text_of(&output).contains("1 passed"),
            "{}",
            text_of(&output)
        );
        assert!(text_of(&output).contains("SKIPPED"), "{}", text_of(&output));
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
fn a_missing_required_need_is_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    let list = dir.path().join("list");
    for required in ["dev-full", "torch,dev-full", "all", "dev-ful"] {
        let output = run("lacks_a_disk", Some(&list), required);
        assert!(!output.status.success(), "{required}: {}", text_of(&output));
        assert!(
            text_of(&output).contains("LACUNA_REQUIRE"),
            "{}",
            text_of(&output)
        );
    }
    assert!(!list.exists(), "a failure is not left out");
}

#[test]
fn without_a_list_the_test_is_skipped_too() {
    let output = run("lacks_a_disk", None, "");
    assert!(output.status.success(), "{}", text_of(&output));
}
