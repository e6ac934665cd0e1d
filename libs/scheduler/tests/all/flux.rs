//! Answers of Flux, made by its manuals: flux-resource(1), flux-jobs(1) and the files of
//! `t/flux-resource/list` and `t/flux-jobs` in flux-core, and RFC 18, 20 and 21 for the journal.

use lacuna_model::{NodeId, Span, Timestamp};
use lacuna_records::JobOutcome;
use lacuna_scheduler::flux::{jobs, resources};
use lacuna_scheduler::job::{End, JobStage};
use lacuna_scheduler::kinds::KindRules;
use lacuna_scheduler::live::{Live, Question};
use lacuna_scheduler::settings::{Flux, Marks};
use lacuna_scheduler::submit::{Cause, CommandOutput, RunError, Submitter};
use lacuna_scheduler::{AnswerError, JobState, NodeStatus, SchedulerName, Sections, row};

use super::answers::printed;
use super::schedulers::submission;

/// The answer to `flux resource list` on a cluster of two queues. `fluke7` is allocated in part.
fn nodes() -> String {
    printed(
        "free|batch|batch|fluke[3-4,7];\n\
         free|debug|debug,amd-mi300|fluke9;\n\
         allocated|batch|batch|fluke[5-7];\n\
         down|batch|batch|fluke8;\n\
         down|debug|debug,amd-mi300|;\n",
    )
}

/// The answer to `flux jobs -A --json`: a batch job, a pilot, a pilot that is ending, and a job that
/// waits.
const JOBS: &str = r#"{"jobs": [
    {"id": 44258295808, "jobid": "ƒwfrrg9H", "userid": 1000, "username": "alice", "urgency": 16,
     "priority": 16, "t_submit": 1664571163.5911362, "t_depend": 1664571163.5911362,
     "t_run": 1664571163.6055603, "state": "RUN", "name": "sim", "queue": "batch", "ntasks": 16,
     "nnodes": 1, "ranks": "2", "nodelist": "fluke5", "expiration": 1664574763.25, "duration": 3600.0,
     "annotations": {"sched": {"resource_summary": "rank2/core[0-3]"}}, "exception": {"occurred": false}},
    {"id": 35114713088, "username": "lacuna", "t_submit": 1664571163.0459371, "state": "RUN",
     "name": "lacuna-pilot/fluke6/lacuna:main", "queue": "batch", "nodelist": "fluke6",
     "expiration": 1664571763.0, "exception": {"occurred": false}},
    {"id": 35114713089, "username": "lacuna", "t_submit": 1664571162.0, "state": "CLEANUP",
     "name": "lacuna-pilot/fluke7/lacuna:main", "queue": "batch", "nodelist": "fluke7",
     "exception": {"occurred": true, "severity": 0, "type": "preempt", "note": "killbot/onekill"}},
    {"id": 49727668224, "username": "bob", "t_submit": 1664571163.9159656, "state": "SCHED",
     "name": "hostname", "queue": "batch", "annotations": {"sched": {"t_estimate": 1664574763.25}}}
]}"#;

fn settings() -> Flux {
    Flux {
        pilots: Marks {
            partition: Some("batch".to_owned()),
            user: Some("lacuna".to_owned()),
            ..Marks::default()
        },
        journal: Some("journal".into()),
        ..Flux::default()
    }
}

fn live() -> Box<dyn Live> {
    let flux = settings();
    let sections = Sections {
        flux: Some(&flux),
        ..Sections::default()
    };
    sections.live().remove(0)
}

fn node(name: &str) -> NodeId {
    NodeId::new(name).unwrap()
}

/// Statuses as `name=status`.
fn short(statuses: &[(NodeId, NodeStatus)]) -> Vec<String> {
    let short = |(node, status): &(NodeId, NodeStatus)| {
        let status = match status {
            NodeStatus::Hole => "hole",
            NodeStatus::Taken => "taken",
            NodeStatus::Wanted { .. } => "wanted",
            NodeStatus::Unusable { reason } => reason.as_str(),
        };
        format!("{node}={status}")
    };
    statuses.iter().map(short).collect()
}

#[test]
fn free_nodes_and_those_of_pilots_are_holes() {
    let mut live = live();
    let requests = live.requests();
    assert_eq!(requests[0].command[..3], ["flux", "resource", "list"]);
    assert_eq!(requests[1].command[..4], ["flux", "jobs", "-A", "--json"]);
    live.read(0, &nodes()).unwrap();
    live.read(1, JOBS).unwrap();
    let expected = [
        "fluke3=hole",
        "fluke4=hole",
        "fluke5=taken",
        "fluke6=hole",
        "fluke7=taken",
        "fluke8=down, drained or torpid: flux resource status",
        "fluke9=in no queue of ours",
    ];
    assert_eq!(short(&live.result().nodes), expected);
    // A user who cannot see the jobs of others sees an allocated node without a job.
    live.read(0, &nodes()).unwrap();
    live.read(1, r#"{"jobs": []}"#).unwrap();
    assert!(short(&live.result().nodes).contains(&"fluke6=taken".to_owned()));
}

#[test]
fn a_node_is_gone_after_several_answers_without_it() {
    let mut live = live();
    live.read(1, r#"{"jobs": []}"#).unwrap();
    live.read(0, &printed("free|batch||n[1-2];\n")).unwrap();
    assert_eq!(live.result().nodes.len(), 2);
    for missing in [1, 1, 0] {
        live.read(0, &printed("free|batch||n1;\n")).unwrap();
        let result = live.result();
        assert_eq!(result.missing, missing);
        assert_eq!(result.nodes.len(), 2 - missing);
    }
}

#[test]
fn nodes_without_named_queues_count_for_an_empty_mark() {
    let nodes = resources::read(&printed("free|||n1;\n")).unwrap();
    let marks = |partition: Option<&str>| Marks {
        partition: partition.map(str::to_owned),
        ..Marks::default()
    };
    for (partition, expected) in [
        (None, "n1=hole"),
        (Some(""), "n1=hole"),
        (Some("batch"), "n1=in no queue of ours"),
    ] {
        let statuses = jobs::node_statuses(&nodes, &[], &marks(partition));
        assert_eq!(short(&statuses), [expected], "{partition:?}");
    }
}

#[test]
fn jobs_have_states_and_expected_ends() {
    let jobs = jobs::read(JOBS).unwrap();
    let states: Vec<JobState> = jobs.iter().map(|job| job.state).collect();
    let (run, end) = (JobState::Running, JobState::Completing);
    assert_eq!(states, [run, run, end, JobState::Pending]);
    assert_eq!(
        jobs[0].expiration,
        Some(Timestamp::from_unix_ms(1_664_574_763_250))
    );
    assert_eq!((jobs[3].expiration, jobs[3].nodes.len()), (None, 0));
    let over = |result: &str, exception: &str| {
        let text = format!(
            r#"{{"jobs": [{{"id": 1, "state": "INACTIVE", "result": "{result}",
                "exception": {{"occurred": true, "type": "{exception}"}}}}]}}"#
        );
        jobs::read(&text).unwrap()[0].state
    };
    for (result, exception, outcome) in [
        ("COMPLETED", "", JobOutcome::Completed),
        ("CANCELED", "cancel", JobOutcome::Cancelled),
        ("TIMEOUT", "timeout", JobOutcome::Timeout),
        ("FAILED", "exec", JobOutcome::Failed),
        ("FAILED", "preempt", JobOutcome::Preempted),
        ("?", "", JobOutcome::Unknown),
    ] {
        assert_eq!(over(result, exception), JobState::Over(outcome));
    }
}

#[test]
fn a_damaged_answer_is_refused_whole() {
    let errors = [
        resources::read("").map(|_| ()),
        resources::read("flux-resource: ERROR: Unable to connect to Flux\n").map(|_| ()),
        resources::read(&printed("idle|batch||n1;\n")).map(|_| ()),
        resources::read(&printed("free|batch||n[1-;\n")).map(|_| ()),
        jobs::read("").map(|_| ()),
        jobs::read(r#"{"jobs": [{"id": 1, "state": "RUN", "nodelist": "n["}]}"#).map(|_| ()),
    ];
    let refused: Vec<AnswerError> = errors.into_iter().map(Result::unwrap_err).collect();
    assert!(matches!(refused[0], AnswerError::Empty { .. }));
    assert!(refused[2].to_string().contains("idle"), "{}", refused[2]);
}

#[test]
fn kinds_follow_from_queues_and_properties() {
    let live = live();
    assert_eq!(live.kinds(), Ok(Question::Cycle(0)));
    let labels = live.labels(&nodes()).unwrap();
    for (gpu, cpu) in [
        ("property:amd-mi300", "property:batch"),
        ("queue:debug", "rest"),
    ] {
        let rule = |name: &str, label: &str| (name.to_owned(), vec![label.to_owned()]);
        let rules = KindRules::new([rule("gpu", gpu), rule("cpu", cpu)].into());
        rules.check(&[SchedulerName::Flux]).unwrap();
        let kinds = rules.kinds(&labels).unwrap();
        assert_eq!(kinds.of(&node("fluke9")).unwrap().as_str(), "gpu");
        assert_eq!(kinds.of(&node("fluke3")).unwrap().as_str(), "cpu");
    }
}

/// A line of the journal.
fn event(id: u64, at: f64, name: &str, more: &str) -> String {
    format!(
        r#"{{"id": {id}, "user": "lacuna", "event": {{"timestamp": {at:.1}, "name": "{name}", "context": {{}}}}{more}}}"#
    )
}

#[test]
fn the_journal_shows_at_once_which_nodes_jobs_take() {
    let mut live = live();
    live.read(0, &printed("free|batch||fluke[3-5];\n")).unwrap();
    live.read(1, r#"{"jobs": []}"#).unwrap();
    let _ = live.result();
    let spec = |name: &str| {
        format!(
            r#", "jobspec": {{"attributes": {{"system": {{"queue": "batch", "job": {{"name": "{name}"}}}}}}}}"#
        )
    };
    let held = |nodes: &str| {
        format!(
            r#", "R": {{"version": 1, "execution": {{"R_lite": [{{"rank": "0-1", "children": {{"core": "0-3"}}}}],
                "nodelist": ["{nodes}"], "starttime": 1.0, "expiration": 61.0}}}}"#
        )
        .replace('\n', " ")
    };
    let mut take = |lines: &[String]| {
        let at = lines.iter().map(|line| live.line(line.as_bytes()).unwrap());
        let newest = at.max().unwrap();
        (newest, short(&live.changes()))
    };
    let pilot = "lacuna-pilot/fluke5/lacuna:main";
    let started = take(&[
        event(1, 1.0, "submit", &spec("sim")),
        event(2, 1.5, "submit", &spec(pilot)),
        event(1, 2.0, "alloc", &held("fluke[3-4]")),
        event(2, 3.0, "alloc", &held("fluke5")),
        event(1, 3.5, "start", ""),
    ]);
    assert_eq!(started.0, Some(Timestamp::from_unix_ms(3500)));
    assert_eq!(started.1, ["fluke3=taken", "fluke4=taken", "fluke5=hole"]);
    // Housekeeping cleans the nodes of a job that has ended: polls show when they are idle.
    let ended = take(&[event(1, 9.0, "finish", ""), event(1, 9.5, "free", "")]);
    assert!(ended.1.is_empty(), "{:?}", ended.1);
    let again = take(&[
        event(3, 10.0, "submit", &spec("lacuna-pilot/fluke3/lacuna:main")),
        event(3, 11.0, "alloc", &held("fluke3")),
        event(2, 12.0, "free", ""),
    ]);
    assert_eq!(again.1, ["fluke3=hole"]);
    assert!(live.line(b"{\"id\": 1}").is_err());
    assert!(live.line(event(4, 1.0, "alloc", "").as_bytes()).is_err());
    // A restart goes on with the jobs that run.
    let state = live.state().unwrap();
    let mut again = self::live();
    again.restore(state.clone()).unwrap();
    assert_eq!(again.state().unwrap(), state);
    assert!(again.restore(serde_json::json!([1])).is_err());
}

#[test]
fn marks_that_jobs_of_flux_do_not_have_are_refused() {
    settings().check().unwrap();
    let refused = |change: fn(&mut Marks, Option<String>)| {
        let mut flux = settings();
        change(&mut flux.pilots, Some("lacuna".to_owned()));
        flux.check().unwrap_err().to_string()
    };
    let account = refused(|marks, value| marks.account = value);
    assert!(account.contains("ingest.flux.pilots.account"), "{account}");
    let comment = refused(|marks, value| marks.comment = value);
    assert!(comment.contains("ingest.flux.pilots.comment"), "{comment}");
    assert!(comment.contains("`user` and `name`"), "{comment}");
}

fn pilots() -> Box<dyn Submitter> {
    let ways = row(SchedulerName::Flux).pilots().unwrap();
    (ways.submitter)(submission(SchedulerName::Flux))
}

fn output(code: i32, stdout: &str, stderr: &str) -> Result<CommandOutput, RunError> {
    Ok(CommandOutput {
        code: Some(code),
        stdout: stdout.to_owned(),
        stderr: stderr.to_owned(),
    })
}

#[test]
fn a_pilot_is_a_job_of_the_lowest_urgency_that_is_not_held() {
    let line = pilots().submit(&node("fluke6"), Span::from_secs(601));
    assert_eq!((line.program.as_str(), line.stdin), ("flux", None));
    let (script, args) = line.args.split_last().unwrap();
    assert_eq!(
        args.join(" "),
        "submit --job-name=lacuna-pilot/fluke6/lacuna:main --nodes=1 --ntasks=1 \
         --requires=hosts:fluke6 --time-limit=11m --urgency=1 --setattr=preemptible-after=0 --cwd=/ \
         --env=LACUNA_NODE=fluke6 --exclusive --queue=batch --output=/dev/null --error=/dev/null \
         /bin/sh -c"
    );
    assert_eq!(
        script,
        "exec /opt/lacuna/bin/lacuna-agent --pilot --node \"$LACUNA_NODE\"\n"
    );
}

#[test]
fn a_submission_has_a_number_or_a_cause() {
    // RFC 19 and t1000 of flux-core: the smallest, a middle and the largest id.
    for (id, number) in [
        ("ƒ1", 0),
        ("f2", 1),
        ("ƒLUv", 65_535),
        ("ƒjpXCZedGfVQ", u64::MAX),
        ("17", 17),
    ] {
        assert_eq!(jobs::id(id), Some(number), "{id}");
        let job = pilots()
            .submitted(&output(0, &format!("{id}\n"), ""))
            .unwrap();
        assert_eq!(job.as_str(), number.to_string());
    }
    for id in ["", "ƒ", "f0", "x1", "ƒjpXCZedGfVR1"] {
        assert!(id.is_empty() || jobs::id(id).is_none(), "{id}");
        let refused = pilots().submitted(&output(0, id, "")).unwrap_err();
        assert_eq!(refused.cause, Cause::Unclear);
    }
    for (text, cause) in [
        (
            "flux-submit: ERROR: Unable to connect to Flux: broker socket",
            Cause::Unreachable,
        ),
        (
            "flux-submit: ERROR: [Errno 22] Invalid queue 'x' specified",
            Cause::Denied,
        ),
        ("flux-submit: ERROR: unsatisfiable request", Cause::Node),
        (
            "flux-submit: ERROR: requested duration exceeds policy limit",
            Cause::Denied,
        ),
        ("flux-submit: ERROR: of another kind", Cause::Unclear),
    ] {
        let refused = pilots().submitted(&output(1, "", text)).unwrap_err();
        assert_eq!(refused.cause, cause, "{text}");
    }
}

#[test]
fn pilots_are_listed_with_node_mark_and_stage() {
    let listed = pilots().listed(&output(0, JOBS, "")).unwrap();
    let pilots: Vec<_> = listed
        .iter()
        .filter(|job| job.mark == "lacuna:main")
        .collect();
    let nodes: Vec<_> = pilots.iter().map(|job| job.node.clone().unwrap()).collect();
    assert_eq!(nodes, [node("fluke6"), node("fluke7")]);
    assert_eq!(pilots[0].name, "lacuna-pilot");
    assert_eq!(
        (pilots[0].stage, pilots[1].stage),
        (JobStage::Running, JobStage::Ending)
    );
    let waits = JOBS
        .replace("\"nodelist\": \"fluke6\",", "")
        .replace(
            "\"state\": \"RUN\",\n     \"name\": \"lacuna",
            "\"state\": \"SCHED\",\n     \"name\": \"lacuna",
        )
        .replace("CLEANUP", "INACTIVE");
    let listed = self::pilots().listed(&output(0, &waits, "")).unwrap();
    assert_eq!(listed[1].node, Some(node("fluke6")));
    assert_eq!(listed[1].stage, JobStage::Pending);
    assert_eq!(listed[2].stage, JobStage::Ended(End::Preempted));
    assert!(self::pilots().listed(&output(0, "{}", "")).is_err());
    assert!(self::pilots().listed(&output(1, "", "no")).is_err());
}
