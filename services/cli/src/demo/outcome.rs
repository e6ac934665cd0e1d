//! The figures at the end of the demonstration.

use std::path::{Path, PathBuf};

use serde::Serialize;

use lacuna_model::Phase;

use super::args::Spent;
use super::input::Input;
use super::play::Played;
use crate::output::{iso, latency, quantile, short};
use crate::table::facts;

/// What `lacuna demo --json` prints.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Outcome {
    /// Which machine.
    pub(crate) machine: String,
    /// From this recorded moment.
    pub(crate) from: String,
    /// To this one.
    pub(crate) until: String,
    /// Recorded hours played.
    pub(crate) hours: f64,
    /// Idle node-hours offered.
    pub(crate) idle_node_hours: f64,
    /// Node-hours under a lease.
    pub(crate) harvested_node_hours: f64,
    /// Idle nodes on average.
    pub(crate) equivalent_nodes: Option<f64>,
    /// Efficiency U.
    pub(crate) efficiency: Option<f64>,
    /// Samples trained.
    pub(crate) samples: f64,
    /// Samples lost to rescaling, over samples trained.
    pub(crate) rescale_cost_fraction: f64,
    /// Samples lost to preemption, over samples trained.
    pub(crate) preempt_cost_fraction: f64,
    /// Times that a trainer lost nodes unasked.
    pub(crate) preemptions: u64,
    /// Times that the planner changed a size.
    pub(crate) rescales: u64,
    /// Trainers that have done their work.
    pub(crate) trainers_done: u64,
    /// Trainers that were given nodes.
    pub(crate) trainers_started: usize,
    /// Events played.
    pub(crate) events: u64,
    /// Median seconds from a plan's newest input to the plan.
    pub plan_latency_p50_s: Option<f64>,
    /// 99th percentile of the same.
    pub plan_latency_p99_s: Option<f64>,
    /// Number of the last plan.
    pub(crate) plans: u64,
    /// Times that a service died.
    pub(crate) deaths: u32,
    /// Whether a signal ended it early.
    pub(crate) interrupted: bool,
    /// Where the wall-clock time went, seconds.
    pub(crate) spent: Spent,
    /// The report.
    pub(crate) report: PathBuf,
}

fn fraction(cost: f64, samples: f64) -> f64 {
    if samples > 0.0 { cost / samples } else { 0.0 }
}

impl Outcome {
    /// Out of the last picture.
    #[must_use]
    pub(crate) fn new(
        input: &Input,
        played: &Played,
        deaths: u32,
        spent: &Spent,
        report: &Path,
    ) -> Self {
        let t = &played.last.totals;
        Self {
            machine: input.machine.clone(),
            from: iso(t.since),
            until: iso(t.now),
            hours: t.now.since(t.since).as_secs_f64() / 3600.0,
            idle_node_hours: t.idle_node_s / 3600.0,
            harvested_node_hours: t.harvested_node_s / 3600.0,
            equivalent_nodes: played.last.efficiency.map(|e| e.1),
            efficiency: played.last.efficiency.map(|e| e.0),
            samples: t.samples,
            rescale_cost_fraction: fraction(t.rescale_cost, t.samples),
            preempt_cost_fraction: fraction(t.preempt_cost, t.samples),
            preemptions: t.preemptions,
            rescales: t.rescales,
            trainers_done: played
                .trainers
                .iter()
                .filter(|t| t.phase == Phase::Done)
                .count() as u64,
            trainers_started: played.trainers.len(),
            events: played.last.events,
            plan_latency_p50_s: quantile(&played.latencies, 0.5),
            plan_latency_p99_s: quantile(&played.latencies, 0.99),
            plans: played.last.plans,
            deaths,
            interrupted: played.interrupted,
            spent: *spent,
            report: report.to_owned(),
        }
    }

    /// The figures as labels and short values, the most important first.
    #[must_use]
    pub(crate) fn figures(&self) -> Vec<(String, String)> {
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let known = |value: Option<f64>, write: &dyn Fn(f64) -> String| {
            value.map_or_else(|| "-".to_owned(), write)
        };
        [
            ("efficiency U", known(self.efficiency, &percent)),
            ("recorded hours", format!("{:.1}", self.hours)),
            (
                "equivalent nodes",
                known(self.equivalent_nodes, &|n| format!("{n:.1}")),
            ),
            (
                "harvested node-hours",
                format!("{:.0}", self.harvested_node_hours),
            ),
            (
                "of all idle node-hours",
                percent(fraction(self.harvested_node_hours, self.idle_node_hours)),
            ),
            ("samples", short(self.samples)),
            ("trainers done", self.trainers_done.to_string()),
            ("lost to rescaling", percent(self.rescale_cost_fraction)),
            ("lost to preemption", percent(self.preempt_cost_fraction)),
            ("preemptions", self.preemptions.to_string()),
            ("rescales", self.rescales.to_string()),
            ("events", self.events.to_string()),
            ("plans", self.plans.to_string()),
            (
                "plan after input (median)",
                latency(self.plan_latency_p50_s),
            ),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec()
    }

    /// The figures in words, the most important first.
    #[must_use]
    fn rows(&self) -> Vec<(String, String)> {
        let percent = |share: f64| format!("{:.1}%", share * 100.0);
        let efficiency = match (self.efficiency, self.equivalent_nodes) {
            (Some(u), Some(nodes)) => format!(
                "{} of what {nodes:.1} dedicated nodes do in the same time",
                percent(u)
            ),
            _ => "not known: nothing was idle".to_owned(),
        };
        let mut rows = vec![
            (
                "recorded time",
                format!("{:.1} h, {} to {}", self.hours, self.from, self.until),
            ),
            (
                "harvested",
                format!(
                    "{:.0} of {:.0} idle node-hours ({})",
                    self.harvested_node_hours,
                    self.idle_node_hours,
                    percent(fraction(self.harvested_node_hours, self.idle_node_hours))
                ),
            ),
            ("efficiency", efficiency),
            (
                "work",
                format!(
                    "{} samples; {} trainers done of {} started",
                    short(self.samples),
                    self.trainers_done,
                    self.trainers_started
                ),
            ),
            (
                "lost",
                format!(
                    "{} to {} rescales, {} to {} preemptions",
                    percent(self.rescale_cost_fraction),
                    self.rescales,
                    percent(self.preempt_cost_fraction),
                    self.preemptions
                ),
            ),
            (
                "events",
                format!("{} events, {} plans", self.events, self.plans),
            ),
            (
                "plan latency",
                format!(
                    "median {}, 99th percentile {} after the newest input",
                    latency(self.plan_latency_p50_s),
                    latency(self.plan_latency_p99_s)
                ),
            ),
        ];
        if self.deaths > 0 {
            rows.push((
                "restarts",
                format!("a service died {} times and was started again", self.deaths),
            ));
        }
        if self.interrupted {
            rows.push(("note", "ended early by a signal".to_owned()));
        }
        rows.into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }

    /// For people.
    #[must_use]
    pub(crate) fn table(&self) -> String {
        let mut rows = self.rows();
        let s = &self.spent;
        rows.push((
            "time spent".to_owned(),
            format!(
                "prepare {:.1} s, start {:.1} s, play {:.1} s, end {:.1} s",
                s.prepare_s, s.start_s, s.play_s, s.end_s
            ),
        ));
        rows.push(("report".to_owned(), self.report.display().to_string()));
        let rows: Vec<(&str, String)> = rows.iter().map(|(n, v)| (n.as_str(), v.clone())).collect();
        format!("\n{}", facts(&rows))
    }
}
