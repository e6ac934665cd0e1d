//! `dally` on a made-up trace, and errors of its files.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const LAYERS: &str =
    "model,layer,name,forward_ns,input_grad_ns,weight_grad_ns,gradient_bytes,update_ns
Deep,0,a,1000,1000,1000,1000,0
Deep,1,b,1000,1000,1000,1000,0
";

const FABRICS: &str = r#"{"note": "made up", "small": {"link_factor": "none",
  "FC": {"kind": "fully_connected", "gbs": 1000, "ns": 0},
  "SL": {"kind": "ring", "gbs": 1000, "ns": 0},
  "P": {"kind": "ring", "gbs": 1, "ns": 1000},
  "PP": {"kind": "switch", "gbs": 1, "ns": 50000}}}"#;

const RUNS: &str = "trace,racks,engine,policy,setting,makespan_h,mean_jct_h,comm_h
made,1,corrected,dally,\"auto,H=24\",1,1,1
";

/// A folder of made-up data: twelve jobs, of which each third is on 16 GPUs.
fn folder() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let dally = root.path().join("dally");
    std::fs::create_dir_all(dally.join("traces")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(dally.join(name), text).unwrap();
    write("layers.csv", LAYERS);
    write("compute_scale.csv", "model,authors_scale\nDeep,1\n");
    write("fabrics.json", FABRICS);
    write("reference_runs.csv", RUNS);
    let mut trace = "job_id,arrival_s,gpus,model,batch,sample_s,samples\n".to_owned();
    for id in 0..12 {
        let gpus = if id % 3 == 0 { 16 } else { 1 + id % 8 };
        trace += &format!(
            "{id},{},{gpus},Deep,32,0.001,{}\n",
            100 * id,
            2_000_000 * gpus
        );
    }
    write("traces/made.csv", &trace);
    root
}

fn reproduce(data: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lacuna-reproduce"))
        .env_remove("LACUNA_DATA")
        .args(["dally", "--data"])
        .arg(data)
        .args(more)
        .output()
        .unwrap()
}

const SMALL: [&str; 8] = [
    "--traces",
    "made",
    "--fabrics",
    "small",
    "--racks",
    "1",
    "--orders",
    "2",
];

#[test]
fn every_policy_is_run_and_the_same_orders_give_the_same_figures() {
    let root = folder();
    let json = |more: &[&str]| -> Value {
        let output = reproduce(root.path(), &[&SMALL, more, &["--json"]].concat());
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let all = json(&[]);
    assert_eq!(all, json(&["--jobs", "1"]));
    let cells = all["runs"].as_array().unwrap();
    assert_eq!(cells.len(), 9);
    for cell in cells {
        let figure = |name: &str| cell[name][0].as_f64().unwrap();
        assert!(
            figure("makespan_h") >= figure("p99_completion_h") - 1e-9,
            "{cell}"
        );
        assert!(
            figure("utilisation") <= 1.0 && figure("mean_completion_h") > 0.0,
            "{cell}"
        );
    }
    // Contention costs something, and is a case of its own.
    let more = json(&[
        "--contention",
        "none,0.5/0.5",
        "--policies",
        "replan-shortest",
    ]);
    let cells = more["runs"].as_array().unwrap();
    let makespans = cells
        .iter()
        .map(|cell| cell["makespan_h"][0].as_f64().unwrap());
    let makespans: Vec<f64> = makespans.collect();
    assert_eq!(makespans.len(), 2);
    assert!(makespans[1] > makespans[0], "{makespans:?}");
}

#[test]
fn the_table_names_the_case_and_each_policy() {
    let root = folder();
    let more = ["--policies", "dally,tiresias"];
    let output = reproduce(root.path(), &[&SMALL[..], &more].concat());
    assert!(output.status.success(), "{output:?}");
    let table = String::from_utf8(output.stdout).unwrap();
    for words in [
        "made, 64 GPUs, small / authors",
        "| dally ",
        "| tiresias ",
        "what Dally saves",
    ] {
        assert!(table.contains(words), "{words}: {table}");
    }
}

#[test]
fn what_is_wrong_is_named() {
    let root = folder();
    let complaint = |more: &[&str]| {
        let output = reproduce(root.path(), more);
        assert_eq!(output.status.code(), Some(1), "{more:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let with = |more: &[&'static str]| [&SMALL[2..], more].concat();
    assert!(complaint(&with(&["--traces", "absent"])).contains("absent"));
    let error = complaint(&["--traces", "made", "--fabrics", "hdr"]);
    assert!(error.contains("\"hdr\": the file has small"), "{error}");
    let large = root.path().join("large.csv");
    let head = "job_id,arrival_s,gpus,model,batch,sample_s,samples\n";
    std::fs::write(&large, format!("{head}7,0,65,Deep,1,1,1\n")).unwrap();
    let file = large.to_str().unwrap();
    let error = complaint(&["--traces", file, "--fabrics", "small", "--racks", "1"]);
    assert!(
        error.contains("job 7 needs 65 GPUs and the cluster has 64"),
        "{error}"
    );
    std::fs::write(&large, format!("{head}7,0,1,Wide,1,1,1\n")).unwrap();
    let error = complaint(&["--traces", file, "--fabrics", "small"]);
    assert!(error.contains("no layers of model \"Wide\""), "{error}");
    let error = String::from_utf8(reproduce(Path::new("/nowhere"), &[]).stderr).unwrap();
    assert!(
        error.contains("L0017") && error.contains("dally"),
        "{error}"
    );
    for wrong in [
        &["--contention", "1"][..],
        &["--orders", "0"],
        &["--policies", "x"],
        &["--lease", "0s"],
    ] {
        assert_eq!(
            reproduce(root.path(), wrong).status.code(),
            Some(2),
            "{wrong:?}"
        );
    }
}
