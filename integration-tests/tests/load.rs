//! A short form of `lacuna-lab bench bus`: every event arrives. How fast is not asked: that is
//! up to the machine and to what else runs on it.

use std::process::Command;

use serde_json::{Value, json};

use lacuna_testkit::program;

#[test]
fn every_event_of_bursts_and_of_a_steady_load_is_accounted_for() {
    let output = Command::new(program("lacuna-lab"))
        .args("bench bus --json --nodes 400 --trainers 8 --samples 2 --seed 7".split(' '))
        .args("--bursts 2 --burst 2000 --seconds 10 --rate 500 --hit-share 0.01".split(' '))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    let found: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text} {said}"));
    let account = &found["account"];
    assert!(output.status.success(), "{found:#} {said}");
    let published = 2 * 2000 + 10 * 500;
    assert_eq!(account["published"], published);
    assert_eq!(account["ingest"], json!({ "taken": published }));
    for count in ["acknowledged", "numbered", "stream"] {
        assert_eq!(account[count], published, "{count}: {account:#}");
    }
    let none = [
        "gaps",
        "lost",
        "queue",
        "pool_lacks",
        "pool_wrong",
        "unplanned",
        "untold",
    ];
    for count in none {
        assert_eq!(account[count], 0, "{count}: {account:#}");
    }
    // Trainers did hold nodes, and lost some.
    assert!(account["hits"].as_u64().unwrap() > 20, "{account:#}");
    let latencies = found["sustained"]["latencies"].as_array().unwrap();
    assert!(
        latencies.iter().all(|l| l["samples"].as_u64().unwrap() > 0),
        "{latencies:?}"
    );
    let memory = found["sustained"]["memory"].as_object().unwrap();
    for service in [
        "ingest", "forecast", "planner", "control", "gateway", "agent", "nats",
    ] {
        assert!(
            memory[service]["peak_mib"].as_f64().unwrap() > 1.0,
            "{service}"
        );
    }
}
