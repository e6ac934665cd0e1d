//! Slurm's controller log.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::fmt::Write;

use lacuna_skip::{data, or_skip};
use lacuna_trace::{Format, JobRecord, Log, Reading};

use crate::logs::{as_format, jobs, located, shown, text};

/// 2022-03-17T12:00:00 UTC.
const NOON: i64 = 1_647_518_400;

/// A log whose lines are `seconds text`.
fn log(lines: &str) -> String {
    let mut log = String::new();
    for line in lines.lines() {
        let (seconds, text) = line.trim().split_once(' ').unwrap();
        let seconds: i64 = seconds.parse().unwrap();
        let (minutes, seconds) = (seconds / 60, seconds % 60);
        writeln!(log, "[2022-03-17T12:{minutes:02}:{seconds:02}.000] {text}").unwrap();
    }
    log
}

fn read(lines: &str) -> Vec<String> {
    let log = text(&log(lines), &as_format(Format::Slurmctld)).unwrap();
    let (records, damage) = jobs(log).unwrap();
    assert_eq!(damage.lines, 0, "{damage:?}");
    records.iter().map(|record| shown(record, NOON)).collect()
}

#[test]
fn jobs_start_and_end() {
    let lines = "0 _slurm_rpc_submit_batch_job: JobId=4 InitPrio=4294901756 usec=393
        1 sched: Allocate JobId=4 NodeList=n[1-4] #CPUs=32 Partition=batch
        2 prolog_running_decr: Configuration for JobId=4 is complete
        2 _slurm_rpc_submit_batch_job: JobId=5 InitPrio=4294901755 usec=393
        3 sched/backfill: _start_job: Started JobId=5 in filler on n5
        5 _job_complete: JobId=4 WEXITSTATUS 0
        5 _job_complete: JobId=4 done
        6 _job_complete: JobId=5 WEXITSTATUS 3
        7 _job_complete: JobId=5 done
        8 sched: _slurm_rpc_allocate_resources JobId=6 NodeList=n7 usec=370
        9 _job_complete: JobId=6 WTERMSIG 9
        9 _job_complete: JobId=6 done
        10 _slurm_rpc_submit_batch_job: JobId=7 InitPrio=1 usec=1
        11 sched: Allocate JobId=7 NodeList=n7 #CPUs=8 Partition=batch
        12 _slurm_rpc_submit_batch_job: JobId=8 InitPrio=1 usec=1
        13 _job_complete: JobId=99 done";
    assert_eq!(
        read(lines),
        [
            "4 @batch 0 1 5 4 - n[1-4] Completed",
            "5 @filler 2 3 7 1 - n5 Failed",
            "6 @ 8 8 9 1 - n7 Failed",
            "7 @batch 10 11 - 1 - n7 Running",
            "8 @ 12 - - 0 - - Running",
        ]
    );
}

#[test]
fn lives_end_by_limits_preemption_and_failing_nodes() {
    let lines = "0 sched: Allocate JobId=1 NodeList=n1 #CPUs=8 Partition=p
        0 sched: Allocate JobId=2 NodeList=n2 #CPUs=8 Partition=p
        0 sched: Allocate JobId=3 NodeList=n3 #CPUs=8 Partition=p
        0 sched: Allocate JobId=4 NodeList=n4 #CPUs=8 Partition=p
        0 sched: Allocate JobId=5 NodeList=n5 #CPUs=8 Partition=p
        0 sched: Allocate JobId=6 NodeList=n6 #CPUs=8 Partition=p
        1 Time limit exhausted for JobId=1
        2 preempted JobId=2 has been requeued to reclaim resources for JobId=Invalid
        3 Requeuing JobId=2
        4 Killing JobId=3 on failed node n3
        5 requeue job JobId=4 due to failure of node n4
        5 Requeuing JobId=4
        6 preempted JobId=5 has been killed to reclaim resources for JobId=2
        7 sched: Allocate JobId=4 NodeList=n7 #CPUs=8 Partition=p
        8 _job_complete: requeue JobId=4 per user/system request
        8 _job_complete: JobId=4 done
        9 sched: Allocate JobId=2 NodeList=n1 #CPUs=8 Partition=p
        9 job_time_limit: inactivity time limit reached for JobId=2
        9 JobId=6 timed out, the job is at or exceeds QOS normal's max wall";
    assert_eq!(
        read(lines),
        [
            "1 @p - 0 1 1 - n1 Timeout",
            "2 @p - 0 2 1 - n2 Preempted",
            "3 @p - 0 4 1 - n3 NodeFailed",
            "4 @p - 0 5 1 - n4 NodeFailed",
            "5 @p - 0 6 1 - n5 Preempted",
            "4 @p 5 7 8 1 - n7 Preempted",
            "2 @p 3 9 9 1 - n1 Timeout",
            "6 @p - 0 9 1 - n6 Timeout",
            "4 @ 8 - - 0 - - Running",
        ]
    );
}

#[test]
fn a_job_with_a_request_to_end_has_ended_unless_a_message_follows() {
    let lines = "0 _slurm_rpc_submit_batch_job: JobId=1 InitPrio=1 usec=1
        0 _slurm_rpc_submit_batch_job: JobId=2 InitPrio=1 usec=1
        1 sched: Allocate JobId=1 NodeList=n1 #CPUs=8 Partition=p
        1 sched: Allocate JobId=3 NodeList=n3 #CPUs=8 Partition=p
        1 sched: Allocate JobId=4 NodeList=n4 #CPUs=8 Partition=p
        1 sched: Allocate JobId=5 NodeList=n5 #CPUs=8 Partition=p
        2 _slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=1 uid 1500
        3 _slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=2 uid 1500
        4 _slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=3 uid 1500
        5 _slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=4 uid 1500
        5 _slurm_rpc_kill_job: job_str_signal() uid=1500 JobId=4 sig=9 returned: Access/permission denied
        5 _slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=5 uid 1500
        5 _slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=77 uid 1500
        6 sched: Allocate JobId=5 NodeList=n6 #CPUs=8 Partition=p
        8 _job_complete: JobId=3 WEXITSTATUS 0
        9 _job_complete: JobId=3 done";
    assert_eq!(
        read(lines),
        [
            // The job started again, so it had ended at the request.
            "5 @p - 1 5 1 - n5 Cancelled",
            // The signal did not end the job.
            "3 @p - 1 9 1 - n3 Completed",
            "1 @p 0 1 2 1 - n1 Cancelled",
            "2 @ 0 - - 0 - - Cancelled",
            "4 @p - 1 - 1 - n4 Running",
            "5 @p - 6 - 1 - n6 Running",
        ]
    );
}

#[test]
fn few_jobs_with_a_request_to_end_are_kept_back() {
    let mut lines = String::new();
    for job in 1..=5000 {
        writeln!(
            lines,
            "1 sched: Allocate JobId={job} NodeList=n1 #CPUs=8 Partition=p"
        )
        .unwrap();
        writeln!(
            lines,
            "2 _slurm_rpc_kill_job: REQUEST_KILL_JOB JobId={job} uid 1"
        )
        .unwrap();
    }
    // The first jobs are returned before the last line has been read.
    let Log::Jobs(mut log) = text(&log(&lines), &as_format(Format::Slurmctld)).unwrap() else {
        panic!("a log of holes");
    };
    let mut record = JobRecord::default();
    assert!(log.read(&mut record).unwrap());
    assert_eq!(shown(&record, NOON), "1 @p - 1 2 1 - n1 Cancelled");
    assert_eq!(log.lines(), 2 * 4097);
    let mut count = 1;
    while log.read(&mut record).unwrap() {
        count += 1;
    }
    assert_eq!(count, 5000);
}

#[test]
fn arrays_and_heterogeneous_jobs_have_parts() {
    let lines = "0 _slurm_rpc_submit_batch_job: JobId=15 InitPrio=1 usec=1
        1 sched/backfill: _start_job: Started JobId=15_1(19) in batch on n3
        1 sched/backfill: _start_job: Started JobId=15_2(20) in batch on n4
        1 sched/backfill: _start_job: Started JobId=15_3(21) in batch on n5
        2 sched: Allocate JobId=30+0(30) NodeList=n6 #CPUs=8 Partition=batch
        2 sched: Allocate JobId=30+1(31) NodeList=n[7-8] #CPUs=8 Partition=batch
        3 _job_complete: JobId=15_1(19) WEXITSTATUS 0
        3 _job_complete: JobId=15_1(19) done
        4 sched: Allocate JobId=15_4(15) NodeList=n9 #CPUs=8 Partition=batch
        5 _slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=15_2 uid 1
        6 _slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=15_[3-4] uid 1
        7 _slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=30 uid 1";
    assert_eq!(
        read(lines),
        [
            "15_1 @batch 0 1 3 1 - n3 Completed",
            "15_2 @batch 0 1 5 1 - n4 Cancelled",
            "15_4 @batch 0 4 6 1 - n9 Cancelled",
            "15_3 @batch 0 1 6 1 - n5 Cancelled",
            "30+0 @batch - 2 7 1 - n6 Cancelled",
            "30+1 @batch - 2 7 2 - n[7-8] Cancelled",
        ]
    );
}

#[test]
fn messages_of_older_releases_are_read() {
    let lines = "0 _slurm_rpc_submit_batch_job JobId=4 usec=393
        1 backfill: Started JobId=4 in batch on n1
        2 job_complete: JobID=4 State=0x1 NodeCnt=1 WEXITSTATUS 0
        3 job_complete: JobID=4 State=0x8003 NodeCnt=1 done
        4 sched: Allocate JobID=5 NodeList=n2 #CPUs=8 Partition=batch
        5 _slurm_rpc_kill_job2: REQUEST_KILL_JOB job 5 uid 1500";
    assert_eq!(
        read(lines),
        [
            "4 @batch 0 1 3 1 - n1 Completed",
            "5 @batch - 4 5 1 - n2 Cancelled"
        ]
    );
}

#[test]
fn starts_without_an_end_end_with_the_next() {
    let lines = "1 sched: Allocate JobId=1 NodeList=n1 #CPUs=8 Partition=p
        5 sched: Allocate JobId=1 NodeList=n2 #CPUs=8 Partition=p
        7 _slurm_rpc_submit_batch_job: JobId=1 InitPrio=1 usec=1";
    assert_eq!(
        read(lines),
        [
            "1 @p - 1 5 1 - n1 Unknown",
            "1 @p - 5 7 1 - n2 Unknown",
            "1 @ 7 - - 0 - - Running"
        ]
    );
}

#[test]
fn times_have_several_forms() {
    for time in [
        "2022-03-17T12:00:07",
        "2022-03-17T12:00:07.000",
        "2022-03-17T13:00:07+01:00",
        "2022-03-17T13:00:07.000+01:00",
    ] {
        let line = format!("[{time}] sched: Allocate JobId=1 NodeList=n1 #CPUs=8 Partition=p\n");
        let (records, _) = jobs(text(&line, &as_format(Format::Slurmctld)).unwrap()).unwrap();
        assert_eq!(
            shown(records.first().unwrap(), NOON),
            "1 @p - 7 - 1 - n1 Running"
        );
    }
}

#[test]
fn other_lines_are_no_damage_and_damage_is_located() {
    let other = "[2022-03-17T12:00:00.000] error: sched: Allocate JobId=x\n\
        slurmctld: debug: whatever\n\
        [x] nothing of ours\n\
        [2022-03-17T12:00:00.000] Killing JobId=1 on node n1\n\
        [2022-03-17T12:00:00.000] preempted JobId=1 suspended by gang scheduler to reclaim resources for JobId=2\n\
        [2022-03-17T12:00:00.000] _job_complete: JobId=Invalid done\n\
        [2022-03-17T12:00:00.000] _slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=1 uid 0 routed to b\n";
    let read = |text_: &str| jobs(text(text_, &as_format(Format::Slurmctld)).unwrap()).unwrap();
    let (records, damage) = read(other);
    assert_eq!((records.len(), damage.lines), (0, 0), "{damage:?}");
    for (line, place) in [
        ("[Mar 17 12:00:00] Time limit exhausted for JobId=1", "time"),
        (
            "[2022-03-17T12:00:00] Time limit exhausted for JobId=",
            "JobId",
        ),
        (
            "[2022-03-17T12:00:00] Time limit exhausted for JobId=1_(2)",
            "JobId",
        ),
        (
            "[2022-03-17T12:00:00] _job_complete: JobId=1(x) done",
            "JobId",
        ),
        (
            "[2022-03-17T12:00:00] _job_complete: JobId=4294967296 done",
            "JobId",
        ),
        (
            "[2022-03-17T12:00:00] sched: Allocate JobId=1 #CPUs=8",
            "NodeList",
        ),
        (
            "[2022-03-17T12:00:00] sched: Allocate JobId=1 NodeList=(null) #CPUs=8",
            "NodeList",
        ),
        (
            "[2022-03-17T12:00:00] sched: Allocate JobId=1 NodeList=n[1- #CPUs=8",
            "host list",
        ),
        (
            "[2022-03-17T12:00:00] sched/backfill: _start_job: Started JobId=1 in p",
            "nodes",
        ),
    ] {
        let log = format!("{other}{line}\n");
        let (records, damage) = read(&log);
        assert_eq!(
            (records.len(), located(&damage)),
            (0, vec![format!("8 {place}")]),
            "{line}"
        );
        let strict = Reading {
            strict: true,
            ..as_format(Format::Slurmctld)
        };
        let error = jobs(text(&log, &strict).unwrap()).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("log: line 8, {place}: ")),
            "{error}"
        );
    }
}

#[test]
fn the_sample_agrees_with_the_completion_log_of_the_same_jobs() {
    let path = or_skip!(data("samples/slurm-22.05/slurmctld.log"));
    let other = or_skip!(data("samples/slurm-22.05/jobcomp_filetxt.txt"));
    let log = Log::open(&path, &Reading::default()).unwrap();
    assert_eq!(log.format(), Format::Slurmctld);
    let (records, damage) = jobs(log).unwrap();
    assert_eq!(damage.lines, 0, "{damage:?}");
    let (completed, _) = jobs(Log::open(&other, &Reading::default()).unwrap()).unwrap();
    // Times are seconds in the completion log, and milliseconds here.
    let lives = |records: &[JobRecord]| -> Vec<String> {
        let mut lives: Vec<String> = records
            .iter()
            .filter_map(|record| {
                let second = |time: lacuna_model::Timestamp| time.unix_ms().div_euclid(1000);
                Some(format!(
                    "{} {} {} {}",
                    second(record.start?),
                    second(record.end?),
                    record.hosts,
                    record.queue
                ))
            })
            .collect();
        lives.sort();
        lives
    };
    let (found, expected) = (lives(&records), lives(&completed));
    println!(
        "{} lives, {} in the completion log",
        found.len(),
        expected.len()
    );
    assert_eq!(found, expected);
}

#[test]
fn files_in_the_wrong_order_are_damage_once() {
    let of = |day: u32, job: u32| {
        format!(
            "[2022-03-{day}T12:00:00.000] sched: Allocate JobId={job} NodeList=n1 #CPUs=1 Partition=b\n\
             [2022-03-{day}T12:01:00.000] _job_complete: JobId={job} WEXITSTATUS 0\n\
             [2022-03-{day}T12:01:00.000] _job_complete: JobId={job} done\n"
        )
    };
    let (old, new) = (of(17, 1), of(18, 2));
    for (log, damaged) in [(old.clone() + &new, vec![]), (new + &old, vec!["4 time"])] {
        let (_, damage) = jobs(text(&log, &as_format(Format::Slurmctld)).unwrap()).unwrap();
        assert_eq!(located(&damage), damaged);
        assert!(
            damage
                .first
                .iter()
                .all(|one| one.at.to_string().contains("from old to new"))
        );
    }
}
