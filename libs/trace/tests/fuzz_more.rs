//! Damaged logs of the formats that keep jobs between lines, and of snapshots, never stop a
//! parser: each damaged line is taken, skipped, or refused with its place.
//!
//! Each test damages `LACUNA_FUZZ_CASES` lines, 20,000 if it is not set. A million lines:
//! `LACUNA_FUZZ_CASES=1000000 cargo test --release -p lacuna-trace --test all fuzz_more::
//! -- --nocapture`.

use lacuna_trace::{Format, HoleList, Log, Reading, Window, event_batches};

use crate::mutate::{self, Lines, Mutator, as_format, cases, located, log, open, real};

fn lines(text: &str) -> Vec<Vec<u8>> {
    text.lines()
        .map(|line| line.trim_start().as_bytes().to_vec())
        .collect()
}

/// Lines of a sample that are no comments.
fn recorded(name: &str) -> Vec<Vec<u8>> {
    let mut lines = real(name, 2000);
    lines.retain(|line| !line.starts_with(b"#") && !line.starts_with(b";"));
    lines
}

#[test]
fn jobcomp() {
    let mut good = lines(
        "JobId=7 UserId=ann(1500) GroupId=users(1500) Name=my job JobState=COMPLETED Partition=batch TimeLimit=90 StartTime=2022-03-17T12:01:00 EndTime=2022-03-17T12:11:30 NodeList=n[1-3,7] NodeCnt=4 ProcCnt=32 WorkDir=/home/ann ReservationName= Tres=cpu=32,node=4 Account=acme QOS=normal WcKey= Cluster=demo SubmitTime=2022-03-17T12:00:00 EligibleTime=2022-03-17T12:00:00 DerivedExitCode=0:0 ExitCode=0:0
        JobId=8 UserId=bob(1501) GroupId=users(1500) Name=x JobState=CANCELLED Partition=batch TimeLimit=UNLIMITED StartTime=Unknown EndTime=2022-03-17T12:11:30 NodeList=(null) NodeCnt=0 ProcCnt=32 WorkDir=/home/bob Tres=node=4 SubmitTime=2022-03-17T12:00:00 ",
    );
    good.extend(recorded("samples/slurm-22.05/jobcomp_filetxt.txt"));
    mutate::jobs(
        "jobcomp",
        &as_format(Format::Jobcomp),
        &[],
        &good,
        b" =:-[",
        Lines::Alone,
    );
}

#[test]
fn slurmctld() {
    let mut good = lines(
        "[2022-03-17T12:00:00.000] _slurm_rpc_submit_batch_job: JobId=4 InitPrio=4294901756 usec=393
        [2022-03-17T12:00:01.000] sched: Allocate JobId=4 NodeList=n[1-4] #CPUs=32 Partition=batch
        [2022-03-17T12:00:02+01:00] sched/backfill: _start_job: Started JobId=15_3(19) in batch on n5
        [2022-03-17T12:00:02] sched: Allocate JobId=30+1(31) NodeList=n[7-8] #CPUs=8 Partition=batch
        [2022-03-17T12:00:03.000] _job_complete: JobId=4 WEXITSTATUS 0
        [2022-03-17T12:00:03.000] _job_complete: JobId=4 done
        [2022-03-17T12:00:04.000] _slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=15 uid 1
        [2022-03-17T12:00:04.000] _slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=15_[1-3] uid 1
        [2022-03-17T12:00:04.000] _slurm_rpc_kill_job: job_str_signal() uid=1500 JobId=4 sig=9 returned: denied
        [2022-03-17T12:00:05.000] preempted JobId=4 has been requeued to reclaim resources for JobId=5
        [2022-03-17T12:00:05.000] Requeuing JobId=4
        [2022-03-17T12:00:06.000] requeue job JobId=4 due to failure of node n4
        [2022-03-17T12:00:06.000] Killing JobId=4 on failed node n3
        [2022-03-17T12:00:07.000] Time limit exhausted for JobId=4
        [2022-03-17T12:00:08.000] sched: _slurm_rpc_allocate_resources JobId=4 NodeList=n7 usec=370",
    );
    good.extend(recorded("samples/slurm-22.05/slurmctld.log"));
    mutate::jobs(
        "slurmctld",
        &as_format(Format::Slurmctld),
        &[],
        &good,
        b" =[](_:",
        Lines::Together,
    );
}

#[test]
fn pbs() {
    let mut good = lines(
        "12/21/2024 12:00:00;Q;1.srv;queue=workq
        12/21/2024 12:00:00;Q;2.srv;user=ann queue=workq ctime=1734782400 qtime=1734782400 Resource_List.nodect=2 Resource_List.walltime=02:00:00
        12/21/2024 12:00:01;S;1.srv;user=ann queue=workq ctime=1734782400 start=1734782401 exec_host=n1/0*12+n2/3 Resource_List.walltime=02:00:00
        12/21/2024 12:00:02;R;1.srv;user=ann queue=workq
        12/21/2024 12:00:02;D;1.srv;requestor=ann@login
        12/21/2024 12:00:02;A;1.srv;
        12/21/2024 12:00:02;s;1.srv;exec_host=n3/0
        12/21/2024 12:00:02;M;1.srv;destination=a
        12/21/2024 12:00:03;E;1.srv;user=ann account=\"a b\" ctime=1734782400 start=1734782401 exec_vnode=(n4[0]:ncpus=2+n4[1]:mem=4kb)+(n5:ncpus=1) end=1734782403 Exit_status=-29 Resource_List.walltime=2",
    );
    good.extend(recorded("samples/pbs/openpbs-accounting.log.gz"));
    mutate::jobs(
        "pbs",
        &as_format(Format::Pbs),
        &[],
        &good,
        b"; =/+:",
        Lines::Together,
    );
}

const FINISHED: &str = r#""JOB_FINISH" "9.11" 1389683139 404717 22025 33882739 128 1389642318 0 0 1389642771 "ann" "regular" "span[ptile=16]" "" "" "login" "/scratch" "" "%J.out" "%J.err" "1.7" 0 2 "16*h1" "16*h2" 64 60.0 "abc" "BSUB -R ""span[ptile=16]""" 5793844.23 679.06 966960 0 -1 0 0 3026323 0 0 0 0 -1 0 0 0 12529329 6498459 -1 "" "p" 0 128 "" "" 0 10725376 0 "" "" "" "" 0 "" 0 "" -1 "/p" "" "" "" -1 "" "" 6160 "" 1389642771 "" "" 0 2 h1 1306 0 1287486 242 0 h2 1291 0 643768 66 0 43200 0 8688640 "select[poe>0] " "" -1 "" -1 0 "" 0 0 "" 40368 "/scratch" 1 "183" 1 """#;

#[test]
fn lsf_accounting() {
    let mut good = lines(FINISHED);
    // Two lines of the sample are damaged.
    let undamaged = |line: &Vec<u8>| {
        let text = String::from_utf8_lossy(line);
        !text.contains(" 02 ") && !text.contains("\"\"0")
    };
    good.extend(
        recorded("samples/lsf/lsb.acct")
            .into_iter()
            .filter(undamaged),
    );
    mutate::jobs(
        "lsb.acct",
        &as_format(Format::LsbAcct),
        &[],
        &good,
        b" \"*",
        Lines::Alone,
    );
}

#[test]
fn lsf_events() {
    let mut good = lines(
        r#""JOB_NEW" "10.108" 1600000001 3 1501 33570818 4 1600000001 0 0 -65535 0 0 "ann" -1 -1 -1 -1 -1 -1 -1 -1 -1 60 -1 ""   1.00 2 "normal" "" "login" "/" "" "" "" "" "/h" "1.1" 1 "asked" "" "" "arr[1-2]" "sleep 1" 0 "" "default"
        "JOB_START" "10.108" 1600000003 3 4 0 0 100.0 2 "4*n4" "n5" "" "" 0 "" 1 "" 2147483647
        "JOB_START" "10.108" 1600000003 101 4 0 0 100.0 1 "n6" "" "" 0 "" 0 "" 2147483647
        "JOB_STATUS" "10.108" 1600000004 3 1 0 0 0.0107 0 0 32512 1 0 0
        "JOB_SWITCH" "10.108" 1600000005 1501 3 "short" 1 "ann"
        "JOB_REQUEUE" "10.108" 1600000006 3 1
        "JOB_CLEAN" "10.108" 1600000007 3 1"#,
    );
    good.extend(recorded("samples/lsf/lsb.events"));
    mutate::jobs(
        "lsb.events",
        &as_format(Format::LsbEvents),
        &[],
        &good,
        b" \"*",
        Lines::Together,
    );
}

#[test]
fn sinfo() {
    let mut good = lines(
        "1647471604
        1647471704
        1647472604
        invokers: p2165,p1739,p[0001-0003]
        lowprio      up   12:00:00      2   idle p[0016-0017]
        lowprio      up   12:00:00      1  idle~ p0018
        ----
        ----
        ----",
    );
    good.extend(recorded("prometheus-2022-03/17_03_2022_idle_nodes.txt.gz"));
    let mut mutator = Mutator::new("sinfo", &good, b" ,[]-");
    let (mut made, mut records, mut damaged) = (0, 0, 0);
    let mut line = Vec::new();
    while made < cases() {
        // A whole block, then damaged ones: most lines damage only the first of them.
        let mut text = lines("1000\ninvokers: a,b\n----\n1010\ninvokers: a\n----");
        let whole = text.len();
        let mut time = 1010;
        for at in 0..256 {
            mutator.line(&mut line);
            if at % 4 == 0 {
                // Times increase, else the good ones of 2022 would soon all be in the past.
                time += mutator.random().below(40) as i64;
                line.clear();
                line.extend_from_slice(time.to_string().as_bytes());
            }
            text.push(line.clone());
        }
        made += 256;
        let text = log(&text);
        let reading = as_format(Format::Sinfo);
        let Log::Holes(mut holes) = open(&text, &reading).unwrap() else {
            panic!("holes");
        };
        let found: Vec<_> = holes.by_ref().map(Result::unwrap).collect();
        assert!(holes.next().is_none());
        let damage = holes.damage().clone();
        located(&damage, 256 + whole as u64);
        assert!(
            damage
                .first
                .first()
                .is_none_or(|first| first.line > whole as u64)
        );
        assert!(found.iter().all(|hole| hole.from < hole.until));
        let of_b = found.iter().find(|hole| hole.node.as_str() == "b").unwrap();
        assert_eq!(
            (of_b.from.unix_ms(), of_b.until.unix_ms()),
            (1_000_000, 1_010_000)
        );
        records += found.len();
        damaged += damage.lines;
        // The holes of a node never overlap.
        let list = HoleList::collect(found.into_iter().map(Ok::<_, std::convert::Infallible>));
        let Ok(list) = list;
        assert_eq!(list.refused.total(), 0);
        let _ = event_batches(&list.records, &[], None, Window::default());

        let strict = Reading {
            strict: true,
            ..reading
        };
        let Log::Holes(holes) = open(&text, &strict).unwrap() else {
            panic!("holes");
        };
        let failed = holes.filter(Result::is_err).count() as u64;
        assert_eq!(failed, damage.lines.min(1));
    }
    println!("sinfo: {made} damaged lines, {records} holes, {damaged} refused");
    assert!(records > 0 && damaged > 0);
}
