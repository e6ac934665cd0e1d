//! Tests that did not run, and the list of them that `make test` prints.

use lacuna_testkit::Need;

use super::metadata::Graph;
use super::shape::promised;
use crate::support;

/// The list that `make test` prints for tests that lacked data.
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
    // A test has one line, however often the list names it.
    let all = promises.concat();
    assert_eq!(said(&all), said(&[&all[..], &all[..]].concat()));
    let none = said(&all).matches("has no test that ran").count();
    let with_tests = promises.iter().filter(|tests| !tests.is_empty()).count();
    assert_eq!(none, with_tests);
}

#[test]
fn a_promise_of_which_no_test_ran_is_a_failure_if_nothing_explains_it() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let checked = |ran: &[(String, String)], skipped: &str| {
        let mut log = String::new();
        for (n, (file, test)) in ran.iter().enumerate() {
            let program = at(&format!("all-{n}"));
            std::fs::write(format!("{program}.d"), format!("{program}: {file}\n")).unwrap();
            log += &format!("     Running tests/all.rs ({program})\ntest {test} ... ok\n");
        }
        std::fs::write(at("log"), log).unwrap();
        std::fs::write(at("list"), skipped).unwrap();
        let args = ["--ran", &at("log"), &at("list")];
        support::run("integration-tests/not_run.py", &args, &[]).expect("python3 runs")
    };
    let promises = promised();
    let all = promises.concat();
    let said = checked(&all, "");
    assert!(
        said.ok && !said.stdout.contains("NONE RAN"),
        "{}",
        said.stdout
    );
    let gone = promises.iter().max_by_key(|tests| tests.len()).unwrap();
    let rest: Vec<_> = all
        .into_iter()
        .filter(|test| !gone.contains(test))
        .collect();
    let said = checked(&rest, "");
    assert!(!said.ok, "{}", said.stdout);
    assert_eq!(
        said.stdout.matches("nothing explains it").count(),
        1,
        "{}",
        said.stdout
    );
    let line = |(file, test): &(String, String)| format!("test\tdata\t{file}\tm::{test}\tx\ty\n");
    let said = checked(&rest, &gone.iter().map(line).collect::<String>());
    assert!(
        said.ok && said.stdout.contains("NONE RAN, for want of data"),
        "{}",
        said.stdout
    );
}

/// A test that returns by itself when something is missing would look as if it had passed.
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

/// Examples in the documentation of a source that rustdoc would run.
fn examples(source: &str) -> usize {
    let docs = source.lines().map(str::trim_start);
    let docs = docs.filter_map(|l| l.strip_prefix("//!").or_else(|| l.strip_prefix("///")));
    let fences = docs.filter_map(|l| l.trim_start().strip_prefix("```"));
    let runs = ["", "rust", "no_run", "should_panic", "compile_fail"];
    fences.step_by(2).filter(|l| runs.contains(l)).count()
}

/// Each program of tests is linked with all that it tests. So a crate has one for its folder of
/// tests, and its manifest switches off those that would have no tests.
#[test]
fn no_manifest_leaves_a_test_out() {
    assert_eq!(examples("/// ```no_run\n/// ```\n//! ```text\n//! ```"), 1);
    for (name, folder) in Graph::get().members() {
        let manifest = support::read(&format!("{folder}/Cargo.toml"));
        let manifest: toml::Table = manifest.parse().unwrap();
        let is_off = |at: Option<&toml::Value>, what: &str| {
            at.and_then(|at| at.get(what))
                .and_then(toml::Value::as_bool)
                == Some(false)
        };
        let tested = |path: &str| support::read(path).contains("#[cfg(test)]");
        let sources = support::files(&format!("{folder}/src"), "rs");
        let lib = manifest.get("lib");
        if is_off(lib, "test") {
            let with = sources.iter().find(|path| tested(path));
            assert_eq!(with, None, "{name}: test = false");
        }
        if is_off(lib, "doctest") {
            let with = sources
                .iter()
                .find(|path| examples(&support::read(path)) > 0);
            assert_eq!(with, None, "{name}: doctest = false");
        }
        let bins = manifest.get("bin").and_then(toml::Value::as_array);
        for bin in bins
            .into_iter()
            .flatten()
            .filter(|bin| is_off(Some(bin), "test"))
        {
            let main = format!("{folder}/{}", bin["path"].as_str().unwrap());
            assert!(!tested(&main), "{main}: test = false");
        }
        let tests = format!("{folder}/tests");
        let mut roots = support::files(&tests, "rs");
        roots.retain(|path| {
            let inner = &path[tests.len() + 1..];
            !inner.contains('/') || inner.matches('/').count() == 1 && inner.ends_with("/main.rs")
        });
        if !is_off(manifest.get("package"), "autotests") {
            assert!(
                roots.len() <= 1,
                "{name} has several test programs: {roots:?}"
            );
            continue;
        }
        let all = support::read(&format!("{tests}/all.rs"));
        for root in roots.iter().filter(|root| !root.ends_with("/all.rs")) {
            let module = root[tests.len() + 1..].trim_end_matches("/main.rs");
            let module = format!("\nmod {};", module.trim_end_matches(".rs"));
            assert!(all.contains(&module), "{tests}/all.rs lacks{module}");
        }
    }
}

#[test]
fn ci_requires_only_known_needs() {
    let script = support::read(".ci/run");
    let required: Vec<&str> = script
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            words.next().filter(|w| ["require", "offer"].contains(w))?;
            words.next()
        })
        // The argument that `offer` passes on.
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
