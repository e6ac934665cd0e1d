//! Trainers given by a profile of their layers: the table that is read, and what is refused.

use std::path::Path;

use lacuna_model::{KindName, TrainerSpec};
use lacuna_trainer_file::{Purpose, TrainerFileError};

const PROFILE: &str = r#"{"batch": 100, "samples": 1e9, "min_rate": 1e4, "kinds": [
  {"name": "cpu", "price_per_hour": 0.04, "memory_bytes": 3e10, "link_bytes_per_s": 1e9},
  {"name": "gpu", "price_per_hour": 2.4, "memory_bytes": 4e9, "link_bytes_per_s": 1e9}],
 "layers": [
  {"name": "table", "seconds": {"cpu": 1e-5, "gpu": 2e-5}, "out_bytes": 100, "table_bytes": 2e10},
  {"name": "dense", "seconds": {"cpu": 1e-3, "gpu": 1e-5}, "out_bytes": 4}]}"#;

fn read(folder: &Path, layers: &str) -> Result<Vec<TrainerSpec>, TrainerFileError> {
    let line = |name| {
        format!(
            r#"{{"name":"{name}","submit":0,"min_nodes":1,"max_nodes":4,"rescale_up_s":18,"rescale_down_s":12,"samples":1e9,{layers}}}"#
        )
    };
    let path = folder.join("trainers.jsonl");
    std::fs::write(&path, format!("{}\n{}\n", line("a"), line("b"))).unwrap();
    Ok(lacuna_trainer_file::read(&path, Purpose::Replay)?.trainers)
}

#[test]
fn a_profile_gives_the_rates_over_both_kinds() {
    let folder = tempfile::TempDir::new().unwrap();
    std::fs::write(folder.path().join("ctr.json"), PROFILE).unwrap();
    let trainers = read(folder.path(), r#""layers":"ctr.json""#).unwrap();
    let [cpu, gpu] = ["cpu", "gpu"].map(|name| KindName::new(name).unwrap());
    let rate = |trainer: &TrainerSpec, a, b| trainer.kinds.rate((&cpu, a), (&gpu, b));
    assert_eq!(trainers[0].kinds, trainers[1].kinds);
    // The dense layer takes a millisecond on a CPU node, a hundredth of it on a GPU.
    assert!((rate(&trainers[0], 1, 0).unwrap() - 1.0 / 1.01e-3).abs() < 1e-3);
    assert_eq!(rate(&trainers[0], 0, 4), None);
    assert!((rate(&trainers[0], 1, 1).unwrap() - 1e5).abs() < 1.0);
    assert_eq!(
        trainers[0].throughput.at(1),
        rate(&trainers[0], 1, 0).unwrap()
    );
    let nodes =
        r#""layers":{"profile":"ctr.json","nodes":{"cpu":{"cpu":2},"gpu":{"gpu":4,"cpu":1}}}"#;
    let trainers = read(folder.path(), nodes).unwrap();
    assert!((rate(&trainers[0], 0, 1).unwrap() - 1e5).abs() < 1.0);
}

#[test]
fn what_is_wrong_is_named_with_its_file_and_a_remedy() {
    let folder = tempfile::TempDir::new().unwrap();
    std::fs::write(folder.path().join("ctr.json"), PROFILE).unwrap();
    std::fs::write(
        folder.path().join("bad.json"),
        PROFILE.replace("\"cpu\": 1e-5, ", ""),
    )
    .unwrap();
    std::fs::write(folder.path().join("cut.json"), &PROFILE[..99]).unwrap();
    for (layers, expected) in [
        (r#""layers":"none.json""#, "none.json: No such file"),
        (
            r#""layers":"none.json""#,
            "write it by python3 -m lacuna.profile_layers",
        ),
        (
            r#""layers":"bad.json""#,
            r#"bad.json: layer "table" has no seconds on kind "cpu": measure it"#,
        ),
        (r#""layers":"cut.json""#, "cut.json: EOF"),
        (r#""layers":7"#, "layers: invalid type"),
        (
            r#""layers":{"profile":"ctr.json","node":{}}"#,
            "unknown field `node`",
        ),
        (
            r#""layers":{"profile":"ctr.json","nodes":{"gpu":{"v100":4}}}"#,
            r#"ctr.json: nodes.gpu names kind "v100": the profile has cpu, gpu"#,
        ),
        (
            r#""layers":{"profile":"ctr.json","nodes":{"gpu":{"gpu":1}}}"#,
            "no kind of node runs the network alone, on up to 4 nodes",
        ),
        (
            r#""layers":"ctr.json","kinds":{}"#,
            "layers: given beside kinds",
        ),
    ] {
        let error = read(folder.path(), layers).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(error.contains("trainers.jsonl:1: layers: "), "{error}");
    }
}
