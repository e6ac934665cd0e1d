//! `lacuna-lab generate --swf`: a workload as a log, of any length in constant memory.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use lacuna_batchsim::BatchJob;
use lacuna_batchsim::workload::{Workload, jobs};
use lacuna_cli::error::{CliError, Result};
use lacuna_cli::files::{not_a_file, replace};
use lacuna_cli::log::Bar;

/// Second 0 of the workload: midnight of Monday, 6 January 2025, UTC.
const ORIGIN_S: i64 = 1_736_121_600;

const DAY_S: i64 = 86_400;

/// The result of writing a workload.
pub(super) struct Written {
    /// Number of jobs.
    pub(super) jobs: u64,
    /// Time of the last submission, Unix seconds.
    pub(super) last_s: i64,
}

/// Writes the workload in Standard Workload Format, compressed if the name ends in .gz. It has
/// `count` jobs, or those of the workload's days. A temporary file is written, then renamed.
///
/// # Errors
/// The machine is invalid, or the file cannot be written.
pub(super) fn write(
    path: &Path,
    workload: &Workload,
    count: Option<u64>,
    bar: &mut Bar,
) -> Result<Written> {
    let drawn = jobs(workload).map_err(|e| CliError::failed(e.to_string()))?;
    let end = i64::from(workload.days) * DAY_S;
    let wanted = drawn
        .take(count.map_or(usize::MAX, |count| count as usize))
        .take_while(|job| count.is_some() || job.submit < end);
    let mut written = Written {
        jobs: 0,
        last_s: ORIGIN_S,
    };
    replace(path, |half| {
        let file = BufWriter::with_capacity(1 << 20, File::create(half)?);
        let zipped = path.extension().is_some_and(|e| e == "gz");
        let file = if zipped {
            let mut stream = GzEncoder::new(file, Compression::fast());
            lines(&mut stream, workload, wanted, &mut written, path, bar)?;
            stream.finish()?
        } else {
            let mut stream = file;
            lines(&mut stream, workload, wanted, &mut written, path, bar)?;
            stream
        };
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all().or_else(not_a_file)
    })?;
    Ok(written)
}

fn lines(
    stream: &mut dyn Write,
    workload: &Workload,
    jobs: impl Iterator<Item = BatchJob>,
    written: &mut Written,
    path: &Path,
    bar: &mut Bar,
) -> io::Result<()> {
    let nodes = workload.nodes;
    write!(
        stream,
        "; Version: 2.2\n\
         ; Computer: generated machine of {nodes} nodes\n\
         ; UnixStartTime: {ORIGIN_S}\n\
         ; MaxNodes: {nodes}\n\
         ; MaxProcs: {nodes}\n\
         ; Note: model of Lublin and Feitelson (JPDC 63, 2003), seed {}, wanted utilisation {}\n\
         ; Note: a workload before it is scheduled: waiting times are not known\n",
        workload.seed, workload.utilisation
    )?;
    for job in jobs {
        // Number, submission, wait, run time, processors, CPU time, memory; the requested
        // processors, CPU time and memory; status, user, group, program, queue, partition, earlier
        // job, think time.
        writeln!(
            stream,
            "{} {} -1 {} {} -1 -1 {} {} -1 1 -1 -1 -1 -1 -1 -1 -1",
            job.id, job.submit, job.runtime, job.nodes, job.nodes, job.walltime
        )?;
        written.jobs += 1;
        written.last_s = ORIGIN_S.saturating_add(job.submit);
        if written.jobs.is_multiple_of(65_536) {
            bar.writing(path, written.jobs);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use lacuna_trace::{JobRecord, Log, Reading};

    #[test]
    fn a_written_workload_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let workload = Workload {
            nodes: 64,
            days: 2,
            seed: 3,
            utilisation: 0.8,
        };
        println!("seed {}", workload.seed);
        let expected: Vec<BatchJob> = jobs(&workload).unwrap().take(500).collect();
        for name in ["a.swf", "a.swf.gz"] {
            let path = dir.path().join(name);
            let mut bar = Bar::new(true);
            let written = write(&path, &workload, Some(500), &mut bar).unwrap();
            assert_eq!(written.jobs, 500);
            let Log::Jobs(mut log) = Log::open(&path, &Reading::default()).unwrap() else {
                panic!("not a log of jobs")
            };
            let mut record = JobRecord::default();
            let mut last = 0;
            for job in &expected {
                assert!(log.read(&mut record).unwrap());
                let submit = record.submit.unwrap().unix_ms() / 1000;
                last = submit;
                assert_eq!(submit, ORIGIN_S + job.submit);
                assert_eq!(record.nodes, job.nodes);
                let walltime = record.walltime.unwrap().as_secs_f64();
                assert_eq!(walltime, job.walltime as f64);
                let ran = record.end.unwrap().since(record.start.unwrap());
                assert_eq!(ran.as_secs_f64(), job.runtime as f64);
            }
            assert!(!log.read(&mut record).unwrap());
            assert_eq!(written.last_s, last);
            assert_eq!(log.damage().lines, 0);
            assert_eq!(log.header().nodes, Some(64));
        }
        // Without a number of jobs, the days limit it.
        let path = dir.path().join("days.swf");
        let written = write(&path, &workload, None, &mut Bar::new(true)).unwrap();
        assert!(written.jobs > 0 && written.last_s < ORIGIN_S + 2 * DAY_S);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 3);
    }
}
