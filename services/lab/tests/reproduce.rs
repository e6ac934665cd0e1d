//! `lacuna-lab reproduce`: the published table, the value of a forecast, and errors without the
//! data.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use lacuna_testkit::{Missing, data, or_skip};

fn reproduce(data: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lacuna-lab"))
        .env_remove("LACUNA_DATA")
        .args(["reproduce", "bftrainer", "--data"])
        .arg(data)
        .args(more)
        .output()
        .unwrap()
}

/// The folder of recorded data, with that of Summit in it.
fn recordings() -> Result<PathBuf, Missing> {
    let holes = data("summit-2021-02/holes.csv.gz")?;
    Ok(holes.ancestors().nth(2).unwrap().to_path_buf())
}

#[test]
fn missing_data_are_named() {
    let nowhere = tempfile::tempdir().unwrap();
    let output = reproduce(nowhere.path(), &[]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        text.contains("L0017") && text.contains("LACUNA_DATA"),
        "{text}"
    );
    let output = reproduce(nowhere.path(), &["--json"]);
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["error"]["code"], "L0017");
    for wrong in [&["--only", "everything"][..], &["--jobs", "0"]] {
        let output = reproduce(nowhere.path(), wrong);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn failed_rows_are_shown_and_set_the_exit_code() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("summit-2021-02");
    std::fs::create_dir(&folder).unwrap();
    for name in [
        "holes.csv.gz",
        "nodes.txt",
        "hpo-1000.jsonl.gz",
        "mixed-1001-throughput.jsonl.gz",
        "mixed-1001-speedup.jsonl.gz",
    ] {
        std::fs::write(folder.join(name), "not a recording\n").unwrap();
    }
    let output = reproduce(root.path(), &["--only", "costs", "--json", "--jobs", "2"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let rows: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), 4);
    for row in rows {
        assert_eq!(row["agrees"], false);
        let why = row["failed"].as_str().unwrap();
        assert!(why.contains("hpo-1000.jsonl.gz"), "{row}");
    }
    let table = root.path().join("table.md");
    let out = ["--only", "costs", "--out", table.to_str().unwrap()];
    let output = reproduce(root.path(), &out);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("0 rows agree, 0 do not, 4 failed"), "{said}");
    let text = std::fs::read_to_string(table).unwrap();
    assert_eq!(text.matches("| FAILED").count(), 4, "{text}");
}

#[test]
fn published_rows_are_reproduced() {
    let data = or_skip!(recordings());
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let chosen = ["--only", "costs", "--only", "equal-share", "--json"];
    let output = reproduce(
        &data,
        &[&chosen[..], &["--report", page.to_str().unwrap()]].concat(),
    );
    assert!(output.status.success(), "{output:?}");
    let rows: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut judged = 0;
    for row in rows.as_array().unwrap() {
        println!("{}: {} {}", row["row"], row["ours"], row["published"]);
        if row["published"]["hours"].is_null() {
            assert!(row["agrees"].is_null(), "{row}");
            continue;
        }
        judged += 1;
        assert_eq!(row["agrees"], true, "{row}");
        let (ours, published) = (&row["ours"]["hours"], &row["published"]["hours"]);
        let ratio = ours.as_f64().unwrap() / published.as_f64().unwrap();
        assert!((ratio - 1.0).abs() <= 0.01, "{row}");
        assert!(row["command"].as_str().unwrap().starts_with("replay "));
    }
    assert_eq!(judged, 5);
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("<svg") && page.contains("costs x 5"));
}

fn forecast(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lacuna-lab"))
        .env_remove("LACUNA_DATA")
        .args(["reproduce", "forecast"])
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
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["failed"], 0, "{value}");
    let all_met = value["goals_met"] == value["goals"];
    assert_eq!(output.status.code(), Some(i32::from(!all_met)), "{value}");
    let case = &value["cases"][0];
    assert_eq!(case["case"], "holes.csv, x5");
    assert!(case["known"].is_null() && case["order_in_words"].is_string());
    assert_eq!(case["bounds_differ"], false);
    let columns = case["columns"].as_array().unwrap();
    let of = |name: &str, figure: &str| {
        let column = columns.iter().find(|column| column["column"] == name);
        column.unwrap()[figure].clone()
    };
    let share = |name: &str| of(name, "share_of_zero_cost_bound").as_f64().unwrap();
    assert_eq!(columns.len(), 5);
    for column in columns {
        let command = column["command"].as_str().unwrap();
        assert!(command.starts_with("replay ") && command.contains("--cost-scale 5"));
        assert!(command.contains("--from 1000040000"), "{command}");
        assert!(column["spread"].is_array(), "{column}");
    }
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
fn failures_are_in_table_page_and_exit_code() {
    let root = tempfile::tempdir().unwrap();
    let log = root.path().join("holes.csv");
    std::fs::write(&log, "not a recording\n").unwrap();
    let (table, page) = (root.path().join("t.md"), root.path().join("t.html"));
    let output = forecast(&[
        "--log",
        log.to_str().unwrap(),
        "--costs",
        "1",
        "--columns",
        "bftrainer",
        "--out",
        table.to_str().unwrap(),
        "--report",
        page.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("0 replays, 1 failed"), "{said}");
    let table = std::fs::read_to_string(table).unwrap();
    assert!(table.contains("## Not run to the end"), "{table}");
    assert!(
        std::fs::read_to_string(page)
            .unwrap()
            .contains("holes.csv, x1")
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
fn bftrainer_and_clairvoyance_are_as_measured_before() {
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
    let case = &value["cases"][0];
    let share = |at: usize| {
        case["columns"][at]["share_of_zero_cost_bound"]
            .as_f64()
            .unwrap()
    };
    let known = |name: &str| case["known"][name].as_f64().unwrap();
    println!("{} {}", share(0), share(1));
    assert!((share(0) - known("bftrainer")).abs() <= 0.01, "{value}");
    assert!(share(1) >= known("clairvoyant") - 0.0005, "{value}");
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
    assert!(line("paper").contains("never"), "{said}");
    let (code, said) = results(&["--dry-run", "theta"]);
    assert_eq!(code, Some(0), "{said}");
    let command = "lacuna-lab reproduce forecast --log $LACUNA_DATA/theta-2022/";
    assert!(said.starts_with(command), "{said}");
    assert_eq!(results(&["--check"]).0, Some(0));
    assert_eq!(results(&["no-such"]).0, Some(2));

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
