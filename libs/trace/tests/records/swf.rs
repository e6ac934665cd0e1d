//! Standard Workload Format.

use lacuna_model::Timestamp;
use lacuna_skip::{data, or_skip};
use lacuna_trace::{Format, JobOutcome, Log, Reading};

use crate::logs::{as_format, jobs, located, shown, text};

/// One job of every kind in the definition of the archive.
const GOLDEN: &str = "\
; Version: 2.2
; Computer: IBM SP2, thin nodes
; MaxJobs: 11
;  UnixStartTime:   1000000000
; MaxNodes: 50 (of two kinds)
; MaxProcs: 400
; Note: a comment: with colons
  1 0 10 100 16 -1 -1 16 3600 -1 1 7 1 -1 2 -1 -1 -1
2\t20\t0\t60\t-1\t-1\t-1\t17\t-1\t-1\t0\t8\t1\t-1\t-1\t-1\t-1\t-1

3 30 5 -1 -1 -1 -1 8 600 -1 5 -1 1 -1 2 -1 -1 -1
4 40 300 0 -1 -1 -1 8 600 -1 5 9 1 -1 2 -1 -1 -1
5 50 -1 70 8 -1 -1 8 60 -1 1 9 1 -1 2 -1 -1 -1
6 60 1.5 0.25 400 12.5 -1 -1 90.5 -1 -1 9 1 -1 2 -1 -1 -1
; a comment among jobs
7 70 10 50 8 -1 -1 8 600 -1 1 9 1 -1 2 -1 -1 -1
7 70 10 20 8 -1 -1 8 600 -1 2 9 1 -1 2 -1 -1 -1
7 -1 15 30 8 -1 -1 8 600 -1 3 9 1 -1 2 -1 -1 -1
8 80 10 20 8 -1 -1 8 600 -1 2 9 1 -1 2 -1 -1 -1
8 -1 15 30 8 -1 -1 8 600 -1 4 9 1 -1 2 -1 -1 -1
9 90 5 0 1 -1 -1 1 600 -1 1 9 1 -1 2 -1 -1 -1
";

#[test]
fn a_job_of_every_kind_becomes_its_record() {
    let log = text(GOLDEN, &Reading::default()).unwrap();
    assert_eq!(log.format(), Format::Swf);
    let Log::Jobs(mut whole) = text(GOLDEN, &Reading::default()).unwrap() else {
        panic!("jobs");
    };
    whole.read(&mut lacuna_trace::JobRecord::default()).unwrap();
    let header = whole.header();
    assert_eq!(header.computer.as_deref(), Some("IBM SP2, thin nodes"));
    assert_eq!((header.nodes, header.procs), (Some(50), Some(400)));
    assert_eq!(header.start, Some(Timestamp::from_unix(1_000_000_000)));

    let (records, damage) = jobs(log).unwrap();
    assert_eq!(damage.lines, 0, "{damage:?}");
    let found: Vec<String> = records
        .iter()
        .map(|job| shown(job, 1_000_000_000))
        .collect();
    // Eight processors are a node. Job 7's parts are in its first line; job 8 has no such line,
    // and its second part waits from the end of the first.
    let expected = [
        "1 7@2 0 10 110 2 3600 - Completed",
        "2 8@ 20 20 80 3 - - Failed",
        "3 @2 30 - - 1 600 - Cancelled",
        "4 9@2 40 - - 1 600 - Cancelled",
        "5 9@2 50 50 120 1 60 - Completed",
        "6 9@2 60 61.5 61.75 50 90.5 - Unknown",
        "7 9@2 70 80 130 1 600 - Completed",
        "8 9@2 80 90 110 1 600 - Preempted",
        "8 9@2 80 125 155 1 600 - Failed",
        "9 9@2 90 95 95 1 600 - Completed",
    ];
    assert_eq!(found, expected);
}

#[test]
fn processors_become_nodes_by_the_reading_or_the_header() {
    let line = "1 0 0 1 33 -1 -1 -1 -1 -1 1 -1 -1 -1 -1 -1 -1 -1\n";
    for (header, procs_per_node, nodes, machine) in [
        ("", None, 33, None),
        ("", Some(8), 5, None),
        ("; MaxProcs: 100\n", Some(8), 5, Some(13)),
        ("; MaxProcs: 100\n; MaxNodes: 25\n", None, 9, Some(25)),
        ("; MaxProcs: 100\n; MaxNodes: 25\n", Some(16), 3, Some(25)),
        ("; MaxProcs: 100\n; MaxNodes: 33\n", None, 11, Some(33)),
        ("; MaxProcs: 100\n; MaxNodes: -1\n", None, 33, Some(100)),
        ("; MaxProcs: 25\n; MaxNodes: 100\n", None, 33, Some(100)),
    ] {
        let reading = Reading {
            procs_per_node,
            ..Reading::default()
        };
        let log = text(&format!("{header}{line}"), &reading).unwrap();
        let Log::Jobs(mut log) = log else {
            panic!("jobs")
        };
        let mut record = lacuna_trace::JobRecord::default();
        assert!(log.read(&mut record).unwrap());
        assert_eq!(record.nodes, nodes, "{header}{procs_per_node:?}");
        assert_eq!(log.header().nodes, machine, "{header}{procs_per_node:?}");
    }
}

#[test]
fn damage_is_counted_with_line_and_field_or_refused() {
    let good = "1 0 10 100 16 -1 -1 16 3600 -1 1 7 1 -1 2 -1 -1 -1\n";
    for (bad, place) in [
        ("1 0 10 100 16 -1 -1 16 3600 -1 1 7 1 -1 2 -1 -1", "line"),
        (
            "1 0 10 100 16 -1 -1 16 3600 -1 1 7 1 -1 2 -1 -1 -1 9",
            "line",
        ),
        (
            "x 0 10 100 16 -1 -1 16 3600 -1 1 7 1 -1 2 -1 -1 -1",
            "field 1 (job number)",
        ),
        (
            "1 -1 10 100 16 -1 -1 16 3600 -1 1 7 1 -1 2 -1 -1 -1",
            "field 2 (submit time)",
        ),
        (
            "1 0 1o 100 16 -1 -1 16 3600 -1 1 7 1 -1 2 -1 -1 -1",
            "field 3 (wait time)",
        ),
        (
            "1 0 10 -7 16 -1 -1 16 3600 -1 1 7 1 -1 2 -1 -1 -1",
            "field 4 (run time)",
        ),
        (
            "1 0 1 253402300799 16 -1 -1 16 3600 -1 1 7 1 -1 2 -1 -1 -1",
            "field 4 (run time)",
        ),
        (
            "1 0 10 99999999999999999999 1 -1 -1 1 1 -1 1 7 1 -1 2 -1 -1 -1",
            "field 4 (run time)",
        ),
        (
            "1 0 10 100 4294967296 -1 -1 16 3600 -1 1 7 1 -1 2 -1 -1 -1",
            "field 5 (allocated processors)",
        ),
        (
            "1 0 10 100 16 -1 -1 1.5 3600 -1 1 7 1 -1 2 -1 -1 -1",
            "field 8 (requested processors)",
        ),
        (
            "1 0 10 100 16 -1 -1 16 1e3 -1 1 7 1 -1 2 -1 -1 -1",
            "field 9 (requested time)",
        ),
        (
            "1 0 10 100 16 -1 -1 16 3600 -1 6 7 1 -1 2 -1 -1 -1",
            "field 11 (status)",
        ),
        ("; MaxNodes: many", "header MaxNodes"),
        ("; UnixStartTime: -5", "header UnixStartTime"),
    ] {
        let log = format!("{good}{bad}\n{good}");
        let (records, damage) = jobs(text(&log, &as_format(Format::Swf)).unwrap()).unwrap();
        assert_eq!(records.len(), 2, "{bad}");
        assert_eq!(located(&damage), [format!("2 {place}")], "{bad}");
        let strict = Reading {
            strict: true,
            ..as_format(Format::Swf)
        };
        let error = jobs(text(&log, &strict).unwrap()).unwrap_err().to_string();
        let expected = format!("log: line 2, {place}: expected ");
        assert!(error.starts_with(&expected), "{error}");
    }
}

#[test]
fn a_year_of_theta_is_read_whole() {
    let path = or_skip!(data("theta-2022/theta_2022.swf.gz"));
    let Log::Jobs(mut log) = Log::open(&path, &Reading::default()).unwrap() else {
        panic!("jobs");
    };
    let mut record = lacuna_trace::JobRecord::default();
    let (mut count, mut overran, mut node_seconds) = (0_u64, 0_u64, 0.0);
    while log.read(&mut record).unwrap() {
        count += 1;
        let ran = record.end.unwrap().since(record.start.unwrap());
        overran += u64::from(ran > record.walltime.unwrap());
        node_seconds += f64::from(record.nodes) * ran.as_secs_f64();
        assert_eq!(record.outcome, JobOutcome::Failed, "each has status 0");
    }
    assert_eq!((count, overran, log.damage().lines), (23_911, 6_264, 0));
    assert_eq!(log.header().nodes, Some(4360));

    // The same sums by the positions of the columns alone.
    let mut plain = String::new();
    std::io::Read::read_to_string(&mut lacuna_trace::open(&path).unwrap(), &mut plain).unwrap();
    let mut by_hand = 0.0;
    for line in plain.lines().filter(|line| !line.starts_with(';')) {
        let columns: Vec<f64> = line
            .split_whitespace()
            .map(|n| n.parse().unwrap())
            .collect();
        by_hand += columns[3] * columns[4];
    }
    assert_eq!(node_seconds, by_hand);
    assert_eq!(log.bytes(), plain.len() as u64);
}
