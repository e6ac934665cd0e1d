//! The content of a report, as plain data.

use lacuna_sim::pool_stats::{HoleBin, PoolStats};
use lacuna_sim::skill::Evaluation;
use serde::{Deserialize, Serialize};

/// The content of a report. Empty parts are left out of the page.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Report {
    /// Heading of the page.
    pub title: String,
    /// Line under the heading.
    pub subtitle: String,
    /// The answer in words, first on the page.
    #[serde(default)]
    pub answer: Vec<Answer>,
    /// The answer in figures, under it.
    #[serde(default)]
    pub tiles: Vec<Tile>,
    /// The policy and, beside it, what centres run today, a row each.
    #[serde(default)]
    pub beside: Vec<BesideRow>,
    /// Caveats of the answer: gaps of the log, and assumptions in their place.
    #[serde(default)]
    pub caveats: Vec<String>,
    /// Further figures, in the appendix: label and value.
    pub figures: Vec<(String, String)>,
    /// Settings: label and value.
    pub settings: Vec<(String, String)>,
    /// The pool over time, in order of time.
    pub pool: Vec<PoolPoint>,
    /// Efficiency from the start until each time: seconds since the start, fraction.
    pub efficiency: Vec<(f64, f64)>,
    /// What trainers learn over time, if their lists say what steps teach.
    #[serde(default)]
    pub learning: Vec<LearningLine>,
    /// Totals day by day.
    pub days: Vec<DayRow>,
    /// The trainers, in order of admission.
    pub trainers: Vec<TrainerRow>,
    /// Number of trainers beyond the bound of the list.
    pub trainers_left_out: u64,
    /// The state of single nodes in a chosen window.
    pub gantt: Option<Gantt>,
    /// Holes by length.
    pub holes: Vec<HoleBin>,
    /// Charged losses; drawn if `loss` is absent.
    pub losses: Option<Losses>,
    /// The split of dedicated samples into losses and samples done.
    pub loss: Option<LossSplit>,
    /// Skill of forecasts on the trace.
    pub calibration: Option<Evaluation>,
    /// Wall-clock seconds of each decision; drawn if `solves` is empty.
    pub solve_seconds: Vec<f64>,
    /// Decisions by wall-clock time.
    pub solves: Vec<SolveBin>,
    /// The pool's statistics.
    pub pool_stats: Option<PoolStats>,
    /// The log and its machine: label and value.
    pub machine: Vec<(String, String)>,
    /// The statement on harm to batch jobs, one paragraph each.
    pub harm: Vec<String>,
    /// Remarks at the end of the page, one paragraph each.
    pub notes: Vec<String>,
}

/// What a row beside the policy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BesideKind {
    /// The policy itself.
    Policy,
    /// A simple rule of Lacuna.
    Rule,
    /// What centres run today.
    #[default]
    Practice,
}

/// What a policy, or a practice beside it, makes of the same holes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct BesideRow {
    /// Its name.
    pub name: String,
    /// What it is.
    #[serde(default)]
    pub kind: BesideKind,
    /// Samples that were done and kept.
    pub samples: f64,
    /// The share of the zero-cost bound; only for an endless list.
    pub share: Option<f64>,
    /// Hours from the start to its end.
    pub hours: f64,
    /// Node-hours that trainers held.
    pub node_hours: f64,
    /// Times that a trainer was interrupted and went on.
    pub restarts: u64,
    /// Samples per hour of the policy over its own.
    pub ratio: Option<f64>,
}

/// A question of a centre's planner, and the replay's answer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Answer {
    /// The question, one sentence.
    pub question: String,
    /// The answer, some sentences.
    pub text: String,
}

/// A figure of the answer, with its range over the quarters of the time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tile {
    /// The figure, rounded to what its range supports.
    pub value: String,
    /// Its unit, in words.
    pub unit: String,
    /// The range, in words.
    pub range: String,
}

/// A figure of learning over time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LearningLine {
    /// Its name.
    pub name: String,
    /// Its definition.
    pub meaning: String,
    /// Seconds since the start and the value from then on, in order of time.
    pub steps: Vec<(f64, f64)>,
}

/// The pool from one moment on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PoolPoint {
    /// Seconds since the start.
    pub at_s: f64,
    /// Nodes in the pool.
    pub pool: u32,
    /// Nodes with a trainer.
    pub used: u32,
}

/// One admission of a trainer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainerRow {
    /// Name of the trainer.
    pub name: String,
    /// Time of admission, seconds since the start.
    pub admitted_s: f64,
    /// Time at which its work was done, if it was, seconds since the start.
    pub ended_s: Option<f64>,
    /// Samples done.
    pub samples: f64,
    /// Departures that hit it.
    pub preemptions: u64,
    /// Its size after each change: seconds since the start, nodes.
    pub sizes: Vec<(f64, u32)>,
}

/// Costs of changes, samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Losses {
    /// Samples done.
    pub samples: f64,
    /// Samples lost to changes by the planner.
    pub rescale: f64,
    /// Samples lost to departures.
    pub preempt: f64,
}

/// Totals of one day.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct DayRow {
    /// Date or number of the day.
    pub label: String,
    /// Node-hours that the pool offered.
    pub offered_node_hours: f64,
    /// Node-hours that trained.
    pub used_node_hours: f64,
    /// Samples done.
    pub samples: f64,
    /// Samples lost to changes by the planner, in the day.
    pub rescale: f64,
    /// Samples lost to departures, in the day.
    pub preempt: f64,
    /// Efficiency: samples done over the samples of dedicated nodes with the day's node-time, if
    /// there was any.
    pub efficiency: Option<f64>,
}

/// A bin of decisions by wall-clock time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SolveBin {
    /// Lower edge, seconds. The upper edge is the lower edge of the next bin.
    pub from_s: f64,
    /// Number of decisions.
    pub count: u64,
}

/// Cause of a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LossKind {
    /// Not a loss: the whole work of dedicated nodes.
    Whole,
    /// Changes by the planner.
    Rescale,
    /// Departures of nodes.
    Preempt,
    /// Nodes of the pool without a trainer.
    Waiting,
    /// Nodes of trainers whose work is done, until the next event.
    Idling,
    /// The rest: changing sizes, so that trainers work elsewhere on their scaling curves.
    Curve,
    /// Not a loss: the work done.
    Done,
}

/// A part of the work of dedicated nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LossPart {
    /// Label of the part.
    pub label: String,
    /// Cause of the loss.
    pub kind: LossKind,
    /// Work of the part, samples.
    pub samples: f64,
}

impl LossPart {
    /// Class of the part in the style sheet.
    pub(super) const fn class(&self) -> &'static str {
        match self.kind {
            LossKind::Whole => "whole",
            LossKind::Rescale => "rescale",
            LossKind::Preempt => "preempt",
            LossKind::Waiting => "waiting",
            LossKind::Idling => "idling",
            LossKind::Curve => "curve",
            LossKind::Done => "done",
        }
    }
}

/// The split of dedicated samples: `dedicated` less all `parts` is `done`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LossSplit {
    /// Samples of the same trainers on as much dedicated node-time.
    pub dedicated: f64,
    /// Losses by cause.
    pub parts: Vec<LossPart>,
    /// Samples done.
    pub done: f64,
}

/// The state of single nodes in a window of time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Gantt {
    /// Start of the window, seconds since the start of the replay.
    pub from_s: f64,
    /// End of the window, seconds since the start of the replay.
    pub until_s: f64,
    /// One row for each node.
    pub rows: Vec<GanttRow>,
}

/// The holes of one node.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct GanttRow {
    /// Name of the node.
    pub node: String,
    /// Its holes, cut where the trainer changes. Between them the node has batch jobs.
    pub segments: Vec<GanttSegment>,
}

/// A part of a hole.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GanttSegment {
    /// Start of the part, seconds since the start of the replay.
    pub from_s: f64,
    /// End of the part, seconds since the start of the replay.
    pub until_s: f64,
    /// The trainer on the node, by its place in the report's list; none if the node is idle.
    pub trainer: Option<u32>,
}

/// Sorts decisions into bins of wall-clock time, four to a decade. Each item is a time in seconds
/// and a number of decisions.
#[must_use]
pub fn bin_solves(seconds: impl IntoIterator<Item = (f64, u64)>) -> Vec<SolveBin> {
    const PER_DECADE: f64 = 4.0;
    let mut counts = std::collections::BTreeMap::<i32, u64>::new();
    for (s, count) in seconds {
        let bin = (s.max(1e-9).log10() * PER_DECADE + 1e-9).floor() as i32;
        *counts.entry(bin).or_default() += count;
    }
    let ends = counts.keys().next().zip(counts.keys().next_back());
    let Some((&low, &high)) = ends else {
        return Vec::new();
    };
    (low..=high)
        .map(|bin| SolveBin {
            from_s: 10_f64.powf(f64::from(bin) / PER_DECADE),
            count: counts.get(&bin).copied().unwrap_or(0),
        })
        .collect()
}

impl TrainerRow {
    /// Node-seconds until a moment.
    pub(super) fn node_seconds(&self, until: f64) -> f64 {
        let ends = self.sizes.iter().skip(1).map(|size| size.0).chain([until]);
        self.sizes
            .iter()
            .zip(ends)
            .map(|(&(from, nodes), to)| f64::from(nodes) * (to.min(until) - from).max(0.0))
            .sum()
    }
}
