//! What a report shows, as plain data.

use lacuna_sim::pool_stats::{HoleBin, PoolStats};
use lacuna_sim::skill::Evaluation;
use serde::{Deserialize, Serialize};

/// Everything that a report shows. Empty parts are left out of the page.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Report {
    /// Heading.
    pub title: String,
    /// One line under the heading.
    pub subtitle: String,
    /// The answer in words, first on the page.
    #[serde(default)]
    pub answer: Vec<Answer>,
    /// What makes the answer less certain: what the log lacks, and what was assumed in its place.
    #[serde(default)]
    pub caveats: Vec<String>,
    /// Headline figures: label and value, the most important first.
    pub figures: Vec<(String, String)>,
    /// What was asked for: label and value.
    pub settings: Vec<(String, String)>,
    /// The pool over time, in order of time.
    pub pool: Vec<PoolPoint>,
    /// Efficiency from the start until each time: seconds since the start, fraction.
    pub efficiency: Vec<(f64, f64)>,
    /// Day by day.
    pub days: Vec<DayRow>,
    /// The trainers, in order of admission.
    pub trainers: Vec<TrainerRow>,
    /// Trainers that are not in the list, for it is bounded.
    pub trainers_left_out: u64,
    /// What single nodes did in a chosen window.
    pub gantt: Option<Gantt>,
    /// Holes by length.
    pub holes: Vec<HoleBin>,
    /// What was lost, as far as it was charged; drawn if `loss` is absent.
    pub losses: Option<Losses>,
    /// How the work that dedicated nodes would have done splits into losses and work done.
    pub loss: Option<LossSplit>,
    /// How good forecasts would have been.
    pub calibration: Option<Evaluation>,
    /// Wall-clock seconds of each decision; drawn if `solves` is empty.
    pub solve_seconds: Vec<f64>,
    /// Decisions by wall-clock time.
    pub solves: Vec<SolveBin>,
    /// The pool's statistics.
    pub pool_stats: Option<PoolStats>,
    /// The log and its machine: label and value.
    pub machine: Vec<(String, String)>,
    /// What can be said about harm to batch jobs, one paragraph each.
    pub harm: Vec<String>,
    /// Remarks at the end of the page, one paragraph each.
    pub notes: Vec<String>,
}

/// One question of a planner, and what the replay says to it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Answer {
    /// The question.
    pub question: String,
    /// The answer, some sentences.
    pub text: String,
}

/// The pool from one moment on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PoolPoint {
    /// Seconds since the start.
    pub at_s: f64,
    /// Nodes in the pool.
    pub pool: u32,
    /// Nodes that train.
    pub used: u32,
}

/// One trainer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainerRow {
    /// Its name.
    pub name: String,
    /// When it was admitted, seconds since the start.
    pub admitted_s: f64,
    /// When it ended, if it did.
    pub ended_s: Option<f64>,
    /// Samples done.
    pub samples: f64,
    /// Times that it lost nodes unasked.
    pub preemptions: u64,
    /// Its size from each moment on: seconds since the start, nodes.
    pub sizes: Vec<(f64, u32)>,
}

/// What changes cost, in samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Losses {
    /// Samples done.
    pub samples: f64,
    /// Lost to changes that the planner made.
    pub rescale: f64,
    /// Lost to nodes that left.
    pub preempt: f64,
}

/// One day of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct DayRow {
    /// Its date, or its number.
    pub label: String,
    /// Node-hours that the pool offered.
    pub offered_node_hours: f64,
    /// Node-hours that trained.
    pub used_node_hours: f64,
    /// Samples done.
    pub samples: f64,
    /// Samples lost to changes that the planner made.
    pub rescale: f64,
    /// Samples lost to nodes that left.
    pub preempt: f64,
    /// Work done over that of dedicated nodes with the day's node-time, if there was any.
    pub efficiency: Option<f64>,
}

/// Decisions that took about as long.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SolveBin {
    /// The shortest, wall-clock seconds; the longest is where the next bin begins.
    pub from_s: f64,
    /// How many.
    pub count: u64,
}

/// What a part of the work was lost to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LossKind {
    /// Not lost: what dedicated nodes would have done, the whole.
    Whole,
    /// Changes that the planner made.
    Rescale,
    /// Nodes that left.
    Preempt,
    /// Nodes of the pool without a trainer.
    Waiting,
    /// Nodes of trainers that have done their work and wait for the next event.
    Idling,
    /// The rest: sizes that change, so that work lies elsewhere on the scaling curve.
    Curve,
    /// Not lost: work done.
    Done,
}

/// A part of the work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LossPart {
    /// What it is called.
    pub label: String,
    /// What it was lost to.
    pub kind: LossKind,
    /// Samples.
    pub samples: f64,
}

impl LossPart {
    /// Its class in the style sheet.
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

/// How the work of dedicated nodes splits: `dedicated` less all `parts` is `done`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LossSplit {
    /// Samples that the same trainers do on as much dedicated node-time.
    pub dedicated: f64,
    /// The losses.
    pub parts: Vec<LossPart>,
    /// Samples done.
    pub done: f64,
}

/// What single nodes did in a window of time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Gantt {
    /// Its start, seconds since the start of the run.
    pub from_s: f64,
    /// Its end.
    pub until_s: f64,
    /// The nodes.
    pub rows: Vec<GanttRow>,
}

/// One node.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct GanttRow {
    /// Its name.
    pub node: String,
    /// Its holes, cut where the trainer changes; between them are batch jobs.
    pub segments: Vec<GanttSegment>,
}

/// A part of a hole.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GanttSegment {
    /// Its start, seconds since the start of the run.
    pub from_s: f64,
    /// Its end.
    pub until_s: f64,
    /// The trainer in it, by its place in the report's list; none if the hole lay waste.
    pub trainer: Option<u32>,
}

/// Sorts decisions by wall-clock time, four bins to a decade.
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
