//! Damaged logs never stop a parser: each damaged line is a record or is refused with its place.
//!
//! Each test damages `LACUNA_FUZZ_CASES` lines, 20,000 if it is not set. A million lines:
//! `LACUNA_FUZZ_CASES=1000000 cargo test --release -p lacuna-trace --test all fuzz:: -- --nocapture`.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests may panic"
)]

use lacuna_records::hosts;
use lacuna_trace::{Format, HoleList, JobRecord, Log, Reading, Window, event_batches};

use crate::mutate::{self, Lines, Mutator, as_format, cases, located, log, open, real};

fn lines(text: &str) -> Vec<Vec<u8>> {
    text.lines().map(|line| line.as_bytes().to_vec()).collect()
}

const SWF: &str = "\
1 0 10 100 16 -1 -1 16 3600 -1 1 7 1 -1 2 -1 -1 -1
2 20 0 60 -1 -1 -1 17 -1 -1 0 8 1 -1 -1 -1 -1 -1
3 30 5 -1 -1 -1 -1 8 600 -1 5 -1 1 -1 2 -1 -1 -1
6 60 1.5 0.25 400 12.5 -1 -1 90.5 -1 -1 9 1 -1 2 -1 -1 -1";

/// Partial executions, which remember what came before; and comments.
const SWF_PARTS: &str = "\
; Computer: another
; MaxNodes: 7
; UnixStartTime: 99
8 80 10 20 8 -1 -1 8 600 -1 2 9 1 -1 2 -1 -1 -1
8 -1 15 30 8 -1 -1 8 600 -1 2 9 1 -1 2 -1 -1 -1
8 -1 15 30 8 -1 -1 8 600 -1 4 9 1 -1 2 -1 -1 -1
8 80 10 20 8 -1 -1 8 600 -1 1 9 1 -1 2 -1 -1 -1";

#[test]
fn swf() {
    let mut good = lines(SWF);
    good.extend(
        real("theta-2022/theta_2022.swf.gz", 2000)
            .into_iter()
            .filter(|l| l[0] != b';'),
    );
    let head: [&[u8]; 3] = [
        b"; UnixStartTime: 5",
        b"; MaxNodes: 4360",
        b"; MaxProcs: 278528",
    ];
    mutate::jobs(
        "swf",
        &as_format(Format::Swf),
        &head,
        &good,
        b" \t",
        Lines::Alone,
    );
    good.extend(lines(SWF_PARTS));
    mutate::jobs(
        "swf in parts",
        &as_format(Format::Swf),
        &[],
        &good,
        b" :",
        Lines::Together,
    );
}

const SACCT: &str = "\
100|a|ann|batch|2022-01-01T00:00:00|2022-01-01T00:00:10|2022-01-01T01:00:10|COMPLETED|2|n[1-2]|01:00:00
101_4|b|bob|batch|2022-01-01T00:00:00|2022-01-01T00:00:20|2022-01-02T00:00:20|TIMEOUT|1|n3|1-00:00:00
101_[5-9%2]|b|bob|batch|2022-01-01T00:00:00|Unknown|Unknown|PENDING|1|None assigned|1-00:00:00
102+0|c|ann|gpu|2022-01-01T00:00:00|2022-01-01T00:01:00|2022-01-01T00:02:00|FAILED|2K|n[1-2048]|UNLIMITED
103|d|cy|batch|2022-01-01T01:01:00|2022-01-01T01:10:00|Unknown|RUNNING|1|n[08-09]|00:30:00
104|e|cy|batch|2022-01-01T00:00:00|2022-01-01T00:05:00|2022-01-01T00:05:00|CANCELLED by 1500|4|None assigned|00:30:00
105|e|cy|batch|2022-01-01T00:00:00|None|2022-01-01T00:05:00|CANCELLED by 1500|4||00:30:00
107|f|cy|batch|2022-10-30T00:00:00|2022-10-30T02:50:00|2022-10-30T02:10:00|OUT_OF_MEMORY|1|n1|00:30:00";

const SACCT_NAMES: &str =
    "JobID|JobName|User|Partition|Submit|Start|End|State|NNodes|NodeList|Timelimit";

/// Names of the columns of the sample, which has no header line.
const RECORDING: &str = "jobid|jobidraw|cluster|partition|qos|account|group|gid|user|uid|submit|eligible|start|\
    end|elapsed|exitcode|state|nnodes|ncpus|reqcpus|reqmem|reqtres|alloctres|timelimit|nodelist|\
    jobname";

#[test]
fn sacct() {
    let reading = Reading {
        time_zone: Some(jiff::tz::TimeZone::get("Europe/Warsaw").unwrap()),
        ..as_format(Format::Sacct)
    };
    let head = [SACCT_NAMES.as_bytes()];
    mutate::jobs(
        "sacct",
        &reading,
        &head,
        &lines(SACCT),
        b"|-:[], ",
        Lines::Alone,
    );
    let good = real("samples/sacct/pozidriv-sacct-parsable2.log.gz", 2000);
    if !good.is_empty() {
        let named = Reading {
            columns: Some(RECORDING.to_owned()),
            // A damaged name of a cluster would be a second one.
            cluster: Some("pozidriv".to_owned()),
            ..reading.clone()
        };
        // The first line gives the delimiter, so it must be a good one.
        let head = [good[0].as_slice()];
        mutate::jobs(
            "sacct of a centre",
            &named,
            &head,
            &good,
            b"|-:",
            Lines::Alone,
        );
    }
    for name in ["sacct_parsable2_D_X.txt", "sacct_parsable2_all.txt"] {
        let good = real(&format!("samples/slurm-22.05/{name}"), 2000);
        if let [head, good @ ..] = good.as_slice() {
            let has_cluster = head.windows(8).any(|part| part == b"|Cluster");
            let named = Reading {
                cluster: has_cluster.then(|| "demo".to_owned()),
                ..reading.clone()
            };
            mutate::jobs(name, &named, &[head], good, b"|-:", Lines::Alone);
        }
    }
}

#[test]
fn headers_of_tables() {
    let names = lines(&format!(
        "{SACCT_NAMES}\n{RECORDING}\nJobID,Start,End,NNodes\nend;START;jobidraw;nodelist"
    ));
    let mut mutator = Mutator::new("headers of tables", &names, b"|,;");
    let (mut read, mut refused, mut line) = (0_u64, 0_u64, Vec::new());
    let data = lines(SACCT);
    // Each header is a log of its own.
    while read + refused < cases() / 4 {
        mutator.line(&mut line);
        let mut table = vec![line.clone()];
        table.extend_from_slice(&data);
        let by_names = mutator.random().below(2) == 0;
        let columns = by_names.then(|| String::from_utf8_lossy(&table.remove(0)).into_owned());
        let reading = Reading {
            columns,
            ..as_format(Format::Sacct)
        };
        match open(&log(&table), &reading) {
            Ok(Log::Jobs(mut jobs)) => {
                let mut record = JobRecord::default();
                while jobs.read(&mut record).unwrap() {}
                located(jobs.damage(), table.len() as u64);
                read += 1;
            }
            Ok(Log::Holes(_)) => panic!("jobs"),
            Err(error) => {
                assert!(
                    error
                        .to_string()
                        .starts_with("fuzz: cannot be read as sacct: "),
                    "{error}"
                );
                refused += 1;
            }
        }
    }
    println!("headers of tables: {read} read, {refused} refused");
    assert!(read > 0 && refused > 0);
}

/// Lines of a log of nodes.
const LINES: u64 = 16;

/// Reads damaged logs of nodes, as [`mutate::jobs`] does those of jobs.
fn nodes(test: &str, format: Format, head: &str, good: &[Vec<u8>]) {
    let mut mutator = Mutator::new(test, good, b",T:.");
    let (mut made, mut records, mut damaged) = (0, 0, 0);
    let mut line = Vec::new();
    while made < cases() {
        let mut text = lines(head);
        // Short, since all times after an enlarged one go back.
        for _ in 0..LINES {
            mutator.line(&mut line);
            text.push(line.clone());
        }
        made += LINES;
        let text = log(&text);
        let Log::Holes(mut holes) = open(&text, &as_format(format)).unwrap() else {
            panic!("holes");
        };
        let found: Vec<_> = holes.by_ref().map(Result::unwrap).collect();
        assert!(holes.next().is_none());
        let damage = holes.damage();
        located(damage, LINES + 1);
        assert_eq!(
            (holes.lines(), holes.bytes()),
            (LINES + 1, text.len() as u64)
        );
        assert!(found.len() as u64 + damage.lines <= LINES);
        if format == Format::NodeStates {
            assert!(found.iter().all(|hole| hole.from < hole.until));
        }
        // The next step must accept any holes, too.
        let count = found.len() as u64;
        let whole = found.into_iter().map(Ok::<_, std::convert::Infallible>);
        let Ok(list) = HoleList::collect(whole);
        assert_eq!(list.records.len() as u64 + list.refused.total(), count);
        let _ = event_batches(&list.records, &[], None, Window::default());
        records += count;
        damaged += damage.lines;

        let strict = Reading {
            strict: true,
            ..as_format(format)
        };
        let Log::Holes(holes) = open(&text, &strict).unwrap() else {
            panic!("holes");
        };
        assert_eq!(
            holes.filter(Result::is_err).count() as u64,
            damage.lines.min(1)
        );
    }
    println!("{test}: {made} damaged lines, {records} holes, {damaged} refused");
    assert!(records > 0 && damaged > 0);
}

#[test]
fn holes() {
    let mut good = lines("n1,10,20,0\nn2, 11.5 ,30,1\nr0n03,1612918128,1612918188,0");
    good.extend(
        real("summit-2021-02/holes.csv.gz", 2000)
            .into_iter()
            .skip(1),
    );
    nodes(
        "holes",
        Format::Holes,
        "node,idle_from,idle_until,censored",
        &good,
    );
}

#[test]
fn node_states() {
    let good = lines(
        "0,n1,idle\n10,n2,busy\n10.5,n2,IDLE+DRAIN\n1970-01-01T00:00:11Z,n3,free\n12,n3,job-busy\n\
         13,n1,\"down,offline\"\n14,n2,idle*\n15,n4,closed_Full\n16,n4,ok\n16,n1,idle\n17,n2,idle",
    );
    nodes("node states", Format::NodeStates, "time,node,state", &good);
}

#[test]
fn lists_of_hosts() {
    let good =
        lines("n1\nn[1-4,7],login\nr[0-1]n[00-03]\nn[098-101,1]x,m2\ncpn-f15-[27,30],a[1-2][3-4]b");
    let mut mutator = Mutator::new("lists of hosts", &good, b",[]-");
    let (mut whole, mut refused, mut line) = (0_u64, 0_u64, Vec::new());
    for _ in 0..cases() {
        mutator.line(&mut line);
        let list = String::from_utf8_lossy(&line);
        let mut expanded = 0_u32;
        match hosts::count(&list) {
            // The largest lists would take most of the time.
            Ok(count) if count > 10_000 => whole += 1,
            Ok(count) => {
                hosts::expand(&list, &mut |_| expanded += 1).unwrap();
                assert_eq!(expanded, count, "{list}");
                whole += 1;
            }
            Err(_) => {
                assert!(
                    hosts::expand(&list, &mut |_| expanded += 1).is_err(),
                    "{list}"
                );
                assert_eq!(expanded, 0, "{list}");
                refused += 1;
            }
        }
    }
    println!("lists of hosts: {whole} whole, {refused} refused");
    assert!(whole > 0 && refused > 0);
}

#[test]
fn first_lines_and_packed_logs() {
    let mut good = lines(&format!(
        "{SWF}\n{SACCT}\n{SACCT_NAMES}\ntime,node,state\n0,n1,idle"
    ));
    good.push(b"node,idle_from,idle_until,censored".to_vec());
    let mut mutator = Mutator::new("first lines and packed logs", &good, b"| ,;");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let (mut opened, mut refused) = (0_u64, 0_u64);
    let mut line = Vec::new();
    // Files take longer than lines.
    for round in 0..cases() / 20 {
        let mut text = Vec::new();
        for _ in 0..mutator.random().below(8) {
            mutator.line(&mut line);
            text.push(line.clone());
        }
        let mut bytes = text.join(&b'\n');
        if round % 2 == 0 {
            bytes = zstd::encode_all(bytes.as_slice(), 1).unwrap();
        }
        for _ in 0..mutator.random().below(8).saturating_sub(5) {
            let at = mutator.random().below(bytes.len());
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << (round % 8);
            }
            bytes.truncate(bytes.len() - mutator.random().below(3).min(bytes.len()));
        }
        std::fs::write(&path, &bytes).unwrap();
        match Log::open(&path, &Reading::default()) {
            Ok(Log::Jobs(mut jobs)) => {
                let mut record = JobRecord::default();
                while jobs.read(&mut record).unwrap_or(false) {}
                opened += 1;
            }
            Ok(Log::Holes(mut holes)) => {
                opened += 1;
                let failed = holes.by_ref().filter(Result::is_err).count();
                assert!(failed <= 1);
            }
            Err(_) => refused += 1,
        }
    }
    println!("first lines and packed logs: {opened} opened, {refused} refused");
    assert!(opened > 0 && refused > 0);
}
