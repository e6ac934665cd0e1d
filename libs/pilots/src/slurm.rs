//! Slurm: `sbatch`, `scancel`, `squeue`, with fixed formats, which stay the same over versions
//! and cost slurmctld less than JSON.

use lacuna_model::{NodeId, Span};

use crate::job::{End, JobId, Listed, Stage};
use crate::keeper::{Cause, Refusal};
use crate::scheduler::{
    self, CommandLine, ListError, RunError, Said, Scheduler, Submission, clock_time, list_text,
    quoted,
};

/// What `squeue` is asked for. The comment, which may hold anything, stands last.
const FORMAT: &str = "%A|%V|%u|%T|%N|%n|%j|%k";
/// Fields of it.
const FIELDS: usize = 8;

/// Slurm.
#[derive(Debug, Clone)]
pub struct Slurm {
    submission: Submission,
}

impl Slurm {
    /// Slurm, for pilots submitted so.
    #[must_use]
    pub const fn new(submission: Submission) -> Self {
        Self { submission }
    }
}

/// The script that sites can submit by hand, too.
const SCRIPT: &str = include_str!("../../../deploy/slurm/pilot.sbatch");

/// The batch script that starts an agent with `exec srun`: only the tasks of a step hear
/// SIGTERM when a grace time begins, and nothing else may stand between them and Slurm. Options
/// come by the command line, so that none stands in it.
#[must_use]
pub fn script(agent: &str, config: &str) -> String {
    let mut script = String::new();
    for line in SCRIPT.lines() {
        let (name, _) = line.split_once('=').unwrap_or_default();
        match name {
            "agent" => script.push_str(&format!("agent={}", quoted(agent))),
            "config" => script.push_str(&format!("config={}", quoted(config))),
            _ if line.starts_with('#') && !line.starts_with("#!") => continue,
            _ => script.push_str(line),
        }
        script.push('\n');
    }
    script
}

impl Scheduler for Slurm {
    fn name(&self) -> &'static str {
        "slurm"
    }

    fn submit(&self, node: &NodeId, limit: Span) -> CommandLine {
        let s = &self.submission;
        let mut args = vec![
            "--parsable".to_owned(),
            format!("--job-name={}", s.name),
            format!("--comment={}", s.mark),
            format!("--nodelist={node}"),
            "--nodes=1".to_owned(),
            "--ntasks=1".to_owned(),
            "--no-requeue".to_owned(),
            "--chdir=/".to_owned(),
            format!("--time={}", clock_time(limit)),
        ];
        if s.exclusive {
            args.extend(["--exclusive".to_owned(), "--mem=0".to_owned()]);
        }
        for (option, value) in [
            ("partition", &s.partition),
            ("account", &s.account),
            ("qos", &s.qos),
            ("output", &s.output),
        ] {
            if !value.is_empty() {
                args.push(format!("--{option}={value}"));
            }
        }
        if let Some(least) = s.time_min.filter(|least| *least < limit) {
            args.push(format!("--time-min={}", clock_time(least)));
        }
        args.extend(s.extra.iter().cloned());
        CommandLine::new(&s.programs.submit, args, Some(s.script.clone()))
    }

    fn submitted(&self, said: &Result<Said, RunError>) -> Result<JobId, Refusal> {
        // `--parsable` gives `number` or `number;cluster`.
        scheduler::submitted(
            said,
            |line| line.split(';').next().unwrap_or_default(),
            &CAUSES,
        )
    }

    fn cancel(&self, jobs: &[JobId], pending_only: bool) -> CommandLine {
        let s = &self.submission;
        // The name goes along as a filter: what is not a pilot is not cancelled, whatever its
        // number. (A user can cancel only its own jobs; an operator could cancel any.)
        let mut args = vec![format!("--name={}", s.name)];
        if pending_only {
            args.push("--state=PENDING".to_owned());
        }
        args.extend(jobs.iter().map(ToString::to_string));
        CommandLine::new(&s.programs.cancel, args, None)
    }

    fn list(&self) -> CommandLine {
        let s = &self.submission;
        CommandLine::new(
            &s.programs.list,
            vec![
                "--me".to_owned(),
                "--noheader".to_owned(),
                "--states=all".to_owned(),
                format!("--name={}", s.name),
                format!("--format={FORMAT}"),
            ],
            None,
        )
    }

    fn listed(&self, said: &Result<Said, RunError>) -> Result<Vec<Listed>, ListError> {
        let program = &self.submission.programs.list;
        let mut jobs = Vec::new();
        for line in list_text(program, said)?
            .lines()
            .filter(|line| !line.trim().is_empty())
        {
            match parse(line) {
                Some(job) => jobs.push(job),
                // A line of a comment with line breaks, of a job that is not ours. One of ours
                // has no such comment, so a damaged line with our name means a damaged answer.
                None if line.contains(&self.submission.mark) => {
                    return Err(ListError::Form {
                        program: program.join(" "),
                        reason: format!("expected {FORMAT}, got {line:?}"),
                    });
                }
                None => {}
            }
        }
        Ok(jobs)
    }
}

/// One line of `squeue`.
fn parse(line: &str) -> Option<Listed> {
    let fields: Vec<&str> = line.splitn(FIELDS, '|').map(str::trim).collect();
    let [job, submitted, user, state, nodes, asked, name, comment] = fields.as_slice() else {
        return None;
    };
    // A pilot has one node, so neither is a list; a pending one has only what it asks for.
    let node = [*nodes, *asked]
        .into_iter()
        .find(|text| !text.is_empty() && *text != "(null)")
        .filter(|text| !text.contains(['[', ',']))
        .and_then(|text| NodeId::new(text).ok());
    Some(Listed {
        job: JobId::new(job)?,
        submitted: (*submitted).to_owned(),
        user: (*user).to_owned(),
        name: (*name).to_owned(),
        mark: (*comment).to_owned(),
        node,
        stage: stage(state)?,
    })
}

/// A state of a job as `squeue` writes it.
fn stage(state: &str) -> Option<Stage> {
    Some(match state {
        "PENDING" | "REQUEUED" | "REQUEUE_FED" | "REQUEUE_HOLD" | "RESV_DEL_HOLD"
        | "SPECIAL_EXIT" => Stage::Pending,
        "RUNNING" | "CONFIGURING" | "SUSPENDED" | "STOPPED" | "RESIZING" | "SIGNALING" => {
            Stage::Running
        }
        "COMPLETING" | "STAGE_OUT" => Stage::Ending,
        "COMPLETED" => Stage::Ended(End::Completed),
        "CANCELLED" | "REVOKED" => Stage::Ended(End::Cancelled),
        "PREEMPTED" => Stage::Ended(End::Preempted),
        "TIMEOUT" | "DEADLINE" => Stage::Ended(End::TimeLimit),
        "FAILED" | "OUT_OF_MEMORY" | "LAUNCH_FAILED" | "RECONFIG_FAIL" => Stage::Ended(End::Failed),
        "NODE_FAIL" | "BOOT_FAIL" => Stage::Ended(End::NodeFailed),
        _ => return None,
    })
}

/// Words of `sbatch` and what they mean, in lower case (slurm_errno.c). The first that fits counts.
const CAUSES: [(&str, Cause); 25] = [
    ("socket timed out", Cause::Unreachable),
    ("unable to contact slurm controller", Cause::Unreachable),
    ("zero bytes were transmitted", Cause::Unreachable),
    ("connection refused", Cause::Unreachable),
    ("connect failure", Cause::Unreachable),
    ("temporarily unable to accept", Cause::Busy),
    ("rate limit", Cause::Busy),
    ("too many", Cause::Busy),
    ("submitjob", Cause::Busy),
    ("job violates accounting/qos policy", Cause::Busy),
    ("permission denied", Cause::Denied),
    ("invalid account", Cause::Denied),
    ("invalid partition", Cause::Denied),
    ("invalid qos", Cause::Denied),
    ("invalid user id", Cause::Denied),
    ("not permitted to use this partition", Cause::Denied),
    ("required partition not available", Cause::Denied),
    ("unrecognized option", Cause::Denied),
    ("requested time limit", Cause::Denied),
    ("incompatible versions of client and server", Cause::Denied),
    ("invalid node name", Cause::Node),
    ("requested node configuration", Cause::Node),
    ("required node not available", Cause::Node),
    ("requested nodes are busy", Cause::Node),
    ("requested nodes not in this partition", Cause::Node),
];

#[cfg(test)]
mod tests;
