//! Speed of reading logs, plain and in memory, into one record that is reused. The baseline counts
//! the lines of the same bytes.

use std::fmt::Write;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use lacuna_trace::{HoleList, HoleReader, JobRecord, Log, Reading, Window, event_batches};

/// Jobs a log.
const JOBS: u32 = 50_000;

fn swf() -> String {
    let mut log = String::from("; UnixStartTime: 1640995200\n; MaxNodes: 4360\n; MaxProcs: 4360\n");
    for job in 1..=JOBS {
        let (submit, wait) = (job * 137, job % 50_021);
        let (run, nodes) = (job % 21_599, 128 << (job % 5));
        let _ = writeln!(
            log,
            "{job} {submit} {wait} {run} {nodes} -1 -1 {nodes} 21600 -1 1 {} -1 -1 1 -1 -1 -1",
            job % 300
        );
    }
    log
}

/// A table with the columns that centres keep, of which half are used.
const NAMES: &str = "JobID|JobIDRaw|Cluster|Partition|QOS|Account|Group|GID|User|UID|Submit|\
    Eligible|Start|End|Elapsed|ExitCode|State|NNodes|NCPUS|ReqCPUS|ReqMem|ReqTRES|AllocTRES|\
    Timelimit|NodeList|JobName\n";

fn sacct() -> String {
    let mut log = String::from(NAMES);
    for job in 1..=JOBS {
        let (day, hour, minute) = (1 + job % 28, job % 23, job % 60);
        let nodes = 1 + job % 9;
        let _ = writeln!(
            log,
            "{job}|{job}|cluster|batch|normal|physics|physics|45550|user{}|294703|\
             2022-03-{day:02}T{hour:02}:{minute:02}:10|2022-03-{day:02}T{hour:02}:{minute:02}:10|\
             2022-03-{day:02}T{hour:02}:{minute:02}:34|2022-03-{day:02}T23:{minute:02}:56|05:40:22|\
             0:0|COMPLETED|{nodes}|{}|{}|48000Mn|cpu=12,mem=48000M,node={nodes}|\
             billing=12,cpu=12,mem=48000M,node={nodes}|1-00:00:00|cn[{}-{}]|simulation-{job}",
            job % 300,
            nodes * 12,
            nodes * 12,
            1000 + job % 900,
            999 + job % 900 + nodes,
        );
    }
    log
}

/// A sample, unpacked; `None` without the sample. A table without a header gets one.
fn recording(name: &str) -> Option<Vec<u8>> {
    let folder = std::env::var_os("LACUNA_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let mut log = Vec::new();
    if name.contains("sacct") {
        log.extend_from_slice(NAMES.as_bytes());
    }
    let mut stream = lacuna_trace::open(&folder.join(name)).ok()?;
    stream.read_to_end(&mut log).ok()?;
    Some(log)
}

/// Reads a whole log. Returns the node-seconds of its jobs, so that no read is optimised away.
fn read(log: &Arc<[u8]>) -> f64 {
    let stream = Box::new(Cursor::new(Arc::clone(log)));
    let Ok(Log::Jobs(mut log)) = Log::from_stream(Path::new("bench"), stream, &Reading::default())
    else {
        return f64::NAN;
    };
    let mut record = JobRecord::default();
    let mut total = 0.0;
    while log.read(&mut record).unwrap_or(false) {
        if let (Some(start), Some(end)) = (record.start, record.end) {
            total += end.since(start).as_secs_f64() * f64::from(record.nodes);
        }
    }
    assert!(log.damage().lines == 0, "{:?}", log.damage());
    total
}

fn logs(c: &mut Criterion) {
    let mut group = c.benchmark_group("parse");
    let recordings = [
        ("swf-theta", "theta-2022/theta_2022.swf.gz"),
        (
            "sacct-centre",
            "samples/sacct/pozidriv-sacct-parsable2.log.gz",
        ),
    ];
    let made = [("swf", swf()), ("sacct", sacct())];
    let made = made.map(|(name, log)| (name, log.into_bytes()));
    let recorded = recordings
        .into_iter()
        .filter_map(|(name, path)| Some((name, recording(path)?)));
    for (name, log) in made.into_iter().chain(recorded) {
        let log: Arc<[u8]> = Arc::from(log);
        assert!(read(&log) > 0.0, "{name} is read");
        group.throughput(Throughput::Bytes(log.len() as u64));
        group.bench_with_input(BenchmarkId::new("records", name), &log, |b, log| {
            b.iter(|| read(log));
        });
        group.bench_with_input(BenchmarkId::new("line-count", name), &log, |b, log| {
            b.iter(|| memchr::memchr_iter(b'\n', log).count());
        });
    }
    group.finish();
}

fn holes(c: &mut Criterion) {
    let mut text = String::from("node,idle_from,idle_until,censored\n");
    for i in 0..100_000_u32 {
        let from = 1_612_918_128 + i / 4 * 13;
        let until = from + 60 + i % 900;
        text += &format!("h{}n{:02},{from},{until},0\n", i % 256, i % 18);
    }
    let read = || HoleReader::new(Path::new("bench"), text.as_bytes()).and_then(HoleList::collect);
    let mut group = c.benchmark_group("holes");
    group.throughput(Throughput::Elements(100_000));
    group.bench_function("read", |b| b.iter(read));
    if let Ok(list) = read() {
        let window = Window::default();
        group.bench_function("event_batches", |b| {
            b.iter(|| event_batches(&list.records, &[], None, window))
        });
    }
    group.finish();
}

criterion_group!(benches, logs, holes);
criterion_main!(benches);
