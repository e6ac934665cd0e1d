//! Control's metrics.

use lacuna_model::{LossCause, UseState, WithheldBy};
use lacuna_runtime::metrics;
use lacuna_runtime::metrics::{Counter, Error, LATENCY_BOUNDS, Registry};
use lacuna_trainer::controller::{Apart, Note, Tally};
use lacuna_trainer::measure;
use prometheus::{
    CounterVec, Gauge, GaugeVec, Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge,
};

use crate::training::Training;

/// Bounds for the time until an agent has given a node back, seconds.
const RELEASE_BOUNDS: [f64; 12] = [
    0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 120.0,
];

/// Bounds for how long the main scheduler waited for a node, seconds: fine where harm should be.
const HARM_BOUNDS: [f64; 14] = [
    0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 120.0, 300.0,
];

/// How nodes are asked for; see `trainer::controller::Note::GivenBack`.
const ASKED: [&str; 5] = ["preempted", "idle", "drained", "taken", "wanted"];

metrics! {
    /// Metrics by kind of node. Those of one kind alone are never shown.
    struct OfKinds {
        idle: CounterVec = "lacuna_control_kind_idle_node_seconds_total",
            "idle node-seconds by kind of node, where two kinds at least are known", by ["kind"];
        harvested: CounterVec = "lacuna_control_kind_harvested_node_seconds_total",
            "harvested node-seconds by kind of node, where two kinds at least are known", by ["kind"];
        harm: HistogramVec = "lacuna_control_kind_harm_seconds",
            "harm by kind of node: time that the main scheduler waited for a node, where two kinds at least are known",
            by ["kind"], within HARM_BOUNDS;
    }
}

metrics! {
    /// Control's metrics.
    pub struct Metrics {
        leases: IntGauge = "lacuna_control_leases", "nodes under a lease";
        pool_nodes: IntGauge = "lacuna_control_pool_nodes", "nodes in the pool";
        pub(crate) room: Gauge = "lacuna_control_records_share",
            "share of the room for trainers' records that is taken; submissions end at .8";
        pub(crate) too_fast: IntCounter = "lacuna_control_requests_too_fast_total",
            "requests that were refused unread because their user asked too fast";
        pub(crate) store_refused: IntCounter = "lacuna_control_store_refused_total",
            "connections to the store of members that were closed: no token of a present incarnation, or no request";
        pub(crate) archived: IntGauge = "lacuna_control_trainers_archived",
            "trainers whose records were moved to the archive, since control first started";
        trainers: GaugeVec = "lacuna_control_trainers", "trainers by phase", by ["phase"];
        idle: Counter = "lacuna_control_idle_node_seconds_total",
            "idle node-seconds: in the pool, in the cluster's time";
        harvested: Counter = "lacuna_control_harvested_node_seconds_total",
            "harvested node-seconds: in the pool and under a lease, in the cluster's time";
        of_kinds: OfKinds;
        samples: Counter = "lacuna_control_samples_total", "samples done by all trainers";
        efficiency: Gauge = "lacuna_control_efficiency",
            "efficiency: samples done over dedicated samples, since control first started; NaN where it is not known";
        lost: CounterVec = "lacuna_control_lost_samples_total",
            "samples lost: stall cost and samples redone, by cause",
            by ["cause"], of LossCause::ALL.map(LossCause::name);
        stalled: CounterVec = "lacuna_control_stalled_seconds_total",
            "seconds stalled: time of trainers without training, in the cluster's time, by cause",
            by ["cause"], of LossCause::ALL.map(LossCause::name);
        redone: CounterVec = "lacuna_control_redone_samples_total",
            "samples redone: those of ended incarnations that no checkpoint covers, by cause",
            by ["cause"], of LossCause::ALL.map(LossCause::name);
        preemptions: IntCounter = "lacuna_control_preemptions_total",
            "times that a trainer lost nodes unasked";
        runs: IntCounterVec = "lacuna_control_runs_total",
            "incarnations begun, by cause",
            by ["cause"],
            of ["start", "grown", "shrunk", "replaced", "preempted", "restarted", "paced"];
        ended: IntCounterVec = "lacuna_control_trainers_ended_total",
            "trainers that have ended, by phase", by ["phase"], of ["done", "cancelled", "failed"];
        failures: IntCounter = "lacuna_control_program_failures_total",
            "failures of trainers' programs";
        plans: IntCounterVec = "lacuna_control_plans_total",
            "plans by outcome", by ["outcome"], of ["applied", "older", "stale"];
        conflicts: IntCounter = "lacuna_control_lease_conflicts_total",
            "leases that differed from the known ones";
        late: IntCounter = "lacuna_control_late_reports_total",
            "reports of incarnations whose account is closed";
        foreign: IntCounter = "lacuna_control_foreign_reports_total",
            "reports of incarnations by nodes that do not lead them";
        bad: IntCounter = "lacuna_control_bad_reports_total", "reports with invalid figures";
        resent: IntCounter = "lacuna_control_commands_resent_total", "commands sent again";
        trials: IntCounter = "lacuna_control_trials_total",
            "probes: sizes used to measure a scaling curve";
        trial_cost: Counter = "lacuna_control_trial_node_seconds_total",
            "node-seconds idle or stalled because of probes";
        unusable: IntCounterVec = "lacuna_control_nodes_unusable_total",
            "nodes put out of use, by cause",
            by ["cause"], of ["quarantine", "silent", "left", "release overdue"];
        unheard: IntCounter = "lacuna_control_releases_unconfirmed_total",
            "releases that no agent confirmed within the lease timeout";
        unacknowledged: IntGauge = "lacuna_control_commands_unacknowledged",
            "commands that wait for their acknowledgement";
        write_failures: IntCounter = "lacuna_control_write_failures_total",
            "writes to the bus that failed or whose outcome is unknown";
        pub(crate) events: IntCounter = "lacuna_control_events_total", "events read";
        pub(crate) commands: IntCounterVec = "lacuna_control_commands_total",
            "commands sent, by action", by ["action"], of ["run", "release"];
        pub(crate) latency: HistogramVec = "lacuna_control_event_to_command_seconds",
            "time from the arrival of an event to the last command that it led to",
            by ["by"], of ["plan", "loss"], within LATENCY_BOUNDS;
        pub(crate) lease_write: Histogram = "lacuna_control_lease_write_seconds",
            "time to write the leases of one change, all of them", within LATENCY_BOUNDS;
        release: Histogram = "lacuna_control_release_seconds",
            "time from the release of a node to its agent's confirmation", within RELEASE_BOUNDS;
        harm: HistogramVec = "lacuna_control_harm_seconds",
            "how long the main scheduler waited for a node because Lacuna had it, by how it asked",
            by ["cause"], of ASKED, within HARM_BOUNDS;
        pub(crate) handover: Histogram = "lacuna_control_handover_seconds",
            "time from the signal that asks a pilot for its node to the batch job's beginning there, by job, of its last node, where a prolog tells",
            within HARM_BOUNDS;
        broken: IntCounter = "lacuna_control_groups_broken_total",
            "groups that broke and went on in another incarnation";
        dropped: IntCounter = "lacuna_control_members_dropped_total",
            "members left out because their group broke and they did not answer";
        withheld: GaugeVec = "lacuna_control_withheld_nodes",
            "nodes that the operator's controls withhold, by cause", by ["cause"];
        use_limit: Gauge = "lacuna_control_use_limit",
            "most nodes that the operator's controls allow now; +Inf without a limit";
        given_back: IntCounterVec = "lacuna_control_withdrawn_nodes_total",
            "nodes in use that the operator's controls withdrew, by cause",
            by ["cause"], of WithheldBy::ALL.map(WithheldBy::name);
        contradictions: IntGauge = "lacuna_control_topology_contradictions",
            "nodes whose agents report another leaf than the topology";
        tiers: GaugeVec = "lacuna_control_tier_nodes",
            "nodes of trainers by tier: 0 where all nodes of the trainer are on one leaf", by ["tier"];
        crossing: IntGauge = "lacuna_control_crossing_trainers",
            "trainers whose nodes are on several leaves";
        slow: IntCounter = "lacuna_control_slow_nodes_total",
            "nodes that were set aside because they kept two trainers waiting";
        /// Single trainers.
        pub(crate) training: Training;
    }
}

/// Labels of the tiers of [`Apart::nodes`].
const TIERS: [&str; 4] = ["0", "1", "2", "3 or more"];

impl Metrics {
    /// Registers them, with the totals that the controller recovered.
    ///
    /// # Errors
    /// If a name is taken.
    pub fn after(registry: &Registry, before: &Tally) -> Result<Self, Error> {
        let made = Self::new(registry)?;
        made.apart(&Apart::default());
        made.tally(before);
        made.node_use(&UseState::default());
        Ok(made)
    }

    pub(crate) fn contradictions(&self, nodes: usize) {
        self.contradictions
            .set(i64::try_from(nodes).unwrap_or(i64::MAX));
    }

    /// Shows how far apart the nodes of trainers are.
    pub(crate) fn apart(&self, apart: &Apart) {
        for (tier, nodes) in TIERS.iter().zip(apart.nodes) {
            self.tiers.with_label_values(&[tier]).set(f64::from(nodes));
        }
        self.crossing.set(i64::from(apart.crossing));
    }

    pub(crate) fn write_failed(&self) {
        self.write_failures.inc();
    }

    /// Counts a note of the controller.
    pub(crate) fn note(&self, note: &Note) {
        match note {
            Note::Run { cause, .. } => {
                if *cause != "ended" {
                    self.runs.with_label_values(&[*cause]).inc();
                }
            }
            Note::Preempted { .. } => self.preemptions.inc(),
            Note::Ended { phase, .. } => self.ended.with_label_values(&[*phase]).inc(),
            Note::Failure { .. } => self.failures.inc(),
            Note::Probe { nodes, of, .. } if nodes < of => self.trials.inc(),
            Note::ProbeEnded { node_s, .. } => self.trial_cost.inc_by(*node_s),
            Note::Slow { .. } => self.slow.inc(),
            Note::Unusable { cause, .. } => self.unusable.with_label_values(&[*cause]).inc(),
            Note::Withheld { nodes, by } => {
                let counter = self.given_back.with_label_values(&[by.name()]);
                counter.inc_by(u64::from(*nodes));
            }
            Note::Released { after, .. } => self.release.observe(after.as_secs_f64()),
            Note::GivenBack {
                cause, harm, kind, ..
            } => {
                let histogram = self.harm.with_label_values(&[*cause]);
                histogram.observe(harm.as_secs_f64());
                if let Some(kind) = kind {
                    let histogram = self.of_kinds.harm.with_label_values(&[kind.as_str()]);
                    histogram.observe(harm.as_secs_f64());
                }
            }
            Note::Broke { silent, .. } => {
                self.broken.inc();
                self.dropped.inc_by(u64::from(*silent));
            }
            Note::ReleasedUnheard { .. } => self.unheard.inc(),
            Note::PlanApplied { .. } => self.plans.with_label_values(&["applied"]).inc(),
            Note::PlanRefused { cause, .. } => self.plans.with_label_values(&[*cause]).inc(),
            Note::LeaseConflict { .. } => self.conflicts.inc(),
            Note::LateReport { .. } => self.late.inc(),
            Note::ForeignReport { .. } => self.foreign.inc(),
            Note::BadReport { .. } => self.bad.inc(),
            Note::Resent { .. } => self.resent.inc(),
            Note::Admitted { .. }
            | Note::Reopened { .. }
            | Note::Suspect { .. }
            | Note::NoAgent { .. }
            | Note::Closed { .. }
            | Note::Usable { .. }
            | Note::Probe { .. }
            | Note::OtherTerms { .. } => {}
        }
    }

    /// Brings gauges and totals up to date. Totals go on from those that the controller recovered.
    pub(crate) fn tally(&self, tally: &Tally) {
        self.leases.set(i64::from(tally.leased_nodes));
        self.pool_nodes.set(i64::from(tally.pool_nodes));
        for (phase, count) in [
            ("queued", f64::from(tally.queued)),
            ("active", f64::from(tally.active)),
            ("done", tally.done as f64),
        ] {
            self.trainers.with_label_values(&[phase]).set(count);
        }
        let up = |counter: &Counter, value: f64| {
            let more = value - counter.get();
            if more > 0.0 {
                counter.inc_by(more);
            }
        };
        up(&self.idle, tally.idle_node_s);
        up(&self.harvested, tally.harvested_node_s);
        for (kind, sums) in &tally.kinds {
            let of = &self.of_kinds;
            let label = [kind.as_str()];
            up(&of.idle.with_label_values(&label), sums.idle_node_s);
            up(
                &of.harvested.with_label_values(&label),
                sums.harvested_node_s,
            );
            // The kind is there before the first node of it is given back.
            let _ = of.harm.with_label_values(&label);
        }
        up(&self.samples, tally.samples);
        for cause in LossCause::ALL {
            let stall = cause.of(&tally.stalls);
            let cost = match cause {
                LossCause::Rescale => tally.rescale_cost,
                LossCause::Preempt => tally.preempt_cost,
                LossCause::Restart => tally.restart_cost,
            };
            let label = [cause.name()];
            let lost = measure::samples_lost(cost, stall);
            up(&self.lost.with_label_values(&label), lost);
            up(&self.stalled.with_label_values(&label), stall.seconds);
            up(&self.redone.with_label_values(&label), stall.redone);
        }
        let efficiency = tally.efficiency.known();
        self.efficiency.set(efficiency.unwrap_or(f64::NAN));
    }

    /// Shows what comes of the operator's controls.
    pub(crate) fn node_use(&self, state: &UseState) {
        for by in WithheldBy::ALL {
            let nodes = state.withheld.get(&by).map_or(0, Vec::len);
            self.withheld
                .with_label_values(&[by.name()])
                .set(nodes as f64);
        }
        let most = match state.at_most {
            Some(most) if state.no_growth => most.min(state.used),
            Some(most) => most,
            None if state.no_growth => state.used,
            None => {
                self.use_limit.set(f64::INFINITY);
                return;
            }
        };
        self.use_limit.set(f64::from(most));
    }

    pub(crate) fn unacknowledged(&self, commands: usize) {
        self.unacknowledged
            .set(i64::try_from(commands).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use lacuna_model::{Held, KindName, KindUse, Past};
    use lacuna_trainer::Now;
    use lacuna_trainer::measure::{Offered, Worked};

    use super::*;

    /// The core gives the figures of the table, and totals and metrics show them.
    #[test]
    fn figures_are_those_of_the_core() {
        let figures = lacuna_testkit::figures();
        let totals = figures.totals;
        let worked = |samples| {
            let mut record = lacuna_testkit::record(lacuna_testkit::spec("a", 16), 1, &[]);
            record.samples_before = samples;
            record.held = Held {
                seconds: 900.0,
                node_s: 4_500.0,
            };
            record
        };
        let records = [worked(420_000.0), worked(380_000.0)];
        let offered = Offered {
            seconds: 1000.0,
            idle_node_s: totals.idle_node_s,
            harvested_node_s: totals.harvested_node_s,
            max_parallel: 10,
        };
        let trainers = records.iter().map(|record| Worked::of(record, None));
        let tally = Tally {
            since: Some(totals.since),
            upto: Some(totals.now),
            idle_node_s: totals.idle_node_s,
            harvested_node_s: totals.harvested_node_s,
            samples: totals.samples,
            rescale_cost: totals.rescale_cost,
            preempt_cost: totals.preempt_cost,
            restart_cost: totals.restart_cost,
            stalls: totals.stalls,
            efficiency: measure::efficiency_of(trainers, &Past::default(), &offered),
            preemptions: totals.preemptions,
            rescales: totals.rescales,
            ..Tally::default()
        };
        assert_eq!(crate::start::totals(&tally, vec![], Now::default()), totals);
        let registry = Registry::new();
        let metrics = Metrics::after(&registry, &Tally::default()).unwrap();
        metrics.tally(&tally);
        let text = metrics::expose(&registry).unwrap();
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|value| value.trim().parse::<f64>().ok())
        };
        assert_eq!(
            value("lacuna_control_efficiency "),
            Some(figures.efficiency)
        );
        let used = measure::share(
            value("lacuna_control_harvested_node_seconds_total ").unwrap(),
            value("lacuna_control_idle_node_seconds_total ").unwrap(),
        );
        assert_eq!(used, figures.idle_share_used);
        for (cause, lost, share) in figures.lost {
            let name = format!("lacuna_control_lost_samples_total{{cause=\"{cause}\"}} ");
            assert_eq!(value(&name), Some(lost));
            assert_eq!(
                lost / value("lacuna_control_samples_total ").unwrap(),
                share
            );
        }
        let stalled = "lacuna_control_stalled_seconds_total{cause=\"restart\"} ";
        assert_eq!(value(stalled), Some(6.5));
        // An unknown efficiency is NaN.
        metrics.tally(&Tally::default());
        let text = metrics::expose(&registry).unwrap();
        assert!(text.contains("lacuna_control_efficiency NaN"), "{text}");
    }

    #[test]
    fn the_exposition_is_the_golden_one() {
        let registry = Registry::new();
        let metrics = Metrics::after(&registry, &Tally::default()).unwrap();
        // With one kind of node none of its metrics is shown.
        let alone = metrics::expose(&registry).unwrap();
        assert!(!alone.contains("lacuna_control_kind_"), "{alone}");
        let kind = KindName::new("cpu").unwrap();
        let kinds = [(kind, KindUse::default())].into();
        metrics.tally(&Tally {
            kinds,
            ..Tally::default()
        });
        metrics.training.show([&lacuna_testkit::reporting("t")]);
        let _audit = crate::AuditMetrics::declared(&registry).unwrap();
        lacuna_runtime::bus::declare_metrics(&registry, "control").unwrap();
        lacuna_runtime::leader::declare_metrics(&registry).unwrap();
        let text = metrics::expose(&registry).unwrap();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/metrics.txt");
        lacuna_testkit::golden(path, &text);
    }
}
