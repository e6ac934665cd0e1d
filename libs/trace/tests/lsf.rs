//! LSF: `lsb.acct` and `lsb.events`.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests may panic"
)]

use std::collections::{BTreeMap, BTreeSet};

use lacuna_skip::{Missing, data, or_skip};
use lacuna_trace::{Format, JobRecord, Log, Reading};

use crate::logs::{as_format, jobs, located, shown, text};

const ZERO: i64 = 1_600_000_000;

const USAGE: &str = "0.1 0.2 3748 0 -1 0 0 436 4 0 928 0 -1 0 0 0 19 2 -1";

/// A whole record of version 10.108, with an index, hosts, a status, a reason and a run limit.
fn finish(idx: u32, hosts: &str, status: u32, reason: u32, limit: i64) -> String {
    format!(
        "\"JOB_FINISH\" \"10.108\" 1600000100 7 1501 33554434 4 1600000010 0 0 1600000020 \"ann\" \
         \"normal\" \"span[ptile=2]\" \"\" \"\" \"login\" \"/home/ann\" \"\" \"\" \"\" \"1.7\" 1 \
         \"asked\" {hosts} {status} 100.0 \"job\" \"echo \"\"a b\"\" 1\" {USAGE} \"\" \"default\" \
         0 4 \"\" \"\" {idx} 2048 0 \"\" \"\" \"\" \"\" 0 \"\" {reason} \"\" -1 \"\" \"\" \"\" \
         \"\" -1 \"\" \"\" 5136 \"\" 1600000020 \"\" \"\" 1 1110 \"default\" 2 n1 10 0 5 1 0 n2 \
         10 0 5 1 1 k v {limit} 0 1024 \"select[any] \" \"\" -1 \"\" -1 0 \"\" 0 0 \"\" 80 \"/\" \
         1 \"net\" 2 \"\" 0.000000 0.00 0.00 0.00 0.00 2 \"n1\" \"n2\" -1 1 1 5 1 0 1 n1 1 k v 1 \
         x 1 \"schedulingOverhead\" \"0.00\"\n"
    )
}

fn read(log: &str, format: Format) -> Vec<String> {
    let (records, damage) = jobs(text(log, &as_format(format)).unwrap()).unwrap();
    assert_eq!(damage.lines, 0, "{damage:?}");
    records.iter().map(|record| shown(record, ZERO)).collect()
}

#[test]
fn a_finished_job_is_a_record() {
    for (line, expected) in [
        (
            finish(0, "2 \"n1\" \"n2\"", 64, 0, 43200),
            "7 ann@normal 10 20 100 2 43200 n1,n2 Completed",
        ),
        (
            finish(3, "5 \"n1\" \"n1\" \"n2\" \"n2\" \"n1\"", 32, 5, -1),
            "7[3] ann@normal 10 20 100 2 - n1,n2 Timeout",
        ),
        (
            finish(0, "2 \"16*n1\" \"4*n2\"", 32, 14, 0),
            "7 ann@normal 10 20 100 2 - n1,n2 Cancelled",
        ),
        (
            finish(0, "1 \"n1\"", 32, 1, 60),
            "7 ann@normal 10 20 100 1 60 n1 Preempted",
        ),
        (
            finish(0, "1 \"n1\"", 32, 0, 60),
            "7 ann@normal 10 20 100 1 60 n1 Failed",
        ),
    ] {
        assert_eq!(read(&line, Format::LsbAcct), [expected]);
    }
    let never = finish(0, "0", 32, 14, 60).replace(" 1600000020 \"ann\"", " 0 \"ann\"");
    assert_eq!(
        read(&never, Format::LsbAcct),
        ["7 ann@normal 10 - - 0 60 - Cancelled"]
    );
    // Nodes of another cluster do not count.
    let elsewhere = finish(0, "2 \"n1@far\" \"n2@far\"", 64, 0, 60);
    assert!(read(&elsewhere, Format::LsbAcct).is_empty());
    assert_eq!(skipped(&elsewhere, Format::LsbAcct), 1);
    let both = finish(0, "2 \"n1\" \"n2@far\"", 64, 0, 60);
    assert_eq!(
        read(&both, Format::LsbAcct),
        ["7 ann@normal 10 20 100 1 60 n1 Completed"]
    );
}

#[test]
fn texts_may_hold_line_ends_and_quotes() {
    let whole = finish(0, "1 \"n1\"", 64, 0, 60);
    let expected = "7 ann@normal 10 20 100 1 60 n1 Completed";
    for text in [
        "a\nb",
        "a\r\n\nb",
        "\n# a\n",
        "\"\"a\"\"\n\"\"JOB_FINISH\"\" \"\"b",
        "\n",
        "a\n\"\"",
    ] {
        for place in [
            "\"job\"",
            "\"echo \"\"a b\"\" 1\"",
            "\"span[ptile=2]\"",
            "\"select[any] \"",
        ] {
            assert!(whole.contains(place), "{place}");
            let log = whole.replace(place, &format!("\"{text}\""));
            assert_eq!(
                read(&(log.clone() + &log), Format::LsbAcct),
                [expected, expected],
                "{log}"
            );
        }
        let log = submitted(1, 1, text, 600)
            + &event("JOB_MODIFY2", 1, &format!("\"1\" \"{text}\" 1"))
            + &submitted(1, 1, "a", 600).replace("sleep 1", text)
            + &started(2, 1, 0, "1 \"n1\"")
            + &status(9, 1, 0, 64, 8, 0);
        let expected = "1 ann@normal 1 2 8 1 600 n1 Completed";
        assert_eq!(read(&log, Format::LsbEvents), [expected], "{log}");
    }
    let quoted = whole.replace("\"job\"", "\"\"\"a\"\" b\"");
    let (records, _) = jobs(text(&quoted, &as_format(Format::LsbAcct)).unwrap()).unwrap();
    assert_eq!(records[0].name, "\"a\" b");
    // A torn record takes none behind it.
    let torn = &whole[..whole.find("ho \"\"a").unwrap()];
    let log = format!("{torn}\n{whole}{torn}");
    let (records, damage) = jobs(text(&log, &as_format(Format::LsbAcct)).unwrap()).unwrap();
    assert_eq!(records.len(), 1);
    assert_eq!(
        located(&damage),
        ["1 column 30 (command)", "3 column 30 (command)"]
    );
}

#[test]
fn old_records_are_shorter() {
    let whole = finish(0, "1 \"n1\"", 64, 0, 60);
    let (until_spool, _) = whole.split_once(" \"\" 0 \"\" 0 \"\" -1").unwrap();
    let old = until_spool.replace("10.108", "5.1");
    assert_eq!(
        read(&old, Format::LsbAcct),
        ["7 ann@normal 10 20 100 1 - n1 Completed"]
    );
    let (until_memory, _) = whole.split_once(" \"select").unwrap();
    let older = until_memory.replace("10.108", "9.12");
    assert_eq!(
        read(&older, Format::LsbAcct),
        ["7 ann@normal 10 20 100 1 60 n1 Completed"]
    );
}

#[test]
fn damage_is_located_and_refused_if_strict() {
    let good = finish(0, "1 \"n1\"", 64, 0, 60);
    for (from, to, place) in [
        ("\"10.108\"", "\"ten\"", "column 2 (version)"),
        (" 1600000100 ", " x ", "column 3 (event time)"),
        (
            " 1600000020 \"ann\"",
            " 1600000200 \"ann\"",
            "column 11 (startTime)",
        ),
        ("\"ann\"", "ann", "column 12 (userName)"),
        (" 1 \"asked\"", " 02 \"asked\"", "column 23 (numAskedHosts)"),
        (" 1 \"n1\"", " 99999 \"n1\"", "column 25 (numExHosts)"),
        (" 1 \"n1\"", " 2 \"n1\"", "column 27 (execHosts)"),
        (" 1 \"n1\"", " 1 \"n[1\"", "column 26 (execHosts)"),
        ("\"\"a b\"\"", "\"a b\"", "column 30 (command)"),
        (" 436 ", " 4x6 ", "column 38 (lsfRusage)"),
        (
            " \"schedulingOverhead\" \"0.00\"",
            "",
            "column 138 (numKVP)",
        ),
        (" \"0.00\"\n", "\n", "column 140 (value)"),
    ] {
        assert!(good.contains(from), "{from}");
        let log = format!("{good}# comment\n{}{good}", good.replacen(from, to, 1));
        let (records, damage) = jobs(text(&log, &as_format(Format::LsbAcct)).unwrap()).unwrap();
        assert_eq!(located(&damage), [format!("3 {place}")], "{to}");
        assert_eq!(records.len(), 2, "{to}");
        let strict = Reading {
            strict: true,
            ..as_format(Format::LsbAcct)
        };
        let error = jobs(text(&log, &strict).unwrap()).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("log: line 3, {place}: expected ")),
            "{error}"
        );
    }
}

fn event(kind: &str, second: i64, rest: &str) -> String {
    format!("\"{kind}\" \"10.108\" {} {rest}\n", ZERO + second)
}

fn submitted(second: i64, job: u32, name: &str, limit: i64) -> String {
    let time = ZERO + second;
    event(
        "JOB_NEW",
        second,
        &format!(
            "{job} 1501 33570818 4 {time} 0 0 -65535 0 0 \"ann\" -1 -1 -1 -1 -1 -1 -1 -1 -1 \
             {limit} -1 \"\"   1.00 2 \"normal\" \"\" \"login\" \"/\" \"\" \"\" \"\" \"\" \"/h\" \
             \"1.1\" 1 \"asked\" \"\" \"\" \"{name}\" \"sleep 1\" 0 \"\" \"default\""
        ),
    )
}

fn started(second: i64, job: u32, idx: u32, hosts: &str) -> String {
    let rest = format!("{job} 4 0 0 100.0 {hosts} \"\" \"\" 0 \"\" {idx} \"\" 2147483647");
    event("JOB_START", second, &rest)
}

fn status(second: i64, job: u32, idx: u32, status: u32, end: i64, reason: u32) -> String {
    let end = if end == 0 { 0 } else { ZERO + end };
    let usage = match status {
        32 | 64 => format!("1 {USAGE}"),
        _ => "0".to_owned(),
    };
    let rest = format!("{job} {status} 0 0 0.0107 {end} {usage} 32512 {idx} {reason} 0");
    event("JOB_STATUS", second, &rest)
}

#[test]
fn events_are_lives_of_jobs() {
    let log = [
        "#80      \n".to_owned(),
        event("MBD_START", 0, "\"master\" \"cluster\" 1 2"),
        submitted(1, 1, "", 600),
        submitted(1, 2, "", -1),
        submitted(1, 3, "arr[1-2]%5", 60),
        submitted(1, 4, "", -1),
        submitted(1, 5, "", -1),
        submitted(1, 6, "", -1),
        started(2, 1, 0, "2 \"n1\" \"n2\""),
        event("JOB_START_ACCEPT", 2, "1 10 10 0"),
        started(3, 2, 0, "1 \"4*n3\""),
        started(3, 3, 1, "1 \"n4\""),
        started(3, 4, 0, "1 \"x@far\""),
        // Suspended, resumed, unknown.
        status(4, 1, 0, 16, 0, 0),
        status(5, 1, 0, 4, 0, 0),
        status(5, 1, 0, 65536, 0, 0),
        // Requeued, and started on other nodes.
        status(6, 2, 0, 1, 0, 0),
        event("JOB_SWITCH", 6, "1501 2 \"short\" 0 \"ann\""),
        started(7, 2, 0, "1 \"n5\""),
        status(9, 1, 0, 64, 8, 0),
        status(9, 1, 0, 192, 0, 0),
        event("JOB_CLEAN", 9, "1 0"),
        status(10, 3, 1, 32, 10, 5),
        status(10, 4, 0, 64, 10, 0),
        event("JOB_REQUEUE", 11, "2 0"),
        // Ended before it started.
        status(12, 5, 0, 32, 12, 14),
        started(13, 3, 2, "1 \"n6\""),
        // The log lacks its end.
        started(14, 2, 0, "1 \"n1\""),
        started(15, 2, 0, "1 \"n2\""),
        event("JOB_CLEAN", 16, "2 0"),
    ]
    .concat();
    assert_eq!(
        read(&log, Format::LsbEvents),
        [
            "2 ann@normal 1 3 6 1 - n3 Preempted",
            "1 ann@normal 1 2 8 2 600 n1,n2 Completed",
            "3[1] ann@normal 1 3 10 1 60 n4 Timeout",
            "2 ann@short 1 7 11 1 - n5 Preempted",
            "5 ann@normal 1 - - 0 - - Cancelled",
            "2 ann@short 1 14 15 1 - n1 Unknown",
            "2 ann@short 1 15 16 1 - n2 Unknown",
            "3[2] ann@normal 1 13 - 1 60 n6 Running",
            "6 ann@normal 1 - - 0 - - Running",
        ]
    );
}

#[test]
fn damaged_events_are_located() {
    let good = [
        submitted(1, 1, "", 600),
        started(2, 1, 0, "1 \"n1\""),
        status(9, 1, 0, 64, 8, 0),
    ];
    for (at, from, to, place) in [
        (0, " 1 1501", " one 1501", "column 4 (jobId)"),
        (0, " 600 -1", " 6h -1", "column 24 (rLimits)"),
        (0, " \"sleep 1\"", "", ""),
        (1, "\"n1\"", "\"n1\"x", "column 10 (execHosts)"),
        (1, "\"JOB_START\" ", "JOB_START ", "column 1 (event type)"),
        (1, "1600000002", "0", "column 3 (event time)"),
        (2, " 64 ", " 6.4 ", "column 5 (jStatus)"),
        (2, " -1 32512", " -1", "column 30 (exitStatus)"),
    ] {
        let mut lines = good.to_vec();
        assert!(lines[at].contains(from), "{from}");
        lines[at] = lines[at].replacen(from, to, 1);
        if to == " -1" {
            let kept = lines[at].len() - " 0 0 0\n".len();
            lines[at].truncate(kept);
        }
        let (_, damage) =
            jobs(text(&lines.concat(), &as_format(Format::LsbEvents)).unwrap()).unwrap();
        let expected = match place {
            "" => vec![],
            place => vec![format!("{} {place}", at + 1)],
        };
        assert_eq!(located(&damage), expected, "{to}");
    }
}

/// The format, the records, the damage and the text of a sample.
type Sample = (Format, Vec<JobRecord>, lacuna_trace::Damage, String);

fn open(name: &str) -> Result<Sample, Missing> {
    let path = data(name)?;
    let log = Log::open(&path, &Reading::default()).unwrap();
    let format = log.format();
    let (records, damage) = jobs(log).unwrap();
    Ok((
        format,
        records,
        damage,
        std::fs::read_to_string(&path).unwrap(),
    ))
}

#[test]
fn the_accounting_sample_is_read_but_for_its_damaged_lines() {
    let (format, records, damage, plain) = or_skip!(open("samples/lsf/lsb.acct"));
    assert_eq!(format, Format::LsbAcct);
    let found: Vec<String> = records.iter().map(|record| shown(record, 0)).collect();
    // Line 2 has lost the blank between two numbers, line 4 one behind a text.
    assert_eq!(
        located(&damage),
        ["2 column 23 (numAskedHosts)", "4 column 102 (flow_id)"]
    );
    let elsewhere = plain
        .lines()
        .filter(|line| line.contains("@lsf1\" 32 ") || line.contains("@lsf1\" 64 "));
    let elsewhere = elsewhere.count() as u64 - 1;
    assert_eq!(elsewhere, 1, "line 5, and line 4 is damaged");
    assert_eq!(
        plain.lines().count() as u64,
        found.len() as u64 + damage.lines + elsewhere
    );
    let host = "ip-10-30-66-253.eu-west-1.compute.internal";
    assert_eq!(
        found.first().unwrap(),
        &format!("386 simuser@sender 1644826545 1644826546 1644826549 1 - {host} Completed")
    );
}

/// Number of valid lines of a log that are no jobs of this machine.
fn skipped(log: &str, format: Format) -> usize {
    let Log::Jobs(mut jobs) = text(log, &as_format(format)).unwrap() else {
        panic!("jobs");
    };
    let mut record = JobRecord::default();
    while jobs.read(&mut record).unwrap() {}
    usize::try_from(jobs.skipped()).unwrap()
}

#[test]
fn records_that_were_cut_off_are_located() {
    let (format, records, damage, _) = or_skip!(open("samples/lsf/lsb.acct.missing-fields"));
    assert_eq!((format, records.len()), (Format::LsbAcct, 1));
    assert_eq!(
        located(&damage),
        [
            "4 column 118 (numGPURusages)",
            "6 column 119 (storageInfoC)",
            "8 column 120 (numKVP)",
            // It announces a pair, but the line ends.
            "10 column 120 (numKVP)",
            "12 column 122 (value)"
        ]
    );
}

#[test]
fn the_sample_of_events_agrees_with_a_plain_count() {
    let (format, records, damage, plain) = or_skip!(open("samples/lsf/lsb.events"));
    assert_eq!((format, damage.lines), (Format::LsbEvents, 0), "{damage:?}");
    // Cut at blanks: in the sample, no text before the searched fields contains a blank.
    let (mut starts, mut lives) = (BTreeMap::new(), BTreeSet::new());
    let (mut elsewhere, mut never) = (BTreeSet::new(), 0);
    for line in plain.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["\"JOB_START\"", _, time, job, _, _, _, _, slots, hosts @ ..] => {
                let slots: usize = slots.parse().unwrap();
                let hosts: BTreeSet<&str> = hosts[..slots].iter().copied().collect();
                let host = hosts.first().unwrap().trim_matches('"');
                if host.contains('@') {
                    elsewhere.insert(*job);
                } else {
                    assert_eq!(hosts.len(), 1, "the sample has one node");
                    starts.insert(*job, (time.parse::<i64>().unwrap(), host));
                }
            }
            ["\"JOB_STATUS\"", _, _, job, "32" | "64", _, _, _, end, ..] => {
                match starts.remove(job) {
                    Some((start, host)) => {
                        lives.insert((*job, start, end.parse::<i64>().unwrap(), host));
                    }
                    None if elsewhere.contains(job) => {}
                    None => never += 1,
                }
            }
            _ => {}
        }
    }
    let found: BTreeSet<_> = records
        .iter()
        .filter_map(|record| {
            let second = |time: lacuna_model::Timestamp| time.unix_ms() / 1000;
            let (start, end) = (second(record.start?), second(record.end?));
            Some((record.id.as_str(), start, end, record.hosts.as_str()))
        })
        .collect();
    println!(
        "{} lives, {never} that never started, {} elsewhere",
        lives.len(),
        elsewhere.len()
    );
    assert!(!lives.is_empty());
    assert_eq!(found, lives);
    assert_eq!(records.len(), lives.len() + never + starts.len());
    assert_eq!(skipped(&plain, Format::LsbEvents), elsewhere.len());
}
