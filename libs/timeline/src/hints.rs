//! What the scheduler says of the future: planned batch jobs and reservations.

use std::collections::BTreeMap;

use lacuna_model::{NodeId, PlannedStart, Timestamp};

/// A batch job with a planned start on named nodes. The plan may be withdrawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// On which nodes.
    pub nodes: Vec<NodeId>,
    /// When it is planned to start.
    pub start: Timestamp,
}

/// A reservation of named nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reserved {
    /// Which nodes.
    pub nodes: Vec<NodeId>,
    /// From when.
    pub start: Timestamp,
    /// Until when.
    pub end: Timestamp,
}

/// The newest word on every planned job and reservation. A plan is forgotten an hour after
/// its start, a reservation at its end, so that memory stays bounded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hints {
    planned: BTreeMap<String, Planned>,
    reserved: BTreeMap<String, Reserved>,
}

impl Hints {
    /// A job is planned onto nodes; an empty list withdraws its plan.
    pub(crate) fn plan(&mut self, job: &str, nodes: &[NodeId], start: Timestamp) {
        if nodes.is_empty() {
            self.planned.remove(job);
        } else {
            let nodes = nodes.to_vec();
            self.planned
                .insert(job.to_owned(), Planned { nodes, start });
        }
    }

    /// Nodes are reserved; an empty list withdraws the reservation.
    pub(crate) fn reserve(&mut self, name: &str, reserved: Reserved) {
        if reserved.nodes.is_empty() {
            self.reserved.remove(name);
        } else {
            self.reserved.insert(name.to_owned(), reserved);
        }
    }

    /// Forgets what has passed.
    pub(crate) fn expire(&mut self, now: Timestamp) {
        self.planned
            .retain(|_, plan| plan.start + PlannedStart::LAPSE >= now);
        self.reserved.retain(|_, kept| kept.end > now);
    }

    /// The planned jobs by name.
    pub fn planned(&self) -> impl Iterator<Item = (&str, &Planned)> {
        self.planned.iter().map(|(job, plan)| (job.as_str(), plan))
    }

    /// The reservations by name.
    pub fn reserved(&self) -> impl Iterator<Item = (&str, &Reserved)> {
        self.reserved
            .iter()
            .map(|(name, kept)| (name.as_str(), kept))
    }
}
