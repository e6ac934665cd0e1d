//! `lacuna-lab forecast eval` on small logs, worked out by hand.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use serde_json::Value;

use lacuna_testkit::{Bench, json};

/// Node `a1` is idle for 40 s in every 400 s and `a2` for 200 s, both from the same moment on. So
/// the front of the order of names is taken while the end stays.
fn holes() -> String {
    let mut list = "node,idle_from,idle_until,censored\n".to_owned();
    for round in 0..300 {
        let from = 1_600_000_000 + 400 * round;
        list += &format!("a1,{from},{},0\n", from + 40);
        list += &format!("a2,{from},{},0\n", from + 200);
    }
    list
}

fn folder() -> Bench {
    Bench::with(&[("holes.csv", &holes()), ("back.txt", "a2\na1\n")])
}

fn evaluated(bench: &Bench, arguments: &[&str]) -> Value {
    let all = [&["forecast", "eval", "holes.csv", "--json"], arguments].concat();
    json(&bench.lab(&all))
}

fn complaint(bench: &Bench, arguments: &[&str]) -> String {
    let output = bench.lab(&[&["forecast", "eval"], arguments].concat());
    assert!(!output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn predictor<'a>(found: &'a Value, label: &str) -> &'a Value {
    let all = found["predictors"].as_array().unwrap();
    let named = all.iter().find(|one| one["label"] == label);
    assert!(named.is_some(), "{label} is not there: {found}");
    named.unwrap()
}

#[test]
fn a_constant_is_scored_as_by_hand_beside_the_baselines() {
    let bench = folder();
    let found = evaluated(
        &bench,
        &["--predictor", "constant=60s", "--train-until", "50%"],
    );
    assert_eq!(found["seed"], 1);
    assert_eq!(found["train_until"], "2020-09-14T05:05:00Z");
    assert_eq!(
        found["log"]["file"].as_str().unwrap().rsplit('/').next(),
        Some("holes.csv")
    );
    for label in ["age", "persistence", "constant 1m"] {
        predictor(&found, label);
    }
    // Questions begin in round 150 and lack the very last end: both nodes when they come, and a2
    // when a1 leaves.
    assert_eq!(
        (&found["events"], &found["moments"]),
        (&449.into(), &300.into())
    );
    assert_eq!(found["holes"], 450);
    let constant = predictor(&found, "constant 1m");
    let minute = &constant["horizons"][0];
    // Each time a2 is open a minute later and a1 is not; the constant forecasts both open.
    assert_eq!(
        (&minute["answered"], &minute["open"]),
        (&450.into(), &300.into())
    );
    let brier = minute["brier"].as_f64().unwrap();
    assert!((brier - 1.0 / 3.0).abs() < 1e-12, "{brier}");
    let log_loss = minute["log_loss"].as_f64().unwrap();
    assert!((log_loss - 1e4_f64.ln() / 3.0).abs() < 1e-12, "{log_loss}");
    assert!(
        (minute["skill"].as_f64().unwrap() + 0.5).abs() < 1e-12,
        "{minute}"
    );
    // Two nodes with equal forecasts count as half.
    assert_eq!(constant["concordance"]["within"], 0.5);
    assert_eq!(constant["concordance"]["within_pairs"], 150);
}

#[test]
fn moments_spread_over_time_include_long_holes_more_often() {
    let bench = folder();
    let asked = &["--train-until", "50%", "--times", "200"][..];
    let found = evaluated(&bench, asked);
    // A node is idle for half of the time: a2, and for a fifth of that a1 as well.
    let [moments, holes] = ["moments", "holes"].map(|what| found[what].as_f64().unwrap());
    assert!((80.0..=120.0).contains(&moments), "{found}");
    assert!((1.1..=1.3).contains(&(holes / moments)), "{found}");
    let both = [asked, &["--events", "9"]].concat();
    let twice = complaint(&bench, &[&["holes.csv"], &both[..]].concat());
    assert!(twice.contains("--events"), "{twice}");
}

#[test]
fn the_order_of_names_is_found_and_a_list_reverses_it() {
    let bench = folder();
    let found = evaluated(&bench, &["--predictor", "age"]);
    let order = &found["order"];
    // a1 leaves before a2 each time: the first of two.
    assert_eq!(
        (&order["events"], &order["place"]),
        (&300.into(), &0.0.into())
    );
    assert_eq!(
        (&order["holds"], &order["reversed"]),
        (&true.into(), &false.into())
    );
    let turned = evaluated(&bench, &["--predictor", "age", "--order", "back.txt"]);
    let order = &turned["order"];
    assert_eq!(
        (&order["place"], &order["reversed"]),
        (&1.0.into(), &true.into())
    );
    let none = evaluated(&bench, &["--predictor", "age", "--order", "none"]);
    assert_eq!(none["order"], Value::Null);
}

#[test]
fn the_table_has_headings_and_the_report_is_self_contained() {
    let bench = folder();
    let arguments = ["forecast", "eval", "holes.csv", "--report", "skill.html"];
    let output = bench.lab(&arguments);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(output.status.success(), "{output:?}");
    for words in [
        "C ALL",
        "C EVENT",
        "SKILL 5M",
        "OFF 1H",
        "PINBALL 0.9",
        "hazard",
        "age",
        "persistence",
        "constant 2m",
        "seed",
        "neighbours",
        "by names: mean place of taken nodes 0.000",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let page = std::fs::read_to_string(bench.path("skill.html")).unwrap();
    for outside in ["http://", "https://", "<script", "<link", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    for words in [
        "Skill by horizon",
        "Do forecasts come true? hazard",
        "Quantiles of the",
    ] {
        assert!(page.contains(words), "{words}");
    }
    assert!(!page.contains("NaN") && !page.contains("inf<"), "{page}");
}

#[test]
fn the_same_seed_gives_the_same_figures() {
    let bench = folder();
    let run = |seed: &str| {
        let mut found = evaluated(&bench, &["--events", "40", "--holes", "1", "--seed", seed]);
        found["wall_seconds"] = Value::Null;
        found
    };
    assert_eq!(run("3"), run("3"));
    assert_ne!(run("3")["predictors"], run("4")["predictors"]);
}

/// In the second half of the log the model is scored from the first minute on, when a predictor
/// without it has seen no end.
#[test]
fn a_learnt_model_is_scored_beside_a_cold_predictor() {
    let bench = folder();
    let half = "1600060000";
    let learnt = bench.lacuna(&["forecast", "learn", "holes.csv", "--until", half, "-o", "m"]);
    assert!(learnt.status.success(), "{learnt:?}");
    let found = evaluated(
        &bench,
        &["--from", half, "--until", "1600061000", "--model", "m"],
    );
    assert_eq!(found["too_young"], 0);
    let [model, cold] = ["the model", "hazard"].map(|label| predictor(&found, label));
    assert!(
        cold["rests_on"].as_str().unwrap().contains("by age alone"),
        "{found}"
    );
    for of in ["brier", "log_loss"] {
        let [model, cold] = [model, cold].map(|one| one["horizons"][0][of].as_f64().unwrap());
        assert!(model < cold, "{of}: {model} {cold}");
    }
    let note = found["log"]["notes"].to_string();
    assert!(note.contains("knows 2 of the 2 nodes"), "{note}");
    bench.file("other.csv", &holes().replace('a', "b"));
    let mut old = std::fs::read(bench.path("m")).unwrap();
    old[12] += 1;
    std::fs::write(bench.path("old"), old).unwrap();
    for (log, model, words) in [
        ("holes.csv", "m", "would know the future"),
        ("other.csv", "m", "of another machine"),
        ("holes.csv", "old", "format version"),
        (
            "holes.csv",
            "holes.csv",
            "does not begin as a saved model does",
        ),
        ("holes.csv", "absent", "cannot read absent"),
    ] {
        let text = complaint(&bench, &[log, "--model", model]);
        assert!(text.contains(words), "{log} {model}: {text}");
    }
}

#[test]
fn errors_name_the_place_and_a_remedy() {
    let bench = folder();
    for (arguments, words) in [
        (
            &["holes.csv", "--train-until", "1700000000"][..],
            "nothing to be scored on",
        ),
        (
            &["holes.csv", "--train-until", "1600000000"],
            "nothing to learn from",
        ),
        (&["holes.csv", "--train-until", "120%"], "less than 100%"),
        (&["holes.csv", "--freeze"], "--train-until"),
        (
            &["holes.csv", "--order", "absent.txt"],
            "there is no such file",
        ),
        (&["holes.csv", "--predictor", "oracle"], "expected hazard"),
        (
            &["holes.csv", "--report", "no/such/skill.html"],
            "cannot write the report",
        ),
        (
            &["holes.csv", "--report", "holes.csv"],
            "not written over holes.csv, which is read",
        ),
        (
            &["holes.csv", "--events", "100000", "--holes", "10000"],
            "smaller --events",
        ),
        (
            &["holes.csv", "--planned-starts"],
            "leave --planned-starts out",
        ),
        (&["absent.csv"], "absent.csv"),
    ] {
        let text = complaint(&bench, arguments);
        assert!(text.contains(words), "{arguments:?}: {text}");
    }
    bench.file(
        "short.csv",
        "node,idle_from,idle_until,censored\na1,0,50,0\na2,10,90,0\n",
    );
    let text = complaint(&bench, &["short.csv"]);
    assert!(
        text.contains("too young") && text.contains("short.csv"),
        "{text}"
    );
}

/// Two nodes. In each round one job has a node for 100 to 800 s, its walltime, and the next job
/// needs both. So the other node stays idle until a moment that the scheduler knows.
fn rounds() -> String {
    let mut log = "; UnixStartTime: 1600000000\n; MaxNodes: 2\n; MaxProcs: 2\n".to_owned();
    for round in 0..200 {
        let (at, length) = (1000 * round, 100 + round * 7919 % 700);
        for (number, nodes, length) in [(1, 1, length), (2, 2, 100)] {
            let number = 2 * round + number;
            log += &format!(
                "{number} {at} 0 {length} {nodes} -1 -1 {nodes} {length} -1 1 1 -1 -1 1 -1 -1 -1\n"
            );
        }
    }
    log
}

#[test]
fn planned_starts_improve_a_forecast() {
    let bench = Bench::with(&[("rounds.swf", &rounds())]);
    let line = [
        "forecast",
        "eval",
        "rounds.swf",
        "--predictor",
        "age",
        "--planned-starts",
        "--json",
    ];
    let found = json(&bench.lab(&line));
    let brier = |label: &str| {
        let five = &predictor(&found, label)["horizons"][1];
        assert!(five["answered"].as_u64().unwrap() > 400, "{five}");
        five["brier"].as_f64().unwrap()
    };
    let (plain, announced) = (brier("age"), brier("age + planned starts"));
    assert!(
        announced < 0.8 * plain,
        "{announced} with planned starts, {plain} without"
    );
}
