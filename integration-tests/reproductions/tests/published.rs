//! Published evaluations: errors without the data, and a part of each with it.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::path::Path;
use std::process::{Command, Output};

use lacuna_skip::{data, or_skip};
use serde_json::Value;

fn reproduce(data: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lacuna-reproduce"))
        .env("LACUNA_DATA", data)
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn missing_data_are_named() {
    let nowhere = tempfile::tempdir().unwrap();
    for command in ["bftrainer", "dally", "parcae", "stash"] {
        let output = reproduce(nowhere.path(), &[command, "--json"]);
        assert_eq!(output.status.code(), Some(1), "{command}");
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(said["error"]["code"], "L0017", "{command}");
    }
    for wrong in [
        &["bftrainer", "--only", "none"][..],
        &["stash", "--v100"],
        &["nothing"],
    ] {
        let output = reproduce(nowhere.path(), wrong);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn instances_are_shown_at_their_prices() {
    let setup = or_skip!(data("seeds/stash_setup.json"));
    let output = reproduce(setup.ancestors().nth(2).unwrap(), &["stash"]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("## vgg11: preparation / fetch / link"),
        "{text}"
    );
    assert!(text.contains("- resnet50: the cheapest is "), "{text}");
}
