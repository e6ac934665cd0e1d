//! PBS accounting.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::collections::BTreeMap;
use std::io::Read;

use lacuna_skip::{data, or_skip};
use lacuna_trace::{Format, JobRecord, Log, Reading};

use crate::logs::{as_format, jobs, located, shown, text};

/// 12/21/2024 12:00:00 UTC.
const NOON: i64 = 1_734_782_400;

/// A record at a second after noon; `+n` in the message is a time n seconds after noon.
fn record(second: i64, letter: &str, id: &str, message: &str) -> String {
    let message = message
        .split(' ')
        .map(|word| match word.split_once("=+") {
            Some((key, late)) => format!("{key}={}", NOON + late.parse::<i64>().unwrap()),
            None => word.to_owned(),
        })
        .collect::<Vec<_>>()
        .join(" ");
    let (minutes, seconds) = (second / 60, second % 60);
    format!("12/21/2024 12:{minutes:02}:{seconds:02};{letter};{id};{message}\n")
}

fn read(log: &str) -> Vec<String> {
    let (records, damage) = jobs(text(log, &as_format(Format::Pbs)).unwrap()).unwrap();
    assert_eq!(damage.lines, 0, "{damage:?}");
    records.iter().map(|record| shown(record, NOON)).collect()
}

const ASKED: &str = "user=ann group=g queue=workq ctime=+0 qtime=+0 etime=+0 \
    Resource_List.nodect=2 Resource_List.walltime=02:00:00";

#[test]
fn the_end_record_has_all_values() {
    let log = [
        "; UnixStartTime: 1734782400\n;\n# a comment\n\n".to_owned(),
        record(0, "L", "license", "floating license hour:0 day:0 month:0 max:0"),
        record(0, "Q", "1.srv", ASKED),
        record(0, "Q", "2.srv", "queue=workq"),
        record(5, "S", "1.srv", &format!("{ASKED} start=+5 exec_host=n1/0*12+n2/3")),
        record(9, "E", "1.srv", &format!("{ASKED} start=+5 exec_host=n1/0+n1/1+n2/0-7+n1/2 end=+8 Exit_status=0")),
        // The log lacks its start, and its host has a port.
        record(9, "E", "7.srv", &format!("{ASKED} start=+1 exec_host=n3:15002/0*8 end=+9 Exit_status=1")),
        record(9, "E", "8.srv", &format!("{ASKED} start=+1 exec_vnode=(n4[0]:ncpus=2+n4[1]:mem=4kb)+(n5:ncpus=1) end=+9 Exit_status=-29")),
    ]
    .concat();
    assert_eq!(
        read(&log),
        [
            "1.srv ann@workq 0 5 8 2 7200 n1,n2 Completed",
            "7.srv ann@workq 0 1 9 1 7200 n3 Failed",
            "8.srv ann@workq 0 1 9 2 7200 n4,n5 Timeout",
            "2.srv @workq 0 - - 0 - - Running",
        ]
    );
}

#[test]
fn values_in_quotes_may_hold_blanks_and_keys() {
    let message = "user=ann account=\"a b start=+3 x\" jobname='end=1 it''s' odd words start=+5 \
        queue=q exec_host=n1/0 end=+8 resources_used.diag='{ \"a\": \"b\" }' Exit_status=0";
    assert_eq!(
        read(&record(9, "E", "1", message)),
        ["1 ann@q - 5 8 1 - n1 Completed"]
    );
    // A quote without an end is a part of the word.
    let message = "user=ann jobname='x start=+5 exec_host=n1/0 end=+8 Exit_status=0";
    assert_eq!(
        read(&record(9, "E", "1", message)),
        ["1 ann@ - 5 8 1 - n1 Completed"]
    );
}

#[test]
fn jobs_are_requeued_deleted_and_left_running() {
    let start = |at: i64, host: &str| format!("{ASKED} start=+{at} exec_host={host}/0");
    let log = [
        record(0, "Q", "1", ASKED),
        record(1, "S", "1", &start(1, "n1")),
        record(3, "R", "1", ASKED),
        record(5, "S", "1", &start(5, "n2")),
        record(6, "D", "1", "requestor=ann@login"),
        record(
            7,
            "E",
            "1",
            &format!("{} end=+7 Exit_status=271", start(5, "n2")),
        ),
        record(7, "Q", "2", ASKED),
        record(8, "D", "2", "requestor=ann@login"),
        record(8, "D", "3", "requestor=ann@login"),
        record(8, "Q", "4", ASKED),
        record(8, "A", "4", ""),
        record(8, "Q", "5", ASKED),
        record(8, "M", "5", "destination=q@other"),
        record(9, "S", "6", &start(9, "n1")),
        // The log lacks its requeue.
        record(12, "S", "6", &start(12, "n3")),
        record(12, "s", "6", "exec_host=n3/0+n4/0"),
        // An array as a whole, and one of its jobs.
        record(12, "Q", "8[].srv", ASKED),
        record(13, "S", "8[].srv", ASKED),
        record(13, "S", "8[2].srv", &start(13, "n5")),
        record(14, "E", "8[].srv", &format!("{ASKED} start=+13 end=+14")),
    ]
    .concat();
    assert_eq!(
        read(&log),
        [
            "1 ann@workq 0 1 3 1 7200 n1 Preempted",
            "1 ann@workq 0 5 7 1 7200 n2 Cancelled",
            "2 ann@workq 0 - - 2 7200 - Cancelled",
            "4 ann@workq 0 - - 2 7200 - Cancelled",
            "6 ann@workq 0 9 12 1 7200 n1 Unknown",
            "6 ann@workq 0 12 - 2 7200 n3,n4 Running",
            "8[2].srv ann@workq 0 13 - 1 7200 n5 Running",
        ]
    );
}

#[test]
fn walltimes_have_several_forms() {
    for (text, expected) in [
        ("7200", "7200"),
        ("02:30", "150"),
        ("100:00:01", "360001"),
        ("2:01:00:00", "176400"),
    ] {
        let message = format!("start=+1 end=+2 exec_host=n/0 Resource_List.walltime={text}");
        let found = read(&record(2, "E", "1", &message));
        assert_eq!(found, [format!("1 @ - 1 2 1 {expected} n Unknown")]);
    }
}

#[test]
fn the_time_in_front_is_local() {
    let reading = Reading {
        time_zone: Some(jiff::tz::TimeZone::get("Europe/Prague").unwrap()),
        ..as_format(Format::Pbs)
    };
    let log = record(0, "Q", "1", "queue=q");
    let (records, _) = jobs(text(&log, &reading).unwrap()).unwrap();
    assert_eq!(
        shown(records.first().unwrap(), NOON),
        "1 @q -3600 - - 0 - - Running"
    );
}

#[test]
fn damage_is_located_and_refused_if_strict() {
    let good = record(9, "E", "1", "start=+5 exec_host=n1/0 end=+8 Exit_status=0");
    for (from, to, place) in [
        ("12/21/2024", "13/21/2024", "time"),
        ("12/21/2024", "12-21-2024", "record"),
        (";E;", ";E1;", "record"),
        (";1;", ";;", "id"),
        ("start=", "start=x", "start"),
        ("end=", "end=-", "end"),
        ("end=1734782408", "end=1734782404", "end"),
        ("n1/0", "n[1]/0", "exec_host"),
        ("n1/0", "n1/0+", "exec_host"),
        ("Exit_status=0", "Exit_status=zero", "Exit_status"),
        (
            "Exit_status=0",
            "Resource_List.walltime=1:x",
            "Resource_List.walltime",
        ),
        (
            "Exit_status=0",
            "Resource_List.nodect=-1",
            "Resource_List.nodect",
        ),
    ] {
        assert!(good.contains(from), "{from}");
        let log = format!("{good}; comment\n{}{good}", good.replacen(from, to, 1));
        let (records, damage) = jobs(text(&log, &as_format(Format::Pbs)).unwrap()).unwrap();
        assert_eq!(records.len(), 2, "{to}");
        assert_eq!(located(&damage), [format!("3 {place}")], "{to}");
        let strict = Reading {
            strict: true,
            ..as_format(Format::Pbs)
        };
        let error = jobs(text(&log, &strict).unwrap()).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("log: line 3, {place}: expected ")),
            "{error}"
        );
    }
}

#[test]
fn a_job_whose_end_is_damaged_runs_on() {
    let log = record(1, "S", "1", "start=+1 exec_host=n1/0")
        + &record(5, "E", "1", "start=+1 exec_host=n1/0 end=+5 Exit_status=x");
    let (records, damage) = jobs(text(&log, &as_format(Format::Pbs)).unwrap()).unwrap();
    assert_eq!(located(&damage), ["2 Exit_status"]);
    assert_eq!(
        shown(records.first().unwrap(), NOON),
        "1 @ - 1 - 1 - n1 Running"
    );
}

#[test]
fn the_sample_agrees_with_a_plain_count() {
    let path = or_skip!(data("samples/pbs/openpbs-accounting.log.gz"));
    // The first lines look like those of the Standard Workload Format.
    let log = Log::open(&path, &Reading::default()).unwrap();
    assert_eq!(log.format(), Format::Pbs);
    let (records, damage) = jobs(log).unwrap();
    assert_eq!(damage.lines, 0, "{damage:?}");
    let mut plain = String::new();
    lacuna_trace::open(&path)
        .unwrap()
        .read_to_string(&mut plain)
        .unwrap();
    // From the records of ends alone: id, start, end, hosts.
    let mut expected = BTreeMap::new();
    for line in plain.lines().filter(|line| line.contains(";E;")) {
        let id = line.split(';').nth(2).unwrap();
        let value = |key: &str| {
            let found = line.split(' ').find_map(|word| word.strip_prefix(key));
            found.unwrap_or_else(|| panic!("{key} {line}"))
        };
        let mut hosts: Vec<&str> = value("exec_host=")
            .split('+')
            .map(|slot| slot.split_once('/').unwrap().0)
            .collect();
        hosts.dedup();
        let time = |key: &str| value(key).parse::<i64>().unwrap();
        expected.insert(
            id.to_owned(),
            (time("start="), time("end="), hosts.join(",")),
        );
    }
    let found: BTreeMap<_, _> = records
        .iter()
        .map(|record: &JobRecord| {
            let second = |time: Option<lacuna_model::Timestamp>| time.unwrap().unix_ms() / 1000;
            let life = (
                second(record.start),
                second(record.end),
                record.hosts.clone(),
            );
            (record.id.clone(), life)
        })
        .collect();
    assert_eq!((records.len(), expected.len()), (200, 200));
    assert_eq!(found, expected);
    let seconds: i64 = records
        .iter()
        .map(|r| r.end.unwrap().since(r.start.unwrap()).as_ms() / 1000 * i64::from(r.nodes))
        .sum();
    println!("200 jobs, {seconds} node-seconds");
}

#[test]
fn the_zone_of_local_times_is_derived_from_unix_times() {
    // Local times are two hours ahead. Torque's records of requeues have no time in Unix seconds.
    let inside = [
        record(0, "Q", "1.srv", "queue=batch qtime=+0"),
        record(10, "S", "1.srv", "queue=batch start=+10 exec_host=n1/0"),
        record(40, "R", "1.srv", ""),
        record(60, "S", "1.srv", "queue=batch start=+60 exec_host=n2/0"),
        record(91, "D", "1.srv", "requestor=ann@host"),
        record(
            92,
            "E",
            "1.srv",
            "queue=batch start=+60 end=+92 exec_host=n2/0 Exit_status=271",
        ),
    ]
    .concat()
    .replace("2024 12:", "2024 14:");
    assert_eq!(
        read(&inside),
        [
            "1.srv @batch 0 10 40 1 - n1 Preempted",
            "1.srv @batch 0 60 92 1 - n2 Cancelled",
        ]
    );
    // A configured zone holds.
    let reading = Reading {
        time_zone: Some(jiff::tz::TimeZone::fixed(jiff::tz::offset(1))),
        ..as_format(Format::Pbs)
    };
    let (records, _) = jobs(text(&inside, &reading).unwrap()).unwrap();
    let expected = "1.srv @batch 0 10 3640 1 - n1 Preempted";
    assert_eq!(shown(&records[0], NOON), expected);
}

#[test]
fn files_in_the_wrong_order_are_damage_once() {
    let of = |day: u32, id: u32, start: i64, end: i64| {
        let (start, end) = (NOON + start, NOON + end);
        format!(
            "12/{day}/2024 12:00:00;S;{id};queue=q start={start} exec_host=n1/0\n\
             12/{day}/2024 12:01:00;E;{id};queue=q start={start} end={end} exec_host=n1/0\n"
        )
    };
    let (old, new) = (of(21, 1, 0, 60), of(22, 2, 86_400, 86_460));
    for (log, damaged) in [(old.clone() + &new, vec![]), (new + &old, vec!["3 time"])] {
        let (_, damage) = jobs(text(&log, &as_format(Format::Pbs)).unwrap()).unwrap();
        assert_eq!(located(&damage), damaged);
    }
}

#[test]
fn a_log_of_ends_alone_lacks_running_jobs() {
    let start = record(0, "S", "1", "queue=q start=+0 exec_host=n1/0");
    let end = record(9, "E", "1", "queue=q start=+0 end=+9 exec_host=n1/0");
    for (log, expected) in [(start + &end, true), (end, false)] {
        let Log::Jobs(mut jobs) = text(&log, &as_format(Format::Pbs)).unwrap() else {
            panic!("jobs");
        };
        let mut record = JobRecord::default();
        while jobs.read(&mut record).unwrap() {}
        assert_eq!(jobs.has_starts(), expected);
    }
}

#[test]
fn a_text_may_hold_line_ends() {
    let end = |id: u32, account: &str, more: &str| {
        let message = format!(
            "user=ann account={account} queue=q start=+1 exec_host=n{id}/0*4 end=+9 \
             Exit_status=0{more}"
        );
        record(9, "E", &id.to_string(), &message)
    };
    let texts = [
        "a",
        "\"a\nb c\n; d\n\n# e\"",
        "a\nb\n;c",
        "\"say \"x\"\nmore\"",
        "\"a\r\nb\"",
    ];
    let log: String = (1..)
        .zip(texts)
        .map(|(id, text)| end(id, text, ""))
        .collect();
    let expected: Vec<String> = (1..=texts.len())
        .map(|id| format!("{id} ann@q - 1 9 1 - n{id} Completed"))
        .collect();
    assert_eq!(read(&log), expected);
    // A text behind all attributes, and lines that are no part of a record.
    let log = end(1, "a", " resources_used.note=\"x\ny\"") + &end(2, "a", "") + "torn start=1\n";
    let (records, damage) = jobs(text(&log, &as_format(Format::Pbs)).unwrap()).unwrap();
    assert_eq!(records.len(), 2);
    assert_eq!(located(&damage), ["4 record"]);
}

#[test]
fn what_a_record_lacks_is_said() {
    let whole = record(
        9,
        "E",
        "1",
        "user=ann ctime=+0 start=+1 exec_host=n1/0 end=+9 Exit_status=0",
    );
    let whole = whole.trim_end();
    // A log that ends anywhere in its last record never has another job without a word.
    for until in 0..whole.len() {
        let log = format!("{whole}\n{}", &whole[..until]);
        let (records, damage) = jobs(text(&log, &as_format(Format::Pbs)).unwrap()).unwrap();
        let is_said = damage.lines > 0 || damage.doubtful > 0;
        let expected = shown(&records[0], NOON);
        let is_same = records.len() == 2 && shown(&records[1], NOON) == expected;
        // Behind the end only the exit status is missing.
        let is_told = until < 20 || whole[..until].contains(" end=1734782409");
        assert!(is_said || is_same || is_told, "{log}: {records:?}");
    }
    // A start without hosts, a quote without an end, and an attribute in a text.
    for message in [
        "user=ann ctime=+0 start=+1",
        "user=ann account=\"a start=+1 exec_host=n1/0",
        "user=ann jobname=a start=+1 start=+2 exec_host=n1/0",
    ] {
        let log = record(1, "S", "1", message);
        let (_, damage) = jobs(text(&log, &as_format(Format::Pbs)).unwrap()).unwrap();
        assert_eq!((damage.lines, damage.doubtful), (0, 1), "{message}");
    }
}

#[test]
fn ids_have_several_forms() {
    let end = |id: &str| {
        record(
            9,
            "E",
            id,
            "start=+1 exec_host=n1/0*4+n2/0*4 end=+9 Exit_status=0",
        )
    };
    for id in [
        "1",
        "1.srv",
        "1.srv@other",
        "1[4].srv",
        "1[4].srv@other.site",
        "1@srv",
    ] {
        let expected = format!("{id} @ - 1 9 2 - n1,n2 Completed");
        assert_eq!(read(&end(id)), [expected]);
    }
    for id in [
        "1[]",
        "1[].srv",
        "1[].srv@other",
        "1[1-5].srv",
        "1[1-9:2].srv",
        "1[1,3].srv",
    ] {
        assert!(read(&end(id)).is_empty(), "{id}");
    }
}

#[test]
fn odd_times_are_read_or_refused() {
    let with = |time: &str| {
        let log = format!("{time};Q;1.srv;queue=q\n");
        let (records, damage) = jobs(text(&log, &as_format(Format::Pbs)).unwrap()).unwrap();
        (
            records.first().map(|record| shown(record, NOON)),
            damage.lines,
        )
    };
    let waiting = |second: i64| Some(format!("1.srv @q {second} - - 0 - - Running"));
    assert_eq!(with("12/21/2024 12:00:01.250"), (waiting(1), 0));
    assert_eq!(with("12/21/2024 12:14:60"), (waiting(900), 0));
    for time in [
        "12/21/2024 12:00:60",
        "02/30/2024 12:00:00",
        "12/21/0000 12:00:00",
    ] {
        assert_eq!(with(time), (None, 1), "{time}");
    }
    // Marks of files that were joined, and line ends of another system.
    let log = "\u{feff}# a\r\n\u{feff}12/21/2024 12:00:00;Q;1.srv;queue=q\r\n";
    assert_eq!(read(log), ["1.srv @q 0 - - 0 - - Running"]);
}
