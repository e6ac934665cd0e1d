//! `lacuna forecast learn` and `lacuna replay --model`.

use lacuna_testkit::Bench;

use super::{SWF, complaint, figures};

/// A list of holes of ten nodes over `hours`, of which two are always idle in turn.
fn turns(hours: i64, name: &str) -> String {
    let mut list = "node,idle_from,idle_until,censored\n".to_owned();
    for minute in (0..hours * 60).step_by(6) {
        let (node, from) = (minute / 6 % 10, minute * 60);
        let until = from + 600 + (minute * 7 % 11) * 30;
        list.push_str(&format!("{name}{node},{from},{until},0\n"));
    }
    list
}

#[test]
fn a_model_is_learnt_from_the_past_and_a_replay_starts_with_it() {
    let trainer = r#"{"name":"a","submit":0,"min_nodes":1,"max_nodes":9,"rescale_up_s":60,"rescale_down_s":60,"samples":9e14,"nodes":[1,9],"samples_per_s":[10,80]}"#;
    let bench = Bench::with(&[("holes.csv", &turns(36, "n")), ("one.jsonl", trainer)]);
    let learn = ["forecast", "learn", "holes.csv", "--until", "90000"];
    let found = figures(&bench, &learn);
    assert_eq!(found["nodes"], 10);
    assert_eq!(found["is_young"], false);
    assert!(found["ended"].as_u64().unwrap() > 200, "{found}");
    let scored = &found["skill"]["predictors"][0];
    assert!(
        scored["concordance"]["within"].as_f64().unwrap() > 0.5,
        "{found}"
    );
    let replay = [
        "replay",
        "holes.csv",
        "--from",
        "90000",
        "--trainers",
        "one.jsonl",
        "--model",
        "model.lacuna",
    ];
    let found = figures(&bench, &replay);
    let notes = found["log"]["notes"].to_string();
    assert!(notes.contains("knows 10 of the 10 nodes"), "{notes}");
    // What comes after the start would be known.
    let all = [
        "replay",
        "holes.csv",
        "--trainers",
        "one.jsonl",
        "--model",
        "model.lacuna",
    ];
    let text = complaint(&bench, &all);
    assert!(text.contains("would know the future"), "{text}");
    let same = [
        "replay",
        "holes.csv",
        "--policy",
        "dp",
        "--from",
        "90000",
        "--model",
        "model.lacuna",
    ];
    let notes = figures(&bench, &same)["log"]["notes"].to_string();
    assert!(
        notes.contains("changes nothing: dp forecasts no hole"),
        "{notes}"
    );
}

#[test]
fn a_model_that_cannot_be_used_and_a_log_without_a_lesson_are_refused() {
    let bench = Bench::with(&[
        ("holes.csv", &turns(40, "n")),
        ("other.csv", &turns(40, "x")),
        (
            "one.csv",
            "node,idle_from,idle_until,censored\na,0,100,0\na,200,300,0\n",
        ),
        (
            "open.csv",
            "node,idle_from,idle_until,censored\na,0,100,1\nb,0,100,1\n",
        ),
        ("none.csv", "node,idle_from,idle_until,censored\n"),
        ("four.swf", SWF),
    ]);
    for (log, expected) in [
        ("one.csv", "only the node a is ever idle"),
        ("open.csv", "no node that was idle became busy again"),
        ("none.csv", "there is no hole in it"),
    ] {
        let text = complaint(&bench, &["forecast", "learn", log]);
        assert!(text.contains(expected), "{log}: {text}");
        assert!(!bench.path("model.lacuna").exists(), "{log}");
    }
    figures(
        &bench,
        &[
            "forecast",
            "learn",
            "holes.csv",
            "--until",
            "90000",
            "-o",
            "m",
        ],
    );
    let model = std::fs::read(bench.path("m")).unwrap();
    let mut damaged = model.clone();
    let last = damaged.len() - 9;
    damaged[last] ^= 1;
    std::fs::write(bench.path("damaged"), damaged).unwrap();
    let mut old = model.clone();
    old[12] += 1;
    std::fs::write(bench.path("old"), old).unwrap();
    std::fs::write(bench.path("cut"), &model[..model.len() / 2]).unwrap();
    std::fs::write(bench.path("short"), &model[..model.len() - 1]).unwrap();
    for (log, model, expected) in [
        ("holes.csv", "damaged", "checksum"),
        ("holes.csv", "old", "version"),
        ("holes.csv", "cut", "damaged"),
        (
            "holes.csv",
            "short",
            "--model short: the saved model is damaged",
        ),
        ("holes.csv", "holes.csv", "does not begin as a saved model"),
        ("holes.csv", "missing", "cannot read"),
        (
            "other.csv",
            "m",
            "none of the 10 of this machine such as x0",
        ),
        ("four.swf", "m", "a simulated scheduler chose here"),
    ] {
        let part = ["--from", "90000"];
        let part = if log.ends_with("csv") { &part[..] } else { &[] };
        let text = complaint(
            &bench,
            &[&["replay", log, "--model", model][..], part].concat(),
        );
        assert!(text.contains(expected), "{log} {model}: {text}");
    }
    let text = complaint(
        &bench,
        &["replay", "holes.csv", "--model", "m", "--from", "80000"],
    );
    let future =
        "learnt up to 1970-01-02T01:00:00Z, and the part of the log starts at 1970-01-01T22:13:20Z";
    assert!(text.contains(future) && text.contains("--until"), "{text}");
}
