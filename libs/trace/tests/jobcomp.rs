//! Slurm's job completion log.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use lacuna_skip::{data, or_skip};
use lacuna_trace::{Format, JobOutcome, JobRecord, Log, Reading};

use crate::logs::{as_format, jobs, located, shown, text};

/// 2022-03-17T12:00:00 UTC.
const NOON: i64 = 1_647_518_400;

const RAN: &str = "JobId=7 UserId=ann(1500) GroupId=domain users(1500) Name=my job JobState=COMPLETED Partition=batch TimeLimit=90 StartTime=2022-03-17T12:01:00 EndTime=2022-03-17T12:11:30 NodeList=n[1-3,7] NodeCnt=4 ProcCnt=32 WorkDir=/home/ann ReservationName= Tres=cpu=32,node=4 Account=acme QOS=normal WcKey= Cluster=demo SubmitTime=2022-03-17T12:00:00 EligibleTime=2022-03-17T12:00:00 DerivedExitCode=0:0 ExitCode=0:0 ";

fn with(from: &str, to: &str) -> String {
    assert!(RAN.contains(from), "{from}");
    RAN.replacen(from, to, 1)
}

fn one(line: &str) -> JobRecord {
    let (records, damage) = jobs(text(line, &as_format(Format::Jobcomp)).unwrap()).unwrap();
    assert_eq!(damage.lines, 0, "{damage:?}");
    let [record] = <[JobRecord; 1]>::try_from(records).unwrap();
    record
}

#[test]
fn the_output_of_scontrol_is_another_format() {
    let shown = "JobId=1 JobName=a UserId=ann(1500) GroupId=ann(1500) JobState=RUNNING \
                 StartTime=2022-03-17T12:01:00 EndTime=2022-03-17T12:11:30 NodeList=n1\n";
    assert_eq!(Format::detect(shown.as_bytes()), None);
    assert_eq!(Format::detect(RAN.as_bytes()), Some(Format::Jobcomp));
}

#[test]
fn a_line_is_a_life_of_a_job() {
    let expected = "7 ann@batch 0 60 690 4 5400 n[1-3,7] Completed";
    assert_eq!(shown(&one(RAN), NOON), expected);
    // Keys in names and folders are no keys.
    let odd = with(
        "Name=my job",
        "Name=x EndTime=Unknown NodeCnt=9 SubmitTime=Unknown",
    );
    let odd = odd.replace(
        "WorkDir=/home/ann",
        "WorkDir=/a SubmitTime=2001-01-01T00:00:00",
    );
    assert_eq!(shown(&one(&odd), NOON), expected);
    for (from, to, expected) in [
        (
            "TimeLimit=90",
            "TimeLimit=UNLIMITED",
            "7 ann@batch 0 60 690 4 - n[1-3,7] Completed",
        ),
        (
            "TimeLimit=90",
            "TimeLimit=Partition_Limit",
            "7 ann@batch 0 60 690 4 - n[1-3,7] Completed",
        ),
        (
            "SubmitTime=2022-03-17T12:00:00",
            "SubmitTime=Unknown",
            "7 ann@batch - 60 690 4 5400 n[1-3,7] Completed",
        ),
        (
            "State=COMPLETED",
            "State=PREEMPTED",
            "7 ann@batch 0 60 690 4 5400 n[1-3,7] Preempted",
        ),
        (
            "State=COMPLETED",
            "State=RESIZING",
            "7 ann@batch 0 60 690 4 5400 n[1-3,7] Unknown",
        ),
    ] {
        assert_eq!(shown(&one(&with(from, to)), NOON), expected);
    }
    for (state, outcome) in [
        ("FAILED", JobOutcome::Failed),
        ("OUT_OF_MEMORY", JobOutcome::Failed),
        ("TIMEOUT", JobOutcome::Timeout),
        ("NODE_FAIL", JobOutcome::NodeFailed),
        ("CANCELLED", JobOutcome::Cancelled),
        ("WHATEVER", JobOutcome::Unknown),
    ] {
        assert_eq!(one(&with("COMPLETED", state)).outcome, outcome);
    }
}

#[test]
fn a_job_without_nodes_never_started() {
    let never = with("NodeList=n[1-3,7] NodeCnt=4", "NodeList=(null) NodeCnt=0");
    let never = never.replace("COMPLETED", "CANCELLED");
    let expected = "7 ann@batch 0 - - 4 5400 - Cancelled";
    assert_eq!(shown(&one(&never), NOON), expected);
    let unknown = never.replace("StartTime=2022-03-17T12:01:00", "StartTime=Unknown");
    assert_eq!(shown(&one(&unknown), NOON), expected);
}

#[test]
fn old_versions_lack_keys_behind_the_folder() {
    let (old, _) = RAN.split_once(" ReservationName=").unwrap();
    let expected = "7 ann@batch - 60 690 4 5400 n[1-3,7] Completed";
    assert_eq!(shown(&one(old), NOON), expected);
    let (older, _) = RAN.split_once(" ProcCnt=").unwrap();
    assert_eq!(shown(&one(older), NOON), expected);
}

#[test]
fn times_are_local() {
    let reading = Reading {
        time_zone: Some(jiff::tz::TimeZone::get("Europe/Warsaw").unwrap()),
        ..as_format(Format::Jobcomp)
    };
    let (records, _) = jobs(text(RAN, &reading).unwrap()).unwrap();
    assert_eq!(
        records.first().unwrap().start.unwrap().unix_ms() / 1000,
        NOON + 60 - 3600
    );
}

#[test]
fn damage_is_located_and_refused_if_strict() {
    for (from, to, place) in [
        ("JobId=7", "JobId=x", "JobId"),
        ("JobId=7", "Job=7", "JobId"),
        (" UserId=", " User=", "UserId"),
        (" JobState=", " State=", "Name"),
        (" Partition=", " Part=", "JobState"),
        ("TimeLimit=90", "TimeLimit=ninety", "TimeLimit"),
        ("12:01:00", "12:61:00", "StartTime"),
        (
            "StartTime=2022-03-17T12:01:00",
            "StartTime=Unknown",
            "StartTime",
        ),
        ("EndTime=2022-03-17T12:11:30", "EndTime=Unknown", "EndTime"),
        ("12:11:30", "11:11:30", "EndTime"),
        ("n[1-3,7]", "n[1-3,7", "NodeList"),
        ("NodeCnt=4", "NodeCnt=-4", "NodeCnt"),
        (
            "SubmitTime=2022-03-17",
            "SubmitTime=2022-13-17",
            "SubmitTime",
        ),
    ] {
        let log = format!("{RAN}\n\n{}\n{RAN}\n", with(from, to));
        let (records, damage) = jobs(text(&log, &as_format(Format::Jobcomp)).unwrap()).unwrap();
        assert_eq!((records.len(), damage.lines), (2, 1), "{to}");
        assert_eq!(located(&damage), [format!("3 {place}")], "{to}");
        let strict = Reading {
            strict: true,
            ..as_format(Format::Jobcomp)
        };
        let error = jobs(text(&log, &strict).unwrap()).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("log: line 3, {place}: expected ")),
            "{error}"
        );
    }
}

#[test]
fn the_sample_agrees_with_a_plain_count() {
    let path = or_skip!(data("samples/slurm-22.05/jobcomp_filetxt.txt"));
    let log = Log::open(&path, &Reading::default()).unwrap();
    assert_eq!(log.format(), Format::Jobcomp);
    let (records, damage) = jobs(log).unwrap();
    assert_eq!(damage.lines, 0);
    let plain = std::fs::read_to_string(&path).unwrap();
    let (mut ran, mut never, mut seconds) = (0, 0, 0);
    for line in plain.lines() {
        let value = |key: &str| {
            let found = line.split(' ').find_map(|word| word.strip_prefix(key));
            found.unwrap_or_else(|| panic!("{key} {line}")).to_owned()
        };
        // The sample is of one day.
        let second = |key: &str| {
            let time = value(key);
            let clock = time.split_once('T').unwrap().1;
            clock
                .split(':')
                .fold(0, |sum, part| sum * 60 + part.parse::<i64>().unwrap())
        };
        if value("NodeList=") == "(null)" {
            never += 1;
        } else {
            ran += 1;
            let nodes: i64 = value("NodeCnt=").parse().unwrap();
            seconds += nodes * (second("EndTime=") - second("StartTime="));
        }
    }
    let started = |record: &&JobRecord| record.start.is_some();
    assert_eq!(records.iter().filter(started).count(), ran);
    assert_eq!(records.len(), ran + never);
    let found: i64 = records
        .iter()
        .filter_map(|record| {
            let length = record.end?.since(record.start?).as_ms() / 1000;
            Some(length * i64::from(record.nodes))
        })
        .sum();
    assert_eq!(found, seconds);
    println!("{ran} lives, {never} jobs that never started, {seconds} node-seconds");
}

#[test]
fn a_name_and_a_folder_may_hold_line_ends() {
    let one = |id: u32, name: &str, folder: &str| {
        format!(
            "JobId={id} UserId=ann(1500) GroupId=users(1500) Name={name} JobState=COMPLETED \
             Partition=batch TimeLimit=90 StartTime=2022-03-17T12:01:00 \
             EndTime=2022-03-17T12:11:30 NodeList=n[1-3,7] NodeCnt=4 ProcCnt=32 WorkDir={folder} \
             Tres=cpu=32,node=4 SubmitTime=2022-03-17T12:00:00 ExitCode=0:0 \n"
        )
    };
    let text = [
        one(1, "a", "/home/ann"),
        one(2, "a\nb JobState=x\n\nc", "/home/ann"),
        one(3, "a", "/home/a\nb\r\nc"),
        one(4, "a", "/home/ann"),
    ]
    .concat();
    let stream = std::io::Cursor::new(text.into_bytes());
    let path = std::path::Path::new("log");
    let reading = lacuna_trace::Reading::default();
    let log = lacuna_trace::Log::from_stream(path, Box::new(stream), &reading).unwrap();
    let lacuna_trace::Log::Jobs(mut log) = log else {
        panic!("jobs");
    };
    let mut record = lacuna_trace::JobRecord::default();
    let mut ids = Vec::new();
    while log.read(&mut record).unwrap() {
        assert!(record.submit.is_some() && record.nodes == 4, "{record:?}");
        ids.push(record.id.clone());
    }
    assert_eq!(ids, ["1", "2", "3", "4"]);
    assert_eq!(log.damage().lines, 0, "{:?}", log.damage());
}
