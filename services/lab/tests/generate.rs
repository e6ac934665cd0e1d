//! `lacuna-lab generate`, and other commands on its output.

use lacuna_testkit::{Bench, json};

#[test]
fn a_generated_machine_is_the_same_for_the_same_seed() {
    let bench = Bench::with(&[]);
    let make = |name: &str, seed: &str| {
        let output = bench.lab(&[
            "generate", "--nodes", "32", "--days", "1", "--seed", seed, "--out", name, "--json",
        ]);
        assert!(json(&output)["holes"].as_u64().unwrap() > 0);
        std::fs::read(bench.path(name)).unwrap()
    };
    assert_eq!(make("a.csv", "7"), make("b.csv", "7"));
    assert_ne!(make("a.csv", "7"), make("c.csv", "8"));
    let output = bench.lab(&[
        "generate",
        "--out",
        "/nonexistent/x.csv",
        "--nodes",
        "16",
        "--days",
        "1",
    ]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("L0011"));
}

#[test]
fn planned_starts_of_a_generated_machine_reach_replay_and_forecast() {
    let bench = Bench::with(&[]);
    let output = bench.lab(&[
        "generate",
        "--nodes",
        "32",
        "--days",
        "1",
        "--out",
        "holes.csv",
        "--planned",
        "planned.csv.gz",
        "--json",
    ]);
    assert!(json(&output)["planned_starts"].as_u64().unwrap() > 100);
    let events = |planned: &[&str]| {
        let output = bench.lab(&[&["replay", "holes.csv", "--json"], planned].concat());
        json(&output)["events"].as_u64().unwrap()
    };
    let plain = events(&[]);
    // This scheduler changes its plans only when a hole opens or ends.
    assert_eq!(events(&["--planned", "planned.csv.gz"]), plain);
    // A change of a planned start alone is an event, too.
    let text = std::fs::read_to_string(bench.path("holes.csv")).unwrap();
    let long = text.lines().skip(1).find_map(|line| {
        let mut words = line.split(',');
        let (node, from) = (words.next()?, words.next()?.parse::<i64>().ok()?);
        let until = words.next()?.parse::<i64>().ok()?;
        (until - from > 600).then_some((node.to_owned(), from))
    });
    let (node, from) = long.unwrap();
    let rows = format!("at,node,start\n{},{node},{}\n", from + 1, from + 300);
    bench.file("alone.csv", &rows);
    assert_eq!(events(&["--planned", "alone.csv"]), plain + 1);
    let refused = bench.lab(&["forecast", "eval", "holes.csv", "--planned-starts"]);
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && text.contains("--planned"),
        "{text}"
    );
    let wrong = bench.lab(&["replay", "holes.csv", "--planned", "holes.csv"]);
    let text = String::from_utf8_lossy(&wrong.stderr);
    assert!(
        text.contains("expected the header \"at,node,start\""),
        "{text}"
    );
}
