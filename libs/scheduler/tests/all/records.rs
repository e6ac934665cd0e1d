//! Live accounting records of PBS and live events of LSF.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::{Cursor, Read};
use std::path::Path;

use jiff::tz::TimeZone;
use lacuna_model::{NodeId, Timestamp};
use lacuna_records::hosts;
use lacuna_scheduler::lsf::{LsfEvents, LsfState};
use lacuna_scheduler::pbs::{PbsNode, PbsRecords, kinds, pbs_node_status, records};
use lacuna_scheduler::settings::Marks;
use lacuna_scheduler::{JobState, NodeStatus, RunningJobs};
use lacuna_skip::{Missing, data, or_skip};
use lacuna_trace::{Format, JobRecord, Log, Reading};

fn marks() -> Marks {
    Marks {
        partition: Some("filler".to_owned()),
        name: Some("lacuna-pilot".to_owned()),
        ..Marks::default()
    }
}

fn short(changes: Vec<(NodeId, NodeStatus)>) -> String {
    let word = |(node, status): (NodeId, NodeStatus)| match status {
        NodeStatus::Hole => format!("+{node}"),
        NodeStatus::Taken => format!("-{node}"),
        NodeStatus::Wanted { .. } => format!("?{node}"),
        NodeStatus::Unusable { reason } => format!("!{node} {reason}"),
    };
    changes.into_iter().map(word).collect::<Vec<_>>().join(" ")
}

#[test]
fn records_of_pbs_give_the_nodes_of_running_jobs() {
    let mut records = PbsRecords::new(marks(), TimeZone::UTC, RunningJobs::default());
    let foreign = "user=ann group=g queue=workq jobname=sim ctime=1 qtime=1 etime=1";
    let ours = "user=lac queue=filler jobname=\"lacuna-pilot n3\"";
    for (line, expected) in [
        ("; a comment".to_owned(), ""),
        (format!("11/20/2026 12:00:00;Q;1.srv;{foreign}"), ""),
        (
            format!("11/20/2026 12:00:01;S;1.srv;{foreign} exec_host=n1/0*12+n2/3"),
            "-n1 -n2",
        ),
        (
            format!("11/20/2026 12:00:02;S;2.srv;{ours} exec_host=n3/0"),
            "+n3",
        ),
        // A second job on a node, and its end, while the first goes on.
        (
            format!("11/20/2026 12:00:03;S;3.srv;{foreign} exec_host=n1/13"),
            "-n1",
        ),
        (
            format!("11/20/2026 12:00:04;E;3.srv;{foreign} exec_host=n1/13 end=9"),
            "-n1",
        ),
        // A deletion is requested; the job still runs.
        (
            "11/20/2026 12:00:05;D;1.srv;requestor=ann@login".to_owned(),
            "",
        ),
        (
            format!("11/20/2026 12:00:06;s;2.srv;{foreign} exec_host=n3/0+n4/0"),
            "+n3 +n4",
        ),
        (
            format!("11/20/2026 12:00:07;S;4.srv;{foreign} exec_host=n4/1"),
            "-n4",
        ),
        (
            format!("11/20/2026 12:00:08;E;1.srv;{foreign} exec_host=n1/0*12+n2/3 end=9"),
            "+n1 +n2",
        ),
        ("11/20/2026 12:00:09;R;2.srv;".to_owned(), "+n3 -n4"),
        (
            format!("11/20/2026 12:00:10;S;5[].srv;{foreign} exec_host=n9/0"),
            "",
        ),
        (
            format!("11/20/2026 12:00:11;S;5[1].srv;{foreign} exec_vnode=(n9:ncpus=1)"),
            "-n9",
        ),
        // A text over several lines.
        (
            "11/20/2026 12:00:12;S;6.srv;user=ann account=\"a".to_owned(),
            "",
        ),
        ("; b".to_owned(), ""),
        ("\" queue=workq exec_host=n8/0".to_owned(), "-n8"),
        (
            "11/20/2026 12:00:13;E;6.srv;user=ann end=9".to_owned(),
            "+n8",
        ),
    ] {
        records.line(line.as_bytes()).unwrap();
        assert_eq!(short(records.running().changes()), expected, "{line}");
    }
    assert_eq!(records.running().len(), 2);
    // Damage changes nothing, and its error names the field.
    for (line, expected) in [
        ("garbage", "record: expected MM/DD/YYYY"),
        ("11/20/2026 12:00:08;S;6.srv;exec_host=n[1/0", "exec_host"),
        ("13/20/2026 12:00:08;E;4.srv;", "time: expected"),
    ] {
        let error = records.line(line.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(expected), "{line}: {error}");
    }
    assert_eq!(
        (records.running().len(), short(records.running().changes())),
        (2, String::new())
    );
    // The running jobs and their owners survive a restart.
    let kept = serde_json::to_string(records.running()).unwrap();
    let again: RunningJobs = serde_json::from_str(&kept).unwrap();
    let nodes: Vec<&str> = again.nodes().into_keys().map(NodeId::as_str).collect();
    assert_eq!(nodes, ["n4", "n9"]);
}

#[test]
fn nodes_of_pbs_are_classified_by_state_and_jobs() {
    let answer = r#"{"timestamp": 1, "pbs_version": "23.06.06", "pbs_server": "srv", "nodes": {
        "n1": {"Mom": "n1", "ntype": "PBS", "state": "free", "pcpus": 4, "resources_available": {}},
        "n2": {"state": "job-busy", "jobs": ["7.srv/0", "7.srv/1"]},
        "n3": {"state": "job-exclusive", "jobs": ["8.srv/0"]},
        "n4": {"state": "free", "jobs": ["8.srv/0", "7.srv/0"]},
        "n5": {"state": "down,offline", "comment": "bad disk"},
        "n6": {"state": "free,offline"},
        "n7": {"state": "resv-exclusive"},
        "n8": {"state": "state-unknown"},
        "n9": {"state": "job-busy"},
        "na": {"state": "free", "queue": "gpu"},
        "nb": {"state": "sleep"},
        "nc": {"state": "busy"},
        "nd": {"state": "free", "jobs": [99]}
    }}"#;
    let nodes = records::read(answer).unwrap().nodes;
    let mut records = PbsRecords::new(marks(), TimeZone::UTC, RunningJobs::default());
    let pilot =
        "11/20/2026 12:00:02;S;8.srv;user=l queue=filler jobname=lacuna-pilot exec_host=n3/0+n4/0";
    records.line(pilot.as_bytes()).unwrap();
    let statuses: Vec<(NodeId, NodeStatus)> = nodes
        .iter()
        .map(|node| {
            (
                node.node.clone(),
                pbs_node_status(node, records.running(), &marks()),
            )
        })
        .collect();
    assert_eq!(
        short(statuses),
        "+n1 -n2 +n3 -n4 !n5 down,offline: bad disk !n6 free,offline -n7 !n8 state-unknown -n9 \
         !na serves queue gpu alone !nb sleep -nc -nd"
    );
    let unclear: Vec<&str> = nodes
        .iter()
        .filter(|n| n.is_unclear())
        .map(|n| n.node.as_str())
        .collect();
    assert_eq!(unclear, ["n8"]);
    for (text, expected) in [
        ("", "cannot be read"),
        ("{}", "empty"),
        (r#"{"nodes": {}}"#, "empty"),
        (r#"{"nodes": {"n1": {}}}"#, "state"),
        (r#"{"nodes": {"n 1": {"state": "free"}}}"#, "node: expected"),
        ("pbsnodes: Server has no node list", "cannot be read"),
    ] {
        let error = records::read(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn jobs_of_pbs_are_read_with_values_as_numbers_or_texts() {
    let answer = r#"{"timestamp": 1, "pbs_server": "srv", "Jobs": {
        "7.srv": {"Job_Name": 17, "Job_Owner": "ann@login1", "job_state": "S", "ctime": "Sat",
                  "exec_host": "n1/0*4+n2/0", "Variable_List": {"A": 1, "B": "two"}},
        "8.srv": {"job_state": "Z"}
    }}"#;
    let jobs = records::read_jobs(answer).unwrap();
    assert_eq!(jobs[0].id, "7.srv");
    assert_eq!(jobs[0].name, "17");
    assert_eq!(jobs[0].submitted, "Sat");
    assert_eq!((jobs[0].user(), jobs[0].host()), ("ann", "n1"));
    assert_eq!(jobs[0].state(), JobState::Suspended);
    assert_eq!(
        ["A", "B", "C"].map(|v| jobs[0].variable(v)),
        ["1", "two", ""]
    );
    assert_eq!((jobs[1].state(), jobs[1].host()), (JobState::Other, ""));
    assert_eq!(records::read_jobs(r#"{"timestamp": 1}"#).unwrap(), []);
    let error = records::read_jobs(r#"{"Jobs": {"#).unwrap_err().to_string();
    assert!(error.contains("at line 1 column"), "{error}");
}

fn job_new(id: u32, queue: &str, name: &str) -> String {
    let limits = ["-1"; 11].join(" ");
    format!(
        "\"JOB_NEW\" \"10.1\" 1600000000 {id} 1501 33554434 1 1600000000 0 0 9 0 -1 \"ann\" {limits} \
         \"\" 1.0 18 \"{queue}\" \"\" \"login\" \"/home\" \"\" \"\" \"\" \"\" \"\" \"{id}.job\" 0 \"\" \"\" \
         \"{name}\" \"run\""
    )
}

fn job_start(id: u32, hosts: &str) -> String {
    format!("\"JOB_START\" \"10.1\" 1600000010 {id} 4 0 0 1.0 {hosts} \"\" \"\" 0 \"\" 0 \"\" 0")
}

fn job_status(id: u32, status: u32) -> String {
    format!("\"JOB_STATUS\" \"10.1\" 1600000020 {id} {status} 0 0 1.0 1600000020 0 0 0 0")
}

#[test]
fn events_of_lsf_give_the_nodes_of_running_jobs_and_the_closed_hosts() {
    let mut events = LsfEvents::new(marks(), LsfState::default());
    for (line, expected) in [
        ("#12345".to_owned(), ""),
        (job_new(1, "normal", "sim"), ""),
        (job_start(1, "3 \"n1\" \"n1\" \"n2\""), "-n1 -n2"),
        (job_new(2, "filler", "lacuna-pilot n3"), ""),
        (job_start(2, "1 \"8*n3\""), "+n3"),
        // LSF rewrites the file with the events of jobs that are not over.
        (job_new(1, "normal", "sim"), ""),
        (job_start(1, "3 \"n1\" \"n1\" \"n2\""), "-n1 -n2"),
        // Suspended jobs keep their nodes. A post-execution command does not end a job twice.
        (job_status(1, 16), ""),
        (
            "\"HOST_CTRL\" \"10.1\" 1600000015 2 \"n2\" 0 \"root\" \"disk\"".to_owned(),
            "!n2 closed by root",
        ),
        (job_status(1, 64), "+n1 !n2 closed by root"),
        (job_status(1, 192), ""),
        (
            "\"HOST_CTRL\" \"10.1\" 1600000016 1 \"n2\" 0 \"root\"".to_owned(),
            "+n2",
        ),
        (job_status(2, 1), "+n3"),
        ("\"JOB_CLEAN\" \"10.1\" 1600000020 2 0".to_owned(), ""),
        // A job whose submission is unknown is foreign.
        (job_start(9, "1 \"n3\""), "-n3"),
        ("\"JOB_REQUEUE\" \"10.1\" 1600000020 9 0".to_owned(), "+n3"),
        (job_start(9, "1 \"n3@other\""), ""),
        (
            "\"LOAD_INDEX\" \"10.1\" 1600000020 1 \"r15s\"".to_owned(),
            "",
        ),
    ] {
        events
            .line(line.as_bytes())
            .unwrap_or_else(|e| panic!("{line}: {e}"));
        assert_eq!(short(events.changes()), expected, "{line}");
    }
    let error = events
        .line(b"\"JOB_START\" \"10.1\" 1600000010 x")
        .unwrap_err();
    assert!(error.to_string().contains("jobId"), "{error}");
    let kept = serde_json::to_string(events.state()).unwrap();
    assert_eq!(
        serde_json::from_str::<LsfState>(&kept)
            .unwrap()
            .running
            .len(),
        0
    );
}

#[test]
fn an_event_of_lsf_over_several_lines_is_taken_with_its_last() {
    let state = LsfState::default();
    let mut events = LsfEvents::new(marks(), state);
    let whole = job_new(2, "filler", "lacuna-pilot \"\"a\n\nb\"\" n3");
    let lines: Vec<&str> = whole.lines().collect();
    assert_eq!(lines.len(), 3);
    for (place, line) in lines.iter().enumerate() {
        let at = events.line(line.as_bytes()).unwrap();
        assert_eq!(at.is_some(), place == 2, "{line}");
        // A restart in the midst of it loses nothing.
        let kept = serde_json::to_string(events.state()).unwrap();
        events = LsfEvents::new(marks(), serde_json::from_str(&kept).unwrap());
    }
    events.line(job_start(2, "1 \"n3\"").as_bytes()).unwrap();
    assert_eq!(short(events.changes()), "+n3");
    // A text that is never closed costs its own event alone.
    let cut = job_start(1, "1 \"n1");
    assert_eq!(events.line(cut.as_bytes()).unwrap(), None);
    let next = job_start(4, "1 \"n4\"");
    assert!(events.line(next.as_bytes()).is_err(), "the cut one");
    assert_eq!(short(events.changes()), "-n4");
}

/// A log recorded at a centre.
fn sample(name: &str) -> Result<String, Missing> {
    let path = data(&format!("samples/{name}"))?;
    let mut text = String::new();
    let mut source = lacuna_trace::open(&path).unwrap();
    source.read_to_string(&mut text).unwrap();
    Ok(text)
}

/// The nodes in use at a moment, by the parser of whole logs.
fn in_use(records: &[JobRecord], at: Timestamp) -> BTreeSet<String> {
    let mut nodes = BTreeSet::new();
    for record in records {
        let runs = record.start.is_some_and(|s| s <= at) && record.end.is_none_or(|e| e > at);
        if runs {
            hosts::expand(&record.hosts, &mut |name| {
                nodes.insert(name.to_owned());
            })
            .unwrap();
        }
    }
    nodes
}

/// The records that the parser of whole logs makes of a text.
fn whole(text: &str, format: Format) -> Vec<JobRecord> {
    let reading = Reading {
        format: Some(format),
        ..Reading::default()
    };
    let stream = Cursor::new(text.as_bytes().to_vec());
    let log = Log::from_stream(Path::new("log"), Box::new(stream), &reading).unwrap();
    let Log::Jobs(mut log) = log else {
        panic!("a log of holes");
    };
    let mut records = Vec::new();
    let mut record = JobRecord::default();
    while log.read(&mut record).unwrap() {
        records.push(record.clone());
    }
    records
}

/// Feeds a log line by line. After each moment, compares the nodes in use with those of the parser
/// of whole logs. Returns the number of compared moments.
fn compare(
    text: &str,
    format: Format,
    line: &mut dyn FnMut(&[u8]) -> Option<Timestamp>,
    held: &mut dyn FnMut() -> BTreeSet<String>,
) -> usize {
    let records = whole(text, format);
    let (mut newest, mut compared) = (None, 0);
    let mut before = BTreeSet::new();
    for text in text.lines() {
        let Some(at) = line(text.as_bytes()) else {
            continue;
        };
        if let Some(last) = newest.filter(|last| *last < at) {
            assert_eq!(before, in_use(&records, last), "at {last:?}");
            compared += 1;
        }
        newest = newest.max(Some(at));
        before = held();
    }
    compared
}

#[test]
fn recorded_events_of_lsf_agree_with_the_parser_of_whole_logs() {
    let text = or_skip!(sample("lsf/lsb.events"));
    let events = RefCell::new(LsfEvents::new(marks(), LsfState::default()));
    let compared = compare(
        &text,
        Format::LsbEvents,
        &mut |line| events.borrow_mut().line(line).unwrap_or_default(),
        &mut || {
            let events = events.borrow();
            events
                .state()
                .running
                .nodes()
                .into_keys()
                .map(ToString::to_string)
                .collect()
        },
    );
    assert!(compared > 10, "{compared} moments");
}

#[test]
fn recorded_accounting_of_pbs_agrees_with_the_parser_of_whole_logs() {
    let text = or_skip!(sample("pbs/openpbs-accounting.log.gz"));
    // The time zone of this log; the parser of whole logs finds it by itself.
    let zone = jiff::tz::offset(1).to_time_zone();
    let records = RefCell::new(PbsRecords::new(marks(), zone, RunningJobs::default()));
    let compared = compare(
        &text,
        Format::Pbs,
        &mut |line| records.borrow_mut().line(line).unwrap_or_default(),
        &mut || {
            let mut records = records.borrow_mut();
            records
                .running()
                .nodes()
                .into_keys()
                .map(ToString::to_string)
                .collect()
        },
    );
    assert!(compared > 10, "{compared} moments");
}

#[test]
fn a_comment_that_is_no_json_costs_no_node() {
    let path = or_skip!(data("cases/pbs-json-quotes/input.json"));
    let text = std::fs::read_to_string(path).unwrap();
    let comments = [
        r#"/opt/check/disk.sh "scratch cleanup" (Nov 28 scheduled)"#,
        r"C:\check\",
        "two\nlines",
        r#"a, "b": c"#,
    ];
    for comment in comments {
        let text = text.replace(comments[0], comment);
        let answer = records::read(&text).unwrap();
        assert_eq!(answer.flaws.len(), 1, "{:?}", answer.flaws);
        let of = |node: &PbsNode| {
            let status = pbs_node_status(node, &RunningJobs::default(), &Marks::default());
            (node.node.clone(), status)
        };
        let expected = format!("+n1 -n2 !n3 offline: {comment}");
        assert_eq!(short(answer.nodes.iter().map(of).collect()), expected);
        assert_eq!(kinds::read(&text).unwrap().len(), 3);
    }
    // A node that cannot be read costs itself.
    let text = text.replace("\"state\":\"job-busy\",", "");
    let answer = records::read(&text).unwrap();
    assert_eq!((answer.nodes.len(), answer.flaws.len()), (2, 2));
    assert!(
        answer.flaws[1].contains("node n2: state"),
        "{:?}",
        answer.flaws
    );
}
