//! The figures at the end of the demonstration.

use std::path::{Path, PathBuf};

use serde::Serialize;

use lacuna_model::Phase;
use lacuna_trainer::measure;

use super::input::Input;
use super::play::Played;
use crate::output::{iso, latency, quantile, short};
use crate::table::key_values;

/// Wall-clock time by stage, seconds.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct TimeSpent {
    /// Preparation of the machine and its trainers.
    pub(crate) prepare_s: f64,
    /// From the first process to the last service that answers.
    pub(crate) start_s: f64,
    /// Playing the trace.
    pub(crate) play_s: f64,
    /// The summary, and the end of all processes.
    pub(crate) end_s: f64,
}

/// The JSON value of `lacuna demo --json`.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Outcome {
    /// The machine in one line.
    pub(crate) machine: String,
    /// The first recorded moment.
    pub(crate) from: String,
    /// The last recorded moment.
    pub(crate) until: String,
    /// Recorded hours played.
    pub(crate) hours: f64,
    /// Idle node-hours offered.
    pub(crate) idle_node_hours: f64,
    /// Node-hours under a lease.
    pub(crate) harvested_node_hours: f64,
    /// Mean number of idle nodes.
    pub(crate) equivalent_nodes: f64,
    /// Idle share used: harvested over idle node-hours.
    pub(crate) idle_share_used: Option<f64>,
    /// Efficiency U.
    pub(crate) efficiency: Option<f64>,
    /// The reason why the efficiency is unknown; empty if it is known.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) efficiency_unknown: &'static str,
    /// Samples trained.
    pub(crate) samples: f64,
    /// Share lost to rescaling: samples lost over samples done.
    pub(crate) rescale_cost_fraction: Option<f64>,
    /// Share lost to preemption: samples lost over samples done.
    pub(crate) preempt_cost_fraction: Option<f64>,
    /// Number of preemptions: losses of nodes that no plan asked for.
    pub(crate) preemptions: u64,
    /// Number of size changes by the planner.
    pub(crate) rescales: u64,
    /// Number of trainers that have done their work.
    pub(crate) trainers_done: u64,
    /// Number of trainers that had nodes.
    pub(crate) trainers_started: usize,
    /// Number of events played.
    pub(crate) events: u64,
    /// Median time from a plan's newest input to the plan, seconds.
    pub plan_latency_p50_s: Option<f64>,
    /// 99th percentile of the same time.
    pub plan_latency_p99_s: Option<f64>,
    /// Generation of the last plan.
    pub(crate) plans: u64,
    /// Number of times that a service died.
    pub(crate) deaths: u32,
    /// Whether a signal ended the demonstration early.
    pub(crate) interrupted: bool,
    /// Wall-clock time by stage, seconds.
    pub(crate) spent: TimeSpent,
    /// The file of the report.
    pub(crate) report: PathBuf,
}

/// A share with its sign; of nothing there is none.
fn percent(share: Option<f64>, sign: &str) -> String {
    share.map_or_else(
        || "-".to_owned(),
        |share| format!("{:.1}{sign}", share * 100.0),
    )
}

impl Outcome {
    /// The figures of the last view model.
    #[must_use]
    pub(crate) fn new(
        input: &Input,
        played: &Played,
        deaths: u32,
        spent: &TimeSpent,
        report: &Path,
    ) -> Self {
        let t = &played.last.totals;
        let seconds = t.now.since(t.since).as_secs_f64();
        let lost = |cost, stall| measure::share_lost(measure::samples_lost(cost, stall), t.samples);
        Self {
            machine: input.machine.clone(),
            from: iso(t.since),
            until: iso(t.now),
            hours: seconds / 3600.0,
            idle_node_hours: t.idle_node_s / 3600.0,
            harvested_node_hours: t.harvested_node_s / 3600.0,
            equivalent_nodes: measure::equivalent_nodes(t.idle_node_s, seconds),
            idle_share_used: measure::idle_share_used(t.harvested_node_s, t.idle_node_s),
            efficiency: t.efficiency.known(),
            efficiency_unknown: t.efficiency.why_not(),
            samples: t.samples,
            rescale_cost_fraction: lost(t.rescale_cost, &t.stalls.rescale),
            preempt_cost_fraction: lost(t.preempt_cost, &t.stalls.preempt),
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
        let percent = |share| percent(share, " %");
        [
            ("efficiency U", percent(self.efficiency)),
            ("recorded hours", format!("{:.1}", self.hours)),
            ("idle nodes (mean)", format!("{:.1}", self.equivalent_nodes)),
            (
                "harvested node-hours",
                format!("{:.0}", self.harvested_node_hours),
            ),
            ("idle share used", percent(self.idle_share_used)),
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
        let percent = |share| percent(share, "%");
        let efficiency = match self.efficiency {
            known @ Some(_) => format!(
                "{} of the work of {:.1} dedicated nodes in the same time",
                percent(known),
                self.equivalent_nodes
            ),
            None => format!("- ({})", self.efficiency_unknown),
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
                    percent(self.idle_share_used)
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

    /// The table for people.
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
        format!("\n{}", key_values(&rows))
    }
}
