//! Lists of trainers: accepted and refused lines, and the messages of errors.

use std::path::Path;

use lacuna_model::{Launch, TrainerSpec, Work};
use lacuna_skip::{data, or_skip};
use lacuna_trainer_file::{Purpose, TrainerFileError, TrainerList};
use proptest::prelude::*;

const GOOD: &str = r#"{"name":"J0","submit":10,"min_nodes":1,"max_nodes":4,"rescale_up_s":18.0,"rescale_down_s":12.0,"samples":1000.0,"nodes":[0,1,4],"samples_per_s":[0.0,10.0,30.0],"objective":[0.0,1.0,3.0]}"#;

fn list(text: &[u8]) -> Result<TrainerList, TrainerFileError> {
    lacuna_trainer_file::parse(Path::new("t.jsonl"), text, Purpose::Replay)
}

fn read(text: &[u8]) -> Result<Vec<TrainerSpec>, TrainerFileError> {
    Ok(list(text)?.trainers)
}

#[test]
fn a_well_formed_trainer_is_read() {
    let trainers = read(format!("\n{GOOD}\n").as_bytes()).unwrap();
    let [trainer] = trainers.as_slice() else {
        panic!("{trainers:?}");
    };
    assert_eq!(trainer.throughput.points().len(), 2);
    assert_eq!(trainer.throughput.rate(2.5), 20.0);
    assert_eq!(trainer.objective_curve().at(4), 3.0);
    assert_eq!(trainer.work, Work::Samples(1000.0));
    assert_eq!(trainer.launch, Launch::Simulated);
    assert_eq!((trainer.rescale.up_s, trainer.rescale.down_s), (18.0, 12.0));
    assert_eq!(trainer.rescale.start_s, None);
    let starts = GOOD.replace("\"samples\"", "\"rescale_start_s\":40,\"samples\"");
    let trainers = read(starts.as_bytes()).unwrap();
    assert_eq!(trainers[0].rescale.start_s, Some(40.0));
}

#[test]
fn fields_of_objectives_are_read() {
    let more = r#""owner":"ada","priority":-2,"weight":2.5,"deadline":3600.5,"name"#;
    let trainers = read(GOOD.replace("\"name", more).as_bytes()).unwrap();
    let trainer = &trainers[0];
    assert_eq!(trainer.owner.as_deref(), Some("ada"));
    assert_eq!((trainer.priority, trainer.weight), (-2, Some(2.5)));
    assert_eq!(trainer.deadline.unwrap().unix_ms(), 3_600_500);
    let plain = &read(GOOD.as_bytes()).unwrap()[0];
    assert_eq!(
        (plain.priority, plain.weight, plain.deadline),
        (0, None, None)
    );
}

#[test]
fn stages_are_read_and_contradictions_refused() {
    let line = |stages: &str| GOOD.replace("\"name\"", &format!("\"stages\":{stages},\"name\""));
    let read_all = |stages: &str| list(line(stages).as_bytes());
    let TrainerList { trainers, stages } = read_all(
        r#"[{"from":500,"samples_per_s":[0,20,50],"objective":[0,1,2],"goodput":[0,9,8]},{"from":600,"samples_per_s":[0,5,8]}]"#,
    )
    .unwrap();
    let stages = &stages[&trainers[0].id].later;
    assert_eq!((stages[0].from, stages[0].throughput.at(4)), (500.0, 50.0));
    assert_eq!(stages[0].objective.as_ref().unwrap().at(4), 2.0);
    assert_eq!(stages[0].goodput.as_ref().unwrap().at(4), 8.0);
    assert_eq!((stages[1].from, &stages[1].objective), (600.0, &None));
    assert_eq!(stages[1].goodput, None);
    for (stages, expected) in [
        (
            r#"{"from":500}"#,
            "stages: invalid type: map, expected a sequence: write stages = ",
        ),
        (
            r#"[{"from":0,"samples_per_s":[0,1,2]}]"#,
            "stages[0].from: is 0",
        ),
        (
            r#"[{"from":5,"samples_per_s":[0,1]}]"#,
            "stages[0].samples_per_s: 3",
        ),
        (
            r#"[{"from":5,"samples_per_s":[0,1,2],"goodput":[0,1]}]"#,
            "stages[0].goodput: 3 node counts",
        ),
        (
            r#"[{"from":5,"samples_per_s":[0,1,2]},{"from":5,"samples_per_s":[0,1,2]}]"#,
            "stages[1].from: is 5",
        ),
    ] {
        let text = read_all(stages).unwrap_err().to_string();
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn steps_are_read_for_each_stage_and_contradictions_refused() {
    let read_all = |fields: &str| {
        let text = GOOD.replace("\"name\"", &format!("{fields},\"name\""));
        list(text.as_bytes())
    };
    let TrainerList { trainers, stages } = read_all(
        r#""batch":[1,32,96],"efficiency":[1,1,0.5],"waits":{"link":[0,0,0.25]},
        "stages":[{"from":5,"samples_per_s":[0,9,20],"batch":[1,32,96],"efficiency":[1,1,0.75]}]"#
            .replace('\n', "")
            .as_str(),
    )
    .unwrap();
    let of = &stages[&trainers[0].id];
    let (first, later) = (of.steps(0).unwrap().at(4), of.steps(1).unwrap().at(4));
    assert_eq!((first.batch, first.efficiency), (96.0, 0.5));
    assert_eq!(first.waits, [0.0, 0.0, 0.25, 0.0]);
    assert_eq!((later.efficiency, later.waits), (0.75, [0.0; 4]));
    assert_eq!(of.steps(0).unwrap().at(3).batch, 32.0);
    for (fields, expected) in [
        (r#""batch":[1,32,96]"#, "t.jsonl:1: efficiency: missing"),
        (
            r#""batch":[1,32],"efficiency":[1,1,1]"#,
            "batch: 3 node counts but 2 values",
        ),
        (
            r#""batch":[1,32,96],"efficiency":[1,0,1]"#,
            "a positive worth",
        ),
        (
            r#""batch":[1,2,3],"efficiency":[1,1,1],"waits":{"disk":[0,0,0]}"#,
            "waits: \"disk\" is no cause: write shares of a step by preparation",
        ),
        (
            r#""batch":[1,2,3],"efficiency":[1,1,1],"waits":{"link":[0,0,0.6],"fetch":[0,0,0.6]}"#,
            "1 at most together",
        ),
    ] {
        let text = read_all(fields).unwrap_err().to_string();
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn rates_by_kind_are_read_and_contradictions_refused() {
    let curve = r#""nodes":[0,1,4],"samples_per_s":[0.0,10.0,30.0],"objective":[0.0,1.0,3.0]"#;
    let line = |fields: &str| GOOD.replace(curve, fields);
    let kinds = r#""kinds":{"cpu":{"nodes":[2],"samples_per_s":[4]},"gpu":{"nodes":[1,2],"samples_per_s":[9,17]}}"#;
    let both = format!(r#"{kinds},"together":[{{"cpu":2,"gpu":1,"samples_per_s":12}}]"#);
    let trainers = read(line(&both).as_bytes()).unwrap();
    assert_eq!(trainers[0].throughput.at(2), 17.0);
    let [cpu, gpu] = ["cpu", "gpu"].map(|name| lacuna_model::KindName::new(name).unwrap());
    assert_eq!(trainers[0].kinds.rate((&cpu, 2), (&gpu, 1)), Some(12.0));
    for (fields, expected) in [
        (
            kinds.to_owned(),
            "trainer J0: max_nodes is 4, but the kinds were measured up to 2",
        ),
        (
            format!(r#"{both},"nodes":[4],"samples_per_s":[50]"#),
            "kinds contradict the scaling curve: it is 50 samples/s on 4 nodes",
        ),
        (
            format!(r#"{both},"nodes":[1,2],"samples_per_s":[9,17],"objective":[1,9]"#),
            "curve ends at 2",
        ),
        (
            r#""kinds":{"cpu":{"nodes":[2],"samples_per_s":[0]}}"#.to_owned(),
            "kinds: the curve of cpu: the rate at 2 nodes is 0",
        ),
        (
            r#""kinds":{"a b":{"nodes":[1],"samples_per_s":[1]}}"#.to_owned(),
            "1 to 64",
        ),
        (
            r#""kinds":{"a":3}"#.to_owned(),
            "kinds: invalid type: integer `3`, expected struct Curve: write kinds = ",
        ),
        (
            format!(r#"{kinds},"together":[{{"cpu":2,"fpga":1,"samples_per_s":12}}]"#),
            "together names kind fpga, which has no curve",
        ),
    ] {
        let error = read(line(&fields).as_bytes()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn errors_name_line_and_field() {
    for (from, to, expected) in [
        (
            "\"submit\":10,",
            "\"submit\":10,\"priority\":1.5,",
            "priority: invalid type: floating point `1.5`, expected i32: write a whole number",
        ),
        (
            "\"submit\":10,",
            "\"submit\":10,\"weight\":-1,",
            "weight: trainer J0: weight is -1: expected a number from 0 to 1000000000",
        ),
        (
            "\"submit\":10,",
            "\"submit\":10,\"deadline\":\"noon\",",
            "write deadline = \"2026-03-01T08:00:00Z\"",
        ),
        (
            "\"J0\"",
            "7",
            "name: invalid type: integer `7`, expected a string: write name = \"hpo-12\"",
        ),
        (
            "\"min_nodes\":1",
            "\"min_nodes\":-1",
            "min_nodes: invalid value: integer `-1`, expected u32: write min_nodes = 1",
        ),
        (
            "[0,1,4]",
            "[0,1,\"4\"]",
            "nodes: invalid type: string \"4\", expected u32: write a whole number",
        ),
        (
            "[0,1,4]",
            "4",
            "nodes: invalid type: integer `4`, expected a sequence: write min_nodes = 1 and max_nodes",
        ),
        (
            "\"min_nodes\":1",
            "\"min_nodes\":9",
            "min_nodes: trainer J0: min_nodes 9 and max_nodes 4: expected 1 <= min_nodes <= max_nodes",
        ),
        (
            "[0.0,10.0,30.0]",
            "[0.0,10.0]",
            "samples_per_s: 3 node counts but 2 rates",
        ),
        (
            "12.0",
            "-1",
            "rescale_down_s: trainer J0: rescale.down_s is -1: expected a number from 0 to 1000000",
        ),
        (
            "\"submit\":10,",
            "\"submit\":10,\"rescale_start_s\":\"40s\",",
            "rescale_start_s: invalid type: string \"40s\", expected f64: write a number",
        ),
        ("{\"name\"", "{name", "column 2: key must be a string"),
    ] {
        let error = read(GOOD.replace(from, to).as_bytes())
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{error}\n{expected}");
        assert!(error.starts_with("t.jsonl:1: "), "{error}");
    }
    let twice = format!("{GOOD}\n{GOOD}");
    let error = read(twice.as_bytes()).unwrap_err().to_string();
    assert_eq!(
        error,
        "t.jsonl:2: name: J0 is the name of a trainer above: write another one"
    );
}

#[test]
fn the_papers_trainers_are_read() {
    let folder = or_skip!(data("summit-2021-02"));
    for (name, count) in [
        ("hpo-1000", 1000),
        ("mixed-1001-throughput", 1001),
        ("mixed-1001-speedup", 1001),
    ] {
        let path = folder.join(format!("{name}.jsonl.gz"));
        let list = lacuna_trainer_file::read(&path, Purpose::Replay).unwrap();
        let trainers = list.trainers;
        assert_eq!(trainers.len(), count);
        assert_eq!(
            trainers.iter().any(|t| t.objective.is_some()),
            name.ends_with("speedup")
        );
    }
}

proptest! {
    #[test]
    fn mutated_trainers_never_panic(
        at in 0_usize..260,
        with in proptest::collection::vec(any::<u8>(), 0..6),
        cut in 0_usize..6,
    ) {
        let mut bytes = GOOD.as_bytes().to_vec();
        let at = at.min(bytes.len());
        let end = (at + cut).min(bytes.len());
        bytes.splice(at..end, with);
        if let Ok(trainers) = read(&bytes) {
            prop_assert!(trainers.iter().all(|t| t.check().is_ok()));
        }
    }
}
