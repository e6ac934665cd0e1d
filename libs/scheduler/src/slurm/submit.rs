//! Slurm: `sbatch`, `scancel` and `squeue`. The fixed format of `squeue` is the same in all
//! versions and costs slurmctld less than JSON.

use jiff::tz::TimeZone;
use lacuna_model::{NodeId, Span};

use super::{JobReport, squeue};
use crate::job::{JobId, JobStage, Listed};
use crate::scheduler::SchedulerName;
use crate::submit::{
    Cause, CommandLine, CommandOutput, ListError, Refusal, RunError, Submission, Submitter,
    clock_time, list_text, quoted, submitted,
};
use crate::unsupported::Unsupported;

/// Slurm as a scheduler of pilots.
#[derive(Debug, Clone)]
pub(super) struct SlurmPilots {
    submission: Submission,
}

impl SlurmPilots {
    /// Slurm, for pilots with these parameters.
    #[must_use]
    pub(super) const fn new(submission: Submission) -> Self {
        Self { submission }
    }
}

/// The batch script, which sites can also submit by hand.
const SCRIPT: &str = include_str!("../../../../deploy/slurm/pilot.sbatch");

/// The batch script of a pilot. It starts the agent with `exec srun`, since only the tasks of a
/// step get SIGTERM at the beginning of a grace time. All options are on the command line of
/// `sbatch`, none in the script.
#[must_use]
pub(super) fn script(agent: &str, config: &str) -> String {
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

impl Submitter for SlurmPilots {
    fn scheduler(&self) -> SchedulerName {
        SchedulerName::Slurm
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

    fn submitted(&self, output: &Result<CommandOutput, RunError>) -> Result<JobId, Refusal> {
        // `--parsable` prints `number` or `number;cluster`.
        submitted(
            output,
            |line| line.split(';').next().unwrap_or_default(),
            &CAUSES,
        )
    }

    fn cancel(&self, jobs: &[JobId], pending_only: bool) -> CommandLine {
        let s = &self.submission;
        // The job name is a filter, so that no other job of the same id is cancelled. A user can
        // cancel only their own jobs, but an operator of Slurm can cancel any.
        let mut args = vec![format!("--name={}", s.name)];
        if pending_only {
            args.push("--state=PENDING".to_owned());
        }
        args.extend(jobs.iter().map(ToString::to_string));
        CommandLine::new(&s.programs.cancel, args, None)
    }

    fn list(&self) -> CommandLine {
        let s = &self.submission;
        let mut args = Vec::new();
        if !s.all_users {
            args.push("--me".to_owned());
        }
        args.extend(["--states=all".to_owned(), format!("--name={}", s.name)]);
        args.extend(squeue::arguments());
        CommandLine::new(&s.programs.list, args, None)
    }

    fn listed(&self, output: &Result<CommandOutput, RunError>) -> Result<Vec<Listed>, ListError> {
        let program = &self.submission.programs.list;
        // The list's times are not used, so their zone does not matter.
        let jobs = squeue::read(list_text(program, output)?, &TimeZone::UTC);
        let jobs = jobs.map_err(|error| ListError::form(program, &error))?;
        let mut ours = Vec::with_capacity(jobs.len());
        for job in jobs {
            match listed(&job) {
                Some(job) => ours.push(job),
                // Only a pilot must be in a known state; other jobs do not matter.
                None if job.comment == self.submission.mark => {
                    let reason = format!("job {} is in a state that is not known", job.id);
                    return Err(ListError::form(program, &reason));
                }
                None => {}
            }
        }
        Ok(ours)
    }

    /// `squeue --me` lists our own.
    fn lists_all(&self) -> bool {
        self.submission.all_users
    }

    fn owned(&self, owner: &str) -> Result<CommandLine, Unsupported> {
        let s = &self.submission;
        let args = ["-h", "-u", owner, "-n", &s.name, "-o", "%A"].map(str::to_owned);
        Ok(CommandLine::new(&s.programs.list, args.into(), None))
    }
}

fn listed(job: &JobReport) -> Option<Listed> {
    // A pilot has one node. A waiting pilot has only its requested node.
    let node = match job.nodes.as_slice() {
        [] => job.asked.as_ref(),
        [one] => Some(one),
        _ => None,
    };
    Some(Listed {
        job: JobId::new(&job.id)?,
        submitted: job.submitted.clone(),
        user: job.user.clone(),
        name: job.name.clone(),
        mark: job.comment.clone(),
        node: node.cloned(),
        stage: JobStage::of(job.state)?,
    })
}

/// Messages of `sbatch` in lower case (slurm_errno.c), with their causes. The first that fits
/// counts.
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
