//! `heterps` on small instances.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::process::{Command, Output};

use serde_json::Value;

fn heterps(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lacuna-reproduce"))
        .args(["heterps", "--seeds", "1"])
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
    let runs = value["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2 * 5);
    for run in runs {
        let ratio = run["ratio"].as_f64().unwrap();
        assert!(ratio >= 1.0 - 1e-4, "{run}");
        assert!(ratio <= 1.0 + 1e-4 || run["scheduler"] != "brute", "{run}");
        let evaluations = &run["runs"][0]["evaluations"];
        assert!(run["scheduler"] != "rl-rnn" || evaluations == 1500, "{run}");
    }
    // Within a tenth of variation the cost model is that of simulated pipelines.
    let optimism = &value["tables"][3]["rows"][0];
    for variation in ["0.05", "0.1"] {
        assert!(optimism[variation].as_f64().unwrap() <= 0.05, "{optimism}");
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
