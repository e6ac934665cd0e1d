//! Answers of `sinfo` and `squeue`, verbatim from several versions of Slurm.

use jiff::tz::TimeZone;
use lacuna_model::{NodeId, Span, Timestamp};
use lacuna_records::JobOutcome;
use lacuna_scheduler::live::PlannedJob;
use lacuna_scheduler::settings::{Marks, Slurm};
use lacuna_scheduler::slurm::{JobReport, Tracker, sinfo, squeue};
use lacuna_scheduler::{AnswerError, JobState, NodeStatus, RECORD_END, SEPARATOR};

/// Readable text as the commands print it: `|` ends a field, `;` a record.
pub(crate) fn printed(text: &str) -> String {
    text.replace('|', &SEPARATOR.to_string())
        .replace(";\n", &format!("{RECORD_END}\n"))
}

/// Jobs as `squeue` prints them, all submitted at one moment, with no node asked for.
pub(crate) fn printed_jobs(text: &str) -> String {
    let record = |record: &str| record.replacen('|', "|1700000000|(null)|", 1);
    let records: Vec<String> = text.split(";\n").map(record).collect();
    printed(&records.join(";\n"))
}

fn node(name: &str) -> NodeId {
    NodeId::new(name).unwrap()
}

fn jobs(text: &str) -> Vec<JobReport> {
    squeue::read(&printed_jobs(text), &TimeZone::UTC).unwrap()
}

fn rules() -> Slurm {
    Slurm {
        pilots: Marks {
            partition: Some("filler".to_owned()),
            name: Some("lacuna-pilot".to_owned()),
            comment: Some("lacuna main".to_owned()),
            ..Marks::default()
        },
        ..Slurm::default()
    }
}

/// The status of each node, as text.
fn statuses(tracker: &mut Tracker, nodes: &str, jobs_text: &str) -> String {
    let nodes = sinfo::read(&printed(nodes)).unwrap();
    let result = tracker.take(&nodes, &jobs(jobs_text));
    let word = |status: &NodeStatus| match status {
        NodeStatus::Hole => "hole".to_owned(),
        NodeStatus::Wanted { since } => format!("wanted@{}", since.unix_seconds()),
        NodeStatus::Taken => "taken".to_owned(),
        NodeStatus::Unusable { reason } => format!("({reason})"),
    };
    let words: Vec<String> = result
        .nodes
        .iter()
        .map(|(node, status)| format!("{node} {}", word(status)))
        .collect();
    words.join(", ")
}

#[test]
fn requested_fields_end_with_control_characters() {
    let asked = sinfo::arguments(Some("filler"));
    assert_eq!(asked[..4], ["-h", "-N", "-p", "filler"]);
    assert_eq!(
        asked[5],
        "NodeList:\u{1f},StateComplete:\u{1f},Partition:\u{1f},Available:\u{1f},Reason:\u{1e}"
    );
    assert_eq!(sinfo::arguments(None)[2], "-a");
    assert!(squeue::arguments()[3].ends_with("Comment:\u{1f},Name:\u{1e}"));
}

#[test]
fn nodes_of_22_05_are_read() {
    // The same node in several partitions; the default one has a star.
    let nodes = sinfo::read(&printed(
        "n02|idle|batch*|up|none;\nn01|allocated+planned|batch*|up|none;\n\
         n02|idle|filler|up|none;\nn01|allocated+planned|filler|down|none;\n\
         n03|idle+drain|filler|up|bad DIMM | slot 3, see\nticket;\n",
    ))
    .unwrap_err();
    // The test's notation turns a bar in the reason into a separator; the real command does not.
    assert!(
        matches!(
            nodes,
            AnswerError::Fields {
                record: 5,
                expected: 5,
                found: 6,
                ..
            }
        ),
        "{nodes}"
    );
    let nodes = sinfo::read(&printed(
        "n02|idle|batch*|up|none;\nn01|allocated+planned|batch*|up|none;\n\
         n02|idle|filler|up|none;\nn01|allocated+planned|filler|down|none;\n\
         n03|idle+drain|filler|up|bad DIMM, see\nticket;\n",
    ))
    .unwrap();
    let names: Vec<&str> = nodes.iter().map(|n| n.node.as_str()).collect();
    assert_eq!(names, ["n01", "n02", "n03"]);
    assert!(nodes[0].flags.planned && !nodes[0].partitions[1].up);
    assert_eq!(nodes[1].partitions[0].name, "batch");
    assert_eq!(nodes[2].reason, "bad DIMM, see\nticket");
}

#[test]
fn jobs_are_read_with_both_forms_of_times_and_with_free_text() {
    let jobs = jobs(
        "5_[1-3%2]|PENDING|batch,long|(null)|alice||5:00|1795204229|N/A|n[01-03]|(null)|arr;\n\
         6|RUNNING|filler|none|bob|n04|1-00:00:00|2026-11-20T19:46:33|2026-11-20T19:50:00|(null)|x\ny, z|two words;\n\
         7|COMPLETING|batch|(null)|alice|n[01,07]|UNLIMITED|N/A|N/A|(null)|(null)|;\n\
         8|EXPEDITING|batch|(null)|alice|n09|INVALID|0|N/A||(null)|later release;\n",
    );
    assert_eq!(jobs.len(), 4);
    assert_eq!(jobs[0].state, JobState::Pending);
    assert_eq!(jobs[0].planned, ["n01", "n02", "n03"].map(node));
    assert_eq!(jobs[0].start, Some(Timestamp::from_unix(1_795_204_229)));
    assert_eq!(jobs[0].account, "");
    assert_eq!(jobs[1].start, Some(Timestamp::from_unix(1_795_203_993)));
    assert_eq!(
        jobs[1].preempted.unwrap().since(jobs[1].start.unwrap()),
        Span::from_secs(207)
    );
    assert_eq!(
        (jobs[1].comment.as_str(), jobs[1].name.as_str()),
        ("x\ny, z", "two words")
    );
    assert_eq!(jobs[1].time_limit, Some(Span::from_secs(86_400)));
    assert_eq!(
        (jobs[2].state, jobs[2].nodes.len()),
        (JobState::Completing, 2)
    );
    assert_eq!((jobs[3].state, jobs[3].time_limit), (JobState::Other, None));
    let pilots = printed(
        "9|1700000009|n07|PENDING|filler|(null)|lac||5:00|N/A|N/A||(null)|p;\n\
         10|2026-11-20T19:46:33|n[7-8]|PREEMPTED|filler|(null)|lac||5:00|N/A|N/A||(null)|p;\n",
    );
    let pilots = squeue::read(&pilots, &TimeZone::UTC).unwrap();
    assert_eq!(pilots[0].submitted, "1700000009");
    assert_eq!(pilots[0].asked, Some(node("n07")));
    assert_eq!(pilots[1].submitted, "2026-11-20T19:46:33");
    assert_eq!(pilots[1].asked, None);
    assert_eq!(pilots[1].state, JobState::Over(JobOutcome::Preempted));
}

#[test]
fn a_damaged_answer_is_refused_whole_with_its_place() {
    let good = "n1|idle|filler|up|none;\n";
    for (text, expected) in [
        ("", "the answer is empty"),
        ("\n\n", "the answer is empty"),
        (
            "slurm_load_node: Unable to contact slurm controller",
            "within record 1",
        ),
        ("n1|idle|filler|up|none", "within record 1"),
        ("n2|idle|filler|up|no", "within record 2"),
        ("n2|idle|up|none;\n", "record 2 has 4 fields instead of 5"),
        ("|idle|filler|up|none;\n", "record 2: NodeList"),
    ] {
        let before = if expected.contains("record 2") {
            good
        } else {
            ""
        };
        let error = sinfo::read(&printed(&format!("{before}{text}"))).unwrap_err();
        assert!(error.to_string().contains(expected), "{text:?}: {error}");
    }
    for (text, expected) in [
        ("1|RUNNING|b|a|u|n[1-|1:00|N/A|N/A||c|n;\n", "NodeList"),
        (
            "1|RUNNING|b|a|u|n1|1:00|soon|N/A||c|n;\n",
            "StartTime: expected a time",
        ),
        ("1|PENDING|b|a|u||1:00|N/A|N/A|n[3-1]|c|n;\n", "SchedNodes"),
        ("|RUNNING|b|a|u|n1|1:00|N/A|N/A||c|n;\n", "JobArrayID"),
    ] {
        let error = squeue::read(&printed_jobs(text), &TimeZone::UTC).unwrap_err();
        assert!(error.to_string().contains(expected), "{text:?}: {error}");
    }
    assert_eq!(jobs(""), []);
}

#[test]
fn a_node_is_a_hole_if_idle_or_if_it_has_only_our_own_pilots() {
    let pilot = |id: u32, state: &str, node: &str, preempted: &str| {
        format!(
            "{id}|{state}|filler|(null)|lac|{node}|1:00|N/A|{preempted}||lacuna main v1|lacuna-pilot-{node};\n"
        )
    };
    let foreign = |state: &str, partition: &str, nodes: &str| {
        format!("9|{state}|{partition}|(null)|al|{nodes}|1:00|N/A|N/A||(null)|lacuna-pilot;\n")
    };
    let mut tracker = Tracker::new(rules(), []);
    for (state, jobs, expected) in [
        ("idle", String::new(), "hole"),
        ("idle", pilot(1, "CONFIGURING", "n1", "N/A"), "hole"),
        ("allocated", pilot(1, "RUNNING", "n1", "N/A"), "hole"),
        ("mixed", pilot(1, "RUNNING", "n1", "N/A"), "hole"),
        // Our own pilot may stay until the planned start.
        (
            "allocated+planned",
            pilot(1, "RUNNING", "n1", "N/A"),
            "hole",
        ),
        (
            "allocated",
            pilot(1, "RUNNING", "n1", "1700000000"),
            "wanted@1700000000",
        ),
        (
            "idle+completing",
            pilot(1, "COMPLETING", "n1", "N/A"),
            "taken",
        ),
        ("allocated", pilot(1, "SUSPENDED", "n1", "N/A"), "taken"),
        // A job with our name but without our comment; a job in another partition.
        ("allocated", foreign("RUNNING", "filler", "n1"), "taken"),
        (
            "mixed",
            pilot(1, "RUNNING", "n1", "N/A") + &foreign("RUNNING", "batch", "n[0-1]"),
            "taken",
        ),
        (
            "mixed",
            pilot(1, "RUNNING", "n1", "N/A") + &foreign("COMPLETING", "batch", "n1"),
            "taken",
        ),
        // The two answers are of different moments: the more restrictive one holds.
        ("idle", foreign("RUNNING", "batch", "n1"), "taken"),
        ("allocated", String::new(), "taken"),
        ("idle", foreign("COMPLETED", "batch", "n1"), "hole"),
        ("idle", foreign("STAGE_OUT", "batch", "n1"), "taken"),
        ("idle+planned", String::new(), "taken"),
        ("idle+reserved", String::new(), "taken"),
        ("idle+completing", String::new(), "taken"),
        (
            "allocated+drain",
            pilot(1, "RUNNING", "n1", "N/A"),
            "(drained: loose cable)",
        ),
        (
            "down+not_responding",
            String::new(),
            "(not responding: loose cable)",
        ),
    ] {
        let text = format!("n1|{state}|filler|up|loose cable;\n");
        assert_eq!(
            statuses(&mut tracker, &text, &jobs),
            format!("n1 {expected}"),
            "{state} {jobs}"
        );
    }
    let closed = statuses(
        &mut tracker,
        "n1|idle|batch|up|none;\nn1|idle|filler|down|none;\n",
        "",
    );
    assert_eq!(closed, "n1 (partition filler is closed)");
    assert_eq!(
        statuses(&mut tracker, "n1|idle|batch|up|none;\n", ""),
        "n1 (in no partition of ours)"
    );
    let mut lenient = Tracker::new(
        Slurm {
            planned_are_holes: true,
            ..rules()
        },
        [],
    );
    assert_eq!(
        statuses(&mut lenient, "n1|idle+planned|filler|up|none;\n", ""),
        "n1 hole"
    );
    // Two contradicting states of one node.
    let odd = statuses(
        &mut tracker,
        "n1|idle|filler|up|none;\nn1|allocated|batch|up|none;\n",
        "",
    );
    assert_eq!(odd, "n1 (in a state that is not known)");
}

#[test]
fn a_missing_node_is_gone_after_three_answers_and_not_before() {
    let mut tracker = Tracker::new(rules(), [node("old")]);
    let (one, two) = (
        "n1|idle|filler|up|none;\n",
        "n1|idle|filler|up|none;\nn2|idle|filler|up|none;\n",
    );
    assert_eq!(statuses(&mut tracker, two, ""), "n1 hole, n2 hole");
    assert_eq!(statuses(&mut tracker, one, ""), "n1 hole");
    assert_eq!(
        statuses(&mut tracker, one, ""),
        "n1 hole, old (missing in 3 answers of the scheduler in a row)"
    );
    // The node comes back: the count begins again.
    assert_eq!(statuses(&mut tracker, two, ""), "n1 hole, n2 hole");
    for _ in 0..2 {
        assert_eq!(statuses(&mut tracker, one, ""), "n1 hole");
    }
    assert_eq!(
        statuses(&mut tracker, one, ""),
        "n1 hole, n2 (missing in 3 answers of the scheduler in a row)"
    );
    assert_eq!(
        statuses(&mut tracker, one, ""),
        "n1 hole",
        "it is reported once"
    );
}

/// After a restart of slurmctld every node is `unknown` for some seconds, and pilots go on
/// training.
#[test]
fn a_silent_node_keeps_its_status_for_a_while() {
    let rules = Slurm {
        silent_after: 4,
        ..rules()
    };
    let mut tracker = Tracker::new(rules, []);
    let all = |state: &str| format!("n1|{state}|filler|up|none;\nn2|{state}|filler|up|none;\n");
    let pilot = "1|RUNNING|filler|a|u|n1|1:00|N/A|N/A||lacuna main|lacuna-pilot;\n";
    assert_eq!(statuses(&mut tracker, &all("idle"), ""), "n1 hole, n2 hole");
    for state in ["unknown", "idle*", "unknown"] {
        assert_eq!(statuses(&mut tracker, &all(state), pilot), "", "{state}");
    }
    // A foreign job makes a node taken, even a silent one.
    let batch = "2|RUNNING|batch|a|u|n2|1:00|N/A|N/A||c|sim;\n";
    let both = statuses(&mut tracker, &all("unknown"), &format!("{pilot}{batch}"));
    assert_eq!(
        both, "n1 (not known yet), n2 taken",
        "four answers in a row are enough"
    );
    assert_eq!(statuses(&mut tracker, &all("idle"), ""), "n1 hole, n2 hole");
    let result = tracker.take(&sinfo::read(&printed(&all("idle*"))).unwrap(), &[]);
    assert_eq!(
        (result.nodes.len(), result.silent),
        (0, 2),
        "the count begins again"
    );
    assert_eq!(
        statuses(&mut tracker, &all("down*"), ""),
        "n1 (not responding), n2 (not responding)"
    );
}

#[test]
fn planned_starts_are_reported_when_they_change_and_withdrawn_when_they_end() {
    let mut tracker = Tracker::new(rules(), []);
    let nodes = sinfo::read(&printed("n1|idle|filler|up|none;\n")).unwrap();
    let mut changes = |text: &str| -> Vec<String> {
        let short = |p: &PlannedJob| {
            let nodes: Vec<&str> = p.nodes.iter().map(NodeId::as_str).collect();
            format!("{} {} @{}", p.job, nodes.join("+"), p.start.unix_seconds())
        };
        tracker
            .take(&nodes, &jobs(text))
            .planned
            .iter()
            .map(short)
            .collect()
    };
    let job = |id: &str, state: &str, start: &str, planned: &str| {
        format!("{id}|{state}|batch|a|u||1:00|{start}|N/A|{planned}|c|n;\n")
    };
    let big = job("7", "PENDING", "2000000000", "n[1-2]");
    assert_eq!(changes(&big), ["7 n1+n2 @2000000000"]);
    assert_eq!(
        changes(&job("7", "PENDING", "2000000004", "n[1-2]")),
        [""; 0],
        "moved by 4 s"
    );
    assert_eq!(
        changes(&job("7", "PENDING", "2000000060", "n[1-2]")),
        ["7 n1+n2 @2000000060"]
    );
    assert_eq!(
        changes(&job("7", "PENDING", "2000000060", "n[1-3]")),
        ["7 n1+n2+n3 @2000000060"]
    );
    // The start is no longer known.
    assert_eq!(
        changes(&job("7", "PENDING", "N/A", "(null)")),
        ["7  @2000000060"]
    );
    assert_eq!(changes(&big), ["7 n1+n2 @2000000000"]);
    assert_eq!(
        changes(&job("7", "RUNNING", "2000000000", "(null)")),
        ["7  @2000000000"]
    );
    // A missing job may only be missing from the answer.
    assert_eq!(changes(&big), ["7 n1+n2 @2000000000"]);
    assert_eq!((changes("").len(), changes("").len()), (0, 0));
    assert_eq!(changes(""), ["7  @2000000000"]);
    // A waiting pilot is no planned start.
    let pilot = "8|PENDING|filler|a|u||1:00|2000000000|N/A|n1|lacuna main|lacuna-pilot;\n";
    assert_eq!(changes(pilot), [""; 0]);
}

#[test]
fn the_earliest_planned_starts_are_kept() {
    let mut tracker = Tracker::new(
        Slurm {
            most_promises: 2,
            ..rules()
        },
        [],
    );
    let nodes = sinfo::read(&printed("n1|idle|filler|up|none;\n")).unwrap();
    let text: String = (1..=9)
        .rev()
        .map(|n| format!("{n}|PENDING|batch|a|u||1:00|200000000{n}|N/A|n1|c|n;\n"))
        .collect();
    let result = tracker.take(&nodes, &jobs(&text));
    let names: Vec<&str> = result.planned.iter().map(|p| p.job.as_str()).collect();
    assert_eq!(names, ["1", "2"]);
    assert_eq!(result.kept, 2);
}
