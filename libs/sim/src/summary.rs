//! The figures of a replay.

use std::collections::BTreeMap;

use lacuna_forecast::{Evidence, Oddities, OrderReport, OrderState};
use lacuna_model::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Loss, Settings};

/// How long decisions took, wall-clock seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct SolveSeconds {
    /// Half took no longer.
    pub p50: f64,
    /// 99 % took no longer.
    pub p99: f64,
    /// The longest.
    pub max: f64,
    /// All together.
    pub total: f64,
}

/// What comparing the two exact methods at every event gave.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Verified {
    /// Decisions that were compared.
    pub decisions: u64,
    /// Largest relative difference in objective.
    pub worst_difference: f64,
    /// How many failed. Without forecasts: two exact methods differ by more than 1e-6. By forecasts:
    /// the plan is not worth what it says (to 1e-6), is worth less than keeping all as it is, or
    /// falls short by more than [`SHORT_OF_ONE`](Verified::SHORT_OF_ONE).
    pub disagreements: u64,
    /// How many the MILP solver did not prove optimal within its time.
    pub unproven: u64,
    /// How far plans by forecasts were from the bound of the programme over patterns, relatively:
    /// the mean, and 99 % were no further.
    #[serde(default)]
    pub mean_gap: f64,
    /// See [`mean_gap`](Self::mean_gap).
    #[serde(default)]
    pub p99_gap: f64,
    /// What plans by forecasts are worth less than those of the programme over patterns, over what
    /// the latter are worth, in sum.
    #[serde(default)]
    pub shortfall: f64,
}

impl Verified {
    /// What a plan by forecasts may be worth less than that of the programme over patterns: so much
    /// of the latter. Both are near the optimum where it matters, and seldom this far apart.
    pub const SHORT_OF_ONE: f64 = 0.25;
    /// The same for all plans of a replay in sum.
    pub const SHORT_OF_ALL: f64 = 0.02;

    /// Whether every decision passed, and the plans in sum.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.disagreements == 0 && self.shortfall <= Self::SHORT_OF_ALL
    }
}

/// Where the nodes that left stood among the idle ones, in some order of nodes: 0 is its front, 1
/// its end, and .5 is the mean of no order.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct OrderEvidence {
    /// Events that took some of the idle nodes and left others.
    pub events: u64,
    /// Mean place of what they took, by event; newer events count more.
    pub place: Option<f64>,
    /// Its standard error.
    pub standard_error: Option<f64>,
    /// How many of these it lies before the middle.
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

/// Whether the scheduler takes nodes in an order, by all that was seen until the end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OrderFound {
    /// What the order rested on at the end; `released` says that there is none.
    pub rests_on: OrderState,
    /// Evidence for the order that was given, that of names if none was.
    pub given: OrderEvidence,
    /// Evidence for the order that was learnt from what was taken.
    pub learnt: OrderEvidence,
}

impl OrderFound {
    /// What a predictor has seen so far.
    #[must_use]
    pub fn of(report: &OrderReport) -> Self {
        Self {
            rests_on: report.state,
            given: OrderEvidence::of(&report.given),
            learnt: OrderEvidence::of(&report.taken),
        }
    }
}

/// The figures of a replay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// U: samples done over dedicated samples, those of the same trainers on `equivalent_nodes`
    /// dedicated nodes in the same time. [`lacuna_trainer::measure`] defines this and what follows.
    pub efficiency: f64,
    /// From the start to the end of the last trainer, or of the trace if that comes first.
    pub hours: f64,
    /// Node-time offered over time: dedicated nodes that would offer as much.
    pub equivalent_nodes: f64,
    /// Node-hours that trainers held until their work was done, stalls included.
    pub harvested_node_hours: f64,
    /// Idle share used: harvested over idle node-seconds, both until the end of `hours`; 0 if nothing
    /// was idle. It is the measure by which HPC-Whisk (Przybylski et al., SC22) reports what its
    /// pilots held of the time in which nodes were idle or held by them. It says nothing about
    /// what became of that time; efficiency does.
    #[serde(default)]
    pub idle_share_used: f64,
    /// Samples done by all trainers.
    pub samples: f64,
    /// Work done over the work in the same time if rescaling and preemption cost nothing and
    /// each event were re-optimised. Only with an endless list of trainers.
    pub zero_cost_fraction: Option<f64>,
    /// Share lost to rescaling: samples lost to changes by the planner, over samples done.
    pub rescale_cost_fraction: f64,
    /// Share lost to preemption: samples lost to nodes that left, over samples done.
    pub preempt_cost_fraction: f64,
    /// Where the work went that dedicated nodes would have done.
    pub loss: Loss,
    /// Times that a trainer lost nodes unasked.
    pub preemptions: u64,
    /// Times that the planner changed the size of a trainer that had nodes.
    pub rescales: u64,
    /// Those of them of trainers that lost nodes at the same event and so had to restart anyway.
    /// The others stopped a trainer that would have run on.
    #[serde(default)]
    pub rescales_at_hits: u64,
    /// Events: changes of the pool, arrivals for which there was room, and (if trainers end at
    /// once) ends.
    pub events: u64,
    /// Trainers that did all their work.
    pub trainers_done: u64,
    /// Whether the trace ended before the list of trainers did.
    pub unfinished: bool,
    /// Nodes with at least one hole in the part that was replayed.
    pub nodes: u32,
    /// Holes that had ended before the start.
    pub history_holes: u64,
    /// Where the replay starts.
    pub start: Timestamp,
    /// Where the trace, or the part to replay, ends.
    pub end: Timestamp,
    /// How long decisions took.
    pub solve_seconds: SolveSeconds,
    /// Short cuts that provably keep the optimum, by name: how often each made the solver
    /// unnecessary or its problem smaller. `none` counts the decisions without one.
    pub shortcuts: BTreeMap<String, u64>,
    /// Decisions whose optimality the solver did not prove within its bounds.
    pub unproven: u64,
    /// Decisions that the emergency stop by the clock ended: with any, another replay of the same
    /// may differ.
    #[serde(default)]
    pub clock_stops: u64,
    /// What comparing `dp` and `milp` at every event gave, if it was asked for.
    pub verified: Option<Verified>,
    /// Wall-clock seconds of the whole command, filled in by it.
    pub wall_seconds: f64,
    /// Largest memory of the process in bytes, filled in by the command.
    pub peak_rss_bytes: u64,
    /// Whether the scheduler takes nodes in an order; only if the policy forecasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<OrderFound>,
    /// What the trace told that cannot be, by kind; only if the policy forecasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oddities: Option<Oddities>,
    /// What was asked for.
    pub settings: Settings,
}
