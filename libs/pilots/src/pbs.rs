//! OpenPBS: `qsub`, `qdel`, `qstat -f -F json`.
//!
//! A job's comment belongs to the scheduler there, so a pilot is marked by a variable, which
//! `qstat -f` shows. Jobs that are over vanish from the list; how they ended is not known.

use std::collections::BTreeMap;

use lacuna_model::{NodeId, Span};
use serde::Deserialize;
use serde_json::Value;

use crate::job::{JobId, Listed, Stage};
use crate::keeper::{Cause, Refusal};
use crate::scheduler::{
    self, CommandLine, ListError, RunError, Said, Scheduler, Submission, clock_time, list_text,
    quoted,
};

/// The variable that marks a pilot.
const MARK: &str = "LACUNA_MARK";
/// The variable that names a pilot's node.
const NODE: &str = "LACUNA_NODE";

/// OpenPBS.
#[derive(Debug, Clone)]
pub struct Pbs {
    submission: Submission,
    /// What each chunk asks for beside its host, as in `ncpus=64:ngpus=4`; may be empty.
    chunk: String,
}

impl Pbs {
    /// OpenPBS, for pilots submitted so, each asking for this beside its host.
    #[must_use]
    pub const fn new(submission: Submission, chunk: String) -> Self {
        Self { submission, chunk }
    }
}

/// The batch script that becomes an agent.
#[must_use]
pub fn script(agent: &str, config: &str) -> String {
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

impl Scheduler for Pbs {
    fn name(&self) -> &'static str {
        "pbs"
    }

    fn submit(&self, node: &NodeId, limit: Span) -> CommandLine {
        let s = &self.submission;
        let mut chunk = format!("select=1:host={node}");
        if !self.chunk.is_empty() {
            chunk.push(':');
            chunk.push_str(&self.chunk);
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

    fn submitted(&self, said: &Result<Said, RunError>) -> Result<JobId, Refusal> {
        scheduler::submitted(said, |line| line, &CAUSES)
    }

    /// PBS cannot cancel by state. A pilot that has got its node in the same moment goes too.
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

    fn listed(&self, said: &Result<Said, RunError>) -> Result<Vec<Listed>, ListError> {
        let program = &self.submission.programs.list;
        let text = list_text(program, said)?;
        let answer: Answer = serde_json::from_str(text).map_err(|e| ListError::Form {
            program: program.join(" "),
            reason: e.to_string(),
        })?;
        Ok(answer
            .jobs
            .iter()
            .filter_map(|(id, job)| job.read(id))
            .collect())
    }
}

#[derive(Debug, Deserialize)]
struct Answer {
    #[serde(rename = "Jobs", default)]
    jobs: BTreeMap<String, Job>,
}

/// A job in `qstat`'s words; numbers may be text and the other way round.
#[derive(Debug, Deserialize)]
struct Job {
    #[serde(rename = "Job_Name", default)]
    name: Value,
    #[serde(rename = "Job_Owner", default)]
    owner: Value,
    #[serde(rename = "job_state", default)]
    state: Value,
    #[serde(rename = "ctime", default)]
    created: Value,
    #[serde(rename = "exec_host", default)]
    exec_host: Value,
    #[serde(rename = "Variable_List", default)]
    variables: Value,
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

impl Job {
    fn read(&self, id: &str) -> Option<Listed> {
        let variable = |name: &str| self.variables.get(name).map(text).unwrap_or_default();
        let host = text(&self.exec_host);
        let host = host.split('/').next().unwrap_or_default().to_owned();
        let node = [host, variable(NODE)]
            .into_iter()
            .find(|name| !name.is_empty())
            .and_then(|name| NodeId::new(name).ok());
        let stage = match text(&self.state).as_str() {
            "Q" | "H" | "W" | "T" | "M" => Stage::Pending,
            "R" | "S" | "U" | "B" => Stage::Running,
            "E" => Stage::Ending,
            // `F` and `X`, over, come only with a history that was not asked for.
            _ => return None,
        };
        let owner = text(&self.owner);
        Some(Listed {
            job: JobId::new(id)?,
            submitted: text(&self.created),
            user: owner.split('@').next().unwrap_or_default().to_owned(),
            name: text(&self.name),
            mark: variable(MARK),
            node,
            stage,
        })
    }
}

/// Words of `qsub` and what they mean, in lower case. The first that fits counts.
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
