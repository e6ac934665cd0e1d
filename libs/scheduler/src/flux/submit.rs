//! Flux: `flux submit`, `flux cancel` and `flux jobs`.
//!
//! A job of Flux has no comment, and a waiting one shows no constraint. So the job name of a pilot has
//! its name, node and mark: `lacuna-pilot/n17/lacuna:cluster`. `flux batch`, which would read a script
//! from standard input, starts a Flux inside the job, whose broker sends SIGHUP at its end instead of
//! SIGTERM. So the script is an argument: the interpreter of its first line runs it by `-c`.

use lacuna_model::{NodeId, Span};

use super::jobs::{self, FluxJob, id, recent};
use crate::job::{JobId, JobStage, Listed};
use crate::scheduler::SchedulerName;
use crate::submit::{
    Cause, CommandLine, CommandOutput, ListError, Refusal, RunError, Submission, Submitter,
    list_text, minutes, quoted, submitted,
};

/// The lowest urgency of a job that is not held; 0 holds it (flux-submit(1)).
const URGENCY: &str = "--urgency=1";
/// The plugin `killbot` ends jobs with this attribute as soon as others wait in their queue.
const PREEMPTIBLE: &str = "--setattr=preemptible-after=0";
/// The variable that names a pilot's node.
const NODE: &str = "LACUNA_NODE";

/// Flux as a scheduler of pilots.
#[derive(Debug, Clone)]
pub(super) struct FluxPilots {
    submission: Submission,
}

impl FluxPilots {
    /// Flux, for pilots with these parameters.
    #[must_use]
    pub(super) const fn new(submission: Submission) -> Self {
        Self { submission }
    }
}

/// The batch script of a pilot, which becomes an agent.
#[must_use]
pub(super) fn script(agent: &str, config: &str) -> String {
    let config = match config {
        "" => String::new(),
        config => format!(" --config {}", quoted(config)),
    };
    let agent = quoted(agent);
    format!("#!/bin/sh\nexec {agent} --pilot --node \"${NODE}\"{config}\n")
}

impl Submitter for FluxPilots {
    fn scheduler(&self) -> SchedulerName {
        SchedulerName::Flux
    }

    fn submit(&self, node: &NodeId, limit: Span) -> CommandLine {
        let s = &self.submission;
        let mut args = vec![
            format!("--job-name={}/{node}/{}", s.name, s.mark),
            "--nodes=1".to_owned(),
            "--ntasks=1".to_owned(),
            format!("--requires=hosts:{node}"),
            format!("--time-limit={}m", minutes(limit)),
            URGENCY.to_owned(),
            PREEMPTIBLE.to_owned(),
            "--cwd=/".to_owned(),
            format!("--env={NODE}={node}"),
        ];
        if s.exclusive {
            args.push("--exclusive".to_owned());
        }
        if !s.partition.is_empty() {
            args.push(format!("--queue={}", s.partition));
        }
        if !s.account.is_empty() {
            // A name that looks like a number stays a text.
            args.push(format!("--setattr=bank=\"{}\"", s.account));
        }
        if !s.output.is_empty() {
            args.extend(["output", "error"].map(|option| format!("--{option}={}", s.output)));
        }
        args.extend(s.extra.iter().cloned());
        let (first, rest) = s.script.split_once('\n').unwrap_or((&s.script, ""));
        let interpreter = first.trim_start_matches("#!").split_whitespace();
        args.extend(interpreter.map(str::to_owned));
        args.extend(["-c".to_owned(), rest.to_owned()]);
        CommandLine::new(&s.programs.submit, args, None)
    }

    fn submitted(&self, output: &Result<CommandOutput, RunError>) -> Result<JobId, Refusal> {
        let number = |output: &CommandOutput| {
            let mut lines = output.stdout.lines().rev().map(str::trim);
            let last = lines.find(|line| !line.is_empty()).and_then(id);
            let stdout = last.map_or_else(|| output.stdout.clone(), |id| id.to_string());
            CommandOutput {
                stdout,
                ..output.clone()
            }
        };
        let output = output.as_ref().map(number).map_err(Clone::clone);
        submitted(&output, |line| line, &CAUSES)
    }

    /// `flux cancel` takes ids or states, not both: a pilot that has just got its node is cancelled
    /// too.
    fn cancel(&self, jobs: &[JobId], _pending_only: bool) -> CommandLine {
        let jobs = jobs.iter().map(ToString::to_string).collect();
        CommandLine::new(&self.submission.programs.cancel, jobs, None)
    }

    fn list(&self) -> CommandLine {
        let s = &self.submission;
        CommandLine::new(&s.programs.list, recent(s.all_users), None)
    }

    fn listed(&self, output: &Result<CommandOutput, RunError>) -> Result<Vec<Listed>, ListError> {
        let program = &self.submission.programs.list;
        let jobs = jobs::read(list_text(program, output)?);
        let jobs = jobs.map_err(|error| ListError::form(program, &error))?;
        Ok(jobs.iter().filter_map(listed).collect())
    }

    /// `flux jobs` lists our own.
    fn lists_all(&self) -> bool {
        self.submission.all_users
    }
}

fn listed(job: &FluxJob) -> Option<Listed> {
    let mut words = job.name.splitn(3, '/');
    let name = words.next().unwrap_or_default();
    let asked = words.next().and_then(|node| NodeId::new(node).ok());
    Some(Listed {
        job: JobId::new(&job.id.to_string())?,
        submitted: job.submitted.clone(),
        user: job.user.clone(),
        name: name.to_owned(),
        mark: words.next().unwrap_or_default().to_owned(),
        node: job.nodes.first().cloned().or(asked),
        stage: JobStage::of(job.state)?,
    })
}

/// Messages of `flux submit` in lower case, with their causes. The first that fits counts. Sources:
/// the plugins of the job manager and of the job ingest in flux-core (`feasibility`, `limit-job-size`,
/// `limit-duration`, `queue`).
const CAUSES: [(&str, Cause); 13] = [
    ("unable to connect to flux", Cause::Unreachable),
    ("error connecting", Cause::Unreachable),
    ("connection refused", Cause::Unreachable),
    ("timed out", Cause::Unreachable),
    ("too many", Cause::Busy),
    ("max jobs", Cause::Busy),
    ("invalid queue", Cause::Denied),
    ("queue not specified", Cause::Denied),
    ("submission is disabled", Cause::Denied),
    ("exceeds", Cause::Denied),
    ("permission", Cause::Denied),
    ("unsatisfiable", Cause::Node),
    ("invalid host", Cause::Node),
];
