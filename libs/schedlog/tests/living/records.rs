//! Accounting records of PBS and events of LSF as they are written.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::Read;

use jiff::tz::TimeZone;
use lacuna_model::{NodeId, Timestamp};
use lacuna_schedlog::living::settings::Marks;
use lacuna_schedlog::living::{
    Held, JobState, LsfEvents, LsfState, PbsRecords, Standing, pbs, pbs_standing,
};
use lacuna_schedlog::{Format, JobRecord, hosts};
use lacuna_skip::{Missing, data, or_skip};

use super::logs::{self, as_format, jobs};

fn marks() -> Marks {
    Marks {
        partition: Some("filler".to_owned()),
        name: Some("lacuna-pilot".to_owned()),
        ..Marks::default()
    }
}

fn short(changes: Vec<(NodeId, Standing)>) -> String {
    let word = |(node, standing): (NodeId, Standing)| match standing {
        Standing::Hole => format!("+{node}"),
        Standing::Taken => format!("-{node}"),
        Standing::Wanted { .. } => format!("?{node}"),
        Standing::Unusable { reason } => format!("!{node} {reason}"),
    };
    changes.into_iter().map(word).collect::<Vec<_>>().join(" ")
}

#[test]
fn records_of_pbs_say_who_holds_which_node() {
    let mut records = PbsRecords::new(marks(), TimeZone::UTC, Held::default());
    let said = "user=ann group=g queue=workq jobname=sim ctime=1 qtime=1 etime=1";
    let ours = "user=lac queue=filler jobname=\"lacuna-pilot n3\"";
    for (line, expected) in [
        ("; a comment".to_owned(), ""),
        (format!("11/20/2026 12:00:00;Q;1.srv;{said}"), ""),
        (
            format!("11/20/2026 12:00:01;S;1.srv;{said} exec_host=n1/0*12+n2/3"),
            "-n1 -n2",
        ),
        (
            format!("11/20/2026 12:00:02;S;2.srv;{ours} exec_host=n3/0"),
            "+n3",
        ),
        // A second job on a node, and its end, while the first goes on.
        (
            format!("11/20/2026 12:00:03;S;3.srv;{said} exec_host=n1/13"),
            "-n1",
        ),
        (
            format!("11/20/2026 12:00:04;E;3.srv;{said} exec_host=n1/13 end=9"),
            "-n1",
        ),
        // Asked to end, not yet gone.
        (
            "11/20/2026 12:00:05;D;1.srv;requestor=ann@login".to_owned(),
            "",
        ),
        (
            format!("11/20/2026 12:00:06;s;2.srv;{said} exec_host=n3/0+n4/0"),
            "+n3 +n4",
        ),
        (
            format!("11/20/2026 12:00:07;S;4.srv;{said} exec_host=n4/1"),
            "-n4",
        ),
        (
            format!("11/20/2026 12:00:08;E;1.srv;{said} exec_host=n1/0*12+n2/3 end=9"),
            "+n1 +n2",
        ),
        ("11/20/2026 12:00:09;R;2.srv;".to_owned(), "+n3 -n4"),
        (
            format!("11/20/2026 12:00:10;S;5[].srv;{said} exec_host=n9/0"),
            "",
        ),
        (
            format!("11/20/2026 12:00:11;S;5[1].srv;{said} exec_vnode=(n9:ncpus=1)"),
            "-n9",
        ),
    ] {
        records.line(line.as_bytes()).unwrap();
        assert_eq!(short(records.held().changes()), expected, "{line}");
    }
    assert_eq!(records.held().len(), 2);
    // Damage changes nothing and names itself.
    for (line, said) in [
        ("garbage", "record: expected MM/DD/YYYY"),
        ("11/20/2026 12:00:08;S;6.srv;exec_host=n[1/0", "exec_host"),
        ("13/20/2026 12:00:08;E;4.srv;", "time: expected"),
    ] {
        let error = records.line(line.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(said), "{line}: {error}");
    }
    assert_eq!(
        (records.held().len(), short(records.held().changes())),
        (2, String::new())
    );
    // Over a restart the running jobs are known, and so who they belong to.
    let kept = serde_json::to_string(records.held()).unwrap();
    let again: Held = serde_json::from_str(&kept).unwrap();
    let nodes: Vec<&str> = again.nodes().into_keys().map(NodeId::as_str).collect();
    assert_eq!(nodes, ["n4", "n9"]);
}

#[test]
fn nodes_of_pbs_are_judged_by_state_and_jobs() {
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
    let nodes = pbs::read(answer).unwrap();
    let mut records = PbsRecords::new(marks(), TimeZone::UTC, Held::default());
    let pilot =
        "11/20/2026 12:00:02;S;8.srv;user=l queue=filler jobname=lacuna-pilot exec_host=n3/0+n4/0";
    records.line(pilot.as_bytes()).unwrap();
    let told: Vec<(NodeId, Standing)> = nodes
        .iter()
        .map(|node| {
            (
                node.node.clone(),
                pbs_standing(node, records.held(), &marks()),
            )
        })
        .collect();
    assert_eq!(
        short(told),
        "+n1 -n2 +n3 -n4 !n5 down,offline: bad disk !n6 free,offline -n7 !n8 state-unknown -n9 \
         !na serves queue gpu alone !nb sleep -nc -nd"
    );
    let unclear: Vec<&str> = nodes
        .iter()
        .filter(|n| n.is_unclear())
        .map(|n| n.node.as_str())
        .collect();
    assert_eq!(unclear, ["n8"]);
    for (text, said) in [
        ("", "cannot be read"),
        ("{}", "empty"),
        (r#"{"nodes": {}}"#, "empty"),
        (r#"{"nodes": {"n1": {}}}"#, "state"),
        (r#"{"nodes": {"n 1": {"state": "free"}}}"#, "node: expected"),
        ("pbsnodes: Server has no node list", "cannot be read"),
    ] {
        let error = pbs::read(text).unwrap_err().to_string();
        assert!(error.contains(said), "{text}: {error}");
    }
}

#[test]
fn jobs_of_pbs_are_read_whether_numbers_or_texts_stand_there() {
    let answer = r#"{"timestamp": 1, "pbs_server": "srv", "Jobs": {
        "7.srv": {"Job_Name": 17, "Job_Owner": "ann@login1", "job_state": "S", "ctime": "Sat",
                  "exec_host": "n1/0*4+n2/0", "Variable_List": {"A": 1, "B": "two"}},
        "8.srv": {"job_state": "Z"}
    }}"#;
    let jobs = pbs::read_jobs(answer).unwrap();
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
    assert_eq!(pbs::read_jobs(r#"{"timestamp": 1}"#).unwrap(), []);
    let error = pbs::read_jobs(r#"{"Jobs": {"#).unwrap_err().to_string();
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
fn events_of_lsf_say_who_holds_which_node_and_what_is_closed() {
    let mut events = LsfEvents::new(marks(), LsfState::default());
    for (line, expected) in [
        ("#12345".to_owned(), ""),
        (job_new(1, "normal", "sim"), ""),
        (job_start(1, "3 \"n1\" \"n1\" \"n2\""), "-n1 -n2"),
        (job_new(2, "filler", "lacuna-pilot n3"), ""),
        (job_start(2, "1 \"8*n3\""), "+n3"),
        // The file is written anew with the events of jobs that are not over.
        (job_new(1, "normal", "sim"), ""),
        (job_start(1, "3 \"n1\" \"n1\" \"n2\""), "-n1 -n2"),
        // Suspended jobs keep their nodes; what runs behind a job does not end it twice.
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
        // Without its submission nobody knows whose it is.
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
        serde_json::from_str::<LsfState>(&kept).unwrap().held.len(),
        0
    );
}

/// A recorded log.
fn sample(name: &str) -> Result<String, Missing> {
    let path = data(&format!("samples/{name}"))?;
    let mut text = String::new();
    let mut source = lacuna_schedlog::open(&path).unwrap();
    source.read_to_string(&mut text).unwrap();
    Ok(text)
}

/// Which nodes the parser of whole logs finds in use at a moment.
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

/// Feeds a log line by line, and after each moment compares the nodes in use with what the
/// parser of whole logs finds for that moment.
fn compare(
    text: &str,
    format: Format,
    line: &mut dyn FnMut(&[u8]) -> Option<Timestamp>,
    held: &mut dyn FnMut() -> BTreeSet<String>,
) -> usize {
    let (records, _) = jobs(logs::text(text, &as_format(format)).unwrap()).unwrap();
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
                .held
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
    // The zone of this recording; whole logs find it out by themselves.
    let zone = jiff::tz::offset(1).to_time_zone();
    let records = RefCell::new(PbsRecords::new(marks(), zone, Held::default()));
    let compared = compare(
        &text,
        Format::Pbs,
        &mut |line| records.borrow_mut().line(line).unwrap_or_default(),
        &mut || {
            let mut records = records.borrow_mut();
            records
                .held()
                .nodes()
                .into_keys()
                .map(ToString::to_string)
                .collect()
        },
    );
    assert!(compared > 10, "{compared} moments");
}
