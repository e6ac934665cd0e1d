//! TOML and JSON lines of the same trainer say the same.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use lacuna_model::{Launch, Program, TrainerSpec};
use lacuna_trainer_file::{Purpose, TrainerList, parse};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The trainers of a text, or the error without its place.
fn read(file: &Path, text: &str, purpose: Purpose) -> Result<TrainerList, String> {
    parse(file, text.as_bytes(), purpose).map_err(|error| {
        let error = error.to_string();
        let mut parts = error.splitn(3, ':');
        parts.nth(2).unwrap().trim().to_owned()
    })
}

/// JSON lines of the trainers of a document.
fn lines(document: &toml::Table) -> String {
    let trainers = document["trainer"].as_array().unwrap().iter();
    let lines = trainers.map(|one| serde_json::to_string(one).unwrap() + "\n");
    lines.collect()
}

/// A value by its key, or none.
fn maybe(key: &'static str, values: &'static [&'static str]) -> BoxedStrategy<Map<String, Value>> {
    let values = values
        .iter()
        .map(|text| serde_json::from_str::<Value>(text).unwrap());
    let one = prop::sample::select(values.collect::<Vec<_>>());
    let one = one.prop_map(move |value| Map::from_iter([(key.to_owned(), value)]));
    let (without, with) = match key {
        "launcher" | "program" | "scaling" => (1, 6),
        _ => (9, 1),
    };
    prop_oneof![without => Just(Map::new()), with => one].boxed()
}

/// Trainers with some keys, right and wrong, of both spellings.
fn trainer() -> impl Strategy<Value = Value> {
    let keys: &[(&str, &[&str])] = &[
        (
            "launcher",
            &[
                "\"simulated\"",
                "\"command\"",
                "\"regroup\"",
                "\"torchrun\"",
            ],
        ),
        ("program", &["\"train.py\"", "\"./bin/train\""]),
        ("arguments", &["[\"--lr\", 0.25, 3, true]"]),
        ("environment", &["{\"A\": \"1\", \"B\": 2}", "{\"A=\": 1}"]),
        (
            "environment_from",
            &["\"a.env\"", "[\"a.env\", \"/b.env\"]"],
        ),
        ("checkpoint_dir", &["\"ckpt\"", "\"~/ckpt\""]),
        ("workers_per_node", &["4", "0"]),
        ("priority", &["-3", "1.5"]),
        ("weight", &["2.5", "3"]),
        (
            "deadline",
            &[
                "\"2026-03-01T08:00:00Z\"",
                "1772352000",
                "1772352000.5",
                "1e18",
            ],
        ),
        ("not_before", &["\"2026-03-01T08:00:00.25Z\"", "\"soon\""]),
        ("submit", &["0", "1600000000"]),
        (
            "scaling",
            &[
                "{\"nodes\": [1, 8], \"samples_per_s\": [100, 700.5]}",
                "{\"nodes\": [1, 8], \"samples_per_s\": [100, 700], \"objective\": [1, 3.5]}",
                "{\"nodes\": [1, 8], \"samples_per_s\": [9, 70], \"batch\": [8, 64], \"efficiency\": [1, 0.5]}",
                "{\"nodes\": [1, 8], \"samples_per_s\": [100]}",
            ],
        ),
        ("nodes", &["[0, 1, 8]"]),
        ("samples_per_s", &["[0, 100.0, 640.0]"]),
        (
            "kinds",
            &[
                "{\"cpu\": {\"nodes\": [1, 8], \"samples_per_s\": [5, 30]}, \"gpu\": {\"nodes\": [1, 8], \"samples_per_s\": [50, 300]}}",
            ],
        ),
        (
            "together",
            &["[{\"cpu\": 4, \"gpu\": 1, \"samples_per_s\": 70}]"],
        ),
        ("distance", &["{\"shares\": [0.8]}"]),
        (
            "maximise",
            &["\"speedup\"", "\"throughput\"", "\"sqrt(rate)\""],
        ),
        ("rescale", &["{\"up\": \"1.5s\", \"down\": \"1m\"}"]),
        ("rescale_up_s", &["17.78804344238519"]),
        ("rescale_down_s", &["12"]),
        (
            "stages",
            &["[{\"from\": 500, \"samples_per_s\": [100, 300]}]"],
        ),
        ("until", &["\"exit\""]),
        ("colour", &["1"]),
    ];
    let keys: Vec<_> = keys
        .iter()
        .map(|(key, values)| maybe(key, values))
        .collect();
    (keys, prop::bool::weighted(0.8), 1_u32..10).prop_map(|(maps, has_samples, max)| {
        let mut all = json!({"name": "a", "min_nodes": 1, "max_nodes": max});
        let object = all.as_object_mut().unwrap();
        object.extend(maps.into_iter().flatten());
        if has_samples {
            object.insert("samples".to_owned(), json!(1e6));
        }
        all
    })
}

#[test]
fn toml_and_json_lines_of_a_trainer_are_the_same_specification() {
    let (mut runner, trainers) = (TestRunner::deterministic(), trainer());
    let (mut right, mut wrong) = (0, 0);
    for _ in 0..3000 {
        let trainer = trainers.new_tree(&mut runner).unwrap().current();
        let text = toml::to_string(&BTreeMap::from([("trainer", [&trainer])])).unwrap();
        for purpose in [Purpose::Submit, Purpose::Replay] {
            let of_toml = read(Path::new("/home/ada/t"), &text, purpose);
            let of_json = read(Path::new("/home/ada/t"), &trainer.to_string(), purpose);
            match (&of_toml, &of_json) {
                (Ok(_), Ok(_)) => {
                    assert_eq!(of_toml, of_json, "{text}");
                    right += 1;
                }
                // The libraries word some faults in two ways.
                (Err(of_toml), Err(of_json)) => {
                    let key = |error: &String| error.split(':').next().unwrap().to_owned();
                    assert_eq!(key(of_toml), key(of_json), "{text}");
                    wrong += 1;
                }
                _ => panic!("{of_toml:?}, but {of_json:?} of {text}"),
            }
        }
    }
    assert!(right > 500 && wrong > 500, "{right} right, {wrong} wrong");
}

/// Each TOML example of a page or of the examples, with its folder.
fn examples() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root().join("deploy/examples")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "toml") {
            found.push((path.clone(), std::fs::read_to_string(path).unwrap()));
        }
    }
    for page in ["README.md", "libs/lacuna-py/README.md"] {
        let path = root().join(page);
        let text = std::fs::read_to_string(&path).unwrap();
        // The file of a here document ends with END, a block with its fence.
        for block in text.split("\n[[trainer]]\n").skip(1) {
            let ends = ["\nEND\n", "\n```\n"].map(|end| block.find(end));
            let end = ends.into_iter().flatten().min().unwrap();
            let block = block[..end].replace("$PWD/", "/home/ada/");
            found.push((path.clone(), format!("[[trainer]]\n{block}\n")));
        }
    }
    found
}

#[test]
fn every_example_is_the_same_trainer_as_a_line() {
    let examples = examples();
    assert!(examples.len() >= 6, "only {} examples", examples.len());
    let mut replayed = 0;
    for (path, text) in examples {
        let document: toml::Table = text.parse().unwrap();
        let lines = lines(&document);
        let submitted = read(&path, &text, Purpose::Submit).unwrap();
        assert_eq!(submitted, read(&path, &lines, Purpose::Submit).unwrap());
        match read(&path, &text, Purpose::Replay) {
            Ok(list) => {
                assert_eq!(list, read(&path, &lines, Purpose::Replay).unwrap());
                let is_simulated = |one: &TrainerSpec| one.launch == Launch::Simulated;
                assert!(list.trainers.iter().all(is_simulated), "{list:?}");
                replayed += 1;
            }
            Err(error) => assert!(error.starts_with("scaling: missing"), "{error}"),
        }
    }
    assert!(replayed >= 3, "{replayed} examples have a curve");
}

#[test]
fn a_list_is_a_file_of_tables_and_compressed_or_not() {
    let list = root().join("deploy/examples/layers.jsonl");
    let text = std::fs::read_to_string(&list).unwrap();
    let trainers: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let tables = toml::to_string(&BTreeMap::from([("trainer", trainers)])).unwrap();
    for purpose in [Purpose::Submit, Purpose::Replay] {
        let of_lines = lacuna_trainer_file::read(&list, purpose).unwrap();
        assert_eq!(of_lines, read(&list, &tables, purpose).unwrap());
        assert_eq!(of_lines.trainers.len(), 6);
    }
}

#[test]
fn what_one_command_cannot_follow_is_refused_by_name() {
    let line = |more: &str| {
        format!(
            r#"{{"name":"a","min_nodes":1,"max_nodes":2,"launcher":"command","program":"/t",{more}}}"#
        )
    };
    let scaling = r#""samples":9,"scaling":{"nodes":[1,2],"samples_per_s":[1,2]"#;
    let path = Path::new("t.jsonl");
    let read = |text: &str, purpose| {
        let list = parse(path, line(text).as_bytes(), purpose);
        list.map_err(|error| error.to_string())
    };
    let measured = r#""until":"exit""#;
    assert!(read(measured, Purpose::Submit).is_ok());
    let error = read(measured, Purpose::Replay).unwrap_err();
    assert!(
        error.starts_with("t.jsonl:1: scaling: missing: a replay follows curves")
            && error.contains("write scaling = "),
        "{error}"
    );
    for (more, key) in [
        (r#","goodput":[1,2]}"#, "scaling.goodput"),
        (r#","batch":[8,16],"efficiency":[1,1]}"#, "scaling.batch"),
        (r#"},"stages":[{"from":5,"samples_per_s":[2,3]}]"#, "stages"),
    ] {
        let text = format!("{scaling}{more}");
        assert_eq!(
            read(&text, Purpose::Replay).unwrap().stages.len(),
            1,
            "{key}"
        );
        let error = read(&text, Purpose::Submit).unwrap_err();
        assert!(
            error.contains(&format!(
                "t.jsonl:1: {key}: is what only a replay follows: leave it out"
            )),
            "{error}"
        );
    }
    // A program starts in a replay as it does live.
    let list = read(&format!("{scaling}}}"), Purpose::Replay).unwrap();
    let spec = &list.trainers[0];
    assert_eq!(
        (&spec.launch, lacuna_rates::Rates::from(spec).start_s()),
        (&Launch::Simulated, 18.0)
    );
    let live = &read(&format!("{scaling}}}"), Purpose::Submit)
        .unwrap()
        .trainers[0];
    assert_eq!(lacuna_rates::Rates::from(live).start_s(), 18.0);
}

#[test]
fn an_older_line_takes_the_newer_keys_too_but_not_twice() {
    let older = r#"{"name":"a","submit":9,"min_nodes":1,"max_nodes":2,"rescale_up_s":1,"rescale_down_s":2,"samples":9,"nodes":[1,2],"samples_per_s":[1,2]@}"#;
    let read = |more: &str| {
        let text = older.replace('@', more);
        let list = parse(Path::new("t.jsonl"), text.as_bytes(), Purpose::Submit);
        list.map(|list| list.trainers[0].clone())
            .map_err(|error| error.to_string())
    };
    assert_eq!(read("").unwrap().objective, None);
    let program = read(r#","launcher":"command","program":"/t","maximise":"speedup""#).unwrap();
    assert!(matches!(
        program.launch,
        Launch::Command(Program { profile: false, .. })
    ));
    for (more, key) in [
        (r#","not_before":9"#, "submit: given beside not_before"),
        (
            r#","rescale":{"up":"1s","down":"1s"}"#,
            "rescale_up_s: given beside rescale",
        ),
        (
            r#","scaling":{"nodes":[1],"samples_per_s":[1]}"#,
            "nodes: given beside scaling",
        ),
    ] {
        let error = read(more).unwrap_err();
        assert!(
            error.contains(key) && error.contains("keep one of the two"),
            "{error}"
        );
    }
}
