//! How tests are left out, and what `make test` says of it in the end.

use lacuna_testkit::Need;

use super::shape::promised;
use crate::support;

/// What `make test` prints of tests that were left out for want of data.
fn said(tests: &[(String, String)]) -> String {
    let lines = tests.iter().map(|(file, test)| {
        format!("test\tdata\t{file}\tmodule::{test}\tit is not there\tLACUNA_DATA=FOLDER\n")
    });
    let list = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(list.path(), lines.collect::<String>()).unwrap();
    let path = list.path().to_str().unwrap();
    let said = support::run("integration-tests/not_run.py", &[path], &[]).expect("python3 runs");
    assert!(said.ok, "{}", said.stderr);
    said.stdout
}

#[test]
fn tests_that_did_not_run_are_counted_and_promises_without_a_test_are_named() {
    assert_eq!(said(&[]), "No test was left out for want of something.\n");
    let promises = promised();
    let longest = promises.iter().max_by_key(|tests| tests.len()).unwrap();
    let one = said(&longest[..1]);
    assert!(one.starts_with("1 test did not run:\n"), "{one}");
    assert!(
        one.contains("1 for want of data (LACUNA_DATA=FOLDER)"),
        "{one}"
    );
    assert!(!one.contains("Promise"), "{one}");
    let whole = said(longest);
    assert_eq!(whole.matches("has no test that ran").count(), 1, "{whole}");
    // Each is one line, however often it was said.
    let all = promises.concat();
    assert_eq!(said(&all), said(&[&all[..], &all[..]].concat()));
    let none = said(&all).matches("has no test that ran").count();
    let with_tests = promises.iter().filter(|tests| !tests.is_empty()).count();
    assert_eq!(none, with_tests);
}

/// A test that returns by itself when something is missing is not missed.
#[test]
fn no_test_leaves_itself_out_by_hand() {
    let own = [
        "libs/skip/",
        "integration-tests/tests/architecture/left_out.rs",
    ];
    for folder in ["libs", "services", "integration-tests"] {
        for file in support::files(folder, "rs") {
            let text = support::read(&file);
            let ours = own.iter().any(|o| file.starts_with(o));
            let test = file.contains("/tests/") || text.contains("#[cfg(test)]");
            for by_hand in ["\"skipped: ", "\"SKIPPED"] {
                let found = test && !ours && text.contains(by_hand);
                assert!(
                    !found,
                    "{file} has {by_hand}: or_skip! says it where it is heard"
                );
            }
        }
    }
}

#[test]
fn what_ci_requires_are_needs_that_tests_have() {
    let script = support::read(".ci/run");
    let required: Vec<&str> = script
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            words.next().filter(|w| ["require", "offer"].contains(w))?;
            words.next()
        })
        // What `offer` itself passes on.
        .filter(|name| !name.starts_with('"'))
        .collect();
    for need in ["data", "torch", "docker", "chromium", "prometheus"] {
        assert!(required.contains(&need), "CI never requires {need}");
    }
    for name in required {
        let known = Need::ALL.iter().any(|need| need.name() == name);
        assert!(known, "CI requires {name}, which no test needs");
    }
}
