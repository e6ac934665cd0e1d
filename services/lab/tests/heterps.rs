//! `lacuna-lab reproduce heterps` on small instances.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::process::{Command, Output};

use serde_json::Value;

fn heterps(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lacuna-lab"))
        .args(["reproduce", "heterps", "--seeds", "1"])
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn brute_force_finds_the_exact_cost_and_searches_nothing_cheaper() {
    let schedulers = "brute,cpu,greedy,local,rl-rnn";
    let output = heterps(&[
        "--networks",
        "NCE-5",
        "--kinds",
        "2,4",
        "--schedulers",
        schedulers,
        "--json",
    ]);
    assert!(output.status.success(), "{output:?}");
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let instances = value["instances"].as_array().unwrap();
    assert_eq!(instances.len(), 2);
    for instance in instances {
        let columns = instance["schedulers"].as_array().unwrap();
        let ratios = columns
            .iter()
            .map(|column| column["ratio"].as_f64().unwrap());
        assert!(
            ratios.clone().all(|ratio| ratio >= 1.0 - 1e-4),
            "{instance}"
        );
        let brute = ratios.clone().next().unwrap();
        assert!(brute <= 1.0 + 1e-4, "{instance}");
        let evaluations = columns.last().unwrap()["runs"][0]["evaluations"].as_u64();
        assert_eq!(evaluations, Some(1500), "{instance}");
    }
}

#[test]
fn the_table_says_what_cannot_be_reproduced() {
    let output = heterps(&[
        "--networks",
        "NCE-5",
        "--kinds",
        "2",
        "--schedulers",
        "cpu,gpu",
    ]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("14.5 times") && text.contains("At 2 kinds GPUs alone cost"),
        "{text}"
    );
    let wrong = heterps(&["--networks", "NCE-6"]);
    assert_eq!(wrong.status.code(), Some(2));
}
