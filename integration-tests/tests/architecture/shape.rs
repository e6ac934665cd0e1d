//! Files, lints, profiles, documents and scripts of the workspace.

use crate::support;

use super::metadata::Graph;

fn sources() -> Vec<String> {
    let mut all = support::files("libs", "rs");
    all.extend(support::files("services", "rs"));
    all.extend(support::files("integration-tests", "rs"));
    assert!(all.len() > 40, "only {} sources found", all.len());
    all
}

#[test]
fn crate_roots_only_declare() {
    let defines = |line: &str| {
        let line = line.trim_start_matches("pub ").trim_start_matches("async ");
        ["fn ", "struct ", "enum ", "impl ", "impl<", "trait "]
            .iter()
            .any(|start| line.starts_with(start))
    };
    for file in sources().iter().filter(|f| f.ends_with("src/lib.rs")) {
        let text = support::read(file);
        // Tests in a crate root are indented, and so not at the start of a line.
        let found = text.lines().find(|line| defines(line));
        assert!(
            found.is_none(),
            "{file} defines {found:?}: give it a module"
        );
    }
}

/// The agent has its own rules for trainers' programs.
#[test]
fn process_groups_are_made_and_killed_in_one_place() {
    let own = [
        "libs/runtime/src/command.rs",
        "services/agent/",
        "integration-tests/",
    ];
    let others = sources();
    let others = others
        .iter()
        .filter(|f| !own.iter().any(|o| f.starts_with(o)));
    for file in others {
        let text = support::read(file);
        let found = ["killpg", ".process_group("]
            .iter()
            .find(|w| text.contains(*w));
        assert!(
            found.is_none(),
            "{file} has {found:?}: lacuna_runtime::command runs programs"
        );
    }
}

#[test]
fn every_crate_takes_the_workspace_lints() {
    for (name, folder) in Graph::get().members() {
        let manifest: toml::Table = support::read(&format!("{folder}/Cargo.toml"))
            .parse()
            .unwrap();
        let takes = manifest["lints"]["workspace"].as_bool();
        assert_eq!(
            takes,
            Some(true),
            "{name} has no `[lints] workspace = true`"
        );
    }
}

/// HiGHS takes minutes to compile, once for each profile: so binaries, tests and benchmarks
/// share one, and the Makefile names no other.
#[test]
fn there_is_one_profile() {
    let manifest: toml::Table = support::read("Cargo.toml").parse().unwrap();
    let profiles = manifest["profile"].as_table().unwrap();
    for (name, profile) in profiles {
        let ours = profile.as_table().unwrap();
        match name.as_str() {
            "release" => {}
            "bench" => assert!(
                ours.len() == 1 && ours["inherits"].as_str() == Some("release"),
                "profile bench differs from release"
            ),
            other => panic!("a third profile, {other}"),
        }
    }
    for line in support::read("Makefile").lines() {
        let cargo = line.trim_start().strip_prefix("$(CARGO) ");
        let Some(command) = cargo.filter(|c| !c.starts_with("fmt")) else {
            continue;
        };
        assert!(
            command.contains("release") && command.contains("--workspace"),
            "`cargo {command}` would compile HiGHS again: use release and --workspace"
        );
    }
}

/// The anchors of a document's headings, as GitHub makes them.
fn anchors(text: &str) -> impl Iterator<Item = String> + '_ {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| {
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        let words = line.trim_start_matches('#').trim().to_lowercase();
        words
            .chars()
            .filter(kept)
            .map(|c| if c == ' ' { '-' } else { c })
            .collect()
    })
}

/// Relative links in the documents lead somewhere, to the heading if they name one.
#[test]
fn documents_exist_and_their_links_hold() {
    let mut documents = vec![
        "README.md".to_owned(),
        "ARCHITECTURE.md".to_owned(),
        "CHANGELOG.md".to_owned(),
        "RESULTS.md".to_owned(),
    ];
    documents.extend(support::files("deploy", "md"));
    documents.extend(support::files("integration-tests", "md"));
    assert!(documents.iter().any(|d| d == "deploy/operations.md"));
    for document in &documents {
        let text = support::read(document);
        let folder = support::root().join(document);
        let folder = folder.parent().unwrap();
        for piece in text.split("](").skip(1) {
            let link = piece.split(')').next().unwrap();
            let (target, anchor) = link.split_once('#').unwrap_or((link, ""));
            if target.contains("://") {
                continue;
            }
            let path = if target.is_empty() {
                support::root().join(document)
            } else {
                folder.join(target)
            };
            assert!(
                path.exists(),
                "{document} links to {target}, which does not exist"
            );
            if !anchor.is_empty() && (target.ends_with(".md") || target.is_empty()) {
                let text = std::fs::read_to_string(&path).unwrap();
                assert!(
                    anchors(&text).any(|other| other == anchor),
                    "{document} links to {link}: there is no such heading"
                );
            }
        }
    }
}

/// ARCHITECTURE.md says where each thing is, by full paths in backquotes.
#[test]
fn files_that_the_architecture_names_exist() {
    let text = support::read("ARCHITECTURE.md");
    let folders = [
        "libs/",
        "services/",
        "deploy/",
        "grafana/",
        "integration-tests/",
    ];
    let words = text.split('`').skip(1).step_by(2);
    let paths = words.filter(|w| folders.iter().any(|f| w.starts_with(f)));
    let paths: Vec<&str> = paths.filter(|w| !w.contains(['<', ' ', '*'])).collect();
    assert!(paths.len() > 50, "only {} files are named", paths.len());
    for path in paths {
        assert!(
            support::root().join(path).exists(),
            "ARCHITECTURE.md names {path}, which does not exist"
        );
    }
}

#[test]
fn make_help_lists_every_target() {
    let said = support::run("make", &["help"], &[]).expect("make runs");
    assert!(said.ok, "{}", said.stderr);
    let listed: Vec<&str> = said
        .stdout
        .lines()
        .filter_map(|l| l.trim_start().strip_prefix("make "))
        .filter_map(|l| l.split_whitespace().next())
        .collect();
    for target in [
        "help", "demo", "test", "verify", "fmt", "lint", "docs", "bench", "replay", "deny", "up",
        "down",
    ] {
        assert!(listed.contains(&target), "make help does not list {target}");
        let known = support::run("make", &["--dry-run", target], &[]).expect("make runs");
        assert!(known.ok, "make {target}: {}", known.stderr);
    }
}

#[test]
fn shell_scripts_parse() {
    let mut scripts = support::files("deploy", "sh");
    scripts.push(".ci/run".to_owned());
    assert!(scripts.len() > 3);
    for script in scripts {
        let said = support::run("bash", &["-n", &script], &[]).expect("bash runs");
        assert!(said.ok, "{script}: {}", said.stderr);
    }
}

/// The tests that the table of promises names, by promise: file and function.
pub(super) fn promised() -> Vec<Vec<(String, String)>> {
    let readme = support::read("integration-tests/README.md");
    let rows = readme
        .lines()
        .filter(|l| l.starts_with("| ") && l.contains(".rs`: "));
    rows.map(|row| {
        let (mut file, mut tests) = ("", Vec::new());
        for word in row.split('`').skip(1).step_by(2) {
            if word.ends_with(".rs") {
                file = word;
            } else if !file.is_empty() && word.chars().all(|c| c.is_alphanumeric() || c == '_') {
                tests.push((file.to_owned(), word.to_owned()));
            }
        }
        tests
    })
    .collect()
}

#[test]
fn promised_tests_exist() {
    let named = promised().concat();
    for (file, test) in &named {
        assert!(
            support::read(file).contains(&format!("fn {test}(")),
            "the README promises {test}, which is not in {file}"
        );
    }
    assert!(named.len() >= 10, "only {} tests are named", named.len());
}
