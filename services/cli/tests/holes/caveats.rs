//! Missing or wrong data of a log are named or refused.

use std::process::Command;

use super::*;

/// Two nodes over a day, from the end of job 1 to that of job 4: n1 is idle from 21:00 to 22:00.
const DAY: &str = "\
JobID|Submit|Start|End|State|NNodes|Timelimit|NodeList
1|2024-01-01T00:00:00|2024-01-01T00:00:00|2024-01-01T01:00:00|COMPLETED|2|1-00:00:00|n[1-2]
2|2024-01-01T00:00:00|2024-01-01T01:00:00|2024-01-01T21:00:00|COMPLETED|1|1-00:00:00|n1
3|2024-01-01T00:00:00|2024-01-01T01:00:00|2024-01-01T22:00:00|COMPLETED|1|1-00:00:00|n2
4|2024-01-01T00:00:00|2024-01-01T22:00:00|2024-01-02T01:00:00|COMPLETED|2|1-00:00:00|n[1-2]
";

#[test]
fn shares_of_time_are_of_what_was_watched() {
    let bench = folder();
    bench.file("day.txt", DAY);
    let found = figures(&bench, &["holes", "day.txt"]);
    assert_eq!(found["start"], "2024-01-01T01:00:00Z");
    assert_eq!(found["end"], "2024-01-02T01:00:00Z");
    assert!(near(&found["share"], 1.0 / 48.0), "{found}");
    assert!(near(&found["log"]["jobs"]["utilisation"], 47.0 / 48.0));
    // Both figures are of the same part and the same nodes.
    let evening = ["--from", "2024-01-01T20:00:00Z", "--until", "1704146400"];
    let found = figures(&bench, &[&["holes", "day.txt"][..], &evening].concat());
    assert!(near(&found["share"], 0.25), "{found}");
    assert!(near(&found["log"]["jobs"]["utilisation"], 0.75), "{found}");
    bench.file("order.txt", "n2\nn1\n");
    let one = ["--first-nodes", "1", "--nodes-file", "order.txt"];
    let found = figures(&bench, &[&["holes", "day.txt"][..], &one].concat());
    assert!(near(&found["log"]["jobs"]["utilisation"], 1.0), "{found}");
    assert_eq!(
        (&found["nodes"], &found["hours"]),
        (&1.into(), &24.0.into())
    );
    // Dates are local times of the machine.
    let zone = [
        "--time-zone",
        "Europe/Warsaw",
        "--until",
        "2024-01-01T22:00",
    ];
    let found = figures(&bench, &[&["holes", "day.txt"][..], &zone].concat());
    assert_eq!(found["end"], "2024-01-01T21:00:00Z");
    let (_, rows) = DAY.split_once('\n').unwrap();
    bench.file("twice.txt", &format!("{DAY}{rows}"));
    let twice = figures(&bench, &["holes", "twice.txt"]);
    assert!(near(&twice["log"]["jobs"]["busy_time_shared"], 1.0));
    assert!(twice["log"]["notes"].to_string().contains("records twice"));
    let early = figures(&bench, &["holes", "day.txt", "--from", "2023-12-31"]);
    let notes = early["log"]["notes"].to_string();
    assert!(
        notes.contains("lies before the end of its first job"),
        "{notes}"
    );
    assert!(notes.contains("no zone are taken as UTC"), "{notes}");
}

#[test]
fn a_machine_without_holes_is_a_valid_log() {
    let bench = folder();
    let full = DAY.replace("01T21:00", "01T22:00");
    bench.file("full.txt", &full);
    let found = figures(&bench, &["holes", "full.txt"]);
    assert_eq!(found["holes"]["count"], 0);
    assert_eq!(found["hours"], 24.0);
    assert!(near(&found["log"]["jobs"]["utilisation"], 1.0));
    let replayed = figures(&bench, &["replay", "full.txt", "--report", "full.html"]);
    assert_eq!(
        (&replayed["hours"], &replayed["samples"]),
        (&24.0.into(), &0.0.into())
    );
    bench.file("empty.csv", "node,idle_from,idle_until,censored\n");
    let text = complaint(&bench, &["holes", "empty.csv"]);
    assert!(text.contains("there is no hole in it"), "{text}");
    // Observations of the nodes bound the watched time, before the first hole and after the last.
    let states =
        "time,node,state\n1000,a,busy\n1000,b,busy\n1100,a,idle\n1200,a,busy\n1500,b,busy\n";
    bench.file("states.csv", states);
    let found = figures(&bench, &["holes", "states.csv"]);
    assert!(near(&found["share"], 100.0 / 500.0 / 2.0), "{found}");
    assert_eq!(found["log"]["machine_nodes"], 2);
}

#[test]
fn a_job_without_an_end_is_over_with_its_walltime() {
    let bench = folder();
    let row = "9|2024-01-01T00:00:00|2024-01-01T21:10:00|Unknown|RUNNING|1|00:10:00|n1\n";
    bench.file("runaway.txt", &format!("{DAY}{row}"));
    let found = figures(&bench, &["holes", "runaway.txt"]);
    // The hole is ten minutes shorter than without that job.
    assert!(near(&found["holes"]["node_hours"], 50.0 / 60.0), "{found}");
    assert_eq!(found["log"]["jobs"]["over_with_their_walltime"], 1);
    let notes = found["log"]["notes"].to_string();
    assert!(notes.contains("1 job without an end"), "{notes}");
    // That job proves nothing of jobs that ran at the end.
    assert!(notes.contains("only jobs that ended"), "{notes}");
    // A job that may still run holds its node; 50 minutes are left.
    let row = row.replace("00:10:00", "1-00:00:00");
    bench.file("running.txt", &format!("{DAY}{row}"));
    let found = figures(&bench, &["holes", "running.txt"]);
    assert!(near(&found["holes"]["node_hours"], 10.0 / 60.0), "{found}");
    assert_eq!(found["log"]["jobs"]["running_at_the_end"], 1);
    let notes = found["log"]["notes"].to_string();
    assert!(!notes.contains("only jobs that ended"), "{notes}");
}

#[test]
fn nodes_of_another_machine_are_refused() {
    let bench = folder();
    bench.file("day.txt", DAY);
    bench.file("other.txt", "x1\nx2\n");
    let text = complaint(&bench, &["holes", "day.txt", "--nodes-file", "other.txt"]);
    assert!(text.contains("such as n1, 0 are in this list"), "{text}");
    assert!(text.contains("names such as x1"), "{text}");
    bench.file("half.txt", "n1\nx2\n");
    let found = figures(&bench, &["holes", "day.txt", "--nodes-file", "half.txt"]);
    let log = &found["log"];
    assert_eq!(log["jobs"]["on_nodes_not_listed"], 1);
    assert!(log["jobs"]["end_before_they_start"].is_null(), "{log}");
    let notes = log["notes"].to_string();
    assert!(
        notes.contains("1 of the 2 nodes that the log names, such as n2"),
        "{notes}"
    );
    assert!(notes.contains("1 job ran only there, 2 in part"), "{notes}");
    // The same holds for a list of holes; a list that only lies beside it is not used.
    let list = "node,idle_from,idle_until,censored\na,1000,1100,0\n";
    bench.file("holes.csv", list);
    let text = complaint(&bench, &["holes", "holes.csv", "--nodes-file", "other.txt"]);
    assert!(text.contains("of the 1 nodes"), "{text}");
    bench.file("nodes.txt", "x1\nx2\n");
    let found = figures(&bench, &["holes", "holes.csv"]);
    assert_eq!(found["nodes"], 1);
    assert!(found["log"]["notes"].to_string().contains("is not used"));
}

#[test]
fn the_size_of_the_machine_fits_its_log() {
    let bench = folder();
    bench.file("day.txt", DAY);
    let text = complaint(&bench, &["holes", "day.txt", "--machine-nodes", "1"]);
    assert!(
        text.contains("names 2 nodes, more than --machine-nodes 1"),
        "{text}"
    );
    let found = figures(&bench, &["holes", "day.txt", "--machine-nodes", "8"]);
    assert!(near(&found["share"], 1.0 / 192.0), "{found}");
    let notes = found["log"]["notes"].to_string();
    assert!(
        notes.contains("6 nodes of the machine's 8 are not named"),
        "{notes}"
    );
    // Job 2 needs four nodes: on three it would be left out, and all nodes would seem idle.
    let text = complaint(&bench, &["holes", "four.swf", "--machine-nodes", "3"]);
    assert!(
        text.contains("1 of 4 jobs need more nodes than the machine's 3 (by --machine-nodes)"),
        "{text}"
    );
    assert!(
        text.contains("the largest 4") && text.contains("L0019"),
        "{text}"
    );
    let small = ["--machine-nodes", "3", "--leave-out-too-large"];
    let found = figures(&bench, &[&["holes", "four.swf"][..], &small].concat());
    assert_eq!(found["log"]["jobs"]["too_large"], 1);
    assert!(
        found["log"]["notes"].to_string().contains("left out"),
        "{found}"
    );
    let three = "MaxNodes: 3\n; MaxProcs: 3";
    bench.file(
        "short.swf",
        &SWF.replace("MaxNodes: 4\n; MaxProcs: 4", three),
    );
    let text = complaint(&bench, &["replay", "short.swf"]);
    assert!(text.contains("by the log's header"), "{text}");
    bench.file(
        "huge.swf",
        &SWF.replace("MaxNodes: 4", "MaxNodes: 4000000000"),
    );
    let text = complaint(&bench, &["holes", "huge.swf"]);
    assert!(
        text.contains("4000000000 nodes by the log's header, more than 10000000"),
        "{text}"
    );
    let output = bench.lacuna(&["holes", "four.swf", "--machine-nodes", "4000000000"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let output = bench.lacuna(&["holes", "day.txt"]);
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("of 2 nodes over 1d00h"), "{table}");
    assert!(table.contains("2 (named in the log)"), "{table}");
}

#[cfg(unix)]
#[test]
fn a_pipe_is_refused_where_it_would_lose_its_beginning() {
    let bench = folder();
    let pipe = bench.path("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let feed = |text: &'static str| {
        let pipe = pipe.clone();
        // The thread ends when the reader is gone.
        std::thread::spawn(move || std::fs::write(pipe, text))
    };
    let writer = feed(DAY);
    let text = complaint(&bench, &["holes", "pipe"]);
    assert!(text.contains("pipe is no regular file"), "{text}");
    assert!(text.contains("write it to a file first"), "{text}");
    let _ = writer.join();
    // A log that is read once may come from a pipe.
    let writer = feed("node,idle_from,idle_until,censored\na,1000,1100,0\n");
    let found = figures(&bench, &["holes", "pipe"]);
    assert_eq!(found["holes"]["count"], 1);
    writer.join().unwrap().unwrap();
}

#[test]
fn a_log_without_a_readable_job_is_refused_with_the_reason() {
    let bench = folder();
    bench.file("noise.txt", &"1|a|b|c|d|e|f|g\n".repeat(3));
    let columns = "jobid,submit,start,end,nnodes,timelimit,state,nodelist";
    let text = complaint(&bench, &["holes", "noise.txt", "--columns", columns]);
    assert!(text.contains("no job could be read"), "{text}");
    assert!(
        text.contains("3 damaged lines, the first: line 1, "),
        "{text}"
    );
    // Holes that contradict each other are damage.
    let twice = "node,idle_from,idle_until,censored\na,1000,1100,0\na,1000,1100,0\n";
    bench.file("twice.csv", twice);
    let found = figures(&bench, &["holes", "twice.csv"]);
    assert_eq!(found["log"]["refused_holes"]["duplicates"], 1);
    let text = complaint(&bench, &["holes", "twice.csv", "--strict"]);
    assert!(text.contains("1 are there twice"), "{text}");
}

#[test]
fn caveats_are_on_report_and_drawing() {
    let bench = folder();
    bench.file("bad.swf", &SWF.replace("3 20 0 60", "3 soon 0 60"));
    let pictures = ["--report", "pool.html", "--svg", "pool.svg"];
    let output = bench.lacuna(&[&["holes", "bad.swf"][..], &pictures].concat());
    assert!(output.status.success(), "{output:?}");
    for name in ["pool.html", "pool.svg"] {
        let page = std::fs::read_to_string(bench.path(name)).unwrap();
        for said in [
            "placed by the simulated scheduler",
            "1 damaged line was skipped",
            "holes are those of the simulated scheduler",
            "2020-09-13T12:26:40Z to 2020-09-13T12:30:00Z",
            "by the log",
        ] {
            assert!(page.contains(said), "{name}: {said}");
        }
    }
    bench.file("day.txt", DAY);
    let report = ["replay", "day.txt", "--report", "day.html"];
    assert!(bench.lacuna(&report).status.success());
    let page = std::fs::read_to_string(bench.path("day.html")).unwrap();
    assert!(page.contains("The log and its machine"), "{page}");
    assert!(page.contains("only jobs that ended"), "{page}");
}
