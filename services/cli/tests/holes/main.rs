//! `lacuna holes` and `lacuna replay` on small logs of each kind, with figures worked out by hand.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod caveats;
mod learnt;
mod slurm;

use serde_json::Value;

use lacuna_testkit::{Bench, json};

/// Four nodes. Job 1 has n0 and n1 until 100; job 2 needs all and waits until then. Job 3 is
/// backfilled on n2 and n3 from 20 to 80, since it ends before 100; job 2 ends at 150. The log
/// counts up to its last submission, at 200.
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

/// Two nodes. The log counts from the first end, at 12:28:20, to the last, at 12:33:20.
/// Holes: n1 for 100 s from 12:28:20 and from 12:31:40, n2 for 100 s from 12:30:00.
const SACCT: &str = "\
JobID|Submit|Start|End|NNodes|Timelimit|State|NodeList
1|2020-09-13T12:26:00|2020-09-13T12:26:40|2020-09-13T12:28:20|1|00:10:00|COMPLETED|n1
2|2020-09-13T12:26:00|2020-09-13T12:26:40|2020-09-13T12:30:00|1|00:10:00|COMPLETED|n2
3|2020-09-13T12:26:00|2020-09-13T12:30:00|2020-09-13T12:31:40|1|00:10:00|COMPLETED|n1
4|2020-09-13T12:26:00|2020-09-13T12:31:40|2020-09-13T12:33:20|1|00:10:00|COMPLETED|n2
";

fn folder() -> Bench {
    Bench::with(&[("four.swf", SWF), ("sacct.txt", SACCT)])
}

fn figures(bench: &Bench, arguments: &[&str]) -> Value {
    json(&bench.lacuna(&[arguments, &["--json"]].concat()))
}

fn complaint(bench: &Bench, arguments: &[&str]) -> String {
    let output = bench.lacuna(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn near(value: &Value, expected: f64) -> bool {
    (value.as_f64().unwrap() - expected).abs() < 1e-9
}

#[test]
fn jobs_without_nodes_are_placed_by_the_simulated_scheduler() {
    let bench = folder();
    let found = figures(&bench, &["holes", "four.swf"]);
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
    let found = figures(&bench, &[&["holes", "four.swf"][..], &part].concat());
    assert!(near(&found["share"], 0.125), "{found}");
    assert!(near(&found["log"]["jobs"]["utilisation"], 0.875), "{found}");
    // Without backfill job 3 starts after job 2, at 150, and ends at 210.
    let found = figures(&bench, &["holes", "four.swf", "--backfill", "none"]);
    assert!(
        near(
            &found["equivalent_nodes"],
            (100.0 * 2.0 + 50.0 * 2.0) / 200.0
        ),
        "{found}"
    );
    // A fifth node is idle all the time.
    let found = figures(&bench, &["holes", "four.swf", "--machine-nodes", "5"]);
    assert!(near(&found["equivalent_nodes"], 2.4), "{found}");
    // Drained, it is no hole.
    bench.file("drained.csv", "nodes,from,until\n5,1500000000,1700000000\n");
    let machine = ["--machine-nodes", "5", "--outages", "drained.csv"];
    let found = figures(&bench, &[&["holes", "four.swf"][..], &machine].concat());
    assert!(near(&found["equivalent_nodes"], 1.4), "{found}");
}

#[test]
fn nodes_are_counted_from_one_as_in_lists_of_outages() {
    let bench = folder();
    bench.file("drained.csv", "nodes,from,until\n1,1500000000,1700000000\n");
    let machine = ["--machine-nodes", "5", "--outages", "drained.csv"];
    figures(
        &bench,
        &[&["holes", "four.swf", "--out", "list.csv"][..], &machine].concat(),
    );
    let list = std::fs::read_to_string(bench.path("list.csv")).unwrap();
    let mut names: Vec<&str> = list.lines().skip(1).map(|l| &l[..2]).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names, ["n2", "n3", "n4", "n5"], "{list}");
}

#[test]
fn missing_recorded_starts_are_noted() {
    let bench = folder();
    let recorded = ["holes", "four.swf", "--starts", "recorded"];
    // The third column is 0 throughout; job 2 finds only two free nodes of four.
    let notes = figures(&bench, &recorded)["log"]["notes"].to_string();
    assert!(notes.contains("no job of the log waited"), "{notes}");
    assert!(notes.contains("1 jobs found too few free nodes"), "{notes}");
    bench.file("four.swf", &SWF.replace("2 10 0 50", "2 10 90 50"));
    let found = figures(&bench, &recorded);
    let notes = found["log"]["notes"].to_string();
    assert!(
        !notes.contains("waited") && !notes.contains("too few"),
        "{notes}"
    );
    let wait = &found["log"]["jobs"]["mean_recorded_wait_hours"];
    assert!(near(wait, 90.0 / 4.0 / 3600.0), "{found}");
}

#[test]
fn a_switch_without_effect_is_refused() {
    let bench = folder();
    figures(&bench, &["holes", "four.swf", "--out", "list.csv"]);
    for (log, switch, value) in [
        ("sacct.txt", "--overrun", "kill"),
        ("sacct.txt", "--starts", "recorded"),
        ("list.csv", "--backfill", "none"),
        ("list.csv", "--layout", "contiguous"),
        ("list.csv", "--outages", "away.csv"),
    ] {
        let text = complaint(&bench, &["holes", log, switch, value]);
        assert!(text.contains(&format!("leave {switch} out")), "{text}");
    }
}

#[test]
fn jobs_with_nodes_give_holes() {
    let bench = folder();
    let found = figures(&bench, &["holes", "sacct.txt"]);
    assert!(near(&found["equivalent_nodes"], 1.0), "{found}");
    assert_eq!(found["holes"]["count"], 3);
    assert_eq!(found["start"], "2020-09-13T12:28:20Z");
    assert_eq!(found["end"], "2020-09-13T12:33:20Z");
    assert_eq!(found["log"]["kind"], "placed");
    let notes = found["log"]["notes"].to_string();
    assert!(notes.contains("only jobs that ended"), "{notes}");
    // The clocks of the machine were two hours ahead.
    let zone = ["--time-zone", "Europe/Warsaw"];
    let found = figures(&bench, &[&["holes", "sacct.txt"][..], &zone].concat());
    assert_eq!(found["start"], "2020-09-13T10:28:20Z");
    // A third node that never had a job is known only from a list.
    bench.file("all.txt", "n1\nn2\nn3\n");
    let found = figures(&bench, &["holes", "sacct.txt", "--nodes-file", "all.txt"]);
    assert!(near(&found["equivalent_nodes"], 2.0), "{found}");
    let away = "n3,2020-09-13T12:00:00Z,2020-09-13T13:00:00Z\n";
    bench.file("away.csv", away);
    let listed = ["--nodes-file", "all.txt", "--reservations", "away.csv"];
    let found = figures(&bench, &[&["holes", "sacct.txt"][..], &listed].concat());
    assert!(near(&found["equivalent_nodes"], 1.0), "{found}");
}

#[test]
fn a_table_without_a_header_needs_its_columns() {
    let bench = folder();
    let (_, rows) = SACCT.split_once('\n').unwrap();
    bench.file("bare.txt", rows);
    let columns = "jobid,submit,start,end,nnodes,timelimit,state,nodelist";
    let found = figures(&bench, &["holes", "bare.txt", "--columns", columns]);
    assert!(near(&found["equivalent_nodes"], 1.0), "{found}");
    let text = complaint(&bench, &["holes", "bare.txt"]);
    assert!(
        text.contains("--columns") || text.contains("L0018"),
        "{text}"
    );
}

#[test]
fn damage_is_said_with_its_place_and_refused_if_asked() {
    let bench = folder();
    bench.file("bad.swf", &SWF.replace("3 20 0 60", "3 soon 0 60"));
    let output = bench.lacuna(&["holes", "bad.swf"]);
    assert!(output.status.success(), "{output:?}");
    let warning = String::from_utf8(output.stderr).unwrap();
    assert!(warning.contains("1 damaged line was skipped"), "{warning}");
    assert!(warning.contains("line 7, "), "{warning}");
    let found = figures(&bench, &["holes", "bad.swf"]);
    assert_eq!(found["log"]["damaged_lines"], 1);
    assert_eq!(found["log"]["jobs"]["jobs"], 3);
    let text = complaint(&bench, &["holes", "bad.swf", "--strict"]);
    assert!(text.contains("line 7"), "{text}");
}

#[test]
fn missing_data_are_asked_for() {
    let bench = folder();
    bench.file("poem.txt", "in the beginning\nwas the queue\n");
    let text = complaint(&bench, &["holes", "poem.txt"]);
    assert!(
        text.contains("--format") && text.contains("L0018"),
        "{text}"
    );
    let unsized_ = SWF.replace("; MaxNodes: 4\n; MaxProcs: 4\n", "");
    bench.file("unsized.swf", &unsized_);
    let text = complaint(&bench, &["holes", "unsized.swf"]);
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
        let text = complaint(&bench, &[&["holes", "four.swf"][..], arguments].concat());
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
fn a_written_list_has_the_same_holes() {
    let bench = folder();
    for log in ["four.swf", "sacct.txt"] {
        let first = figures(&bench, &["holes", log, "--out", "list.csv.gz"]);
        let again = figures(&bench, &["holes", "list.csv.gz"]);
        assert_eq!(first["holes"]["count"], again["holes"]["count"], "{log}");
        assert_eq!(first["holes"]["node_hours"], again["holes"]["node_hours"]);
        assert_eq!(again["log"]["kind"], "holes");
        assert_eq!(again["log"]["damaged_lines"], 0);
    }
    let text = complaint(&bench, &["holes", "four.swf", "--out", "no/such/list.csv"]);
    assert!(text.contains("cannot write no/such/list.csv"), "{text}");
}

#[test]
fn report_and_drawing_are_self_contained() {
    let bench = folder();
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
fn a_replay_of_any_log_needs_no_other_file() {
    let bench = folder();
    for (log, kind, node_s) in [
        ("four.swf", "simulated", 280.0),
        ("sacct.txt", "placed", 300.0),
    ] {
        let found = figures(&bench, &["replay", log, "--report", "out.html"]);
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
fn outages_can_be_left_out() {
    let bench = folder();
    bench.file(
        "holes.csv",
        "node,idle_from,idle_until,censored\na,1000,1100,0\nb,1020,1030,0\n",
    );
    let found = figures(
        &bench,
        &["holes", "holes.csv", "--leave-out-idle-above", "1"],
    );
    assert!(
        near(&found["holes"]["node_hours"], 90.0 / 3600.0),
        "{found}"
    );
    assert_eq!(found["log"]["left_out"]["above"], 1);
    // n2 and n3 from 0 to 20 and from 80 to 100; from 150 on all four are idle.
    let found = figures(
        &bench,
        &["holes", "four.swf", "--leave-out-idle-above", "2"],
    );
    assert!(
        near(&found["holes"]["node_hours"], 80.0 / 3600.0),
        "{found}"
    );
}

#[test]
fn states_of_nodes_count_from_the_first_observation() {
    let bench = folder();
    let states = "time,node,state\n1000,a,busy\n1100,a,idle\n1200,a,busy\n";
    bench.file("states.csv", states);
    let found = figures(&bench, &["holes", "states.csv"]);
    assert_eq!(found["log"]["format"], "node-states");
    // Idle for the second half of 200 s.
    assert!(near(&found["equivalent_nodes"], 0.5), "{found}");
    let from = ["holes", "states.csv", "--from", "1050"];
    assert!(near(
        &figures(&bench, &from)["equivalent_nodes"],
        100.0 / 150.0
    ));
}

#[test]
fn pilots_are_no_batch_jobs_and_tell_what_was_harvested() {
    let hour =
        |from: u32, until: u32| format!("2024-01-01T{from:02}:00:00|2024-01-01T{until:02}:00:00");
    let log = format!(
        "JobID|JobName|Account|Partition|Start|End|State|NNodes|NodeList\n\
         1|a|phys|batch|{}|COMPLETED|2|n[1-2]\n\
         2|lacuna-pilot|ml|idle|{}|PREEMPTED|1|n1\n\
         3|lacuna-pilot|ml|idle|{}|PREEMPTED|1|n2\n\
         4|b|phys|batch|{}|COMPLETED|2|n[1-2]\n",
        hour(0, 1),
        hour(1, 5),
        hour(1, 3),
        hour(5, 6)
    );
    let bench = Bench::with(&[("log.txt", &log)]);
    for marks in [&[][..], &["--ours", "account=ml,partition=idle"]] {
        for command in ["holes", "replay"] {
            let found = figures(&bench, &[&[command, "log.txt"][..], marks].concat());
            assert!(near(&found["equivalent_nodes"], 8.0 / 5.0), "{found}");
            let jobs = &found["log"]["jobs"];
            assert_eq!(jobs["pilots"], 2);
            assert!(near(&jobs["pilot_node_hours"], 6.0), "{found}");
            assert!(near(&jobs["utilisation"], 0.2), "{found}");
        }
    }
    let found = figures(&bench, &["holes", "log.txt", "--ours", "name=other"]);
    assert!(near(&found["equivalent_nodes"], 2.0 / 5.0), "{found}");
    let notes = found["log"]["notes"].to_string();
    assert!(notes.contains("no job fits --ours"), "{notes}");
    for mark in ["account=ml", "partition=idle", "name=lacuna"] {
        let found = figures(&bench, &["holes", "log.txt", "--ours", mark]);
        assert_eq!(found["log"]["jobs"]["pilots"], 2, "{mark}: {found}");
    }
    // Without nodes nothing says which of them were idle but for pilots.
    let bare = log
        .replace("|n[1-2]", "|")
        .replace("|n1", "|")
        .replace("|n2", "|");
    bench.file("bare.txt", &bare);
    let nodes = ["holes", "bare.txt", "--machine-nodes", "2"];
    let notes = figures(&bench, &nodes)["log"]["notes"].to_string();
    assert!(
        notes.contains("pilots of Lacuna and names no nodes"),
        "{notes}"
    );
    let text = complaint(&bench, &[&nodes[..], &["--ours", "account=ml"]].concat());
    assert!(
        text.contains("--ours needs a log that names nodes"),
        "{text}"
    );
}

#[test]
fn outages_count_as_busy_in_every_figure_of_every_answer() {
    // A hundred nodes run one job after the other, but for an outage of 8 h. One node is always idle.
    let mut log = "JobID|Submit|Start|End|NNodes|Timelimit|State|NodeList\n".to_owned();
    let at = |minutes: i64| {
        let at = jiff::Timestamp::from_second(1_600_000_000 + minutes * 60).unwrap();
        at.to_string().trim_end_matches('Z').to_owned()
    };
    let mut job = |from: i64, until: i64, nodes: &str, count: u32| {
        let (from, until) = (at(from), at(until));
        log.push_str(&format!(
            "1|{from}|{from}|{until}|{count}|10:00:00|COMPLETED|{nodes}\n"
        ));
    };
    for node in 0..100 {
        for from in (0..600).step_by(60).chain((1080..1680).step_by(60)) {
            job(from, from + 60, &format!("n{node}"), 1);
        }
    }
    job(0, 60, "n100", 1);
    job(1620, 1680, "n100", 1);
    let bench = Bench::with(&[("sacct.txt", &log)]);
    let time = ["--from", "1600003600", "--until", "1600097200"];
    for command in ["replay", "holes"] {
        let found = figures(&bench, &[&[command, "sacct.txt"][..], &time].concat());
        let left_out = &found["log"]["left_out"];
        assert_eq!(left_out["outages"], 1, "{found}");
        assert!(near(&left_out["hours"], 8.0), "{found}");
        assert!(near(&left_out["of_hours"], 26.0), "{found}");
        assert!(near(&found["equivalent_nodes"], 18.0 / 26.0), "{found}");
        let pool = found["pool"]["equivalent_nodes"].as_f64();
        assert!(
            pool.is_none_or(|mean| (mean - 18.0 / 26.0).abs() < 1e-9),
            "{found}"
        );
        let page = [&[command, "sacct.txt", "--report", "page.html"][..], &time].concat();
        let table = String::from_utf8(bench.lacuna(&page).stdout).unwrap();
        let page = std::fs::read_to_string(bench.path("page.html")).unwrap();
        for text in [table, page] {
            let said = "8.0 h of 26.0 h count as busy, as an outage";
            assert!(text.contains(said), "{text}");
        }
    }
    let all = ["holes", "sacct.txt", "--leave-out-idle-above", "none"];
    let found = figures(&bench, &[&all[..], &time].concat());
    assert!(near(&found["equivalent_nodes"], 826.0 / 26.0), "{found}");
}

#[test]
fn an_answer_is_of_the_time_in_which_something_was_replayed() {
    // One node is idle for 100 s, then two, and from 300 s to 310 s 130 nodes.
    let mut list = "node,idle_from,idle_until,censored\nn0,0,1000,0\nn1,100,1000,0\n".to_owned();
    for node in 2..130 {
        list.push_str(&format!("n{node},300,310,0\n"));
    }
    let trainer = r#"{"name":"a","submit":0,"min_nodes":1,"max_nodes":1,"rescale_up_s":0,"rescale_down_s":0,"samples":2000,"nodes":[1],"samples_per_s":[10]}"#;
    let bench = Bench::with(&[("holes.csv", &list), ("one.jsonl", trainer)]);
    let replay = ["replay", "holes.csv", "--trainers", "one.jsonl"];
    let found = figures(&bench, &replay);
    // Its work takes 200 s, in which one node is idle for a half and two for the other.
    assert!(near(&found["hours"], 200.0 / 3600.0), "{found}");
    for mean in [
        &found["equivalent_nodes"],
        &found["pool"]["equivalent_nodes"],
    ] {
        assert!(near(mean, 1.5), "{found}");
    }
    let left_out = &found["log"]["left_out"];
    assert_eq!(left_out["outages"], 0);
    assert!(near(&left_out["of_hours"], 200.0 / 3600.0), "{found}");
}

#[test]
fn no_file_that_is_read_is_written_over() {
    let holes = "node,idle_from,idle_until,censored\na,0,100,0\nb,50,300,0\n";
    let bench = Bench::with(&[("holes.csv", holes)]);
    std::os::unix::fs::symlink(bench.path("holes.csv"), bench.path("link")).unwrap();
    for arguments in [
        &["holes", "holes.csv", "--out", "holes.csv"][..],
        &["holes", "link", "--report", "holes.csv"],
        &["replay", "holes.csv", "--report", "./holes.csv"],
        &["forecast", "learn", "holes.csv", "--out", "link"],
    ] {
        let text = complaint(&bench, arguments);
        assert!(text.contains("not written over"), "{text}");
        let kept = std::fs::read_to_string(bench.path("holes.csv")).unwrap();
        assert_eq!(kept, holes, "{arguments:?}");
    }
}
