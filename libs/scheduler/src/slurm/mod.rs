//! Slurm: `sinfo` and `squeue`, or slurmrestd, are polled; `sbatch` submits pilots.
//!
//! Nodes come before jobs in a cycle. A change between the two answers then makes a node look less free
//! than it is, never more ([`node_status()`]).

pub mod check;
mod flags;
pub mod json;
pub mod kinds;
mod node_status;
mod settings;
pub mod sinfo;
pub mod squeue;
mod submit;
pub mod topology;
mod tracker;

use std::collections::BTreeSet;

use jiff::tz::TimeZone;
use lacuna_model::{NodeId, SettingError};

pub use flags::{Base, NodeFlags};
pub use node_status::node_status;
pub use settings::{Answers, Slurm};
pub use sinfo::NodeReport;
pub use squeue::JobReport;
pub use tracker::Tracker;

use crate::answer::AnswerError;
use crate::check::{Filler, Finding};
use crate::labels::Labels;
use crate::live::{Live, PollResult, Question, Request};
use crate::scheduler::{Scheduler, SchedulerName, Sections};
use crate::shared::Polling;
use crate::submit::{CommandLine, Pilots, Programs};
use crate::unsupported::Unsupported;

/// Slurm in the list of schedulers.
#[derive(Debug)]
pub(crate) struct Row;

impl Scheduler for Row {
    fn name(&self) -> SchedulerName {
        SchedulerName::Slurm
    }

    fn live(&self, sections: &Sections<'_>) -> Option<Box<dyn Live>> {
        Some(Box::new(LiveSlurm::new(sections.slurm?.clone())))
    }

    fn labels(&self) -> &'static [&'static str] {
        &["partition", "feature", "gres"]
    }

    fn pilots(&self) -> Result<Pilots, Unsupported> {
        Ok(Pilots {
            programs: || Programs::of(["sbatch", "scancel", "squeue"]),
            script: submit::script,
            variables: &["SLURM_CONF"],
            submitter: |submission| Box::new(submit::SlurmPilots::new(submission)),
        })
    }

    /// The list of all nodes, which is long, is left out.
    fn questions(
        &self,
        scontrol: &[String],
        sacctmgr: &[String],
    ) -> Result<Vec<CommandLine>, Unsupported> {
        let [config, partitions, qos, _nodes] = check::questions(scontrol, sacctmgr);
        Ok(vec![config, partitions, qos])
    }

    fn findings(&self, answers: &[Option<String>], filler: &Filler) -> Vec<Finding> {
        let mut facts = check::Facts::default();
        for text in answers.iter().flatten() {
            facts.read(text);
        }
        check::check(&facts, filler)
    }
}

/// A live Slurm.
#[derive(Debug)]
struct LiveSlurm {
    settings: Slurm,
    zone: TimeZone,
    tracker: Tracker,
    nodes: Vec<NodeReport>,
    jobs: Vec<JobReport>,
    flaws: Vec<String>,
}

impl LiveSlurm {
    fn new(settings: Slurm) -> Self {
        Self {
            tracker: Tracker::new(settings.clone(), []),
            settings,
            zone: TimeZone::UTC,
            nodes: Vec::new(),
            jobs: Vec::new(),
            flaws: Vec::new(),
        }
    }

    /// Arguments of a command; a command for JSON is complete.
    fn unless_json(&self, arguments: impl FnOnce() -> Vec<String>) -> Vec<String> {
        match self.settings.answers {
            Answers::Json => Vec::new(),
            Answers::Text => arguments(),
        }
    }
}

impl Live for LiveSlurm {
    fn scheduler(&self) -> SchedulerName {
        SchedulerName::Slurm
    }

    fn check(&self) -> Result<(), SettingError> {
        self.settings.check()
    }

    fn time_zone(&self) -> Option<&str> {
        self.settings.time_zone.as_deref()
    }

    fn begin(&mut self, zone: TimeZone, _nodes: &BTreeSet<NodeId>) {
        self.zone = zone;
    }

    fn polling(&self) -> Result<&Polling, Unsupported> {
        Ok(&self.settings.polling)
    }

    fn requests(&self) -> Vec<Request> {
        let s = &self.settings;
        let partition = s.pilots.partition.as_deref();
        let nodes = self.unless_json(|| sinfo::arguments(partition));
        let jobs = self.unless_json(squeue::arguments);
        vec![
            Request::new("sinfo", &s.sinfo, nodes),
            Request::new("squeue", &s.squeue, jobs),
        ]
    }

    /// Unix seconds have no time zone that would have to be guessed.
    fn variables(&self) -> &'static [(&'static str, &'static str)] {
        &[("SLURM_TIME_FORMAT", "%s"), topology::LENGTH]
    }

    fn unset(&self) -> &'static [&'static str] {
        &["SQUEUE_", "SINFO_", "SLURM_CLUSTERS"]
    }

    fn read(&mut self, request: usize, answer: &str) -> Result<(), AnswerError> {
        let is_json = self.settings.answers == Answers::Json;
        if request == 0 {
            self.flaws.clear();
            self.nodes = match is_json {
                true => json::read_nodes(answer, &mut self.flaws)?,
                false => sinfo::read(answer)?,
            };
        } else {
            self.jobs = match is_json {
                true => json::read_jobs(answer, &mut self.flaws)?,
                false => squeue::read(answer, &self.zone)?,
            };
        }
        Ok(())
    }

    fn result(&mut self) -> PollResult {
        PollResult {
            flaws: std::mem::take(&mut self.flaws),
            ..self.tracker.take(&self.nodes, &self.jobs)
        }
    }

    fn expect(&mut self, nodes: Vec<NodeId>) {
        self.tracker.expect(nodes);
    }

    fn topology(&self, _keys: &[String]) -> Result<Question, Unsupported> {
        let command = &self.settings.scontrol;
        let request = Request::new("scontrol", command, topology::arguments());
        Ok(Question::Own(request))
    }

    fn has_no_topology(&self, answer: &str) -> bool {
        topology::is_none(answer)
    }

    fn kinds(&self) -> Result<Question, Unsupported> {
        let arguments = self.unless_json(kinds::arguments);
        let request = Request::new("sinfo", &self.settings.sinfo, arguments);
        Ok(Question::Own(request))
    }

    fn labels(&self, answer: &str) -> Result<Labels, AnswerError> {
        match self.settings.answers {
            Answers::Json => kinds::read_json(answer),
            Answers::Text => kinds::read(answer),
        }
    }
}
