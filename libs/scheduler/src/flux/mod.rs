//! Flux: `flux resource list` and `flux jobs` are polled, the journal of the job manager may be
//! followed; `flux submit` submits pilots.
//!
//! Written by the manuals and RFCs of flux-framework, named in each file; tried on answers made by
//! them, not on a live Flux. Flux tells no topology that is documented for all its schedulers.

mod check;
pub mod jobs;
pub mod journal;
pub mod resources;
mod settings;
mod submit;

use std::collections::BTreeMap;

use lacuna_model::{NodeId, SettingError, Timestamp};
use lacuna_records::FieldError;
use serde_json::Value;

pub use jobs::{FluxJob, node_statuses};
pub use journal::JournalState;
pub use resources::FluxNode;
pub use settings::Flux;

use crate::answer::AnswerError;
use crate::check::{Filler, Finding};
use crate::labels::Labels;
use crate::live::{Followed, Live, PollResult, Question, Request};
use crate::missing::MissingNodes;
use crate::node_status::NodeStatus;
use crate::scheduler::{Scheduler, SchedulerName, Sections};
use crate::shared::Polling;
use crate::submit::{CommandLine, Pilots, Programs};
use crate::unsupported::{Unsupported, lacks};

/// Flux in the list of schedulers.
#[derive(Debug)]
pub(crate) struct Row;

impl Scheduler for Row {
    fn name(&self) -> SchedulerName {
        SchedulerName::Flux
    }

    fn live(&self, sections: &Sections<'_>) -> Option<Box<dyn Live>> {
        let settings = sections.flux?.clone();
        Some(Box::new(LiveFlux {
            missing: MissingNodes::new(settings.absent_after),
            journal: JournalState::default(),
            nodes: BTreeMap::new(),
            known: BTreeMap::new(),
            jobs: Vec::new(),
            settings,
        }))
    }

    fn labels(&self) -> &'static [&'static str] {
        &["queue", "property"]
    }

    fn pilots(&self) -> Result<Pilots, Unsupported> {
        Ok(Pilots {
            programs: || Programs::of(["flux submit", "flux cancel", "flux jobs"]),
            script: submit::script,
            variables: &["FLUX_URI", "FLUX_CONF"],
            submitter: |submission| Box::new(submit::FluxPilots::new(submission)),
        })
    }

    fn questions(
        &self,
        _scontrol: &[String],
        _sacctmgr: &[String],
    ) -> Result<Vec<CommandLine>, Unsupported> {
        Ok(check::questions())
    }

    fn findings(&self, answers: &[Option<String>], filler: &Filler) -> Vec<Finding> {
        check::check(answers, filler)
    }
}

/// A live Flux.
#[derive(Debug)]
struct LiveFlux {
    settings: Flux,
    missing: MissingNodes,
    journal: JournalState,
    /// Nodes of the newest answer.
    nodes: BTreeMap<NodeId, FluxNode>,
    /// Their statuses without jobs, as of the newest cycle.
    known: BTreeMap<NodeId, NodeStatus>,
    jobs: Vec<FluxJob>,
}

impl Live for LiveFlux {
    fn scheduler(&self) -> SchedulerName {
        SchedulerName::Flux
    }

    fn check(&self) -> Result<(), SettingError> {
        self.settings.check()
    }

    fn polling(&self) -> Result<&Polling, Unsupported> {
        Ok(&self.settings.polling)
    }

    /// Nodes come before jobs: a change between the answers makes a node look less free.
    fn requests(&self) -> Vec<Request> {
        let flux = &self.settings.flux;
        vec![
            Request::new("flux resource", flux, resources::arguments()),
            Request::new("flux jobs", flux, jobs::arguments()),
        ]
    }

    fn read(&mut self, request: usize, answer: &str) -> Result<(), AnswerError> {
        match request {
            0 => self.nodes = resources::read(answer)?,
            _ => self.jobs = jobs::read(answer)?,
        }
        Ok(())
    }

    fn result(&mut self) -> PollResult {
        let marks = &self.settings.pilots;
        let mut nodes = node_statuses(&self.nodes, &self.jobs, marks);
        let mut free = self.nodes.clone();
        for node in free.values_mut() {
            node.allocated = false;
        }
        self.known = node_statuses(&free, &[], marks).into_iter().collect();
        let (gone, missing) = self.missing.take(self.nodes.keys());
        let unusable = |(node, reason)| (node, NodeStatus::Unusable { reason });
        nodes.extend(gone.into_iter().map(unusable));
        nodes.sort_by(|a, b| a.0.cmp(&b.0));
        PollResult {
            nodes,
            missing,
            ..PollResult::default()
        }
    }

    fn expect(&mut self, nodes: Vec<NodeId>) {
        self.missing.expect(nodes);
    }

    fn kinds(&self) -> Result<Question, Unsupported> {
        Ok(Question::Cycle(0))
    }

    fn labels(&self, answer: &str) -> Result<Labels, AnswerError> {
        resources::labels(answer)
    }

    fn follow(&self) -> Result<Followed<'_>, Unsupported> {
        let (settings, file) = (&self.settings, "followed file");
        let path = settings.journal.as_deref();
        Ok(Followed {
            path: path.ok_or_else(|| lacks(SchedulerName::Flux, file, "ingest.flux.journal"))?,
            following: &settings.following,
        })
    }

    fn line(&mut self, line: &[u8]) -> Result<Option<Timestamp>, FieldError> {
        self.journal.line(line, &self.settings.pilots)
    }

    /// Nodes that jobs have taken, and holes only where pilots of ours have the node. At `free` a job
    /// hands its nodes to housekeeping, which cleans them: the next poll shows when they are idle.
    fn changes(&mut self) -> Vec<(NodeId, NodeStatus)> {
        let mut changes = self.journal.running.changes();
        let held = self.journal.running.nodes();
        changes.retain(|(node, status)| {
            let usable = || self.known.get(node) == Some(&NodeStatus::Hole);
            *status == NodeStatus::Taken || (held.contains_key(node) && usable())
        });
        changes
    }

    fn state(&self) -> Result<Value, serde_json::Error> {
        serde_json::to_value(&self.journal)
    }

    fn restore(&mut self, state: Value) -> Result<(), serde_json::Error> {
        self.journal = serde_json::from_value(state)?;
        Ok(())
    }
}
