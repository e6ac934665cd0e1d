//! `lacuna-lab replay`, and with it `lacuna replay`: figures, the one JSON value, and errors.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::path::Path;
use std::process::Output;

use lacuna_testkit::{Bench, json};

const HOLES: &str = "\
node,idle_from,idle_until,censored
a,1600000000,1600000100,0
b,1600000010,1600000020,0
b,1600000030,1600000031,0
";
const TRAINERS: &str = r#"{"name":"t0","submit":1600000000,"min_nodes":1,"max_nodes":2,"rescale_up_s":3,"rescale_down_s":2,"samples":400,"nodes":[1,2],"samples_per_s":[10,20]}"#;

fn folder() -> Bench {
    Bench::with(&[("holes.csv", HOLES), ("trainers.jsonl", TRAINERS)])
}

fn replay(bench: &Bench, more: &[&str]) -> Output {
    let horizon = ["--horizon", "5s"];
    let input = ["replay", "holes.csv", "--trainers", "trainers.jsonl"];
    let horizon = if more.contains(&"--horizon") {
        &[][..]
    } else {
        &horizon
    };
    bench.lab(&[&input, horizon, more].concat())
}

fn complaint(bench: &Bench, more: &[&str]) -> String {
    let output = replay(bench, more);
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn all_policies_give_the_figures_worked_out_by_hand() {
    let bench = folder();
    for policy in ["milp", "dp"] {
        let figures = json(&replay(&bench, &["--policy", policy, "--verify", "--json"]));
        // Of 43 s, taking the second and third hole costs 60 samples, and losing them 80.
        let seconds = figures["hours"].as_f64().unwrap() * 3600.0;
        assert!((seconds - 43.0).abs() < 1e-6, "{figures}");
        assert_eq!(figures["rescales"], 2);
        assert_eq!(figures["preemptions"], 2);
        assert_eq!(figures["verified"]["disagreements"], 0);
        assert_eq!(figures["policy"], policy);
        assert_eq!(figures["seed"], 1);
        assert_eq!(figures["start"], "2020-09-13T12:26:40Z");
        assert!(figures["wall_seconds"].as_f64().unwrap() > 0.0);
        assert!(figures["peak_rss_bytes"].as_u64().unwrap() > 1_000_000);
        for key in [
            "efficiency",
            "equivalent_nodes",
            "samples",
            "rescale_cost_fraction",
            "preempt_cost_fraction",
            "events",
            "trainers_done",
        ] {
            assert!(figures[key].is_number(), "{key}: {figures}");
        }
        for key in ["p50", "p99", "max", "total"] {
            assert!(
                figures["solve_seconds"][key].is_number(),
                "{key}: {figures}"
            );
        }
    }
    let figures = json(&replay(
        &bench,
        &["--endless", "--json", "--policy", "equal-share"],
    ));
    assert!(
        figures["zero_cost_fraction"].as_f64().unwrap() <= 1.0,
        "{figures}"
    );
}

#[test]
fn a_self_contained_report_is_written() {
    let bench = folder();
    let output = replay(&bench, &["--report", "out.html", "--svg", "out.svg"]);
    assert!(output.status.success(), "{output:?}");
    let page = std::fs::read_to_string(bench.path("out.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("<svg"));
    let drawing = std::fs::read_to_string(bench.path("out.svg")).unwrap();
    assert!(drawing.starts_with("<svg"), "{drawing}");
    for title in ["Pool and use", "Node by node"] {
        assert!(drawing.contains(&format!(">{title}</text>")), "{drawing}");
    }
    assert!(
        !drawing.contains("var("),
        "few programs support css variables"
    );
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(
        table.contains("efficiency U") && table.contains("seed 1"),
        "{table}"
    );
}

#[test]
fn bad_input_is_named() {
    let bench = folder();
    bench.file("holes.csv", &HOLES.replace("1600000020", "soon"));
    let text = complaint(&bench, &["--strict"]);
    assert!(
        text.contains(
            "line 3, column 3 (idle_until): expected a time in Unix seconds, found \"soon\""
        ),
        "{text}"
    );
    let bench = folder();
    bench.file(
        "trainers.jsonl",
        &TRAINERS.replace("\"min_nodes\":1", "\"min_nodes\":3"),
    );
    let text = complaint(&bench, &[]);
    assert!(
        text.contains("expected 1 <= min_nodes <= max_nodes"),
        "{text}"
    );
    let bench = folder();
    for (arguments, expected) in [
        (["--first-nodes", "9"], "has only 2"),
        (["--max-parallel", "0"], "0 is not in 1..=100000"),
        (["--max-parallel", "4000000000"], "is not in 1..=100000"),
        (
            ["--cost-scale", "-1"],
            "cost-scale: expected a number from 0",
        ),
        (["--objective", "-n"], "at 1 nodes is -1: expected a finite"),
        (
            ["--cost-scale", "NaN"],
            "cost-scale: expected a number from 0",
        ),
        (["--horizon", "120"], "is not a length of time"),
        (["--start", "tomorrow"], "is no time"),
        (
            ["--start", "99999999999"],
            "--from is 5138-11-16T09:46:39Z, but holes.csv ends at 2020-09-13T12:28:20Z",
        ),
        (
            ["--end", "1600000000"],
            "--until 2020-09-13T12:26:40Z is not after the first submission",
        ),
    ] {
        let text = complaint(&bench, &arguments);
        assert!(text.contains(expected), "{arguments:?}: {text}");
    }
}

#[test]
fn a_report_that_cannot_be_written_is_an_error() {
    let bench = folder();
    let text = complaint(&bench, &["--report", "no/such/out.html"]);
    assert!(
        text.contains("cannot write the report to no/such/out.html"),
        "{text}"
    );
    if Path::new("/dev/full").exists() {
        let text = complaint(&bench, &["--report", "/dev/full"]);
        assert!(text.contains("No space left on device"), "{text}");
    }
}

#[test]
fn an_objective_is_a_name_an_expression_or_a_file() {
    let bench = folder();
    let plain = json(&replay(&bench, &["--json"]));
    for objective in [
        "throughput",
        "rate",
        "3 * rate",
        "weighted",
        "deadline",
        "fair",
    ] {
        // With one trainer all these objectives give the same sizes.
        let found = json(&replay(&bench, &["--json", "--objective", objective]));
        assert_eq!(found["hours"], plain["hours"], "{objective}");
        assert_eq!(found["settings"]["objective"], objective);
    }
    // A second node has no value: the trainer never grows, and works as long as on one node. Forecasts
    // may hold it for the end of the first.
    let small = ["--json", "--policy", "dp", "--objective", "min(speedup, 1)"];
    let found = json(&replay(&bench, &small));
    assert_eq!(found["rescales"], 0, "{found}");
    assert!((found["hours"].as_f64().unwrap() * 3600.0 - 40.0).abs() < 1e-6);
    bench.file("mine.toml", "# mine\nt0 = \"min(speedup, 1)\"\n");
    let named = json(&replay(
        &bench,
        &["--json", "--policy", "dp", "--objective-file", "mine.toml"],
    ));
    assert_eq!(named["hours"], found["hours"]);
    let output = replay(&bench, &["--objective", "n +"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    bench.file("mine.toml", "t0 = \"n +\"\n");
    let text = complaint(&bench, &["--objective-file", "mine.toml"]);
    assert!(text.contains("mine.toml: line 1"), "{text}");
    let text = complaint(&bench, &["--objective-file", "none.toml"]);
    assert!(text.contains("cannot read none.toml"), "{text}");
    bench.file("mine.toml", "t* = \"n\"\nt1 = \"n\"\n");
    let text = complaint(&bench, &["--objective-file", "mine.toml"]);
    assert!(text.contains("no trainer is named t1"), "{text}");
    let share = replay(
        &bench,
        &["--policy", "equal-share", "--objective", "throughput"],
    );
    let text = String::from_utf8(share.stdout).unwrap();
    assert!(
        text.contains("equal share ignores all objectives"),
        "{text}"
    );
    let text = complaint(&bench, &["--objective", "n - 5"]);
    assert!(text.contains("t0"), "{text}");
}

#[test]
fn the_base_of_the_efficiency_can_be_chosen() {
    let bench = folder();
    let plain = json(&replay(&bench, &["--json"]));
    let charged = json(&replay(&bench, &["--json", "--charge-starts"]));
    assert!(
        charged["rescale_cost_fraction"].as_f64() > plain["rescale_cost_fraction"].as_f64(),
        "{charged}"
    );
    let split = json(&replay(&bench, &["--json", "--dedicated", "split"]));
    assert_eq!(split["efficiency"], plain["efficiency"]);
    let replayed = json(&replay(&bench, &["--json", "--dedicated", "static-replay"]));
    assert_eq!(replayed["hours"], plain["hours"]);
    assert_eq!(replayed["settings"]["dedicated"], "static-replay");
    let output = replay(&bench, &["--dedicated", "sometimes"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_short_list_is_measured_by_no_more_trainers_than_it_has() {
    let bench = folder();
    bench.file(
        "holes.csv",
        "node,idle_from,idle_until,censored\na,1600000000,1600000100,0\nb,1600000000,1600000100,0\n",
    );
    // Two nodes are worth 15 to one trainer, and 20 to two. One trainer alone on nodes that stay
    // reaches the best possible work.
    let alone = TRAINERS
        .replace("[10,20]", "[10,15]")
        .replace("400", "4000");
    bench.file("trainers.jsonl", &alone);
    for dedicated in ["split", "static-replay"] {
        let found = json(&replay(&bench, &["--json", "--dedicated", dedicated]));
        let efficiency = found["efficiency"].as_f64().unwrap();
        assert!((efficiency - 1.0).abs() < 1e-9, "{dedicated}: {found}");
    }
    let endless = json(&replay(&bench, &["--json", "--endless"]));
    assert!((endless["efficiency"].as_f64().unwrap() - 1.0).abs() < 1e-9);
    assert_eq!(endless["samples"], 2000.0, "{endless}");
}

#[test]
fn the_network_is_read_of_pbs_and_switches_without_one_are_named() {
    let bench = folder();
    let said = |more: &[&str]| String::from_utf8(replay(&bench, more).stdout).unwrap();
    let note = "no effect of --crossing-cost, --uplink, --unaware";
    let idle = ["--crossing-cost", "0.2", "--uplink", "4", "--unaware"];
    let text = said(&idle);
    assert!(text.contains(note) && text.contains("--leaves"), "{text}");
    let nodes = r#"{"nodes":{
"a":{"resources_available":{"switch":"s1"}},
"b":{"resources_available":{"switch":"s2"}}}}"#;
    bench.file("nodes.json", nodes);
    let with_file = [&idle[..], &["--topology", "nodes.json"]].concat();
    let text = complaint(&bench, &with_file);
    assert!(text.contains("--topology FILE,switch"), "{text}");
    let named = [&idle[..], &["--topology", "nodes.json,switch"]].concat();
    let text = said(&named);
    assert!(
        text.contains("SAMPLES") || text.contains("samples"),
        "{text}"
    );
    assert!(!text.contains("no effect"), "{text}");
}

#[test]
fn a_decision_is_saved_as_a_problem() {
    let bench = folder();
    for which in ["p.json", "p.json@hardest", "p.json@0"] {
        let _ = std::fs::remove_file(bench.path("p.json"));
        let output = replay(&bench, &["--save-problem", which]);
        assert!(output.status.success(), "{output:?}");
        let text = std::fs::read_to_string(bench.path("p.json")).unwrap();
        assert!(text.contains("allocation-problem"), "{text}");
        assert!(text.contains("of holes.csv"), "{text}");
        assert!(text.contains("by auto, objective fair"), "{text}");
        let problem: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(problem["trainers"][0]["name"], "t0");
    }
    let text = complaint(&bench, &["--save-problem", "q.json@999"]);
    assert!(text.contains("no event 999"), "{text}");
    assert!(!bench.path("q.json").exists());
    let text = complaint(&bench, &["--save-problem", "no/such/q.json"]);
    assert!(text.contains("cannot write no/such/q.json"), "{text}");
}

#[test]
fn the_report_shows_a_part_node_by_node() {
    let bench = folder();
    let page = |more: &[&str]| {
        let output = replay(&bench, &[&["--report", "out.html"][..], more].concat());
        assert!(output.status.success(), "{output:?}");
        std::fs::read_to_string(bench.path("out.html")).unwrap()
    };
    let whole = page(&[]);
    let part = page(&["--gantt", "1600000040..90s", "--gantt-nodes", "1"]);
    assert_ne!(whole, part);
    let text = complaint(&bench, &["--report", "out.html", "--gantt", "90s..40s"]);
    assert!(text.contains("--gantt"), "{text}");
    let text = complaint(&bench, &["--report", "out.html", "--gantt", "2h..3h"]);
    assert!(text.contains("after the replay has ended"), "{text}");
    for wrong in [
        &["--gantt", "0s..9s"][..],
        &["--report", "x", "--gantt", "9s"],
    ] {
        let output = replay(&bench, wrong);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {output:?}");
    }
}

#[test]
fn what_centres_run_today_is_replayed_beside_the_policy() {
    let bench = folder();
    let practices = ["--beside", "requeue,torchrun-elastic", "--policy", "dp"];
    let practices = [&practices[..], &["--checkpoint-every", "10s"]].concat();
    let figures = json(&replay(&bench, &[&practices[..], &["--json"]].concat()));
    let [requeue, elastic] = figures["beside"].as_array().unwrap().as_slice() else {
        panic!("{figures}")
    };
    let seconds = |of: &serde_json::Value| of["hours"].as_f64().unwrap() * 3600.0;
    // Jobs of one node stay on `a`, 10/s. The policy needs 43 s.
    assert_eq!(
        (&requeue["practice"], &requeue["nodes"]),
        (&"requeue".into(), &1.into())
    );
    assert!((seconds(requeue) - 40.0).abs() < 1e-6, "{requeue}");
    assert!((requeue["ratio"].as_f64().unwrap() - 40.0 / 43.0).abs() < 1e-9);
    // 330 samples at 30; from 31 on 2 s x 20/s, then 70 samples at 10/s.
    assert!((seconds(elastic) - 42.0).abs() < 1e-6, "{elastic}");
    assert_eq!(elastic["restarts"], 4);
    let shown = replay(
        &bench,
        &[&practices[..], &["--report", "out.html"]].concat(),
    );
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("requeue: 400 samples"), "{shown}");
    let page = std::fs::read_to_string(bench.path("out.html")).unwrap();
    assert!(page.contains("Beside what one would have instead"));
    assert!(page.contains("requeue, jobs of 1 node<"));
    let never = ["--beside", "requeue", "--checkpoint-every", "0s"];
    let error = complaint(&bench, &never);
    assert!(error.contains("checkpoint-every"), "{error}");
}

#[test]
fn milestones_after_the_end_are_named() {
    let bench = folder();
    // The trace ends 100 s after its start.
    let replay = |milestones| {
        let endless = ["--endless", "--policy", "dp", "--json"];
        json(&replay(
            &bench,
            &[&endless[..], &["--milestones", milestones]].concat(),
        ))
    };
    let found = replay("10s,60s");
    assert_eq!(found["milestones"].as_array().unwrap().len(), 2);
    assert!(!found["log"]["notes"].to_string().contains("milestones"));
    let found = replay("10s,2d,7d");
    assert_eq!(found["milestones"].as_array().unwrap().len(), 1);
    let notes = found["log"]["notes"].to_string();
    assert!(
        notes.contains("--milestones 2d00h,7d00h: left out, the replay ends 1m40s after its start"),
        "{notes}"
    );
}

#[test]
fn a_user_has_the_same_replay_without_the_switches_of_experiments() {
    let bench = folder();
    let input = ["replay", "holes.csv", "--trainers", "trainers.jsonl"];
    let usual = ["--policy", "dp", "--max-parallel", "3", "--json"];
    let figures = |output: Output| {
        let mut figures = json(&output);
        let all = figures.as_object_mut().unwrap();
        for measured in ["wall_seconds", "peak_rss_bytes", "solve_seconds"] {
            all.remove(measured).unwrap();
        }
        figures
    };
    let of_user = figures(bench.lacuna(&[&input[..], &usual].concat()));
    let of_lab = figures(bench.lab(&[&input[..], &usual].concat()));
    assert_eq!(of_user, of_lab);
    let refused = bench.lacuna(&[&input[..], &["--horizon", "5s"]].concat());
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
}
