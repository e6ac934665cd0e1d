//! Tiresias (NSDI '19) as Dally's simulator has it: least attained service, and consolidation of the
//! models that a hard-coded list calls sensitive.

use crate::cluster::Cluster;
use crate::job::JobState;
use crate::placement::Placement;

use super::rank::{Rank, sorted};
use super::round::{bidders, round};
use super::view::{Plan, Policy, View};

/// Models that the published simulator places anywhere.
const INSENSITIVE: [&str; 3] = ["ResNet50", "ResNet18", "BERT"];

/// Which of its variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Variant {
    /// Sensitive jobs spread over a rack when a machine's number of GPUs is free anywhere.
    Coded,
    /// They do so only if they are larger than a machine.
    Fixed,
    /// And every model is sensitive.
    AllSensitive,
}

/// The policy.
#[derive(Debug, Clone)]
pub(super) struct Tiresias(pub(super) Variant);

impl Tiresias {
    fn place(&self, view: &View<'_>, cluster: &Cluster, job: &JobState) -> Option<Placement> {
        let demand = job.job.gpus;
        let layout = cluster.layout();
        let indifferent =
            self.0 != Variant::AllSensitive && INSENSITIVE.contains(&view.speeds.model(&job.job));
        let wide = match self.0 {
            Variant::Coded => cluster.free_gpus() + 1 > layout.machine_gpus(),
            Variant::Fixed | Variant::AllSensitive => demand > layout.machine_gpus(),
        };
        let rack = || {
            (wide || indifferent)
                .then(|| cluster.first_rack(demand))
                .flatten()
        };
        let across = || {
            let may = demand > layout.rack_gpus() || indifferent;
            may.then(|| cluster.first_gpus(demand)).flatten()
        };
        cluster.first_machine(demand).or_else(rack).or_else(across)
    }
}

impl Policy for Tiresias {
    fn plan(&mut self, view: &View<'_>) -> Plan {
        let ordered = sorted(bidders(view), |job| Rank::Attained.key(view, job));
        round(view, ordered, |cluster, job| self.place(view, cluster, job)).0
    }
}
