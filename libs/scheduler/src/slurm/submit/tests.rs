use super::*;
use crate::job::End;
use crate::submit::Programs;

fn slurm() -> SlurmPilots {
    SlurmPilots::new(Submission {
        name: "lacuna-pilot".to_owned(),
        mark: "lacuna:main".to_owned(),
        partition: "filler".to_owned(),
        account: "fill".to_owned(),
        qos: String::new(),
        exclusive: true,
        output: "/dev/null".to_owned(),
        extra: vec!["--gpus-per-node=4".to_owned()],
        script: script("/opt/lacuna/bin/lacuna-agent", "/etc/lacuna/lacuna.toml"),
        chunk: String::new(),
        time_min: Some(Span::from_secs(600)),
        all_users: false,
        programs: Programs {
            submit: vec!["sbatch".to_owned()],
            cancel: vec!["scancel".to_owned()],
            list: vec!["squeue".to_owned()],
        },
    })
}

fn output(code: i32, stdout: &str, stderr: &str) -> Result<CommandOutput, RunError> {
    Ok(CommandOutput {
        code: Some(code),
        stdout: stdout.to_owned(),
        stderr: stderr.to_owned(),
    })
}

#[test]
fn a_pilot_is_a_one_node_job_that_is_never_requeued() {
    let line = slurm().submit(&NodeId::new("n7").unwrap(), Span::from_secs(3601));
    assert_eq!(line.program, "sbatch");
    assert_eq!(
        line.args.join(" "),
        "--parsable --job-name=lacuna-pilot --comment=lacuna:main --nodelist=n7 --nodes=1 \
         --ntasks=1 --no-requeue --chdir=/ --time=01:01:00 --exclusive --mem=0 --partition=filler \
         --account=fill --output=/dev/null --time-min=00:10:00 --gpus-per-node=4"
    );
    let script = line.stdin.unwrap();
    let lines: Vec<&str> = script.lines().collect();
    assert_eq!(
        lines[..3],
        [
            "#!/bin/sh",
            "agent=/opt/lacuna/bin/lacuna-agent",
            "config=/etc/lacuna/lacuna.toml"
        ]
    );
    assert!(lines[3].starts_with("exec srun "), "{script}");
    assert!(!script.contains("#SBATCH"), "{script}");
    assert_eq!(
        script
            .matches("--pilot --node \"$SLURMD_NODENAME\"")
            .count(),
        1
    );
    let own = super::script("/a b/agent", "");
    assert!(own.contains("\nagent='/a b/agent'\nconfig=''\n"), "{own}");
}

#[test]
fn words_for_the_shell_are_quoted_where_needed() {
    assert_eq!(quoted("/a/b-c_1.toml"), "/a/b-c_1.toml");
    assert_eq!(quoted("it's here"), "'it'\\''s here'");
    assert_eq!(quoted("$(rm)"), "'$(rm)'");
}

#[test]
fn answers_of_sbatch_are_understood() {
    let job = |text: &str| {
        slurm()
            .submitted(&output(0, text, ""))
            .map(|j| j.to_string())
    };
    assert_eq!(job("4711\n").unwrap(), "4711");
    assert_eq!(job("note from a wrapper\n4711;cluster\n").unwrap(), "4711");
    assert_eq!(job("\n").unwrap_err().cause, Cause::Unclear);
    assert_eq!(job("-5\n").unwrap_err().cause, Cause::Unclear);
    for (text, cause) in [
        (
            "sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified",
            Cause::Denied,
        ),
        (
            "sbatch: error: invalid partition specified: fillr\nsbatch: error: Batch job submission failed: Invalid partition name specified",
            Cause::Denied,
        ),
        (
            "sbatch: error: Batch job submission failed: Access/permission denied",
            Cause::Denied,
        ),
        (
            "sbatch: error: Batch job submission failed: Invalid node name specified",
            Cause::Node,
        ),
        (
            "sbatch: error: Batch job submission failed: Requested node configuration is not available",
            Cause::Node,
        ),
        (
            "sbatch: error: AssocMaxSubmitJobLimit\nsbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
            Cause::Busy,
        ),
        (
            "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)",
            Cause::Unreachable,
        ),
        (
            "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
            Cause::Unreachable,
        ),
        (
            "sbatch: error: Batch job submission failed: User's group not permitted to use this partition",
            Cause::Denied,
        ),
        (
            "sbatch: error: Batch job submission failed: Incompatible versions of client and server code",
            Cause::Denied,
        ),
        ("sbatch: error: something new", Cause::Unclear),
    ] {
        let refusal = slurm().submitted(&output(1, "", text)).unwrap_err();
        assert_eq!(refusal.cause, cause, "{text}");
        assert!(!refusal.text.is_empty());
    }
    let late = Err(RunError::Late {
        program: "sbatch".to_owned(),
        limit: Span::from_secs(10),
    });
    assert_eq!(
        slurm().submitted(&late).unwrap_err().cause,
        Cause::Unreachable
    );
    let absent = Err(RunError::NotRun {
        program: "sbatch".to_owned(),
        reason: "no such file".to_owned(),
    });
    assert_eq!(
        slurm().submitted(&absent).unwrap_err().cause,
        Cause::Missing
    );
}

/// Jobs as `squeue` prints them: number, moment of submission, state, nodes, node asked for,
/// mark.
fn printed(jobs: &[[&str; 6]]) -> String {
    let record = |&[id, at, state, nodes, asked, mark]: &[&str; 6]| {
        let fields = [
            id,
            at,
            asked,
            state,
            "filler",
            "fill",
            "train",
            nodes,
            "1:00",
            "N/A",
            "N/A",
            "",
            mark,
            "lacuna-pilot",
        ];
        fields.join("\u{1f}") + "\u{1e}\n"
    };
    jobs.iter().map(record).collect()
}

#[test]
fn lists_are_read_and_a_damaged_one_is_refused() {
    let asked = slurm().list().args;
    assert_eq!(
        asked[..3],
        ["--me", "--states=all", "--name=lacuna-pilot"],
        "{asked:?}"
    );
    let mut of_all = slurm();
    of_all.submission.all_users = true;
    assert_eq!(of_all.list().args, asked[1..], "those of all owners");
    assert!(
        asked[6].starts_with("JobArrayID:\u{1f},SubmitTime:\u{1f},ReqNodes:\u{1f},"),
        "{asked:?}"
    );
    let ours = "lacuna:main";
    let text = printed(&[
        ["12", "1769860800", "RUNNING", "n1", "n1", ours],
        ["13", "1769860801", "PENDING", "", "n2", ours],
        [
            "14",
            "x",
            "PENDING",
            "",
            "",
            "somebody's | own\ncomment over lines",
        ],
        ["15", "1769860803", "PREEMPTED", "n3", "n3", ours],
        ["16", "x", "RUNNING", "n[4-5]", "(null)", "(null)"],
        ["17", "x", "STAGE_OUT", "n[6]", "(null)", ours],
        ["18", "x", "OUT_OF_MEMORY", "n7", "n7", ours],
        ["19", "x", "SUSPENDED", "n8", "n8", ours],
        ["20", "x", "EXPEDITING", "n9", "n9", "another's"],
    ]);
    let jobs = slurm().listed(&output(0, &text, "")).unwrap();
    let brief: Vec<(&str, Option<&str>, JobStage)> = jobs
        .iter()
        .map(|j| (j.job.as_str(), j.node.as_ref().map(NodeId::as_str), j.stage))
        .collect();
    assert_eq!(
        brief,
        [
            ("12", Some("n1"), JobStage::Running),
            ("13", Some("n2"), JobStage::Pending),
            ("14", None, JobStage::Pending),
            ("15", Some("n3"), JobStage::Ended(End::Preempted)),
            ("16", None, JobStage::Running),
            ("17", Some("n6"), JobStage::Ending),
            ("18", Some("n7"), JobStage::Ended(End::Failed)),
            ("19", Some("n8"), JobStage::Running),
        ]
    );
    assert_eq!(jobs[0].submitted, "1769860800");
    assert_eq!(
        (jobs[0].user.as_str(), jobs[0].mark.as_str()),
        ("train", ours)
    );
    assert_eq!(jobs[2].mark, "somebody's | own\ncomment over lines");
    let refused = |text: &str| {
        slurm()
            .listed(&output(0, text, ""))
            .unwrap_err()
            .to_string()
    };
    let unknown = printed(&[["12", "x", "RUNNI", "n1", "n1", ours]]);
    assert!(
        refused(&unknown).contains("squeue: job 12 "),
        "{}",
        refused(&unknown)
    );
    let torn = &text[..text.len() - 4];
    assert!(
        refused(torn).contains("within record 9"),
        "{}",
        refused(torn)
    );
    let other_format = "12|1769860800|train|RUNNING|n1|n1|lacuna-pilot|lacuna:main\n";
    assert!(refused(other_format).contains("within record 1"));
    assert!(
        slurm()
            .listed(&output(1, "", "slurm_load_jobs error"))
            .is_err()
    );
    assert_eq!(slurm().listed(&output(0, "", "")).unwrap(), []);
}

#[test]
fn only_pilots_can_be_cancelled_whatever_the_number() {
    let jobs = [JobId::new("5").unwrap(), JobId::new("6").unwrap()];
    let line = slurm().cancel(&jobs, true);
    assert_eq!(
        line.args,
        ["--name=lacuna-pilot", "--state=PENDING", "5", "6"]
    );
    assert_eq!(slurm().cancel(&jobs, false).args[1], "5");
    assert!(JobId::new("--user=root").is_none());
    assert!(JobId::new("").is_none());
}
