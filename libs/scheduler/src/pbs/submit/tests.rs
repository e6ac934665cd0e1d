use super::*;
use crate::job::Owner;
use crate::submit::Programs;

fn pbs() -> PbsPilots {
    PbsPilots::new(Submission {
        name: "lacuna-pilot".to_owned(),
        mark: "lacuna:main".to_owned(),
        partition: "filler".to_owned(),
        account: "fill".to_owned(),
        qos: String::new(),
        exclusive: true,
        output: "/dev/null".to_owned(),
        extra: Vec::new(),
        script: script("lacuna-agent", ""),
        chunk: "ncpus=64".to_owned(),
        time_min: None,
        all_users: false,
        programs: Programs {
            submit: vec!["qsub".to_owned()],
            cancel: vec!["qdel".to_owned()],
            list: vec!["qstat".to_owned()],
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
fn a_pilot_has_one_host_for_itself_and_a_mark() {
    let line = pbs().submit(&NodeId::new("n7").unwrap(), Span::from_secs(3600));
    assert_eq!(
        line.args.join(" "),
        "-N lacuna-pilot -r n -m n -j oe -l select=1:host=n7:ncpus=64 -l walltime=01:00:00 \
         -v LACUNA_MARK=lacuna:main,LACUNA_NODE=n7 -l place=excl -q filler -A fill -o /dev/null"
    );
    assert!(
        line.stdin
            .unwrap()
            .ends_with("exec lacuna-agent --pilot --node \"$LACUNA_NODE\"\n")
    );
}

#[test]
fn answers_of_qsub_are_understood() {
    let ok = pbs().submitted(&output(0, "4711.server\n", "")).unwrap();
    assert_eq!(ok.as_str(), "4711.server");
    for (text, cause) in [
        ("qsub: Unknown queue", Cause::Denied),
        ("qsub: Unauthorized Request", Cause::Denied),
        (
            "Connection refused\nqsub: cannot connect to server x (errno=15010)",
            Cause::Unreachable,
        ),
        (
            "qsub: would exceed queue generic's per-user limit",
            Cause::Busy,
        ),
        ("qsub: unknown node", Cause::Node),
        ("qsub: what now", Cause::Unclear),
    ] {
        assert_eq!(
            pbs().submitted(&output(1, "", text)).unwrap_err().cause,
            cause,
            "{text}"
        );
    }
}

#[test]
fn lists_are_read_and_jobs_of_others_are_not_ours() {
    let text = r#"{
  "timestamp": 1769860800, "pbs_version": "23.06.06", "pbs_server": "server",
  "Jobs": {
    "12.server": {"Job_Name": "lacuna-pilot", "Job_Owner": "train@login1", "job_state": "R",
      "ctime": "Sat Jan 31 12:00:00 2026", "exec_host": "n1/0*64",
      "Variable_List": {"PBS_O_HOME": "/home/train", "LACUNA_MARK": "lacuna:main", "LACUNA_NODE": "n1"}},
    "13.server": {"Job_Name": "lacuna-pilot", "Job_Owner": "train@login1", "job_state": "Q",
      "ctime": "Sat Jan 31 12:00:01 2026",
      "Variable_List": {"LACUNA_MARK": "lacuna:main", "LACUNA_NODE": "n2"}},
    "14.server": {"Job_Name": 17, "Job_Owner": "other@login1", "job_state": "E",
      "ctime": "Sat Jan 31 12:00:02 2026", "exec_host": "n3/0"}
  }
}"#;
    let jobs = pbs().listed(&output(0, text, "")).unwrap();
    let owner = Owner {
        name: "lacuna-pilot".to_owned(),
        mark: "lacuna:main".to_owned(),
        user: Some("train".to_owned()),
    };
    let brief: Vec<(&str, &str, JobStage, bool)> = jobs
        .iter()
        .map(|j| {
            (
                j.job.as_str(),
                j.node.as_ref().unwrap().as_str(),
                j.stage,
                owner.owns(j),
            )
        })
        .collect();
    assert_eq!(
        brief,
        [
            ("12.server", "n1", JobStage::Running, true),
            ("13.server", "n2", JobStage::Pending, true),
            ("14.server", "n3", JobStage::Ending, false),
        ]
    );
    assert!(pbs().listed(&output(0, "{\"Jobs\": {", "")).is_err());
    assert_eq!(
        pbs().listed(&output(0, "{\"timestamp\": 1}", "")).unwrap(),
        []
    );
}
