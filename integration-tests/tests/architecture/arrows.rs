//! The arrows that ARCHITECTURE.md allows between crates.

use std::collections::BTreeSet;

use super::metadata::Graph;

/// The crates of the workspace that each library may depend on.
const ALLOWED: &[(&str, &[&str])] = &[
    ("lacuna-model", &[]),
    ("lacuna-stalls", &["lacuna-model"]),
    ("lacuna-goodput", &[]),
    ("lacuna-rates", &["lacuna-model"]),
    ("lacuna-layers", &["lacuna-model"]),
    ("lacuna-milp", &["lacuna-model"]),
    ("lacuna-wire", &["lacuna-model"]),
    ("lacuna-records", &["lacuna-model"]),
    ("lacuna-trace", &["lacuna-model", "lacuna-records"]),
    (
        "lacuna-trainer-file",
        &[
            "lacuna-model",
            "lacuna-layers",
            "lacuna-planner",
            "lacuna-rates",
            "lacuna-records",
            "lacuna-trace",
        ],
    ),
    ("lacuna-scheduler", &["lacuna-model", "lacuna-records"]),
    ("lacuna-batchsim", &["lacuna-model"]),
    ("lacuna-pool", &["lacuna-model"]),
    ("lacuna-owner", &["lacuna-model"]),
    ("lacuna-forecast", &["lacuna-model"]),
    (
        "lacuna-trainer",
        &["lacuna-model", "lacuna-goodput", "lacuna-rates"],
    ),
    ("lacuna-pilots", &["lacuna-model", "lacuna-scheduler"]),
    (
        "lacuna-planner",
        &["lacuna-model", "lacuna-milp", "lacuna-rates"],
    ),
    (
        "lacuna-sim",
        &[
            "lacuna-model",
            "lacuna-trace",
            "lacuna-batchsim",
            "lacuna-forecast",
            "lacuna-planner",
            "lacuna-rates",
            "lacuna-trainer",
            "lacuna-milp",
        ],
    ),
    (
        "lacuna-report",
        &[
            "lacuna-model",
            "lacuna-forecast",
            "lacuna-trainer",
            "lacuna-sim",
        ],
    ),
    ("lacuna-runtime", &["lacuna-model", "lacuna-wire"]),
    ("lacuna-skip", &[]),
    (
        "lacuna-testkit",
        &[
            "lacuna-model",
            "lacuna-wire",
            "lacuna-runtime",
            "lacuna-skip",
        ],
    ),
];

/// Crates that no core reaches: runtimes, the bus, telemetry and the shell.
const SHELL: &[&str] = &[
    "tokio",
    "async-nats",
    "prometheus",
    "axum",
    "hyper",
    "tracing-subscriber",
    "lacuna-runtime",
    "lacuna-testkit",
];

fn ours(names: &BTreeSet<&str>) -> Vec<String> {
    let ours = names.iter().filter(|n| n.starts_with("lacuna-"));
    ours.map(|n| (*n).to_owned()).collect()
}

#[test]
fn cores_never_reach_the_shell() {
    let graph = Graph::get();
    let mut cores = 0;
    for (name, folder) in graph.members() {
        let core = folder.starts_with("libs/")
            && !folder.ends_with("runtime")
            && !folder.ends_with("testkit");
        if !core {
            continue;
        }
        cores += 1;
        let reached = graph.reach(name);
        for shell in SHELL {
            assert!(
                !reached.contains_key(shell),
                "{name} is a core, but reaches {shell}: {}",
                reached[shell]
            );
        }
    }
    assert!(
        cores >= 8,
        "only {cores} cores found: the test looks in the wrong place"
    );
}

#[test]
fn libraries_depend_only_on_allowed_crates() {
    let graph = Graph::get();
    for (name, folder) in graph.members().filter(|(_, f)| f.starts_with("libs/")) {
        let allowed = ALLOWED.iter().find(|(of, _)| *of == name);
        let (_, allowed) = allowed.unwrap_or_else(|| {
            panic!("{folder} is new: say in this test and in ARCHITECTURE.md which crates {name} may depend on")
        });
        for known in ours(&graph.direct(name)) {
            assert!(
                allowed.contains(&known.as_str()),
                "{name} depends on {known}, which ARCHITECTURE.md does not allow"
            );
        }
    }
}

#[test]
fn one_crate_alone_knows_highs() {
    let graph = Graph::get();
    assert_eq!(graph.users_of("highs"), BTreeSet::from(["lacuna-milp"]));
    assert_eq!(graph.users_of("highs-sys"), BTreeSet::from(["highs"]));
}

/// A change in a core rebuilds the services that use it and no other: runtime, which is below all of
/// them, has the vocabulary and the messages alone.
#[test]
fn the_shell_reaches_no_core() {
    let reached = Graph::get().reach("lacuna-runtime");
    let ours = reached.keys().filter(|name| name.starts_with("lacuna-"));
    let ours: BTreeSet<&str> = ours.copied().collect();
    assert_eq!(ours, BTreeSet::from(["lacuna-model", "lacuna-wire"]));
}

/// The crates that read files and answers, and the services that reach each.
const PARSERS: [(&str, &[&str]); 4] = [
    // Files: logs, topologies, trainers.
    (
        "lacuna-trace",
        &["lacuna-cli", "lacuna-ingest-service", "lacuna-lab"],
    ),
    ("lacuna-layers", &["lacuna-cli", "lacuna-lab"]),
    // Live schedulers; lab runs control.
    ("lacuna-scheduler", ASK),
    ("lacuna-records", ASK),
];

/// The services that ask a scheduler, or submit to it.
const ASK: &[&str] = &[
    "lacuna-cli",
    "lacuna-control-service",
    "lacuna-ingest-service",
    "lacuna-lab",
    "lacuna-pilot-helper",
];

/// A change in a parser rebuilds no service that does not parse: one of a file neither control nor the
/// helper, one of a scheduler none that asks no scheduler.
#[test]
fn a_parser_is_reached_by_what_parses_alone() {
    let graph = Graph::get();
    let services = || graph.members().filter(|(_, f)| f.starts_with("services/"));
    for (parser, expected) in PARSERS {
        let reach = services().filter(|(name, _)| graph.reach(name).contains_key(parser));
        let found: BTreeSet<&str> = reach.map(|(name, _)| name).collect();
        let expected: BTreeSet<&str> = expected.iter().copied().collect();
        assert_eq!(found, expected, "{parser} is reached by other services");
    }
}

/// Only programs that plan link the solver.
#[test]
fn an_agent_brings_no_solver_along() {
    let reached = Graph::get().reach("lacuna-agent-service");
    assert!(!reached.contains_key("highs"), "the agent reaches HiGHS");
}

/// The services that the lab uses: the client's library, and those that it runs in virtual time.
const OF_LAB: [&str; 3] = [
    "lacuna-cli",
    "lacuna-control-service",
    "lacuna-agent-service",
];

#[test]
fn no_service_depends_on_a_service_but_the_lab() {
    let graph = Graph::get();
    let services: Vec<&str> = graph
        .members()
        .filter(|(_, f)| f.starts_with("services/"))
        .map(|(name, _)| name)
        .collect();
    assert_eq!(services.len(), 9, "services: {services:?}");
    for service in &services {
        for other in &services {
            if *service == "lacuna-lab" && OF_LAB.contains(other) {
                continue;
            }
            assert!(
                !graph.direct(service).contains(other)
                    && !graph.direct_dev(service).contains(other),
                "{service} depends on {other}: they talk over the bus alone"
            );
        }
    }
}

#[test]
fn the_vocabulary_knows_only_serde_schemars_and_thiserror() {
    let direct = Graph::get().direct("lacuna-model");
    let expected = BTreeSet::from(["schemars", "serde", "thiserror"]);
    assert!(
        direct.is_subset(&expected),
        "lacuna-model depends on {direct:?}"
    );
}

#[test]
fn only_tests_use_what_is_for_tests() {
    let graph = Graph::get();
    for (name, _) in graph.members().filter(|(n, _)| *n != "lacuna-testkit") {
        for tests in ["lacuna-testkit", "lacuna-skip"] {
            assert!(
                !graph.direct(name).contains(tests),
                "{name} ships {tests}: make it a development dependency"
            );
        }
    }
}
