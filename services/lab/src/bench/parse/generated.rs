//! Synthetic logs for measurement: the text of SWF and of a wide sacct table.

use std::fmt::Write as _;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// 2022-01-01 UTC.
const START: i64 = 1_640_995_200;

/// A synthetic job, times in seconds after the start of the log.
struct Job {
    submit: i64,
    start: i64,
    end: i64,
    nodes: u32,
    walltime: i64,
    user: u32,
}

fn job(rng: &mut ChaCha8Rng, submit: &mut i64) -> Job {
    *submit += rng.random_range(1..120);
    let start = *submit + rng.random_range(0..40_000);
    let walltime = 600 * rng.random_range(1..=144);
    Job {
        submit: *submit,
        start,
        end: start + rng.random_range(1..=walltime),
        nodes: 1 << rng.random_range(0..10),
        walltime,
        user: rng.random_range(0..900),
    }
}

/// An SWF log of about `bytes` bytes.
#[must_use]
pub(super) fn swf(bytes: usize, seed: u64) -> String {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut text = String::with_capacity(bytes + 256);
    let _ = writeln!(
        text,
        "; UnixStartTime: {START}\n; MaxNodes: 4360\n; MaxProcs: 4360"
    );
    let (mut number, mut submit) = (0_u64, 0);
    while text.len() < bytes {
        number += 1;
        let job = job(&mut rng, &mut submit);
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{number} {} {} {} {nodes} -1 -1 {nodes} {} -1 1 {} -1 -1 1 -1 -1 -1",
            job.submit,
            job.start - job.submit,
            job.end - job.start,
            job.walltime,
            job.user,
            nodes = job.nodes,
        );
    }
    text
}

/// `2022-03-17T12:00:00`, as Slurm writes times.
fn time(seconds: i64) -> impl std::fmt::Display {
    let at = jiff::Timestamp::from_second(START + seconds).unwrap_or_default();
    at.strftime("%Y-%m-%dT%H:%M:%S").to_string()
}

/// A table of `sacct --parsable2` of about `bytes` bytes. The parser uses half of its columns.
#[must_use]
pub(super) fn sacct(bytes: usize, seed: u64) -> String {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut text = String::with_capacity(bytes + 512);
    text.push_str(
        "JobID|JobIDRaw|Cluster|Partition|QOS|Account|Group|GID|User|UID|Submit|Eligible|Start|\
         End|Elapsed|ExitCode|State|NNodes|NCPUS|ReqCPUS|ReqMem|ReqTRES|AllocTRES|Timelimit|\
         NodeList|JobName\n",
    );
    let (mut number, mut submit) = (0_u64, 0);
    while text.len() < bytes {
        number += 1;
        let job = job(&mut rng, &mut submit);
        let (elapsed, first) = (job.end - job.start, rng.random_range(1000..3000));
        let (nodes, cpus) = (job.nodes, job.nodes * 12);
        let submitted = time(job.submit);
        let _ = writeln!(
            text,
            "{number}|{number}|cluster|batch|normal|physics|physics|45550|user{user}|{uid}|\
             {submitted}|{submitted}|{}|{}|{:02}:{:02}:{:02}|0:0|COMPLETED|{nodes}|{cpus}|{cpus}|\
             48000Mn|cpu={cpus},mem=48000M,node={nodes}|billing={cpus},cpu={cpus},node={nodes}|\
             {}-{:02}:{:02}:00|cn[{first}-{last}]|simulation-{number}",
            time(job.start),
            time(job.end),
            elapsed / 3600,
            elapsed / 60 % 60,
            elapsed % 60,
            job.walltime / 86_400,
            job.walltime / 3600 % 24,
            job.walltime / 60 % 60,
            user = job.user,
            uid = 290_000 + job.user,
            last = first + nodes - 1,
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;
    use std::path::Path;

    use lacuna_trace::{JobRecord, Log, Reading};

    #[test]
    fn every_generated_line_is_a_record() {
        for (text, format) in [
            (super::swf(50_000, 3), "swf"),
            (super::sacct(50_000, 3), "sacct"),
        ] {
            let lines = text.lines().filter(|line| !line.starts_with(';')).count();
            let expected = if format == "sacct" { lines - 1 } else { lines };
            let stream = Box::new(Cursor::new(text.into_bytes()));
            let reading = Reading {
                strict: true,
                ..Reading::default()
            };
            let Log::Jobs(mut log) = Log::from_stream(Path::new("x"), stream, &reading).unwrap()
            else {
                panic!("{format} has jobs");
            };
            assert_eq!(log.format().name(), format);
            let mut record = JobRecord::default();
            let mut records = 0;
            while log.read(&mut record).unwrap() {
                let (Some(submit), Some(start)) = (record.submit, record.start) else {
                    panic!("{record:?}");
                };
                assert!(submit <= start && Some(start) < record.end, "{record:?}");
                assert!(record.nodes >= 1 && record.walltime.is_some(), "{record:?}");
                records += 1;
            }
            assert_eq!(records, expected, "{format}");
        }
    }
}
