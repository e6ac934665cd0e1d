//! `--from-slurm`: programs in the place of Slurm's serve slices of a recorded accounting.

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output};

use lacuna_testkit::{Bench, json, program};
use serde_json::Value;

use super::{complaint, figures};

const COLUMNS: &str =
    "JobID|Submit|Start|End|State|NNodes|TimelimitRaw|NodeList|User|Partition|Account|JobName";

/// Answers as `sacct` does: the jobs that ran within a time. Notes each question.
const SACCT: &str = r#"#!/bin/bash
cd "$(dirname "$0")"
for word; do
  case $word in --starttime=*) from=${word#*=};; --endtime=*) until=${word#*=};; esac
done
echo "$from $until $TZ" >> asked
[ -e crowded ] && [[ $from < "$(cat crowded)" ]] && (( $(date -ud "$until" +%s) - $(date -ud "$from" +%s) > 50000 )) && head -c 140000000 /dev/zero
[ -e broken ] && [[ $from > "$(cat broken)" ]] && { echo "sacct: error: slurmdbd: refused" >&2; exit 1; }
awk -F'|' -v from="$from" -v until="$until" '$3 <= until && ($4 >= from || $4 == "Unknown")' jobs
"#;

const SINFO: &str = "#!/bin/bash\nprintf 'n0\\nn1\\nn1\\nn2\\nn3\\n'\n";
const SACCTMGR: &str = "#!/bin/bash\ncat \"$(dirname \"$0\")/events\"\n";

/// A moment some minutes ago, as Slurm writes it.
fn ago(minutes: i64) -> String {
    let now = std::time::SystemTime::UNIX_EPOCH
        .elapsed()
        .unwrap()
        .as_secs() as i64;
    let at = jiff::Timestamp::from_second(now - minutes * 60).unwrap();
    at.to_string().trim_end_matches('Z').to_owned()
}

/// Four days of jobs on three nodes. One of them is over two days long, one runs still, and one has
/// a name of two lines.
fn jobs() -> String {
    let mut rows = Vec::new();
    for (number, start) in (0..5700).step_by(50).enumerate() {
        let (from, until) = (5750 - start, 5750 - start - 40);
        let name = if number == 40 {
            "a\nname|of two lines"
        } else {
            "job"
        };
        rows.push(format!(
            "{number}|{0}|{0}|{1}|COMPLETED|1|60|n{2}|ann|batch|phys|{name}",
            ago(from),
            ago(until),
            number % 2
        ));
    }
    rows.push(format!(
        "900|{0}|{0}|{1}|COMPLETED|1|9000|n2|ann|batch|phys|long",
        ago(5000),
        ago(1500)
    ));
    rows.push(format!(
        "901|{0}|{0}|Unknown|RUNNING|1|9000|n2|ann|batch|phys|runs",
        ago(600)
    ));
    rows.join("\n") + "\n"
}

fn slurm(jobs: &str) -> Bench {
    let bench = Bench::with(&[("jobs", jobs), ("events", "")]);
    for (name, text) in [("sacct", SACCT), ("sinfo", SINFO), ("sacctmgr", SACCTMGR)] {
        bench.file(name, text);
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(bench.path(name), mode).unwrap();
    }
    bench
}

/// Runs `lacuna` where these programs are Slurm's.
fn ask(bench: &Bench, arguments: &[&str]) -> Output {
    let path = std::env::var("PATH").unwrap();
    let folder = bench.path(".");
    Command::new(program("lacuna"))
        .current_dir(&folder)
        .env("PATH", format!("{}:{path}", folder.display()))
        .env("TZ", "America/Chicago")
        .args(arguments)
        .output()
        .unwrap()
}

fn said(bench: &Bench, arguments: &[&str]) -> String {
    let output = ask(bench, arguments);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn the_accounting_of_slurm_is_read_a_day_at_a_time_as_its_table_is_read_whole() {
    let jobs = jobs();
    let bench = slurm(&jobs);
    let from = format!("{}Z", ago(2800));
    let until = format!("{}Z", ago(700));
    let part = ["--from", from.as_str(), "--until", until.as_str(), "--json"];
    let found = json(&ask(
        &bench,
        &[&["holes", "--from-slurm", "4d"][..], &part].concat(),
    ));
    let asked = std::fs::read_to_string(bench.path("asked")).unwrap();
    assert_eq!(asked.lines().count(), 4, "{asked}");
    assert!(asked.lines().all(|line| line.ends_with(" UTC")), "{asked}");
    bench.file("table", &format!("{COLUMNS}\n{jobs}"));
    bench.file("nodes", "n0\nn1\nn2\nn3\n");
    let whole = ["holes", "table", "--nodes-file", "nodes"];
    let expected = figures(&bench, &[&whole[..], &part[..4]].concat());
    assert_eq!(found["holes"], expected["holes"]);
    assert_eq!(found["equivalent_nodes"], expected["equivalent_nodes"]);
    assert_eq!(found["log"]["machine_nodes"], 4);
    let count = |found: &Value| found["log"]["jobs"]["with_nodes"].as_u64().unwrap();
    assert_eq!(count(&found), count(&expected));
    assert_eq!(found["log"]["jobs"]["running_at_the_end"], 1);
    // The fourth node was down for an hour of this time.
    let hour = (ago(1500), ago(1440));
    bench.file(
        "events",
        &format!("|{0}|Unknown\nn3|{0}|{1}\ngone|{0}|{1}\n", hour.0, hour.1),
    );
    let down = json(&ask(
        &bench,
        &[&["holes", "--from-slurm", "4d"][..], &part].concat(),
    ));
    let hours = |found: &Value| found["holes"]["node_hours"].as_f64().unwrap();
    assert!((hours(&found) - hours(&down) - 1.0).abs() < 0.01, "{down}");
    let notes = down["log"]["notes"].to_string();
    assert!(
        notes.contains("such as gone, are not in the answer of sinfo"),
        "{notes}"
    );
    // Forecasts and replays take it, too.
    let learnt = json(&ask(
        &bench,
        &["forecast", "learn", "--from-slurm", "4d", "--json"],
    ));
    assert_eq!(learnt["nodes"], 4, "{learnt}");
    let replayed = json(&ask(&bench, &["replay", "--from-slurm", "2d", "--json"]));
    assert!(
        replayed["log"]["file"]
            .as_str()
            .unwrap()
            .contains("Slurm's accounting")
    );
}

#[test]
fn a_crowded_day_is_asked_for_in_halves_and_the_next_one_whole() {
    let bench = slurm(&jobs());
    let whole = json(&ask(&bench, &["holes", "--from-slurm", "4d", "--json"]));
    std::fs::remove_file(bench.path("asked")).unwrap();
    bench.file("crowded", &ago(3 * 1440 + 60));
    let parts = json(&ask(&bench, &["holes", "--from-slurm", "4d", "--json"]));
    let asked = std::fs::read_to_string(bench.path("asked")).unwrap();
    let hours = asked.lines().map(|line| {
        let mut words = line
            .split(' ')
            .map(|at| format!("{at}Z").parse::<jiff::Timestamp>());
        let (from, until) = (
            words.next().unwrap().unwrap(),
            words.next().unwrap().unwrap(),
        );
        (until.as_second() - from.as_second()) / 3600
    });
    assert_eq!(
        hours.collect::<Vec<_>>(),
        [24, 12, 24, 12, 24, 24, 24],
        "{asked}"
    );
    let jobs = |found: &Value| found["log"]["jobs"]["with_nodes"].as_u64().unwrap();
    assert_eq!(jobs(&parts), jobs(&whole));
}

#[test]
fn a_portion_that_fails_is_named_and_so_is_a_machine_without_sacct() {
    let bench = slurm(&jobs());
    bench.file("broken", &ago(1500));
    let text = said(&bench, &["holes", "--from-slurm", "2d"]);
    assert!(
        text.contains("in 3 tries") && text.contains("slurmdbd: refused"),
        "{text}"
    );
    let day = ago(1440).chars().take(10).collect::<String>();
    assert!(text.contains(&format!("from {day}")), "{text}");
    let empty = slurm("");
    let text = said(&empty, &["holes", "--from-slurm", "2d"]);
    assert!(text.contains("has no job from"), "{text}");
    let damaged = slurm(&format!("1|x|{0}|{0}|COMPLETED\n", ago(60)));
    let text = said(&damaged, &["holes", "--from-slurm", "2d"]);
    assert!(
        text.starts_with("lacuna: the answer of sacct: no job"),
        "{text}"
    );
    let text = complaint(&bench, &["holes", "--from-slurm", "0d"]);
    assert!(text.contains("expected a time above zero"), "{text}");
    let absent = Command::new(program("lacuna"))
        .env("PATH", bench.path(".").join("none"))
        .args(["holes", "--from-slurm", "2d"])
        .output()
        .unwrap();
    let text = String::from_utf8(absent.stderr).unwrap();
    assert!(
        text.contains("sacct cannot be found") && text.contains("run it where"),
        "{text}"
    );
    let both = bench.lacuna(&["holes", "jobs", "--from-slurm", "2d"]);
    assert_eq!(both.status.code(), Some(2));
    let none = bench.lacuna(&["holes"]);
    assert_eq!(none.status.code(), Some(2));
}
