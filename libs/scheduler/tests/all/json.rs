//! JSON of slurmrestd and of `--json`, old and new.

use lacuna_model::{Span, Timestamp};
use lacuna_scheduler::settings::{Marks, Slurm};
use lacuna_scheduler::slurm::{JobReport, NodeReport, Tracker, json};
use lacuna_scheduler::{AnswerError, JobState, NodeStatus};
use lacuna_skip::{data, or_skip};

const OLD_NODES: &str = r#"{"meta": {}, "errors": [], "nodes": [
    {"name": "n2", "state": "idle", "state_flags": ["DRAIN"], "reason": "bad fan",
     "partitions": ["batch", "filler"]},
    {"name": "n1", "state": "allocated", "state_flags": [], "reason": "", "partitions": ["filler"]}]}"#;

const NEW_NODES: &str = r#"{"nodes": [
    {"name": "n2", "state": ["IDLE", "DRAIN"], "reason": "bad fan", "partitions": ["batch", "filler"]},
    {"name": "n1", "state": ["ALLOCATED"], "reason": "", "partitions": ["filler"]}],
    "last_update": {"set": true, "infinite": false, "number": 1}, "errors": [], "warnings": []}"#;

const OLD_JOBS: &str = r#"{"errors": [], "jobs": [
    {"job_id": 7, "array_job_id": 0, "array_task_id": null, "job_state": "RUNNING",
     "partition": "filler", "account": "", "user_name": "lac", "nodes": "n1", "time_limit": 60,
     "start_time": 1700000000, "preempt_time": 1700000100, "comment": "main", "name": "lacuna-pilot"},
    {"job_id": 9, "array_job_id": 8, "array_task_id": null, "array_task_string": "1-3",
     "job_state": "PENDING", "partition": "batch", "user_name": "al", "nodes": "",
     "time_limit": 4294967295, "start_time": 0, "preempt_time": 0, "comment": "", "name": "x"},
    {"job_id": 5, "job_state": "COMPLETED", "partition": "batch", "nodes": "n1", "name": "y"}]}"#;

const NEW_JOBS: &str = r#"{"errors": [], "warnings": [], "jobs": [
    {"job_id": 7, "array_job_id": {"set": true, "infinite": false, "number": 0},
     "array_task_id": {"set": false, "infinite": false, "number": 0}, "job_state": ["RUNNING"],
     "partition": "filler", "account": "", "user_name": "lac", "nodes": "n1",
     "time_limit": {"set": true, "infinite": false, "number": 60},
     "start_time": {"set": true, "infinite": false, "number": 1700000000},
     "preempt_time": {"set": true, "infinite": false, "number": 1700000100},
     "comment": "main", "name": "lacuna-pilot"},
    {"job_id": 9, "array_job_id": {"set": true, "infinite": false, "number": 8},
     "array_task_id": {"set": false, "infinite": false, "number": 0}, "array_task_string": "1-3",
     "job_state": ["PENDING"], "partition": "batch", "user_name": "al", "nodes": "",
     "time_limit": {"set": true, "infinite": true, "number": 0},
     "start_time": {"set": false, "infinite": false, "number": 0},
     "preempt_time": {"set": false, "infinite": false, "number": 0}, "comment": "", "name": "x"},
    {"job_id": 5, "job_state": ["COMPLETED"], "partition": "batch", "nodes": "n1", "name": "y"}]}"#;

/// The nodes of an answer without flaws.
fn nodes_of(answer: &str) -> Result<Vec<NodeReport>, AnswerError> {
    json::read_nodes(answer, &mut Vec::new())
}

fn jobs_of(answer: &str) -> Result<Vec<JobReport>, AnswerError> {
    json::read_jobs(answer, &mut Vec::new())
}

#[test]
fn a_damaged_node_or_job_costs_no_other_one() {
    let mut flaws = Vec::new();
    let nodes = r#"{"nodes": [{"name": "n1", "state": "idle"}, {"name": "n 2", "state": "idle"},
        {"name": "n3"}, 7, {"name": "n4", "state": ["ALLOCATED"]}]}"#;
    let nodes = json::read_nodes(nodes, &mut flaws).unwrap();
    let names: Vec<_> = nodes.iter().map(|report| report.node.as_str()).collect();
    assert_eq!((names, flaws.len()), (vec!["n1", "n4"], 3));
    assert!(flaws[0].starts_with("record 2: "), "{flaws:?}");
    let jobs = r#"{"jobs": [{"job_id": 1}, {"job_id": 2, "job_state": "RUNNING", "nodes": "n[1-"},
        {"job_id": 3, "job_state": ["RUNNING"], "nodes": "n4"}]}"#;
    flaws.clear();
    let jobs = json::read_jobs(jobs, &mut flaws).unwrap();
    assert_eq!((jobs[0].id.as_str(), jobs.len(), flaws.len()), ("3", 1, 2));
}

#[test]
fn old_and_new_json_give_the_same_records() {
    let nodes = nodes_of(OLD_NODES).unwrap();
    assert_eq!(nodes, nodes_of(NEW_NODES).unwrap());
    assert_eq!(nodes[1].flags.unusable(), Some("drained"));
    let jobs = jobs_of(OLD_JOBS).unwrap();
    assert_eq!(jobs, jobs_of(NEW_JOBS).unwrap());
    assert_eq!(jobs.len(), 2, "jobs that are over are left out");
    assert_eq!(jobs[0].preempted, Some(Timestamp::from_unix(1_700_000_100)));
    assert_eq!(jobs[0].time_limit, Some(Span::from_secs(3600)));
    assert_eq!(
        (jobs[1].id.as_str(), jobs[1].start, jobs[1].time_limit),
        ("8_[1-3]", None, None)
    );
}

#[test]
fn errors_and_damage_are_refused() {
    for (text, expected) in [
        (
            r#"{"errors": [{"description": "slurmctld config is unable to load"}], "nodes": []}"#,
            "unable to load",
        ),
        (
            r#"{"errors": [{"error": "Unspecified error"}], "nodes": []}"#,
            "Unspecified",
        ),
        (r#"{"errors": [], "nodes": []}"#, "empty"),
        (r#"{"errors": []}"#, "no list \"nodes\""),
        ("[]", "no object"),
        ("Authentication failure", "cannot be read"),
        (r#"{"nodes": [{"state": "idle"}]}"#, "record 1: name"),
        (r#"{"nodes": [{"name": "n1"}]}"#, "record 1: state"),
        (r#"{"nodes": [7]}"#, "record 1: record"),
    ] {
        let error = nodes_of(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    let two =
        r#"{"jobs": [{"job_id": 1, "job_state": ["RUNNING", "COMPLETING"], "nodes": "n[1-2]"}]}"#;
    assert_eq!(jobs_of(two).unwrap()[0].state, JobState::Completing);
}

/// Answers of a live Slurm 22.05.8 while two of four pilots were in their grace time.
#[test]
fn pilots_in_grace_are_wanted_in_recorded_answers() {
    let dir = or_skip!(data("samples/slurm-22.05"));
    let read = |name: &str| std::fs::read_to_string(dir.join(name));
    let grace = read("squeue_in_grace.json").unwrap();
    let rules = Slurm {
        pilots: Marks {
            partition: Some("filler".to_owned()),
            name: Some("stub".to_owned()),
            ..Marks::default()
        },
        ..Slurm::default()
    };
    let mut tracker = Tracker::new(rules, []);
    let four: Vec<String> = (1..=4)
        .map(|n| {
            format!(
                r#"{{"name":"n{n}","state":"allocated","state_flags":[],"partitions":["filler"]}}"#
            )
        })
        .collect();
    let nodes = nodes_of(&format!("{{\"nodes\":[{}]}}", four.join(","))).unwrap();
    let mut statuses = |text: &str| -> Vec<NodeStatus> {
        let result = tracker.take(&nodes, &jobs_of(text).unwrap());
        result.nodes.into_iter().map(|(_, status)| status).collect()
    };
    let wanted = NodeStatus::Wanted {
        since: Timestamp::from_unix(1_795_165_684),
    };
    assert_eq!(
        statuses(&grace),
        [wanted.clone(), wanted, NodeStatus::Hole, NodeStatus::Hole]
    );
    let completing = read("squeue_completing.json").unwrap();
    let taken = NodeStatus::Taken;
    assert_eq!(
        statuses(&completing),
        [taken.clone(), taken, NodeStatus::Hole, NodeStatus::Hole]
    );
    let drained = nodes_of(&read("sinfo_drain_down.json").unwrap()).unwrap();
    let why: Vec<_> = drained.iter().map(|n| n.flags.unusable()).collect();
    assert_eq!(why, [None, None, Some("drained"), Some("not responding")]);
    assert!(
        nodes_of(&read("slurmrestd_v0.0.38_nodes.json").unwrap())
            .unwrap()
            .len()
            == 4
    );
    assert!(
        !jobs_of(&read("slurmrestd_v0.0.38_jobs.json").unwrap())
            .unwrap()
            .is_empty()
    );
}

/// `sinfo --json` since 23.02: an entry a partition and state.
#[test]
fn entries_of_partitions_and_states_are_nodes() {
    let path = or_skip!(data("cases/slurm-sinfo-json/input-sinfo.json"));
    let text = std::fs::read_to_string(path).unwrap();
    let shown = |text: &str| -> Vec<String> {
        let nodes = nodes_of(text).unwrap();
        let one = |node: &NodeReport| {
            let partitions = node
                .partitions
                .iter()
                .map(|p| format!("{}:{}", p.name, p.up));
            let partitions: Vec<String> = partitions.collect();
            format!("{} {} {}", node.node, node.flags, partitions.join(","))
        };
        nodes.iter().map(one).collect()
    };
    let expected = [
        "n1 idle batch:true",
        "n2 idle batch:true",
        "n3 allocated batch:true",
    ];
    assert_eq!(shown(&text), expected);
    // Lists of nodes in one text, empty partitions, and a state that has no list.
    let list = text.replace(r#"["n1", "n2"]"#, r#""n[1-2]""#);
    assert_eq!(shown(&list), expected);
    let empty = r#"{"sinfo": [{"node": {"state": []}, "nodes": {"total": 0, "nodes": []},
        "partition": {"name": "future"}}, "#;
    let more = text.replacen(r#"{"sinfo": ["#, empty, 1);
    assert_eq!(shown(&more), expected);
    let word = text
        .replace(r#"["IDLE"]"#, r#""IDLE""#)
        .replace(r#"["UP"]"#, r#"["DOWN"]"#);
    assert_eq!(shown(&word)[0], "n1 idle batch:false");
    // A node of two partitions.
    let second = r#"{"sinfo": [{"node": {"state": ["IDLE"]}, "nodes": {"nodes": ["n1", "n3"]},
        "partition": {"name": "all", "partition": {"state": ["UP"]}}}, "#;
    let twice = text.replacen(r#"{"sinfo": ["#, second, 1);
    let found = shown(&twice);
    assert_eq!(found[0], "n1 idle all:true,batch:true");
    assert!(found[2].contains("strange"), "{found:?}");
    let labels = lacuna_scheduler::slurm::kinds::read_json(&twice).unwrap();
    assert_eq!(labels.len(), 3);

    let clusters = text
        .replace(
            r#""port": 6818, "node": {"state": ["IDLE"]}"#,
            r#""cluster": "east", "node": {"state": ["IDLE"]}"#,
        )
        .replace(r#""port": 6818"#, r#""cluster": "west""#);
    let error = nodes_of(&clusters).unwrap_err().to_string();
    assert!(error.contains("east, west"), "{error}");
}
