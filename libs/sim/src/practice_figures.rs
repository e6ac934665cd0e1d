//! The figures of a practice beside the policy.

use lacuna_trainer::measure;
use serde::{Deserialize, Serialize};

use crate::world::Tally;
use crate::{Milestone, Practice};

/// The figures of a practice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PracticeFigures {
    /// The practice.
    pub practice: Practice,
    /// The nodes that each trainer asked for, if the practice has fixed sizes: the best size of the
    /// whole time in hindsight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
    /// Samples that all trainers have done and kept.
    pub samples: f64,
    /// As [`Summary::zero_cost_fraction`](crate::Summary::zero_cost_fraction).
    pub zero_cost_fraction: Option<f64>,
    /// As [`Summary::milestones`](crate::Summary::milestones). Of fixed sizes each has that which is
    /// best until then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub milestones: Vec<Milestone>,
    /// Hours from the start to the end of the last trainer, or of the trace if that comes first.
    pub hours: f64,
    /// Node-hours held by trainers, stalls included.
    pub harvested_node_hours: f64,
    /// These over the idle node-hours until the end of `hours`.
    pub idle_share_used: f64,
    /// Departures that hit a trainer.
    pub preemptions: u64,
    /// Starts of trainers that had run before; of a rule, losses of nodes and changes of size.
    pub restarts: u64,
    /// Samples that were done again since the last checkpoint, over samples.
    pub redone_fraction: f64,
    /// Trainers whose work was done.
    pub trainers_done: u64,
    /// Samples per hour of the policy over those of the practice; infinite values are left out.
    pub ratio: Option<f64>,
}

impl PracticeFigures {
    /// The figures of a replay with its samples at milestones. `policy` has samples and hours of the
    /// policy, `free` the zero-cost bound at the end and at milestones.
    pub(crate) fn new(
        (practice, nodes): (Practice, Option<u32>),
        (tally, hours): (&Tally, f64),
        milestones: Vec<Milestone>,
        policy: (f64, f64),
        free: Option<f64>,
    ) -> Self {
        let hourly = |samples: f64, hours: f64| measure::share(samples, hours);
        let (ours, theirs) = (hourly(policy.0, policy.1), hourly(tally.samples, hours));
        Self {
            practice,
            nodes,
            samples: tally.samples,
            zero_cost_fraction: free.map(|free| measure::share(tally.samples, free)),
            milestones,
            hours,
            harvested_node_hours: tally.used / 3600.0,
            idle_share_used: measure::share(tally.used, tally.offer.node_s),
            preemptions: tally.preemptions,
            restarts: match practice.rule() {
                None => tally.restarts,
                Some(_) => tally.preemptions + tally.rescales - tally.rescales_at_hits,
            },
            redone_fraction: measure::share(tally.redone, tally.samples),
            trainers_done: tally.trainers_done,
            ratio: (theirs > 0.0).then(|| ours / theirs),
        }
    }
}
