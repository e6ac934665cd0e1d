//! Planned starts of batch jobs and reservations, as the scheduler announces them.

use std::collections::BTreeMap;

use lacuna_model::{NodeId, PlannedStart, Timestamp};

/// A waiting batch job with a planned start on named nodes. The scheduler may withdraw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedJob {
    /// The nodes of the batch job.
    pub nodes: Vec<NodeId>,
    /// The planned start.
    pub start: Timestamp,
}

/// A reservation of named nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// The reserved nodes.
    pub nodes: Vec<NodeId>,
    /// The start of the reservation.
    pub start: Timestamp,
    /// The end of the reservation.
    pub end: Timestamp,
}

/// The newest planned start of each batch job, and the reservations. A planned start expires
/// [`PlannedStart::LAPSE`] after its moment and a reservation at its end, so memory stays
/// bounded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Announcements {
    planned: BTreeMap<String, PlannedJob>,
    reserved: BTreeMap<String, Reservation>,
}

impl Announcements {
    /// Stores the planned start of a batch job. An empty list of nodes withdraws it.
    pub(crate) fn plan(&mut self, job: &str, nodes: &[NodeId], start: Timestamp) {
        if nodes.is_empty() {
            self.planned.remove(job);
        } else {
            let nodes = nodes.to_vec();
            self.planned
                .insert(job.to_owned(), PlannedJob { nodes, start });
        }
    }

    /// Stores a reservation. An empty list of nodes withdraws it.
    pub(crate) fn reserve(&mut self, name: &str, reservation: Reservation) {
        if reservation.nodes.is_empty() {
            self.reserved.remove(name);
        } else {
            self.reserved.insert(name.to_owned(), reservation);
        }
    }

    /// Drops planned starts and reservations that have expired at `now`.
    pub(crate) fn expire(&mut self, now: Timestamp) {
        self.planned
            .retain(|_, plan| plan.start + PlannedStart::LAPSE >= now);
        self.reserved.retain(|_, reservation| reservation.end > now);
    }

    /// The planned starts by name of the batch job.
    pub fn planned(&self) -> impl Iterator<Item = (&str, &PlannedJob)> {
        self.planned.iter().map(|(job, plan)| (job.as_str(), plan))
    }

    /// The reservations by name.
    pub fn reserved(&self) -> impl Iterator<Item = (&str, &Reservation)> {
        self.reserved
            .iter()
            .map(|(name, reservation)| (name.as_str(), reservation))
    }
}
