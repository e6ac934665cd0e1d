//! OpenPBS and PBS Professional: accounting records are followed, `pbsnodes` is polled; `qsub` submits
//! pilots.
//!
//! Records show starts and ends of jobs at once. `pbsnodes` shows the other states of a node, and
//! repairs gaps in the records.

pub mod kinds;
pub mod records;
mod settings;
mod submit;

use std::collections::{BTreeMap, BTreeSet};

use jiff::tz::TimeZone;
use lacuna_model::{NodeId, SettingError, Timestamp};
use lacuna_records::FieldError;
use serde_json::Value;

pub use records::{PbsAnswer, PbsJob, PbsNode, PbsRecords, pbs_node_status};
pub use settings::Pbs;

use crate::answer::AnswerError;
use crate::jobs::RunningJobs;
use crate::labels::Labels;
use crate::live::{Followed, Live, PollResult, Question, Request};
use crate::missing::MissingNodes;
use crate::node_status::NodeStatus;
use crate::scheduler::{Scheduler, SchedulerName, Sections};
use crate::shared::Polling;
use crate::submit::{Pilots, Programs};
use crate::unsupported::{Unsupported, lacks};

/// PBS in the list of schedulers.
#[derive(Debug)]
pub(crate) struct Row;

impl Scheduler for Row {
    fn name(&self) -> SchedulerName {
        SchedulerName::Pbs
    }

    fn live(&self, sections: &Sections<'_>) -> Option<Box<dyn Live>> {
        Some(Box::new(LivePbs::new(sections.pbs?.clone())))
    }

    fn labels(&self) -> &'static [&'static str] {
        &["queue", "resource"]
    }

    fn pilots(&self) -> Result<Pilots, Unsupported> {
        Ok(Pilots {
            programs: || Programs::of(["qsub", "qdel", "qstat"]),
            script: submit::script,
            variables: &["PBS_"],
            submitter: |submission| Box::new(submit::PbsPilots::new(submission)),
        })
    }
}

/// A live PBS.
#[derive(Debug)]
struct LivePbs {
    settings: Pbs,
    records: PbsRecords,
    /// Nodes of the newest answer, and those before it that are not yet gone.
    nodes: BTreeMap<NodeId, PbsNode>,
    missing: MissingNodes,
    answer: PbsAnswer,
}

impl LivePbs {
    fn new(settings: Pbs) -> Self {
        let (zone, running) = (TimeZone::UTC, RunningJobs::default());
        Self {
            records: PbsRecords::new(settings.pilots.clone(), zone, running),
            missing: MissingNodes::new(settings.absent_after),
            nodes: BTreeMap::new(),
            answer: PbsAnswer {
                nodes: Vec::new(),
                flaws: Vec::new(),
            },
            settings,
        }
    }

    /// Status of a node whose jobs have changed, if it is known.
    fn now(&mut self, node: NodeId, status: NodeStatus) -> Option<(NodeId, NodeStatus)> {
        if status == NodeStatus::Taken {
            return Some((node, status));
        }
        // A node without foreign jobs is a hole unless its state forbids it.
        let mut known = self.nodes.get(&node)?.clone();
        known.jobs.clear();
        known.state = known
            .state
            .replace("job-busy", "free")
            .replace("job-exclusive", "free");
        let status = pbs_node_status(&known, self.records.running(), &self.settings.pilots);
        (status == NodeStatus::Hole).then_some((node, status))
    }
}

impl Live for LivePbs {
    fn scheduler(&self) -> SchedulerName {
        SchedulerName::Pbs
    }

    fn check(&self) -> Result<(), SettingError> {
        self.settings.check()
    }

    fn time_zone(&self) -> Option<&str> {
        self.settings.time_zone.as_deref()
    }

    fn begin(&mut self, zone: TimeZone, _nodes: &BTreeSet<NodeId>) {
        self.records.set_zone(zone);
    }

    fn polling(&self) -> Result<&Polling, Unsupported> {
        Ok(&self.settings.polling)
    }

    fn requests(&self) -> Vec<Request> {
        let command = &self.settings.pbsnodes;
        vec![Request::new("pbsnodes", command, Vec::new())]
    }

    fn read(&mut self, _request: usize, answer: &str) -> Result<(), AnswerError> {
        self.answer = records::read(answer)?;
        Ok(())
    }

    fn result(&mut self) -> PollResult {
        let flaws = std::mem::take(&mut self.answer.flaws);
        let nodes = std::mem::take(&mut self.answer.nodes);
        // A node that PBS has not heard from counts as missing.
        let nodes: Vec<PbsNode> = nodes
            .into_iter()
            .filter(|node| !node.is_unclear())
            .collect();
        let (gone, missing) = self.missing.take(nodes.iter().map(|node| &node.node));
        let running = self.records.running();
        let classify = |node: &PbsNode| {
            let status = pbs_node_status(node, running, &self.settings.pilots);
            (node.node.clone(), status)
        };
        let mut statuses: Vec<(NodeId, NodeStatus)> = nodes.iter().map(classify).collect();
        for (node, reason) in gone {
            self.nodes.remove(&node);
            statuses.push((node, NodeStatus::Unusable { reason }));
        }
        for node in nodes {
            self.nodes.insert(node.node.clone(), node);
        }
        PollResult {
            nodes: statuses,
            missing,
            flaws,
            ..PollResult::default()
        }
    }

    fn expect(&mut self, nodes: Vec<NodeId>) {
        self.missing.expect(nodes);
    }

    fn topology(&self, keys: &[String]) -> Result<Question, Unsupported> {
        if keys.is_empty() {
            let remedy = "ingest.topology_keys: the resources of the server's node_group_key, as in \
                          [\"switch\"]";
            return Err(lacks(SchedulerName::Pbs, "topology", remedy));
        }
        Ok(Question::Cycle(0))
    }

    fn kinds(&self) -> Result<Question, Unsupported> {
        Ok(Question::Cycle(0))
    }

    fn labels(&self, answer: &str) -> Result<Labels, AnswerError> {
        kinds::read(answer)
    }

    fn follow(&self) -> Result<Followed<'_>, Unsupported> {
        let (settings, file) = (&self.settings, "followed file");
        let path = settings.accounting.as_deref();
        Ok(Followed {
            path: path.ok_or_else(|| lacks(SchedulerName::Pbs, file, "ingest.pbs.accounting"))?,
            following: &settings.following,
        })
    }

    fn line(&mut self, line: &[u8]) -> Result<Option<Timestamp>, FieldError> {
        self.records.line(line)
    }

    fn changes(&mut self) -> Vec<(NodeId, NodeStatus)> {
        let changes = self.records.running().changes().into_iter();
        changes
            .filter_map(|(node, status)| self.now(node, status))
            .collect()
    }

    fn state(&self) -> Result<Value, serde_json::Error> {
        serde_json::to_value(self.records.jobs())
    }

    fn restore(&mut self, state: Value) -> Result<(), serde_json::Error> {
        *self.records.running() = serde_json::from_value(state)?;
        Ok(())
    }
}
