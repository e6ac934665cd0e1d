//! OpenPBS: `qsub`, `qdel`, `qstat -f -F json`.
//!
//! PBS writes the comment of a job itself. So an environment variable, which `qstat -f` shows,
//! marks a pilot. A job that is over vanishes from the list, and its outcome is unknown.

use lacuna_model::{NodeId, Span};

use super::records::{self, PbsJob};
use crate::job::{JobId, JobStage, Listed};
use crate::scheduler::SchedulerName;
use crate::submit::{
    Cause, CommandLine, CommandOutput, ListError, Refusal, RunError, Submission, Submitter,
    clock_time, list_text, quoted, submitted,
};
use crate::unsupported::Unsupported;

/// The variable that marks a pilot.
const MARK: &str = "LACUNA_MARK";
/// The variable that names a pilot's node.
const NODE: &str = "LACUNA_NODE";

/// OpenPBS as a scheduler of pilots.
#[derive(Debug, Clone)]
pub(super) struct PbsPilots {
    submission: Submission,
}

impl PbsPilots {
    /// OpenPBS, for pilots with these parameters.
    #[must_use]
    pub(super) const fn new(submission: Submission) -> Self {
        Self { submission }
    }
}

/// The batch script of a pilot, which becomes an agent.
#[must_use]
pub(super) fn script(agent: &str, config: &str) -> String {
    let config = if config.is_empty() {
        String::new()
    } else {
        format!(" --config {}", quoted(config))
    };
    format!(
        "#!/bin/sh\n\
         # One agent of Lacuna on this node. It holds no batch job up: it goes at the first SIGTERM.\n\
         exec {} --pilot --node \"${NODE}\"{config}\n",
        quoted(agent)
    )
}

impl Submitter for PbsPilots {
    fn scheduler(&self) -> SchedulerName {
        SchedulerName::Pbs
    }

    fn submit(&self, node: &NodeId, limit: Span) -> CommandLine {
        let s = &self.submission;
        let mut chunk = format!("select=1:host={node}");
        if !s.chunk.is_empty() {
            chunk.push(':');
            chunk.push_str(&s.chunk);
        }
        let variables = format!("{MARK}={},{NODE}={node}", s.mark);
        let walltime = format!("walltime={}", clock_time(limit));
        let mut args = vec![
            "-N", &s.name, "-r", "n", "-m", "n", "-j", "oe", "-l", &chunk, "-l", &walltime, "-v",
            &variables,
        ];
        if s.exclusive {
            args.extend(["-l", "place=excl"]);
        }
        for (option, value) in [("-q", &s.partition), ("-A", &s.account), ("-o", &s.output)] {
            if !value.is_empty() {
                args.extend([option, value]);
            }
        }
        let mut args: Vec<String> = args.into_iter().map(str::to_owned).collect();
        args.extend(s.extra.iter().cloned());
        CommandLine::new(&s.programs.submit, args, Some(s.script.clone()))
    }

    fn submitted(&self, output: &Result<CommandOutput, RunError>) -> Result<JobId, Refusal> {
        submitted(output, |line| line, &CAUSES)
    }

    /// PBS cannot cancel by state: a pilot that has just got its node is cancelled too.
    fn cancel(&self, jobs: &[JobId], _pending_only: bool) -> CommandLine {
        CommandLine::new(
            &self.submission.programs.cancel,
            jobs.iter().map(ToString::to_string).collect(),
            None,
        )
    }

    fn list(&self) -> CommandLine {
        let s = &self.submission;
        let mut args: Vec<String> = ["-f", "-F", "json"].map(str::to_owned).into();
        if !s.partition.is_empty() {
            args.push(s.partition.clone());
        }
        CommandLine::new(&s.programs.list, args, None)
    }

    fn listed(&self, output: &Result<CommandOutput, RunError>) -> Result<Vec<Listed>, ListError> {
        let program = &self.submission.programs.list;
        let jobs = records::read_jobs(list_text(program, output)?);
        let jobs = jobs.map_err(|error| ListError::form(program, &error))?;
        Ok(jobs.iter().filter_map(listed).collect())
    }

    fn owned(&self, owner: &str) -> Result<CommandLine, Unsupported> {
        let args = ["-u", owner, "-N", &self.submission.name].map(str::to_owned);
        Ok(CommandLine::new(&["qselect".to_owned()], args.into(), None))
    }
}

fn listed(job: &PbsJob) -> Option<Listed> {
    let node = [job.host().to_owned(), job.variable(NODE)]
        .into_iter()
        .find(|name| !name.is_empty())
        .and_then(|name| NodeId::new(name).ok());
    Some(Listed {
        job: JobId::new(&job.id)?,
        submitted: job.submitted.clone(),
        user: job.user().to_owned(),
        name: job.name.clone(),
        mark: job.variable(MARK),
        node,
        stage: JobStage::of(job.state())?,
    })
}

/// Messages of `qsub` in lower case, with their causes. The first that fits counts.
const CAUSES: [(&str, Cause); 14] = [
    ("cannot connect to", Cause::Unreachable),
    ("connection refused", Cause::Unreachable),
    ("end of file", Cause::Unreachable),
    ("timed out", Cause::Unreachable),
    ("would exceed", Cause::Busy),
    ("limit", Cause::Busy),
    ("unauthorized", Cause::Denied),
    ("unknown queue", Cause::Denied),
    ("access to queue is denied", Cause::Denied),
    ("invalid account", Cause::Denied),
    ("illegal", Cause::Denied),
    ("permission denied", Cause::Denied),
    ("unknown node", Cause::Node),
    ("unknown resource", Cause::Denied),
];

#[cfg(test)]
mod tests;
