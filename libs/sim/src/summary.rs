//! The figures of a replay.

use std::collections::BTreeMap;

use lacuna_forecast::{Anomalies, Evidence, OrderReport, OrderState};
use lacuna_model::{Span, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{Loss, Milestone, PracticeFigures, RulesFollowed, Settings};

/// Distribution of the wall-clock times of decisions, seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct SolveSeconds {
    /// Median time.
    pub p50: f64,
    /// The time that 99 % of the decisions do not exceed.
    pub p99: f64,
    /// Longest time.
    pub max: f64,
    /// Sum of all times.
    pub total: f64,
}

/// Results of verification: each decision is compared with that of a second method.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Verified {
    /// Decisions that were compared.
    pub decisions: u64,
    /// Largest relative difference of objectives.
    pub worst_difference: f64,
    /// Decisions that failed. Without forecasts: two exact methods differ by more than 1e-6. By
    /// forecasts: the plan's value is not the stated one (to 1e-6), is below that of no change, or
    /// falls short by more than [`SHORT_OF_ONE`](Verified::SHORT_OF_ONE).
    pub disagreements: u64,
    /// Decisions that the MILP solver did not prove optimal within its time.
    pub unproven: u64,
    /// Mean relative gap between plans by forecasts and the judge's bound.
    #[serde(default)]
    pub mean_gap: f64,
    /// The median of these gaps.
    #[serde(default)]
    pub p50_gap: f64,
    /// The gap that 99 % of these plans do not exceed.
    #[serde(default)]
    pub p99_gap: f64,
    /// Sum of the values by which plans by forecasts fall short of the best known ones, over the sum of
    /// the latter's values.
    #[serde(default)]
    pub shortfall: f64,
}

impl Verified {
    /// Largest accepted shortfall of one plan by forecasts, as a fraction of the value of the best
    /// known one. Both are near the optimum where values are large.
    pub const SHORT_OF_ONE: f64 = 0.25;
    /// Largest accepted shortfall of all plans of a replay in sum.
    pub const SHORT_OF_ALL: f64 = 0.02;

    /// Whether every decision passed, and the sum of all plans too.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.disagreements == 0 && self.shortfall <= Self::SHORT_OF_ALL
    }
}

/// Places of departed nodes among the idle ones, in an order of nodes: 0 is its front, 1 its end,
/// and .5 is the mean without an order.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct OrderEvidence {
    /// Events that took some of the idle nodes and left others.
    pub events: u64,
    /// Mean place of departed nodes, by event; newer events count more.
    pub place: Option<f64>,
    /// Standard error of the mean place.
    pub standard_error: Option<f64>,
    /// Standard errors by which the mean place lies before the middle.
    pub z: Option<f64>,
}

impl OrderEvidence {
    fn of(evidence: &Evidence) -> Self {
        Self {
            events: evidence.events(),
            place: evidence.mean(),
            standard_error: evidence.standard_error(),
            z: evidence.z(),
        }
    }
}

/// Whether the scheduler takes nodes in an order, by all steps until the end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OrderFound {
    /// Basis of the order at the end; `released` means that there is none.
    pub rests_on: OrderState,
    /// Evidence for the given order, by default the order of names.
    pub given: OrderEvidence,
    /// Evidence for the order learnt from departures.
    pub learnt: OrderEvidence,
}

impl OrderFound {
    /// The evidence of a predictor so far.
    #[must_use]
    pub fn of(report: &OrderReport) -> Self {
        Self {
            rests_on: report.state,
            given: OrderEvidence::of(&report.given),
            learnt: OrderEvidence::of(&report.taken),
        }
    }
}

/// The node-time of one kind of nodes in a replay, and how often batch jobs wanted it back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HarvestOfKind {
    /// The kind.
    pub kind: String,
    /// Node-hours of its holes.
    pub offered_node_hours: f64,
    /// Node-hours of trainers on it.
    pub harvested_node_hours: f64,
    /// Nodes that left the pool, each time.
    #[serde(default)]
    pub left_nodes: u64,
    /// Those of them that a trainer had. It gave them back in the same moment.
    #[serde(default)]
    pub taken_nodes: u64,
}

/// What distance did in a replay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Apart {
    /// Number of leaves.
    pub leaves: u32,
    /// Node-hours of trainers by tier, from tier 0 on, stalls included.
    pub node_hours: Vec<f64>,
    /// Trainers whose nodes were apart: the mean over time.
    pub crossing: f64,
    /// The most trainers that crossed the uplink of one leaf at a time.
    pub most_crossing: u32,
    /// The time by size of the pool: the quarter with the fewest nodes first.
    pub quarters: [Quarter; 4],
}

/// A quarter of the time of a replay, by size of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Quarter {
    /// Nodes of the pool: the fewest and the most.
    pub pool: (u32, u32),
    /// Length, hours.
    pub hours: f64,
    /// Samples done.
    pub samples: f64,
}

/// The figures of a replay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Efficiency U: samples done over the samples of the same trainers on `equivalent_nodes`
    /// dedicated nodes in the same time. [`lacuna_trainer::measure`] defines these figures.
    pub efficiency: f64,
    /// Hours from the start to the end of the last trainer, or of the trace if that comes first.
    pub hours: f64,
    /// Node-time offered over time: the dedicated nodes that would offer as much.
    pub equivalent_nodes: f64,
    /// Node-hours held by trainers until their work was done, stalls included.
    pub harvested_node_hours: f64,
    /// Idle share used: harvested over idle node-seconds, both until the end of `hours`; 0 if no
    /// node was idle. HPC-Whisk (Przybylski et al., SC22) reports the same measure of its pilots.
    /// It counts time held and not work done; efficiency counts work.
    #[serde(default)]
    pub idle_share_used: f64,
    /// Samples done by all trainers.
    pub samples: f64,
    /// Samples done over the samples in the same time without costs of rescaling and preemption,
    /// re-optimised at each event. Only with an endless list of trainers.
    pub zero_cost_fraction: Option<f64>,
    /// What was done until the moments that were asked for; without those after the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub milestones: Vec<Milestone>,
    /// The figures of rules that were replayed beside the policy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<PracticeFigures>,
    /// Share lost to rescaling: samples lost to changes by the planner, over samples done.
    pub rescale_cost_fraction: f64,
    /// The part of it that nodes lost while they waited for pilots of their trainer's owner, over
    /// samples done; only if such waits are charged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pilot_wait_fraction: Option<f64>,
    /// Share lost to preemption: samples lost to nodes that left, over samples done.
    pub preempt_cost_fraction: f64,
    /// The split of dedicated samples into samples done and losses.
    pub loss: Loss,
    /// Departures that hit a trainer.
    pub preemptions: u64,
    /// Changes by the planner of the size of a trainer that had nodes.
    pub rescales: u64,
    /// Rescales of trainers that lost nodes at the same event and therefore restarted anyway.
    /// The other rescales stopped a trainer that would have run on.
    #[serde(default)]
    pub rescales_at_hits: u64,
    /// Events: changes of the pool, arrivals with a free place, and, if trainers end at once, ends.
    pub events: u64,
    /// Trainers whose work was done.
    pub trainers_done: u64,
    /// Mean hours from the submission of these, or the start of the replay, to their end; none for
    /// an endless list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_completion_hours: Option<f64>,
    /// Whether the trace ended before the list of trainers did.
    pub unfinished: bool,
    /// Nodes with at least one hole in the replayed part.
    pub nodes: u32,
    /// Holes that ended before the start.
    pub history_holes: u64,
    /// Start of the replay.
    pub start: Timestamp,
    /// End of the trace, or of the part to replay.
    pub end: Timestamp,
    /// Wall-clock times of decisions.
    pub solve_seconds: SolveSeconds,
    /// Decisions by the shortcut that replaced the solver or made its problem smaller. Every
    /// shortcut provably keeps the optimum. `none` counts decisions without a shortcut.
    pub shortcuts: BTreeMap<String, u64>,
    /// Decisions whose optimality the solver did not prove within its bounds.
    pub unproven: u64,
    /// Decisions that the emergency stop by the clock ended. If there are any, another replay of
    /// the same input may differ.
    #[serde(default)]
    pub clock_stops: u64,
    /// Results of verification, if it was asked for.
    pub verified: Option<Verified>,
    /// The rules that the policy `auto` followed, if it compared rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<RulesFollowed>,
    /// Wall-clock seconds of the whole command, which fills this in.
    pub wall_seconds: f64,
    /// Peak memory of the process, bytes; the command fills this in.
    pub peak_rss_bytes: u64,
    /// Whether the scheduler takes nodes in an order; only if the policy forecasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<OrderFound>,
    /// Impossible changes in the trace, by kind; only if the policy forecasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anomalies: Option<Anomalies>,
    /// What distance did; only where nodes are on several leaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apart: Option<Apart>,
    /// Node-time by kind; only where trainers tell kinds of nodes apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kinds: Option<Vec<HarvestOfKind>>,
    /// The settings of the replay.
    pub settings: Settings,
}

impl Summary {
    /// The end of `hours`: all figures are of the time from the start until then.
    #[must_use]
    pub fn until(&self) -> Timestamp {
        self.start + Span::from_secs_f64(self.hours * 3600.0)
    }
}
