//! `deploy/flux/journal.py`: what it writes of the events of a Flux is what ingest reads. A stand-in for
//! Flux's Python package plays recorded events in the form of RFC 21, since no Flux runs here.

use std::path::Path;
use std::process::Command;

use lacuna_scheduler::live::Live;
use lacuna_scheduler::settings::{Flux, Marks};
use lacuna_scheduler::{NodeStatus, Sections};
use serde_json::{Value, json};

/// `flux.job`, of which the program uses the consumer of the journal alone.
const STAND_IN: &str = r#"
import json, os
from types import SimpleNamespace

class JournalConsumer:
    def __init__(self, handle, since=0.0):
        with open(os.environ["EVENTS"]) as file:
            events = [json.loads(line) for line in file]
        self.events = [event for event in events if event["timestamp"] > since]

    def start(self):
        pass

    def poll(self):
        return SimpleNamespace(**self.events.pop(0)) if self.events else None
"#;

/// An event as the journal has it: what jobs of a user are named, and on which nodes they run.
fn event(jobid: u64, at: f64, name: &str, more: &[(&str, Value)]) -> Value {
    let mut event = json!({
        "jobid": jobid, "timestamp": at, "name": name,
        "context": {}, "jobspec": null, "R": null,
    });
    for (key, value) in more {
        event[*key] = value.clone();
    }
    event
}

fn submit(jobid: u64, at: f64, user: u32, name: &str) -> Value {
    let jobspec = json!({
        "version": 1, "resources": [], "tasks": [],
        "attributes": {"system": {"queue": "batch", "job": {"name": name}, "environment": {"KEY": "secret"}}},
    });
    let context = json!({"userid": user, "urgency": 16, "flags": 0, "version": 1});
    event(
        jobid,
        at,
        "submit",
        &[("context", context), ("jobspec", jobspec)],
    )
}

fn alloc(jobid: u64, at: f64, nodes: &[&str]) -> Value {
    let resources = json!({
        "version": 1,
        "execution": {"R_lite": [{"rank": "0-1"}], "nodelist": nodes, "starttime": at, "expiration": 0.0},
    });
    event(jobid, at, "alloc", &[("R", resources)])
}

/// Runs the program until the stand-in has no further event.
fn run(folder: &Path, events: &[Value]) {
    let lines: Vec<String> = events.iter().map(ToString::to_string).collect();
    std::fs::write(folder.join("events"), lines.join("\n")).unwrap();
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/flux/journal.py");
    let output = Command::new("python3")
        .arg(program)
        .arg(folder.join("journal"))
        .env("PYTHONPATH", folder)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("EVENTS", folder.join("events"))
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
}

/// The nodes that the file changes, as ingest reads it, each with whether it is a hole, and the number of
/// damaged lines.
fn read(folder: &Path) -> (Vec<(String, bool)>, usize) {
    let flux = Flux {
        pilots: Marks {
            partition: Some("batch".to_owned()),
            user: Some("root".to_owned()),
            name: Some("lacuna-pilot".to_owned()),
            ..Marks::default()
        },
        journal: Some("journal".into()),
        ..Flux::default()
    };
    let sections = Sections {
        flux: Some(&flux),
        ..Sections::default()
    };
    let mut live: Box<dyn Live> = sections.live().remove(0);
    let nodes = super::answers::printed("free|batch||fluke[3-6];\n");
    live.read(0, &nodes).unwrap();
    live.read(1, r#"{"jobs": []}"#).unwrap();
    let _ = live.result();
    let text = std::fs::read_to_string(folder.join("journal")).unwrap();
    let read = text.lines().map(|line| live.line(line.as_bytes()));
    let damaged = read.filter(Result::is_err).count();
    let changed = live.changes().into_iter();
    let changed = changed.map(|(node, status)| (node.to_string(), status == NodeStatus::Hole));
    (changed.collect(), damaged)
}

#[test]
fn the_events_of_flux_reach_ingest_once_each_over_restarts_and_crashes() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::create_dir(folder.join("flux")).unwrap();
    std::fs::write(folder.join("flux/__init__.py"), "class Flux:\n    pass\n").unwrap();
    std::fs::write(folder.join("flux/job.py"), STAND_IN).unwrap();
    let all = [
        submit(1, 1.0, 4_000_000_000, "sim"),
        submit(2, 1.5, 0, "lacuna-pilot/fluke5/lacuna:main"),
        event(1, 1.7, "depend", &[]),
        alloc(1, 2.0, &["fluke[3-4]"]),
        alloc(2, 3.0, &["fluke5"]),
        event(1, 3.5, "start", &[]),
        submit(3, 4.0, 0, "other"),
        alloc(3, 5.0, &["fluke6"]),
    ];
    run(folder, &all[..5]);
    let journal = || std::fs::read_to_string(folder.join("journal")).unwrap();
    assert_eq!(journal().lines().count(), 4, "{}", journal());
    assert!(!journal().contains("secret"), "{}", journal());
    // A crash has cut the last line: its event is written again.
    let cut = journal();
    std::fs::write(folder.join("journal"), &cut[..cut.len() - 20]).unwrap();
    run(folder, &all);
    let of = |line: &str| -> Option<(u64, String)> {
        let line: Value = serde_json::from_str(line).ok()?;
        Some((
            line["id"].as_u64()?,
            line["event"]["name"].as_str()?.to_owned(),
        ))
    };
    let expected = [
        (1, "submit"),
        (2, "submit"),
        (1, "alloc"),
        (2, "alloc"),
        (3, "submit"),
        (3, "alloc"),
    ];
    let found: Vec<_> = journal().lines().filter_map(of).collect();
    assert_eq!(
        found,
        expected.map(|(id, name)| (id, name.to_owned())),
        "{}",
        journal()
    );
    let expected = [
        ("fluke3", false),
        ("fluke4", false),
        ("fluke5", true),
        ("fluke6", false),
    ];
    let expected = expected.map(|(node, hole)| (node.to_owned(), hole));
    // The cut line has an end of its own.
    assert_eq!(read(folder), (expected.into(), 1), "{}", journal());
    // Started again without news, it writes nothing.
    let before = journal();
    run(folder, &all);
    assert_eq!(journal(), before);
}
