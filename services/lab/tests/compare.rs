//! `lacuna-lab compare` and `lacuna-lab results`: the value of a forecast, and the page of tables.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

use lacuna_testkit::{Missing, data, or_skip};

/// The folder of recorded data, with that of Summit in it.
fn recordings() -> Result<PathBuf, Missing> {
    let holes = data("summit-2021-02/holes.csv.gz")?;
    Ok(holes.ancestors().nth(2).unwrap().to_path_buf())
}

fn forecast(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lacuna-lab"))
        .env_remove("LACUNA_DATA")
        .args(["compare", "forecast"])
        .args(arguments)
        .output()
        .unwrap()
}

/// Eight nodes that come and go: the first four leave together every quarter of an hour, the others
/// every hour.
fn holes() -> String {
    let mut text = "node,idle_from,idle_until,censored\n".to_owned();
    for node in 0..8 {
        let every = if node < 4 { 900 } else { 3600 };
        for hole in 0..(86_400 / every) {
            let from = 1_000_000_000 + hole * every;
            let until = from + every - 60;
            text.push_str(&format!("n{node:02},{from},{until},0\n"));
        }
    }
    text
}

#[test]
fn any_log_is_compared_and_each_cell_has_its_command() {
    let root = tempfile::tempdir().unwrap();
    let log = root.path().join("holes.csv");
    std::fs::write(&log, holes()).unwrap();
    let log = log.to_str().unwrap();
    let of = |more: &[&str]| {
        let columns = "bftrainer,forecast,no-order,clairvoyant,forecast-charged";
        let first = ["--log", log, "--costs", "5", "--columns", columns];
        forecast(&[&first[..], more].concat())
    };
    let output = of(&["--seeds", "2", "--json", "--", "--from", "1000040000"]);
    assert!(output.status.success(), "{output:?}");
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let note = value["notes"][0].as_str().unwrap();
    assert!(
        note.starts_with("holes.csv: ") && value["notes"].get(1).is_none(),
        "{value}"
    );
    let runs = value["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 5);
    let of = |name: &str, figure: &str| {
        let run = runs.iter().find(|run| run["column"] == name);
        run.unwrap()[figure].clone()
    };
    let share = |name: &str| of(name, "share_of_zero_cost_bound").as_f64().unwrap();
    for run in runs {
        assert_eq!(run["case"], "holes.csv, x5");
        let command = run["command"].as_str().unwrap();
        assert!(command.starts_with("replay ") && command.contains("--cost-scale 5"));
        assert!(command.contains("--from 1000040000"), "{command}");
    }
    let titles = value["tables"]
        .as_array()
        .unwrap()
        .iter()
        .map(|table| &table["title"]);
    assert!(
        titles
            .clone()
            .any(|title| title == "Least and largest of the seeds")
    );
    // Clairvoyance keeps no less than a policy without look-ahead; on so small a log perhaps no
    // more.
    assert!(share("clairvoyant") >= share("bftrainer"), "{value}");
    assert!(share("forecast-charged") <= share("forecast"), "{value}");
    assert!(
        of("forecast-charged", "command")
            .as_str()
            .unwrap()
            .contains("--charge-starts")
    );
}

#[test]
fn failures_are_in_table_and_exit_code() {
    let root = tempfile::tempdir().unwrap();
    let log = root.path().join("holes.csv");
    std::fs::write(&log, "not a recording\n").unwrap();
    let table = root.path().join("t.md");
    let output = forecast(&[
        "--log",
        log.to_str().unwrap(),
        "--costs",
        "1",
        "--columns",
        "bftrainer",
        "--out",
        table.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let table = std::fs::read_to_string(table).unwrap();
    assert!(
        table.contains("- holes.csv, x1, BFTrainer failed: "),
        "{table}"
    );
    for wrong in [
        &["--columns", "oracle"][..],
        &["--quick", "--costs", "5"],
        &["--trainers", "t.jsonl"],
    ] {
        assert_eq!(forecast(wrong).status.code(), Some(2), "{wrong:?}");
    }
    let nowhere = ["--data", root.path().to_str().unwrap(), "--json"];
    let output = forecast(&nowhere);
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["error"]["code"], "L0017");
    let odd = ["--log", "x", "--costs", "-1"];
    assert_ne!(forecast(&odd).status.code(), Some(0));
}

#[test]
fn bftrainers_policy_keeps_what_was_published_and_clairvoyance_more() {
    let data = or_skip!(recordings());
    let columns = "bftrainer,clairvoyant";
    let output = forecast(&[
        "--quick",
        "--data",
        data.to_str().unwrap(),
        "--columns",
        columns,
        "--json",
    ]);
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let share = |at: usize| {
        value["runs"][at]["share_of_zero_cost_bound"]
            .as_f64()
            .unwrap()
    };
    println!("{} {}", share(0), share(1));
    // The first figure is that of the authors' replayer on the same trace.
    assert!((share(0) - 0.856).abs() <= 0.01, "{value}");
    assert!(share(1) >= 0.9095, "{value}");
}

#[test]
fn results_are_listed_and_checked_and_stay_when_a_table_cannot_be_made() {
    let dir = tempfile::tempdir().unwrap();
    let page = "# R\n\n## theta\n\n- Took: 2m\n\n| a |\n|---|\n| 1 |\n";
    let readme = "<!-- RESULTS.md: theta -->\n| a |\n|---|\n| 1 |\n";
    std::fs::write(dir.path().join("RESULTS.md"), page).unwrap();
    std::fs::write(dir.path().join("README.md"), readme).unwrap();
    let results = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_lacuna-lab"))
            .env_remove("LACUNA_DATA")
            .current_dir(dir.path())
            .arg("results")
            .args(arguments)
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let said = text(&output.stdout) + &text(&output.stderr);
        (output.status.code(), said)
    };
    let (code, said) = results(&["--list"]);
    assert_eq!(code, Some(0), "{said}");
    let line = |name: &str| said.lines().find(|l| l.starts_with(name)).unwrap();
    assert!(line("theta").contains("2m"), "{said}");
    assert!(line("skill").contains("never"), "{said}");
    let (code, said) = results(&["--dry-run", "theta"]);
    assert_eq!(code, Some(0), "{said}");
    let command = "lacuna-lab compare forecast --log $LACUNA_DATA/theta-2022/";
    assert!(said.starts_with(command), "{said}");
    assert_eq!(results(&["--check"]).0, Some(0));
    let (code, said) = results(&["no-such"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("there is no table no-such"), "{said}");

    let (code, said) = results(&["theta", "--data", "nowhere"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("theta: not made: there is no nowhere/"),
        "{said}"
    );
    let kept = std::fs::read_to_string(dir.path().join("RESULTS.md")).unwrap();
    assert_eq!(kept, page);
    std::fs::write(dir.path().join("README.md"), readme.replace('1', "2")).unwrap();
    let (code, said) = results(&["--check"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("theta: the table is another"), "{said}");
}
