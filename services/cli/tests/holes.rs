//! `lacuna holes` and `lacuna replay` on small logs of every kind, worked out by hand.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

/// Four nodes. Job 1 has n0 and n1 until 100; job 2 needs all and waits until then; job 3 is
/// backfilled on n2 and n3 from 20 to 80, since it ends before; job 2 ends at 150. The last
/// submission, at 200, ends what counts.
const SWF: &str = "\
; Computer: four nodes
; UnixStartTime: 1600000000
; MaxNodes: 4
; MaxProcs: 4
1 0 0 100 2 -1 -1 2 100 -1 1 1 -1 -1 1 -1 -1 -1
2 10 0 50 4 -1 -1 4 60 -1 1 1 -1 -1 1 -1 -1 -1
3 20 0 60 2 -1 -1 2 60 -1 1 1 -1 -1 1 -1 -1 -1
4 200 0 10 1 -1 -1 1 10 -1 1 1 -1 -1 1 -1 -1 -1
";

/// Two nodes; the first job ends at 12:28:20, where what counts begins, the last at 12:33:20.
/// Holes: n1 for 100 s from 12:28:20 and from 12:31:40, n2 for 100 s from 12:30:00.
const SACCT: &str = "\
JobID|Submit|Start|End|NNodes|Timelimit|State|NodeList
1|2020-09-13T12:26:00|2020-09-13T12:26:40|2020-09-13T12:28:20|1|00:10:00|COMPLETED|n1
2|2020-09-13T12:26:00|2020-09-13T12:26:40|2020-09-13T12:30:00|1|00:10:00|COMPLETED|n2
3|2020-09-13T12:26:00|2020-09-13T12:30:00|2020-09-13T12:31:40|1|00:10:00|COMPLETED|n1
4|2020-09-13T12:26:00|2020-09-13T12:31:40|2020-09-13T12:33:20|1|00:10:00|COMPLETED|n2
";

struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let bench = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        bench.file("four.swf", SWF);
        bench.file("sacct.txt", SACCT);
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn file(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn lacuna(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_lacuna"))
            .current_dir(self.folder.path())
            .args(arguments)
            .output()
            .unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.lacuna(&[arguments, &["--json"]].concat());
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn complaint(&self, arguments: &[&str]) -> String {
        let output = self.lacuna(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }
}

fn near(value: &Value, expected: f64) -> bool {
    (value.as_f64().unwrap() - expected).abs() < 1e-9
}

#[test]
fn jobs_without_nodes_are_placed_by_the_simulated_scheduler() {
    let bench = Bench::new();
    let found = bench.json(&["holes", "four.swf"]);
    // n0 and n1 idle for 50 s, n2 and n3 for 20, 20 and 50 s, of 200 s.
    assert!(near(&found["equivalent_nodes"], 280.0 / 200.0), "{found}");
    assert!(near(&found["share"], 0.35), "{found}");
    assert_eq!(found["nodes"], 4);
    assert_eq!(found["start"], "2020-09-13T12:26:40Z");
    assert_eq!(found["end"], "2020-09-13T12:30:00Z");
    let log = &found["log"];
    assert_eq!(log["format"], "swf");
    assert_eq!(log["kind"], "simulated");
    assert_eq!(log["computer"], "four nodes");
    assert_eq!(log["machine_nodes"], 4);
    assert_eq!(log["jobs"]["jobs"], 4);
    assert!(near(&log["jobs"]["utilisation"], 0.65), "{log}");
    // Between steps: n2 and n3 idle from 10 to 20 and from 80 to 100, of 120 s.
    let part = ["--from", "1600000010", "--until", "1600000130"];
    let found = bench.json(&[&["holes", "four.swf"][..], &part].concat());
    assert!(near(&found["share"], 0.125), "{found}");
    assert!(near(&found["log"]["jobs"]["utilisation"], 0.875), "{found}");
    // Without backfill job 3 starts after job 2, at 150, and ends at 210.
    let found = bench.json(&["holes", "four.swf", "--backfill", "none"]);
    assert!(
        near(
            &found["equivalent_nodes"],
            (100.0 * 2.0 + 50.0 * 2.0) / 200.0
        ),
        "{found}"
    );
    // A fifth node is idle all the time.
    let found = bench.json(&["holes", "four.swf", "--machine-nodes", "5"]);
    assert!(near(&found["equivalent_nodes"], 2.4), "{found}");
    // Drained, it is no hole.
    bench.file("drained.csv", "nodes,from,until\n5,1500000000,1700000000\n");
    let machine = ["--machine-nodes", "5", "--outages", "drained.csv"];
    let found = bench.json(&[&["holes", "four.swf"][..], &machine].concat());
    assert!(near(&found["equivalent_nodes"], 1.4), "{found}");
}

#[test]
fn nodes_are_counted_from_one_as_in_lists_of_outages() {
    let bench = Bench::new();
    bench.file("drained.csv", "nodes,from,until\n1,1500000000,1700000000\n");
    let machine = ["--machine-nodes", "5", "--outages", "drained.csv"];
    bench.json(&[&["holes", "four.swf", "--out", "list.csv"][..], &machine].concat());
    let list = std::fs::read_to_string(bench.path("list.csv")).unwrap();
    let mut names: Vec<&str> = list.lines().skip(1).map(|l| &l[..2]).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names, ["n2", "n3", "n4", "n5"], "{list}");
}

#[test]
fn recorded_starts_that_the_log_does_not_tell_are_noted() {
    let bench = Bench::new();
    let recorded = ["holes", "four.swf", "--starts", "recorded"];
    // Its third column is 0 throughout; job 2 finds two nodes of four.
    let notes = bench.json(&recorded)["log"]["notes"].to_string();
    assert!(notes.contains("no job that waited"), "{notes}");
    assert!(notes.contains("1 jobs found too few free nodes"), "{notes}");
    bench.file("four.swf", &SWF.replace("2 10 0 50", "2 10 90 50"));
    let found = bench.json(&recorded);
    let notes = found["log"]["notes"].to_string();
    assert!(
        !notes.contains("waited") && !notes.contains("too few"),
        "{notes}"
    );
    let wait = &found["log"]["jobs"]["mean_recorded_wait_hours"];
    assert!(near(wait, 90.0 / 4.0 / 3600.0), "{found}");
}

#[test]
fn a_switch_that_could_change_nothing_is_refused() {
    let bench = Bench::new();
    bench.json(&["holes", "four.swf", "--out", "list.csv"]);
    for (log, switch, value) in [
        ("sacct.txt", "--overrun", "kill"),
        ("sacct.txt", "--starts", "recorded"),
        ("list.csv", "--backfill", "none"),
        ("list.csv", "--layout", "contiguous"),
        ("list.csv", "--outages", "away.csv"),
    ] {
        let text = bench.complaint(&["holes", log, switch, value]);
        assert!(text.contains(&format!("leave {switch} out")), "{text}");
    }
}

#[test]
fn jobs_with_their_nodes_give_their_holes() {
    let bench = Bench::new();
    let found = bench.json(&["holes", "sacct.txt"]);
    assert!(near(&found["equivalent_nodes"], 1.0), "{found}");
    assert_eq!(found["holes"]["count"], 3);
    assert_eq!(found["start"], "2020-09-13T12:28:20Z");
    assert_eq!(found["end"], "2020-09-13T12:33:20Z");
    assert_eq!(found["log"]["kind"], "placed");
    let notes = found["log"]["notes"].to_string();
    assert!(notes.contains("only jobs that ended"), "{notes}");
    // The clocks of the machine were two hours ahead.
    let zone = ["--time-zone", "Europe/Warsaw"];
    let found = bench.json(&[&["holes", "sacct.txt"][..], &zone].concat());
    assert_eq!(found["start"], "2020-09-13T10:28:20Z");
    // A third node that never had a job is known only from a list.
    bench.file("all.txt", "n1\nn2\nn3\n");
    let found = bench.json(&["holes", "sacct.txt", "--nodes-file", "all.txt"]);
    assert!(near(&found["equivalent_nodes"], 2.0), "{found}");
    let away = "n3,2020-09-13T12:00:00Z,2020-09-13T13:00:00Z\n";
    bench.file("away.csv", away);
    let listed = ["--nodes-file", "all.txt", "--reservations", "away.csv"];
    let found = bench.json(&[&["holes", "sacct.txt"][..], &listed].concat());
    assert!(near(&found["equivalent_nodes"], 1.0), "{found}");
}

#[test]
fn a_table_without_a_header_needs_its_columns() {
    let bench = Bench::new();
    let (_, rows) = SACCT.split_once('\n').unwrap();
    bench.file("bare.txt", rows);
    let columns = "jobid,submit,start,end,nnodes,timelimit,state,nodelist";
    let found = bench.json(&["holes", "bare.txt", "--columns", columns]);
    assert!(near(&found["equivalent_nodes"], 1.0), "{found}");
    let text = bench.complaint(&["holes", "bare.txt"]);
    assert!(
        text.contains("--columns") || text.contains("L0018"),
        "{text}"
    );
}

#[test]
fn damage_is_said_with_its_place_and_refused_if_asked() {
    let bench = Bench::new();
    bench.file("bad.swf", &SWF.replace("3 20 0 60", "3 soon 0 60"));
    let output = bench.lacuna(&["holes", "bad.swf"]);
    assert!(output.status.success(), "{output:?}");
    let warning = String::from_utf8(output.stderr).unwrap();
    assert!(warning.contains("1 damaged line was skipped"), "{warning}");
    assert!(warning.contains("line 7, "), "{warning}");
    let found = bench.json(&["holes", "bad.swf"]);
    assert_eq!(found["log"]["damaged_lines"], 1);
    assert_eq!(found["log"]["jobs"]["jobs"], 3);
    let text = bench.complaint(&["holes", "bad.swf", "--strict"]);
    assert!(text.contains("line 7"), "{text}");
    let text = bench.complaint(&["replay", "bad.swf", "--strict"]);
    assert!(text.contains("line 7"), "{text}");
}

#[test]
fn what_is_not_known_is_asked_for() {
    let bench = Bench::new();
    bench.file("poem.txt", "in the beginning\nwas the queue\n");
    let text = bench.complaint(&["holes", "poem.txt"]);
    assert!(
        text.contains("--format") && text.contains("L0018"),
        "{text}"
    );
    let unsized_ = SWF.replace("; MaxNodes: 4\n; MaxProcs: 4\n", "");
    bench.file("unsized.swf", &unsized_);
    let text = bench.complaint(&["holes", "unsized.swf"]);
    assert!(
        text.contains("--machine-nodes") && text.contains("L0019"),
        "{text}"
    );
    for (arguments, expected) in [
        (&["--first-nodes", "2"][..], "without"),
        (&["--from", "99999999999"], "--from is 5138-11-16T09:46:39Z"),
        (&["--until", "1600000000"], "--until 2020-09-13T12:26:40Z"),
        (&["--outages", "none.csv"], "cannot read none.csv"),
    ] {
        let text = bench.complaint(&[&["holes", "four.swf"][..], arguments].concat());
        assert!(text.contains(expected), "{arguments:?}: {text}");
    }
    for wrong in [
        &["--format", "excel"][..],
        &["--time-zone", "Moon/Tranquility"],
        &["--machine-nodes", "0"],
        &["--backfill", "sometimes"],
    ] {
        let output = bench.lacuna(&[&["holes", "four.swf"][..], wrong].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {output:?}");
    }
}

#[test]
fn the_list_that_is_written_has_the_same_holes() {
    let bench = Bench::new();
    for log in ["four.swf", "sacct.txt"] {
        let first = bench.json(&["holes", log, "--out", "list.csv.gz"]);
        let again = bench.json(&["holes", "list.csv.gz"]);
        assert_eq!(first["holes"]["count"], again["holes"]["count"], "{log}");
        assert_eq!(first["holes"]["node_hours"], again["holes"]["node_hours"]);
        assert_eq!(again["log"]["kind"], "holes");
        assert_eq!(again["log"]["damaged_lines"], 0);
    }
    let text = bench.complaint(&["holes", "four.swf", "--out", "no/such/list.csv"]);
    assert!(text.contains("cannot write no/such/list.csv"), "{text}");
}

#[test]
fn pictures_stand_alone() {
    let bench = Bench::new();
    let pictures = ["--report", "pool.html", "--svg", "pool.svg"];
    let output = bench.lacuna(&[&["holes", "four.swf"][..], &pictures].concat());
    assert!(output.status.success(), "{output:?}");
    let page = std::fs::read_to_string(bench.path("pool.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("<svg"));
    let picture = std::fs::read_to_string(bench.path("pool.svg")).unwrap();
    assert!(picture.starts_with("<svg"), "{picture}");
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(
        table.contains("placed by the simulated scheduler"),
        "{table}"
    );
}

#[test]
fn a_replay_of_any_log_needs_nothing_else() {
    let bench = Bench::new();
    for (log, kind, node_s) in [
        ("four.swf", "simulated", 280.0),
        ("sacct.txt", "placed", 300.0),
    ] {
        let found = bench.json(&["replay", log, "--report", "out.html"]);
        assert_eq!(found["log"]["kind"], kind);
        assert_eq!(found["settings"]["endless"], true);
        let notes = found["log"]["notes"].to_string();
        assert!(notes.contains("ShuffleNet on ImageNet"), "{notes}");
        let offered =
            found["equivalent_nodes"].as_f64().unwrap() * found["hours"].as_f64().unwrap();
        assert!((offered * 3600.0 - node_s).abs() < 1e-6, "{found}");
        let used = found["harvested_node_hours"].as_f64().unwrap() * 3600.0;
        assert!(used > 0.9 * node_s && used <= node_s + 1e-6, "{found}");
        assert!(found["efficiency"].as_f64().unwrap() > 0.0, "{found}");
        let page = std::fs::read_to_string(bench.path("out.html")).unwrap();
        assert!(page.starts_with("<!doctype html>") && page.contains("ShuffleNet"));
    }
}

#[test]
fn crowded_time_can_be_left_out() {
    let bench = Bench::new();
    bench.file(
        "holes.csv",
        "node,idle_from,idle_until,censored\na,1000,1100,0\nb,1020,1030,0\n",
    );
    let found = bench.json(&["holes", "holes.csv", "--leave-out-idle-above", "1"]);
    assert!(
        near(&found["holes"]["node_hours"], 90.0 / 3600.0),
        "{found}"
    );
    let notes = found["log"]["notes"].to_string();
    assert!(notes.contains("more than 1 nodes were idle"), "{notes}");
    // n2 and n3 from 0 to 20 and from 80 to 100; from 150 on all four are idle.
    let found = bench.json(&["holes", "four.swf", "--leave-out-idle-above", "2"]);
    assert!(
        near(&found["holes"]["node_hours"], 80.0 / 3600.0),
        "{found}"
    );
}

#[test]
fn states_of_nodes_count_from_the_first_look() {
    let bench = Bench::new();
    let states = "time,node,state\n1000,a,busy\n1100,a,idle\n1200,a,busy\n";
    bench.file("states.csv", states);
    let found = bench.json(&["holes", "states.csv"]);
    assert_eq!(found["log"]["format"], "node-states");
    // Idle for the second half of 200 s.
    assert!(near(&found["equivalent_nodes"], 0.5), "{found}");
    let from = ["holes", "states.csv", "--from", "1050"];
    assert!(near(&bench.json(&from)["equivalent_nodes"], 100.0 / 150.0));
}

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
    let bench = Bench::new();
    bench.file("day.txt", DAY);
    let found = bench.json(&["holes", "day.txt"]);
    assert_eq!(found["start"], "2024-01-01T01:00:00Z");
    assert_eq!(found["end"], "2024-01-02T01:00:00Z");
    assert!(near(&found["share"], 1.0 / 48.0), "{found}");
    assert!(near(&found["log"]["jobs"]["utilisation"], 47.0 / 48.0));
    // The same part for both, and the same nodes.
    let evening = ["--from", "2024-01-01T20:00:00Z", "--until", "1704146400"];
    let found = bench.json(&[&["holes", "day.txt"][..], &evening].concat());
    assert!(near(&found["share"], 0.25), "{found}");
    assert!(near(&found["log"]["jobs"]["utilisation"], 0.75), "{found}");
    bench.file("order.txt", "n2\nn1\n");
    let one = ["--first-nodes", "1", "--nodes-file", "order.txt"];
    let found = bench.json(&[&["holes", "day.txt"][..], &one].concat());
    assert!(near(&found["log"]["jobs"]["utilisation"], 1.0), "{found}");
    assert_eq!(
        (&found["nodes"], &found["hours"]),
        (&1.into(), &24.0.into())
    );
    // Dates are the machine's.
    let zone = [
        "--time-zone",
        "Europe/Warsaw",
        "--until",
        "2024-01-01T22:00",
    ];
    let found = bench.json(&[&["holes", "day.txt"][..], &zone].concat());
    assert_eq!(found["end"], "2024-01-01T21:00:00Z");
    let (_, rows) = DAY.split_once('\n').unwrap();
    bench.file("twice.txt", &format!("{DAY}{rows}"));
    let twice = bench.json(&["holes", "twice.txt"]);
    assert!(near(&twice["log"]["jobs"]["busy_time_shared"], 1.0));
    assert!(twice["log"]["notes"].to_string().contains("records twice"));
    let early = bench.json(&["holes", "day.txt", "--from", "2023-12-31"]);
    let notes = early["log"]["notes"].to_string();
    assert!(
        notes.contains("lies before the end of its first job"),
        "{notes}"
    );
    assert!(notes.contains("no zone are taken as UTC"), "{notes}");
}

#[test]
fn a_machine_that_is_always_full_is_an_answer() {
    let bench = Bench::new();
    let full = DAY.replace("01T21:00", "01T22:00");
    bench.file("full.txt", &full);
    let found = bench.json(&["holes", "full.txt"]);
    assert_eq!(found["holes"]["count"], 0);
    assert_eq!(found["hours"], 24.0);
    assert!(near(&found["log"]["jobs"]["utilisation"], 1.0));
    let replayed = bench.json(&["replay", "full.txt", "--report", "full.html"]);
    assert_eq!(
        (&replayed["hours"], &replayed["samples"]),
        (&24.0.into(), &0.0.into())
    );
    bench.file("empty.csv", "node,idle_from,idle_until,censored\n");
    let text = bench.complaint(&["holes", "empty.csv"]);
    assert!(text.contains("there is no hole in it"), "{text}");
    // Looks at the nodes bound what was watched, before the first hole and after the last.
    let states =
        "time,node,state\n1000,a,busy\n1000,b,busy\n1100,a,idle\n1200,a,busy\n1500,b,busy\n";
    bench.file("states.csv", states);
    let found = bench.json(&["holes", "states.csv"]);
    assert!(near(&found["share"], 100.0 / 500.0 / 2.0), "{found}");
    assert_eq!(found["log"]["machine_nodes"], 2);
}

#[test]
fn a_job_without_an_end_is_over_with_its_walltime() {
    let bench = Bench::new();
    let row = "9|2024-01-01T00:00:00|2024-01-01T21:10:00|Unknown|RUNNING|1|00:10:00|n1\n";
    bench.file("runaway.txt", &format!("{DAY}{row}"));
    let found = bench.json(&["holes", "runaway.txt"]);
    // Ten minutes less than without it.
    assert!(near(&found["holes"]["node_hours"], 50.0 / 60.0), "{found}");
    assert_eq!(found["log"]["jobs"]["over_with_their_walltime"], 1);
    let notes = found["log"]["notes"].to_string();
    assert!(notes.contains("1 job without an end"), "{notes}");
    // It says nothing of jobs that ran at the end.
    assert!(notes.contains("only jobs that ended"), "{notes}");
    // One that may still run does, and holds its node; 50 minutes are left.
    let row = row.replace("00:10:00", "1-00:00:00");
    bench.file("running.txt", &format!("{DAY}{row}"));
    let found = bench.json(&["holes", "running.txt"]);
    assert!(near(&found["holes"]["node_hours"], 10.0 / 60.0), "{found}");
    assert_eq!(found["log"]["jobs"]["running_at_the_end"], 1);
    let notes = found["log"]["notes"].to_string();
    assert!(!notes.contains("only jobs that ended"), "{notes}");
}

#[test]
fn nodes_of_another_machine_are_refused() {
    let bench = Bench::new();
    bench.file("day.txt", DAY);
    bench.file("other.txt", "x1\nx2\n");
    let text = bench.complaint(&["holes", "day.txt", "--nodes-file", "other.txt"]);
    assert!(text.contains("such as n1, 0 are in this list"), "{text}");
    assert!(text.contains("names such as x1"), "{text}");
    bench.file("half.txt", "n1\nx2\n");
    let found = bench.json(&["holes", "day.txt", "--nodes-file", "half.txt"]);
    let log = &found["log"];
    assert_eq!(log["jobs"]["on_nodes_not_listed"], 1);
    assert!(log["jobs"]["end_before_they_start"].is_null(), "{log}");
    let notes = log["notes"].to_string();
    assert!(
        notes.contains("1 of the 2 nodes that the log names, such as n2"),
        "{notes}"
    );
    assert!(notes.contains("1 job ran only there, 2 in part"), "{notes}");
    // Of a list of holes as well; one that merely lies beside it is not used.
    let list = "node,idle_from,idle_until,censored\na,1000,1100,0\n";
    bench.file("holes.csv", list);
    let text = bench.complaint(&["holes", "holes.csv", "--nodes-file", "other.txt"]);
    assert!(text.contains("of the 1 nodes"), "{text}");
    bench.file("nodes.txt", "x1\nx2\n");
    let found = bench.json(&["holes", "holes.csv"]);
    assert_eq!(found["nodes"], 1);
    assert!(found["log"]["notes"].to_string().contains("is not used"));
}

#[test]
fn the_size_of_the_machine_fits_its_log() {
    let bench = Bench::new();
    bench.file("day.txt", DAY);
    let text = bench.complaint(&["holes", "day.txt", "--machine-nodes", "1"]);
    assert!(
        text.contains("names 2 nodes, more than --machine-nodes 1"),
        "{text}"
    );
    let found = bench.json(&["holes", "day.txt", "--machine-nodes", "8"]);
    assert!(near(&found["share"], 1.0 / 192.0), "{found}");
    let notes = found["log"]["notes"].to_string();
    assert!(
        notes.contains("6 nodes of the machine's 8 are not named"),
        "{notes}"
    );
    bench.file(
        "huge.swf",
        &SWF.replace("MaxNodes: 4", "MaxNodes: 4000000000"),
    );
    let text = bench.complaint(&["holes", "huge.swf"]);
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
    let bench = Bench::new();
    let pipe = bench.path("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let feed = |text: &'static str| {
        let pipe = pipe.clone();
        // Ends when the reader is gone.
        std::thread::spawn(move || std::fs::write(pipe, text))
    };
    let writer = feed(DAY);
    let text = bench.complaint(&["holes", "pipe"]);
    assert!(text.contains("pipe is no regular file"), "{text}");
    assert!(text.contains("write it to a file first"), "{text}");
    let _ = writer.join();
    // What is read once may come from anywhere.
    let writer = feed("node,idle_from,idle_until,censored\na,1000,1100,0\n");
    let found = bench.json(&["holes", "pipe"]);
    assert_eq!(found["holes"]["count"], 1);
    writer.join().unwrap().unwrap();
}

#[test]
fn what_no_job_could_be_read_from_says_why() {
    let bench = Bench::new();
    bench.file("noise.txt", &"1|a|b|c|d|e|f|g\n".repeat(3));
    let columns = "jobid,submit,start,end,nnodes,timelimit,state,nodelist";
    let text = bench.complaint(&["holes", "noise.txt", "--columns", columns]);
    assert!(text.contains("no job could be read"), "{text}");
    assert!(
        text.contains("3 damaged lines, the first: line 1, "),
        "{text}"
    );
    // Holes that contradict each other are damage.
    let twice = "node,idle_from,idle_until,censored\na,1000,1100,0\na,1000,1100,0\n";
    bench.file("twice.csv", twice);
    let found = bench.json(&["holes", "twice.csv"]);
    assert_eq!(found["log"]["refused_holes"]["duplicates"], 1);
    let text = bench.complaint(&["holes", "twice.csv", "--strict"]);
    assert!(text.contains("1 stand there twice"), "{text}");
}

#[test]
fn what_is_doubtful_stands_on_the_pictures_too() {
    let bench = Bench::new();
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
