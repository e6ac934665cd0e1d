//! `lacuna reproduce bftrainer`: the published table again, and what is said without the data.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn reproduce(data: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lacuna"))
        .env_remove("LACUNA_DATA")
        .args(["reproduce", "bftrainer", "--data"])
        .arg(data)
        .args(more)
        .output()
        .unwrap()
}

fn data() -> Option<PathBuf> {
    let data = std::env::var_os("LACUNA_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    if data.join("summit-2021-02/holes.csv.gz").exists() {
        return Some(data);
    }
    println!("skipped: the recording is not at hand (set LACUNA_DATA)");
    None
}

#[test]
fn without_the_recording_it_says_what_is_missing() {
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
fn rows_that_fail_are_shown_and_the_exit_code_says_so() {
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
    let Some(data) = data() else {
        return;
    };
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
