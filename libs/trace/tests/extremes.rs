//! Numbers at their ends: each number of each kind of file is replaced by each extreme. The file is
//! then read, or refused with its place. No reader panics or hangs.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::topology::samples::*;
use lacuna_trace::topology::{self, TopologyOptions};
use lacuna_trace::{
    HoleList, JobRecord, KINDS_HEADER, Log, PLANNED_HEADER, Reading, Window, event_batches,
    read_holes, read_kinds, read_nodes, read_planned,
};
use lacuna_trainer_file::Purpose;

const EXTREMES: [&str; 18] = [
    "",
    "0",
    "-0",
    "-1",
    "0.5",
    "1e-308",
    "1e308",
    "-1e308",
    "1e999",
    "NaN",
    "inf",
    "2147483648",
    "4294967295",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "253402300799",
    "99999999999999999999999999",
];

/// The numbers of a text, also those within words.
fn numbers(text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for (at, _) in text.char_indices().filter(|(_, c)| c.is_ascii_digit()) {
        match found.last_mut() {
            Some(last) if last.end == at => last.end += 1,
            _ => found.push(at..at + 1),
        }
    }
    found
}

type Read = fn(&Path, &Path) -> Result<(), String>;

fn log(path: &Path, _: &Path) -> Result<(), String> {
    let words = |error: lacuna_trace::ReadError| error.to_string();
    match Log::open(path, &Reading::default()).map_err(words)? {
        Log::Jobs(mut jobs) => {
            let mut record = JobRecord::default();
            while jobs.read(&mut record).map_err(words)? {
                assert!(
                    record.end.is_none() || record.end >= record.start,
                    "{record:?}"
                );
            }
        }
        Log::Holes(mut holes) => {
            let list = HoleList::collect(holes.by_ref()).map_err(words)?;
            let batches = event_batches(&list.records, &[], None, Window::default());
            assert!(batches.len() <= 2 * list.records.len());
        }
    }
    Ok(())
}

fn holes(path: &Path, _: &Path) -> Result<(), String> {
    let list = read_holes(path).map_err(|error| error.to_string())?;
    let batches = event_batches(&list.records, &[], None, Window::default());
    assert!(batches.len() <= 2 * list.records.len());
    Ok(())
}

fn place(path: &Path, _: &Path) -> Result<(), String> {
    let keys = vec!["switch".to_owned(), "cabinet".to_owned()];
    let options = TopologyOptions {
        keys,
        ..TopologyOptions::default()
    };
    let read = topology::load(path, &options).map_err(|error| error.to_string())?;
    assert!(!format!("{:?}", read.topology).is_empty());
    Ok(())
}

fn trainers(path: &Path, _: &Path) -> Result<(), String> {
    let list = lacuna_trainer_file::read(path, Purpose::Replay);
    let list = list.map_err(|error| error.to_string())?;
    for trainer in &list.trainers {
        for nodes in [0, 1, trainer.min_nodes, trainer.max_nodes, u32::MAX] {
            let rates = [
                trainer.throughput.at(nodes),
                trainer.objective_curve().at(nodes),
            ];
            assert!(rates.iter().all(|rate| rate.is_finite()), "{trainer:?}");
        }
    }
    Ok(())
}

/// The profile is beside the list of trainers that names it.
fn profile(path: &Path, folder: &Path) -> Result<(), String> {
    let list = folder.join("list.jsonl");
    let name = path.display();
    let trainer = format!(
        "{{\"name\":\"a\",\"submit\":0,\"min_nodes\":1,\"max_nodes\":4,\"rescale_up_s\":18,\
         \"rescale_down_s\":12,\"samples\":1e9,\"layers\":\"{name}\"}}\n"
    );
    std::fs::write(&list, trainer).unwrap();
    trainers(&list, folder)
}

fn layered(path: &Path, folder: &Path) -> Result<(), String> {
    std::fs::write(folder.join("ctr.json"), PROFILE).unwrap();
    trainers(path, folder)
}

const HOLES: &str = "node,idle_from,idle_until,censored\nn1,10,20.5,0\nn2,15,30,1\n";

const PROFILE: &str = r#"{"batch": 100, "samples": 1e9, "min_rate": 1e4, "kinds": [
  {"name": "cpu", "price_per_hour": 0.04, "memory_bytes": 3e10, "link_bytes_per_s": 1e9, "limit": 8},
  {"name": "gpu", "price_per_hour": 2.4, "memory_bytes": 4e9, "link_bytes_per_s": 1e9}],
 "bandwidth": {"cpu": {"gpu": 1e9}},
 "layers": [
  {"name": "table", "seconds": {"cpu": 1e-5, "gpu": 2e-5}, "out_bytes": 100, "table_bytes": 2e10},
  {"name": "dense", "seconds": {"cpu": 1e-3, "gpu": 1e-5}, "out_bytes": 4, "weight_bytes": 10,
   "parallel_compute": 0.9, "parallel_communication": 0.8}]}"#;

/// Each kind of file: its name, a text, and its reader.
fn files() -> Vec<(&'static str, String, Read)> {
    let mut all: Vec<(&str, String, Read)> = Vec::new();
    for (name, text) in [
        (
            "swf",
            "; UnixStartTime: 1640995200\n; MaxNodes: 64\n; MaxProcs: 128\n1 137 5 600 8 -1 -1 8 21600 -1 1 3 -1 -1 1 -1 -1 -1\n2 140 5 600 8 -1 -1 8 21600 -1 2 3 -1 -1 1 -1 -1 -1\n",
        ),
        (
            "sacct",
            "JobID|Submit|Start|End|State|NNodes|NodeList|Timelimit|TimelimitRaw|AllocNodes|ReqNodes\n100_4|2022-01-01T00:00:00|1640995210|2022-01-01T01:00:10.5|COMPLETED|2|n[1-2,4]|1-01:00:00|60|2|2\n",
        ),
        (
            "jobcomp",
            "JobId=7 UserId=ann(1500) GroupId=users(1500) Name=a JobState=COMPLETED Partition=batch TimeLimit=90 StartTime=2022-03-17T12:01:00 EndTime=2022-03-17T12:11:30 NodeList=n[1-3,7] NodeCnt=4 ProcCnt=32 WorkDir=/home Tres=cpu=32,node=4 SubmitTime=2022-03-17T12:00:00 ExitCode=0:0\n",
        ),
        (
            "slurmctld",
            "[2022-03-17T12:00:00.000] _slurm_rpc_submit_batch_job: JobId=3 InitPrio=4294901759 usec=370\n[2022-03-17T12:00:01.000] sched: Allocate JobId=3 NodeList=n[1-2] #CPUs=2 Partition=batch\n[2022-03-17T12:00:09.000] _job_complete: JobId=3 WEXITSTATUS 0\n",
        ),
        (
            "sinfo",
            "1000\nbatch up 12:00:00 2 idle n[1-2]\n----\n1010\nbatch up 12:00:00 1 idle n1\n----\n",
        ),
        (
            "pbs",
            "12/21/2024 12:00:00;Q;1[2].srv;queue=workq\n12/21/2024 12:00:01;S;1[2].srv;ctime=1734782400 start=1734782401 exec_host=n1/0*12+n2/3 Resource_List.walltime=02:00:00 Resource_List.nodect=2\n12/21/2024 12:00:09;E;1[2].srv;ctime=1734782400 qtime=1734782400 start=1734782401 exec_vnode=(n1[0]:ncpus=2) end=1734782409 Exit_status=0 Resource_List.walltime=1:02:00:00\n",
        ),
        (
            "lsb.acct",
            "\"JOB_FINISH\" \"9.12\" 1600000100 7 1501 33554434 4 1600000010 0 0 1600000020 \"ann\" \"normal\" \"\" \"\" \"\" \"login\" \"/\" \"\" \"\" \"\" \"1.7\" 1 \"a\" 2 \"16*n1\" \"n2\" 64 100.0 \"job\" \"x\" 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 \"\" \"p\" 0 4 \"\" \"\" 3 2048 0 \"\" \"\" \"\" \"\" 0 \"\" 0 \"\" -1 \"\" \"\" \"\" \"\" -1 \"\" \"\" 5136 \"\" 0 \"\" \"\" 1 1110 \"v\" 1 n1 10 0 5 1 1 k v 43200 0 1024\n",
        ),
        (
            "lsb.events",
            "\"JOB_NEW\" \"10.1\" 1600000001 3 1501 33570818 4 1600000001 0 0 -65535 0 0 \"ann\" -1 -1 -1 -1 -1 -1 -1 -1 -1 60 -1 \"\" 1.00 2 \"normal\" \"\" \"login\" \"/\" \"\" \"\" \"\" \"\" \"/h\" \"1.1\" 1 \"a\" \"\" \"\" \"arr[1-2]%5\" \"x\" 0 \"\" \"d\"\n\"JOB_START\" \"10.1\" 1600000003 3 4 0 0 100.0 2 \"4*n4\" \"n5\" \"\" \"\" 0 \"\" 1 \"\" 2147483647\n\"JOB_STATUS\" \"10.1\" 1600000009 3 64 0 0 0.0107 1600000008 0 0 1 0 0\n",
        ),
        (
            "node-states",
            "time,node,state\n10,n1,idle\n20,n1,alloc\n30.5,n1,idle\n",
        ),
        ("hole list", HOLES),
    ] {
        all.push((name, text.to_owned(), log));
    }
    all.push(("holes", HOLES.to_owned(), holes));
    all.push((
        "planned",
        format!("{PLANNED_HEADER}\n12,n1,30\n13.5,n2,\n"),
        |path, _| {
            read_planned(path, &[])
                .map(drop)
                .map_err(|error| error.to_string())
        },
    ));
    all.push((
        "kinds",
        format!("{KINDS_HEADER}\nn[1-3],cpu\ng1,gpu\n"),
        |path, _| {
            read_kinds(path)
                .map(drop)
                .map_err(|error| error.to_string())
        },
    ));
    all.push(("nodes", "n1\nn2\n".to_owned(), |path, _| {
        read_nodes(path)
            .map(drop)
            .map_err(|error| error.to_string())
    }));
    for (name, text) in [
        ("topology.conf", TREE),
        ("blocks", BLOCKS),
        ("topology.yaml", YAML),
        ("scontrol", SCONTROL),
        ("scontrol of blocks", SCONTROL_BLOCKS),
        ("pbsnodes", PBS),
        ("lsb.hosts", LSF),
        ("bmgroup", BMGROUP),
        ("ibnetdiscover", IBNETDISCOVER),
        ("csv", CSV),
    ] {
        all.push((name, text.to_owned(), place));
    }
    let start = "\"submit\":10,\"min_nodes\":1,\"max_nodes\":4,\"rescale_up_s\":18.0,\"rescale_down_s\":12.0,\"rescale_start_s\":40,\"samples\":1000.0,\"weight\":2.5,\"priority\":3,\"deadline\":3600";
    let curve = "\"nodes\":[0,1,4],\"samples_per_s\":[0.0,10.0,30.0]";
    for (name, text) in [
        (
            "trainers",
            format!(
                "{{\"name\":\"a\",{start},{curve},\"objective\":[0.0,1.0,3.0],\"distance\":{{\"shares\":[0.8]}},\"batch\":[0,100,400],\"efficiency\":[1,1,0.9],\"waits\":{{\"link\":[0,0,0.2]}}}}\n"
            ),
        ),
        (
            "stages",
            format!(
                "{{\"name\":\"a\",{start},{curve},\"stages\":[{{\"from\":500,\"samples_per_s\":[0,20,50],\"objective\":[0,1,2]}}]}}\n"
            ),
        ),
        (
            "kinds of trainers",
            format!(
                "{{\"name\":\"a\",{start},\"kinds\":{{\"cpu\":{curve0},\"gpu\":{curve0}}},\"together\":[{{\"cpu\":4,\"gpu\":1,\"samples_per_s\":12}}]}}\n",
                curve0 = format_args!("{{{curve}}}")
            ),
        ),
    ] {
        all.push((name, text, trainers));
    }
    let layers = "\"layers\":{\"profile\":\"ctr.json\",\"nodes\":{\"cpu\":{\"cpu\":2},\"gpu\":{\"gpu\":4,\"cpu\":1}}}";
    all.push((
        "layers",
        format!("{{\"name\":\"a\",{start},{layers}}}\n"),
        layered,
    ));
    all.push(("profile", PROFILE.to_owned(), profile));
    all
}

#[test]
fn a_number_at_its_end_is_read_or_refused_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    for (name, text, read) in files() {
        std::fs::write(&path, &text).unwrap();
        let whole = read(&path, folder.path());
        assert_eq!(whole, Ok(()), "{name} is sound");
        let (mut taken, mut refused) = (0, 0);
        for at in numbers(&text) {
            for extreme in EXTREMES {
                let mut other = text.clone();
                other.replace_range(at.clone(), extreme);
                std::fs::write(&path, &other).unwrap();
                let result = catch_unwind(AssertUnwindSafe(|| read(&path, folder.path())));
                match result.unwrap_or_else(|_| panic!("{name}: {extreme} at {at:?} of {text}")) {
                    Ok(()) => taken += 1,
                    Err(error) => {
                        let says = error.contains(&*folder.path().to_string_lossy());
                        assert!(says, "{name}: {extreme} at {at:?}: {error}");
                        refused += 1;
                    }
                }
            }
        }
        println!("{name}: {taken} read, {refused} refused");
    }
}
