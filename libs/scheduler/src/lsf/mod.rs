//! IBM Spectrum LSF: `lsb.events` is followed. `ingest.nodes_file` lists the nodes.

pub mod events;
pub mod kinds;
mod settings;

use std::collections::BTreeSet;

use jiff::tz::TimeZone;
use lacuna_model::{NodeId, SettingError, Timestamp};
use lacuna_records::FieldError;
use serde_json::Value;

pub use events::{LsfEvents, LsfState};
pub use settings::Lsf;

use crate::live::{Followed, Live};
use crate::node_status::NodeStatus;
use crate::scheduler::{Scheduler, SchedulerName, Sections};
use crate::unsupported::Unsupported;

/// LSF in the list of schedulers.
#[derive(Debug)]
pub(crate) struct Row;

impl Scheduler for Row {
    fn name(&self) -> SchedulerName {
        SchedulerName::Lsf
    }

    fn live(&self, sections: &Sections<'_>) -> Option<Box<dyn Live>> {
        let settings = sections.lsf?.clone();
        Some(Box::new(LiveLsf {
            events: LsfEvents::new(settings.pilots.clone(), LsfState::default()),
            nodes: BTreeSet::new(),
            settings,
        }))
    }

    fn labels(&self) -> &'static [&'static str] {
        &["type", "model", "resource"]
    }
}

/// A live LSF.
#[derive(Debug)]
struct LiveLsf {
    settings: Lsf,
    /// All nodes of the cluster.
    nodes: BTreeSet<NodeId>,
    events: LsfEvents,
}

impl Live for LiveLsf {
    fn scheduler(&self) -> SchedulerName {
        SchedulerName::Lsf
    }

    fn check(&self) -> Result<(), SettingError> {
        self.settings.check()
    }

    fn needs_nodes(&self) -> bool {
        true
    }

    fn begin(&mut self, _zone: TimeZone, nodes: &BTreeSet<NodeId>) {
        self.nodes = nodes.clone();
    }

    fn follow(&self) -> Result<Followed<'_>, Unsupported> {
        Ok(Followed {
            path: &self.settings.events,
            following: &self.settings.following,
        })
    }

    fn line(&mut self, line: &[u8]) -> Result<Option<Timestamp>, FieldError> {
        self.events.line(line)
    }

    fn changes(&mut self) -> Vec<(NodeId, NodeStatus)> {
        let mut changes = self.events.changes();
        changes.retain(|(node, _)| self.nodes.contains(node));
        changes
    }

    fn statuses(&self) -> Vec<(NodeId, NodeStatus)> {
        self.events.statuses(&self.nodes)
    }

    fn state(&self) -> Result<Value, serde_json::Error> {
        serde_json::to_value(self.events.state())
    }

    fn restore(&mut self, state: Value) -> Result<(), serde_json::Error> {
        let state: LsfState = serde_json::from_value(state)?;
        self.events = LsfEvents::new(self.settings.pilots.clone(), state);
        Ok(())
    }
}
