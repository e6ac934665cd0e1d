//! Slurm's accounting tables.

use jiff::tz::TimeZone;
use lacuna_records::hosts;
use lacuna_skip::{data, or_skip};
use lacuna_trace::{Format, JobOutcome, JobRecord, Log, Reading};

use crate::logs::{as_format, jobs, located, shown, text};

const NAMES: &str = "JobID|JobName|User|Partition|Submit|Start|End|State|NNodes|NodeList|Timelimit";

/// 2022-01-01, midnight UTC.
const ZERO: i64 = 1_640_995_200;

/// A table of one column set, as `sacct --parsable2 --duplicates` prints it.
const GOLDEN: &str = "\
JobID|JobName|User|Partition|Submit|Start|End|State|NNodes|NodeList|Timelimit
100|a|ann|batch|2022-01-01T00:00:00|2022-01-01T00:00:10|2022-01-01T01:00:10|COMPLETED|2|n[1-2]|01:00:00
100.batch|batch|||2022-01-01T00:00:10|2022-01-01T00:00:10|2022-01-01T01:00:10|COMPLETED|1|n1|
100.extern|extern|||2022-01-01T00:00:10|2022-01-01T00:00:10|2022-01-01T01:00:10|COMPLETED|2|n[1-2]|
100.0|step|||2022-01-01T00:00:10|2022-01-01T00:00:10|2022-01-01T01:00:10|COMPLETED|2|n[1-2]|
101_4|b|bob|batch|2022-01-01T00:00:00|2022-01-01T00:00:20|2022-01-02T00:00:20|TIMEOUT|1|n3|1-00:00:00
101_[5-9%2]|b|bob|batch|2022-01-01T00:00:00|Unknown|Unknown|PENDING|1|None assigned|1-00:00:00
101_[1-2,...]|b|bob|batch|2022-01-01T00:00:00|Unknown|Unknown|PENDING|1|None assigned|1-00:00:00
102+0|c|ann|gpu|2022-01-01T00:00:00|2022-01-01T00:01:00|2022-01-01T00:02:00|FAILED|2K|n[1-2048]|UNLIMITED
102+1|c|ann|gpu|2022-01-01T00:00:00|2022-01-01T00:01:00|2022-01-01T00:02:00|FAILED|1|g1|Partition_Limit
103|d|cy|batch|2022-01-01T00:00:00|2022-01-01T00:10:00|2022-01-01T00:20:00|NODE_FAIL|1|n7|00:30:00
103|d|cy|batch|2022-01-01T00:21:00|2022-01-01T00:30:00|2022-01-01T00:40:00|REQUEUED|1|n8|00:30:00
103|d|cy|batch|2022-01-01T00:41:00|2022-01-01T00:50:00|2022-01-01T01:00:00|PREEMPTED|1|n9|00:30:00
103|d|cy|batch|2022-01-01T01:01:00|2022-01-01T01:10:00|Unknown|RUNNING|1|n[08-09]|00:30:00
104|e|cy|batch|2022-01-01T00:00:00|2022-01-01T00:05:00|2022-01-01T00:05:00|CANCELLED by 1500|4|None assigned|00:30:00
105|e|cy|batch|2022-01-01T00:00:00|None|2022-01-01T00:05:00|CANCELLED by 1500|4||00:30:00
106|e|cy|batch|2022-01-01T00:00:00|2022-01-01T00:05:00|2022-01-01T00:06:00|CANCELLED by 1500|0|n[1,3]|00:30:00
107|f|cy|batch|2022-01-01T00:00:00|2022-01-01T00:05:00|2022-01-01T00:06:00|OUT_OF_MEMORY|1|n1|00:30:00
109|f|cy|batch|2022-01-01T00:00:00|2022-01-01T00:05:00|2022-01-01T00:06:00|DEADLINE|1|n1|00:30:00

108|g|cy|batch|2022-01-01T00:00:00|2022-01-01T00:05:00|2022-01-01T00:06:00|EXPEDITING|1|n1|
";

#[test]
fn a_line_of_every_kind_becomes_its_record() {
    let log = text(GOLDEN, &Reading::default()).unwrap();
    assert_eq!(log.format(), Format::Sacct);
    let Log::Jobs(mut again) = text(GOLDEN, &Reading::default()).unwrap() else {
        panic!("jobs");
    };
    let mut record = JobRecord::default();
    while again.read(&mut record).unwrap() {}
    assert_eq!((again.skipped(), again.lines()), (3, 21));

    let (records, damage) = jobs(log).unwrap();
    assert_eq!(damage.lines, 0, "{damage:?}");
    let found: Vec<String> = records.iter().map(|job| shown(job, ZERO)).collect();
    let expected = [
        "100 ann@batch 0 10 3610 2 3600 n[1-2] Completed",
        "101_4 bob@batch 0 20 86420 1 86400 n3 Timeout",
        "101_[5-9%2] bob@batch 0 - - 1 86400 - Unknown",
        "101_[1-2,...] bob@batch 0 - - 1 86400 - Unknown",
        "102+0 ann@gpu 0 60 120 2048 - n[1-2048] Failed",
        "102+1 ann@gpu 0 60 120 1 - g1 Failed",
        "103 cy@batch 0 600 1200 1 1800 n7 NodeFailed",
        "103 cy@batch 1260 1800 2400 1 1800 n8 Preempted",
        "103 cy@batch 2460 3000 3600 1 1800 n9 Preempted",
        "103 cy@batch 3660 4200 - 1 1800 n[08-09] Running",
        "104 cy@batch 0 - - 4 1800 - Cancelled",
        "105 cy@batch 0 - - 4 1800 - Cancelled",
        "106 cy@batch 0 300 360 2 1800 n[1,3] Cancelled",
        "107 cy@batch 0 300 360 1 1800 n1 Failed",
        "109 cy@batch 0 300 360 1 1800 n1 Timeout",
        "108 cy@batch 0 300 360 1 - n1 Unknown",
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_second_table_is_recognised_by_its_header() {
    let table = "\
JobID|Start|End|NNodes
1|2022-01-01T00:00:10|2022-01-01T00:00:40|4
Start|End|NNodes|JobID
2022-01-01T00:01:10|2022-01-01T00:01:40|5|2
End|Start|JobID|NNodes|State
2022-01-01T00:02:40|2022-01-01T00:02:10|3|6|COMPLETED
";
    let (records, damage) = jobs(text(table, &Reading::default()).unwrap()).unwrap();
    assert_eq!(damage.lines, 0, "{damage:?}");
    let found: Vec<String> = records.iter().map(|job| shown(job, ZERO)).collect();
    let expected = [
        "1 @ - 10 40 4 - - Unknown",
        "2 @ - 70 100 5 - - Unknown",
        "3 @ - 130 160 6 - - Completed",
    ];
    assert_eq!(found, expected);
}

#[test]
fn given_columns_that_fit_no_line_are_refused_and_a_damaged_first_line_is_not() {
    let reading = Reading {
        columns: Some("jobid,start,end,nnodes".to_owned()),
        ..Reading::default()
    };
    let line = "1|2022-01-01T00:00:10|2022-01-01T00:00:40|4|COMPLETED\n";
    let Err(error) = text(&line.repeat(3), &reading) else {
        panic!("read");
    };
    let expected = "--columns names 4 columns, but its first line has 5, apart by '|': name all, \
                    in their order";
    assert!(error.to_string().ends_with(expected), "{error}");

    let rest = "2|2022-01-01T00:00:10|2022-01-01T00:00:40|4\n";
    let cut = format!("0:10|2022-01-01T00:00:40|4\n{rest}");
    let (records, damage) = jobs(text(&cut, &reading).unwrap()).unwrap();
    assert_eq!((records.len(), damage.lines), (1, 1));
}

#[test]
fn a_mark_before_the_first_line_belongs_to_no_column() {
    let reading = Reading {
        columns: Some("jobid,start,end,nnodes".to_owned()),
        strict: true,
        ..Reading::default()
    };
    let line = "\u{feff}1|2022-01-01T00:00:10|2022-01-01T00:00:40|4\n";
    let (records, _) = jobs(text(line, &reading).unwrap()).unwrap();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].id, "1");
}

/// One job in a table of these names and this delimiter.
fn one(header: &str, line: &str, reading: &Reading) -> String {
    let text = text(&format!("{header}\n{line}\n"), reading).unwrap();
    let (records, damage) = jobs(text).unwrap();
    assert_eq!(damage.lines, 0, "{damage:?}");
    let [record] = records.as_slice() else {
        panic!("{records:?}");
    };
    shown(record, ZERO)
}

#[test]
fn any_columns_in_any_order_and_delimiter_are_read() {
    let plain = Reading::default();
    let (start, end) = ("2022-01-01T00:00:10", "2022-01-01T00:00:40");
    let expected = "7 @ - 10 40 4 - - Unknown";
    for (header, line) in [
        ("JobID|Start|End|NNodes", format!("7|{start}|{end}|4")),
        ("JobID|Start|End|NNodes|", format!("7|{start}|{end}|4|")),
        ("JobID|Start|End|NNodes|", format!("7|{start}|{end}|4")),
        ("JobID|Start|End|NNodes", format!("7|{start}|{end}|4|")),
        (
            "end|START|Elapsed|jobidraw|allocnodes",
            format!("{end}|{start}|00:00:30|7|4"),
        ),
        (
            "\u{feff}JobID;Start;End;NNodes\r",
            format!("7;{start};{end};4\r"),
        ),
        ("JobID,Start,End,NNodes", format!("7,{start},{end},4")),
        ("JobID\tStart\tEnd\tNNodes", format!("7\t{start}\t{end}\t4")),
        ("JobID^Start^End^NNodes", format!("7^{start}^{end}^4")),
        (
            "JobID|Start|End|NNodes",
            "7|1640995210|1640995240|4".to_owned(),
        ),
        (
            "JobID|Start|End|ReqNodes|NNodes",
            format!("7|{start}|{end}|4|0"),
        ),
        (
            "JobID|JobIDRaw|Start|End|NNodes",
            format!("7|8|{start}|{end}|4"),
        ),
    ] {
        assert_eq!(one(header, &line, &plain), expected, "{header}");
    }
    let line = format!("7|{start}|{end}|a[1-3],b");
    let listed = one("JobID|Start|End|NodeList", &line, &plain);
    assert_eq!(listed, "7 @ - 10 40 4 - a[1-3],b Unknown");
    let line = format!("7|{start}|{end}|4|90");
    let minutes = one("JobID|Start|End|NNodes|TimelimitRaw", &line, &plain);
    assert_eq!(minutes, "7 @ - 10 40 4 5400 - Unknown");
}

#[test]
fn the_name_of_a_job_may_hold_the_delimiter() {
    let plain = Reading::default();
    let times = "2022-01-01T00:00:10|2022-01-01T00:00:40";
    for (header, line) in [
        (
            "JobID|Start|End|User|NNodes|JobName",
            format!("7|{times}|ann|4|a|b||c"),
        ),
        (
            "JobID|JobName|Start|End|User|NNodes",
            format!("7|a|b||c|{times}|ann|4"),
        ),
        (
            "JobID|JobName|Start|End|User|NNodes|",
            format!("7|a|b||c|{times}|ann|4|"),
        ),
        (
            "JobID|Comment|Start|End|User|NNodes",
            format!("7|a|b|{times}|ann|4"),
        ),
        (
            "JobID|JobName|Start|End|SubmitLine|User|NNodes",
            format!("7|a|{times}|srun --wrap 'a | b'|ann|4"),
        ),
    ] {
        assert_eq!(
            one(header, &line, &plain),
            "7 ann@ - 10 40 4 - - Unknown",
            "{line}"
        );
    }
}

#[test]
fn tables_may_be_joined() {
    let line = "2022-01-01T00:00:10|2022-01-01T00:00:40";
    let log = format!(
        "JobID|Start|End|NNodes\n1|{line}|3\nJobID|Start|End|NNodes\n2|{line}|4\n\
         JobID|NNodes|Start|End\n3|5|{line}\n"
    );
    let (records, damage) = jobs(text(&log, &Reading::default()).unwrap()).unwrap();
    assert_eq!(damage.lines, 0, "{damage:?}");
    let nodes: Vec<u32> = records.iter().map(|record| record.nodes).collect();
    assert_eq!(nodes, [3, 4, 5]);
}

#[test]
fn dates_are_in_the_configured_zone() {
    let warsaw = Reading {
        time_zone: Some(TimeZone::get("Europe/Warsaw").unwrap()),
        ..Reading::default()
    };
    let header = "JobID|Start|End|NNodes";
    let winter = one(
        header,
        "7|2022-01-01T01:00:10|2022-01-01T01:00:40|4",
        &warsaw,
    );
    assert_eq!(winter, "7 @ - 10 40 4 - - Unknown");
    // Clocks went back at 3:00 on 30 October: the job ran for 20 minutes, not for -40.
    let (records, _) = jobs(
        text(
            &format!("{header}\n7|2022-10-30T02:50:00|2022-10-30T02:10:00|4\n"),
            &warsaw,
        )
        .unwrap(),
    )
    .unwrap();
    let ran = records[0].end.unwrap().since(records[0].start.unwrap());
    assert_eq!(ran.as_secs_f64(), 1200.0);
}

#[test]
fn times_of_another_notation_are_read_or_refused_with_the_remedy() {
    let row = |id: u32, from: &str, until: &str| {
        format!("{id}|a|ann|batch|{from}|{from}|{until}|COMPLETED|2|n[1-2]|01:00:00\n")
    };
    let table = |from: &str, until: &str| format!("{NAMES}\n{}", row(1, from, until));
    for (from, until) in [
        ("1640995200", "1640998800"),
        ("2022-01-01 00:00:00 +0000", "2022-01-01 01:00:00 +0000"),
        ("2022/01/01 00:00", "2022/01/01 01:00"),
        ("20220101T000000", "20220101T010000"),
        ("Sat Jan  1 00:00:00 2022", "Sat Jan  1 01:00:00 2022"),
        ("01-Jan-2022 12:00:00 AM", "01-Jan-2022 01:00:00 AM"),
    ] {
        let found = jobs(text(&table(from, until), &Reading::default()).unwrap()).unwrap();
        let found: Vec<String> = found.0.iter().map(|job| shown(job, ZERO)).collect();
        let expected = ["1 ann@batch 0 0 3600 2 3600 n[1-2] Completed"];
        assert_eq!(found, expected, "{from}");
    }
    for (from, until) in [
        ("Ystday 14:22", "Ystday 15:22"),
        ("14:22:31", "15:22:31"),
        ("Mon 14:22", "Tue 14:22"),
        ("3 Nov 14:22", "3 Nov 15:22"),
        ("3 Nov 2025", "4 Nov 2025"),
        ("03/11/2025 14:22:31", "03/11/2025 15:22:31"),
    ] {
        let log = text(&table(from, until), &Reading::default()).unwrap();
        let error = jobs(log).unwrap_err().to_string();
        let remedy = "SLURM_TIME_FORMAT=standard";
        assert!(error.contains(from) && error.contains(remedy), "{error}");
        // In a log with other times it is a damaged line.
        let good = row(2, "2022-01-01T00:00:00", "2022-01-01T01:00:00");
        let log = table(from, until) + &good;
        let (records, damage) = jobs(text(&log, &Reading::default()).unwrap()).unwrap();
        assert_eq!(
            (records.len(), located(&damage)),
            (1, vec!["2 column 5 (Submit)".to_owned()])
        );
    }
}

#[test]
fn damage_is_counted_with_line_and_field_or_refused() {
    let good =
        "1|a|u|p|2022-01-01T00:00:00|2022-01-01T00:00:10|2022-01-01T00:00:20|COMPLETED|1|n1|1";
    for (bad, place) in [
        ("1|a|u|p|2022-01-01T00:00:00", "line"),
        (
            "x|a|u|p|2022-01-01T00:00:00|2022-01-01T00:00:10|2022-01-01T00:00:20|COMPLETED|1|n1|1",
            "column 1 (JobID)",
        ),
        (
            "1|a|u|p|2022-02-30T00:00:00|2022-01-01T00:00:10|2022-01-01T00:00:20|COMPLETED|1|n1|1",
            "column 5 (Submit)",
        ),
        (
            "1|a|u|p|2022-01-01T00:00:00|soon|2022-01-01T00:00:20|COMPLETED|1|n1|1",
            "column 6 (Start)",
        ),
        (
            "1|a|u|p|2022-01-01T00:00:00|2022-01-01T00:00:10|2022-01-01T00:00:09|COMPLETED|1|n1|1",
            "column 7 (End)",
        ),
        (
            "1|a|u|p|2022-01-01T00:00:00|2022-01-01T00:00:10|Unknown|COMPLETED|1|n1|1",
            "column 7 (End)",
        ),
        (
            "1|a|u|p|2022-01-01T00:00:00|2022-01-01T00:00:10|2022-01-01T00:00:20|done?|1|n1|1",
            "column 8 (State)",
        ),
        (
            "1|a|u|p|2022-01-01T00:00:00|2022-01-01T00:00:10|2022-01-01T00:00:20|COMPLETED|-1|n1|1",
            "column 9 (NNodes)",
        ),
        (
            "1|a|u|p|2022-01-01T00:00:00|2022-01-01T00:00:10|2022-01-01T00:00:20|COMPLETED|1|n[1-|1",
            "column 10 (NodeList)",
        ),
        (
            "1|a|u|p|2022-01-01T00:00:00|2022-01-01T00:00:10|2022-01-01T00:00:20|COMPLETED|1|n1|long",
            "column 11 (Timelimit)",
        ),
    ] {
        let log = format!("{NAMES}\n{good}\n{bad}\n{good}\n");
        let (records, damage) = jobs(text(&log, &Reading::default()).unwrap()).unwrap();
        assert_eq!(records.len(), 2, "{bad}");
        assert_eq!(located(&damage), [format!("3 {place}")], "{bad}");
        let strict = Reading {
            strict: true,
            ..as_format(Format::Sacct)
        };
        let error = jobs(text(&log, &strict).unwrap()).unwrap_err().to_string();
        let expected = format!("log: line 3, {place}: expected ");
        assert!(error.starts_with(&expected), "{error}");
    }
}

#[test]
fn a_table_that_cannot_be_read_names_its_missing_columns() {
    let refused = |log: &str, columns: Option<&str>| {
        let reading = Reading {
            columns: columns.map(str::to_owned),
            ..Reading::default()
        };
        text(log, &reading).err().unwrap().to_string()
    };
    let line = "7|2022-01-01T00:00:10|2022-01-01T00:00:40|4\n";
    let error = refused(line, None);
    assert!(error.starts_with("log: cannot be read as sacct: its first line does not name"));
    assert!(error.contains("--columns jobid,"), "{error}");
    let aligned = "       JobID    State\n------------ --------\n7            RUNNING\n";
    let error = refused(aligned, None);
    assert!(
        error.ends_with("print it with sacct --parsable2"),
        "{error}"
    );
    let error = refused("JobID|State|User\n1|COMPLETED|ann\n", None);
    let lacks = "the columns lack Start, End, one of NNodes, NodeList and AllocNodes";
    assert!(error.ends_with(lacks), "{error}");
    let error = refused(line, Some("jobid,start,end,state"));
    assert!(
        error.ends_with("the columns lack one of NNodes, NodeList and AllocNodes"),
        "{error}"
    );
}

/// Names of the sample's columns, which has no header line.
const SAMPLE: &str = "jobid|jobidraw|cluster|partition|qos|account|group|gid|user|uid|submit|eligible|\
     start|end|elapsed|exitcode|state|nnodes|ncpus|reqcpus|reqmem|reqtres|alloctres|timelimit|\
     nodelist|jobname";

#[test]
fn three_days_of_a_centre_are_read_whole() {
    let path = or_skip!(data("samples/sacct/pozidriv-sacct-parsable2.log.gz"));
    let error = Log::open(&path, &Reading::default())
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("--columns"), "{error}");
    let reading = Reading {
        columns: Some(SAMPLE.to_owned()),
        strict: true,
        ..Reading::default()
    };
    let log = Log::open(&path, &reading).unwrap();
    assert_eq!(log.format(), Format::Sacct);
    let (records, _) = jobs(log).unwrap();

    // The same by the positions of the columns alone. The elapsed time that Slurm prints is the end
    // minus the start.
    let mut plain = String::new();
    std::io::Read::read_to_string(&mut lacuna_trace::open(&path).unwrap(), &mut plain).unwrap();
    let (mut lines, mut started, mut completed, mut node_seconds) = (0, 0, 0, 0);
    for line in plain.lines() {
        let cells: Vec<&str> = line.split('|').collect();
        lines += 1;
        completed += u64::from(cells[16] == "COMPLETED");
        if cells[24] != "None assigned" {
            started += 1;
            let (days, clock) = cells[14].split_once('-').unwrap_or(("0", cells[14]));
            let mut seconds: i64 = days.parse().unwrap();
            for (part, base) in clock.split(':').zip([24, 60, 60]) {
                seconds = seconds * base + part.parse::<i64>().unwrap();
            }
            node_seconds += seconds * cells[17].parse::<i64>().unwrap();
        }
    }
    assert_eq!((lines, records.len()), (11_704, 11_704));
    let ran = |record: &&JobRecord| record.start.is_some();
    assert_eq!(records.iter().filter(ran).count(), started);
    assert!(started < lines, "the sample has jobs that never started");
    let found: i64 = records
        .iter()
        .filter(ran)
        .map(|job| job.end.unwrap().since(job.start.unwrap()).as_ms() / 1000 * i64::from(job.nodes))
        .sum();
    assert_eq!(found, node_seconds);
    let done = records
        .iter()
        .filter(|job| job.outcome == JobOutcome::Completed)
        .count();
    assert_eq!(done as u64, completed);
    let mut nodes = std::collections::BTreeSet::new();
    for record in &records {
        hosts::expand(&record.hosts, &mut |host| {
            nodes.insert(host.to_owned());
        })
        .unwrap();
        if record.start.is_some() {
            assert_eq!(
                hosts::count(&record.hosts).unwrap(),
                record.nodes,
                "{}",
                record.id
            );
        }
    }
    assert_eq!(nodes.len(), 105);
}

#[test]
fn the_tables_of_a_live_cluster_are_read_whole() {
    for name in ["sacct_parsable2_D_X.txt", "sacct_parsable2_all.txt"] {
        let path = or_skip!(data(&format!("samples/slurm-22.05/{name}")));
        let reading = Reading {
            strict: true,
            ..Reading::default()
        };
        let Log::Jobs(mut log) = Log::open(&path, &reading).unwrap() else {
            panic!("jobs");
        };
        let mut record = JobRecord::default();
        let mut found = Vec::new();
        while log.read(&mut record).unwrap() {
            found.push(record.id.clone());
        }
        // Ids of steps contain a dot.
        let plain = std::fs::read_to_string(&path).unwrap();
        let names: Vec<&str> = plain.lines().next().unwrap().split('|').collect();
        let column = names.iter().position(|name| *name == "JobID").unwrap();
        let id = |line: &str| line.split('|').nth(column).unwrap().to_owned();
        let ids: Vec<String> = plain.lines().skip(1).map(id).collect();
        let jobs: Vec<&String> = ids.iter().filter(|id| !id.contains('.')).collect();
        assert_eq!(found.iter().collect::<Vec<_>>(), jobs, "{name}");
        assert_eq!(log.skipped(), (ids.len() - jobs.len()) as u64, "{name}");
    }
}

/// The jobs of a table, each as `id start end nodes hosts` with times in minutes of its day, and the
/// number of damaged lines.
fn shape(log: Log) -> (Vec<String>, u64) {
    let (records, damage) = jobs(log).unwrap();
    let minute = |time: Option<lacuna_model::Timestamp>| {
        time.map_or(-1, |time| (time.unix_seconds() as i64 % 86_400) / 60)
    };
    let one = |job: &JobRecord| {
        let (start, end) = (minute(job.start), minute(job.end));
        format!("{} {start} {end} {} {}", job.id, job.nodes, job.hosts)
    };
    (records.iter().map(one).collect(), damage.lines)
}

/// The jobs of the public cases, and of each table below.
const FOUR: [&str; 4] = [
    "100 480 600 2 n[1-2]",
    "101 510 570 2 n[3-4]",
    "102 600 720 4 n[1-4]",
    "103 750 840 4 n[1-4]",
];

#[test]
fn texts_of_users_with_line_ends_and_delimiters_cost_no_job() {
    for case in ["sacct-newline-text", "sacct-two-bars"] {
        let path = or_skip!(data(&format!("cases/{case}/input.txt")));
        let log = Log::open(&path, &Reading::default()).unwrap();
        assert_eq!(shape(log), (FOUR.map(str::to_owned).into(), 0), "{case}");
    }
}

#[test]
fn a_row_is_told_by_its_cells_wherever_texts_are_cut() {
    let day = "2025-11-28T";
    let (a, b, c) = (
        format!("{day}08:00:00|{day}10:00:00|COMPLETED|2|n[1-2]"),
        format!("{day}08:30:00|{day}09:30:00|COMPLETED|2|n[3-4]"),
        format!("{day}10:00:00|{day}12:00:00|COMPLETED|4|n[1-4]"),
    );
    let d = format!("{day}12:30:00|{day}14:00:00|COMPLETED|4|n[1-4]");
    // One text in front of the typed columns, and one behind them.
    for (name, comment) in [
        ("b\nc", ""),
        ("b|c\nd|e", "x\ny"),
        ("\n\n", "x|y\n\nz"),
        ("one\n2 && 3\n100", "x\ny\nz"),
        ("a|b|c|d|e|f|g|h\ni", "k=1|l=2"),
        ("cat <<E\r\n12|x\r\nE", "x\r\ny"),
        ("7|2025\n8", "COMPLETED|2|n1"),
    ] {
        for open in ["", "|"] {
            let table = format!(
                "JobID|JobName|Start|End|State|NNodes|NodeList|Comment{open}\n\
                 100|a|{a}|{open}\n\
                 101|{name}|{b}|{comment}{open}\n\
                 102|{name}|{c}|{comment}{open}\n\
                 103|d|{d}|{open}\n"
            );
            let log = text(&table, &Reading::default()).unwrap();
            let expected = (FOUR.map(str::to_owned).to_vec(), 0);
            assert_eq!(shape(log), expected, "{table}");
        }
    }
}

#[test]
fn a_torn_row_takes_no_row_behind_it() {
    let row = |id: u32| {
        format!("{id}|sbatch a.sh|2025-11-28T08:00:00|2025-11-28T10:00:00|COMPLETED|2|n[1-2]\n")
    };
    let header = "JobID|SubmitLine|Start|End|State|NNodes|NodeList\n";
    for torn in ["100|sba", "100|sbatch a.sh|2025-11", "1"] {
        let table = format!("{header}{torn}\n{}{torn}\n{}{torn}", row(101), row(102));
        let (found, damaged) = shape(text(&table, &Reading::default()).unwrap());
        assert_eq!((found.len(), damaged), (2, 3), "{table}");
    }
}

#[test]
fn a_row_with_two_meanings_is_counted() {
    // Each of the two lists of hosts may be the column, or a part of the comment.
    let table = "JobID|Comment|NodeList|JobName|Start|End\n\
                 7|x|a1|b1|c|2025-11-28T08:00:00|2025-11-28T10:00:00\n";
    let Log::Jobs(mut log) = text(table, &Reading::default()).unwrap() else {
        panic!("jobs");
    };
    let mut record = JobRecord::default();
    assert!(log.read(&mut record).unwrap());
    assert_eq!((record.id.as_str(), log.damage().doubtful), ("7", 1));
    assert_eq!(log.damage().lines, 0);
}

#[test]
fn one_cluster_of_several_is_read_and_none_is_hidden() {
    let path = or_skip!(data("cases/sacct-two-clusters/input.txt"));
    let error = jobs(Log::open(&path, &Reading::default()).unwrap()).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("clusters east, west"), "{error}");
    assert!(error.contains("--cluster east"), "{error}");
    let of = |cluster: &str| {
        let reading = Reading {
            cluster: Some(cluster.to_owned()),
            ..Reading::default()
        };
        jobs(Log::open(&path, &reading).unwrap())
    };
    let ids = |cluster| -> Vec<String> {
        let (records, damage) = of(cluster).unwrap();
        assert_eq!(damage.lines, 0);
        records.into_iter().map(|job| job.id).collect()
    };
    assert_eq!(ids("west"), ["100", "101", "102", "103"]);
    assert_eq!(ids("east"), ["200"]);
    let error = of("north").unwrap_err().to_string();
    assert!(error.contains("of east, west"), "{error}");
}

#[test]
fn a_document_of_json_is_answered_by_the_table_to_print() {
    let Err(error) = text("{\n  \"jobs\": []\n}\n", &Reading::default()) else {
        panic!("read");
    };
    assert!(error.to_string().contains("sacct --allusers"), "{error}");
}
