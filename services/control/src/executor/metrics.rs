//! The executor's metrics.

use std::collections::BTreeMap;

use lacuna_model::KindName;
use lacuna_pilots::keeper::{Cause, Counts, Mode, Note, OfKind};
use lacuna_runtime::metrics::{self, Error, LATENCY_BOUNDS, Registry};
use lacuna_scheduler::check::{Finding, Verdict};
use lacuna_scheduler::job::End;
use prometheus::{GaugeVec, HistogramVec, IntCounter, IntCounterVec, IntGauge};

/// The executor's metrics.
#[derive(Debug, Clone)]
pub struct PilotMetrics {
    pub(super) submitted: IntCounter,
    refused: IntCounterVec,
    ended: IntCounterVec,
    cancelled: IntCounterVec,
    failed: IntCounterVec,
    adopted: IntCounter,
    pilots: GaugeVec,
    nodes: GaugeVec,
    of_kinds: GaugeVec,
    mode: GaugeVec,
    blind: IntGauge,
    checked: GaugeVec,
    pub(super) seconds: HistogramVec,
    pub(super) command_failures: IntCounterVec,
}

const MODES: [Mode; 3] = [Mode::On, Mode::Observe, Mode::Off];
const ENDS: [End; 6] = [
    End::Completed,
    End::Cancelled,
    End::Preempted,
    End::TimeLimit,
    End::Failed,
    End::NodeFailed,
];
/// A pilot that the scheduler no longer knows.
const UNKNOWN: &str = "unknown";

impl PilotMetrics {
    /// Registers them.
    ///
    /// # Errors
    /// If a name is taken.
    pub fn new(registry: &Registry) -> Result<Self, Error> {
        let labelled = |name: &str, help: &str, label: &str, values: &[&str]| {
            let vec = metrics::counters(registry, name, help, &[label])?;
            for value in values {
                let _ = vec.with_label_values(&[*value]);
            }
            Ok::<_, Error>(vec)
        };
        let causes = Cause::ALL.map(Cause::name);
        let mut ends = ENDS.map(End::name).to_vec();
        ends.push(UNKNOWN);
        let commands = ["submit", "cancel", "list", "end"];
        let seconds = metrics::histograms(
            registry,
            "lacuna_control_pilots_command_seconds",
            "time that commands of the main scheduler took, by command",
            &LATENCY_BOUNDS,
            &["command"],
        )?;
        for command in commands {
            let _ = seconds.with_label_values(&[command]);
        }
        Ok(Self {
            submitted: metrics::counter(
                registry,
                "lacuna_control_pilots_submitted_total",
                "pilots that the main scheduler has accepted",
            )?,
            refused: labelled(
                "lacuna_control_pilots_refused_total",
                "submissions that failed or whose outcome is unknown, by cause",
                "cause",
                &causes,
            )?,
            ended: labelled(
                "lacuna_control_pilots_ended_total",
                "pilots that have ended, by how they ended",
                "end",
                &ends,
            )?,
            cancelled: labelled(
                "lacuna_control_pilots_cancelled_total",
                "pilots that were asked to be cancelled, by cause",
                "cause",
                &[
                    "pending",
                    "duplicate",
                    "no agent",
                    "mute",
                    "stray",
                    "withheld",
                    "idle",
                    "off",
                    "observe",
                    "other trainer",
                    "over",
                ],
            )?,
            failed: labelled(
                "lacuna_control_pilots_failed_total",
                "failures of pilots that count against their node, by cause",
                "cause",
                &[
                    "refused",
                    "died young",
                    "failed",
                    "node failed",
                    "no agent",
                    "mute",
                ],
            )?,
            adopted: metrics::counter(
                registry,
                "lacuna_control_pilots_adopted_total",
                "pilots found that this process has not submitted",
            )?,
            pilots: metrics::gauges(
                registry,
                "lacuna_control_pilots",
                "pilots, by state",
                &["state"],
            )?,
            nodes: metrics::gauges(
                registry,
                "lacuna_control_pilots_nodes",
                "nodes as the executor sees them: idle, with an agent, left alone for a time \
                 after failures, in quarantine",
                &["state"],
            )?,
            of_kinds: metrics::gauges(
                registry,
                "lacuna_control_pilots_kind_nodes",
                "nodes by kind, where two kinds at least are known: those that trainers can use, \
                 idle ones, those for which pilots wait, and those with pilots",
                &["kind", "state"],
            )?,
            mode: metrics::gauges(
                registry,
                "lacuna_control_pilots_mode",
                "whether pilots are submitted (1 for the mode in force)",
                &["mode"],
            )?,
            blind: metrics::gauge(
                registry,
                "lacuna_control_pilots_blind",
                "whether pilots or pool are unknown, so that nothing is submitted",
            )?,
            checked: metrics::gauges(
                registry,
                "lacuna_control_pilots_check_conditions",
                "conditions of the site's scheduler, by verdict (lacuna check slurm)",
                &["verdict"],
            )?,
            seconds,
            command_failures: labelled(
                "lacuna_control_pilots_command_failures_total",
                "commands of the main scheduler that failed, by command",
                "command",
                &commands,
            )?,
        })
    }

    pub(super) fn note(&self, note: &Note) {
        match note {
            Note::Mode(_) => {}
            Note::Refused { refusal, .. } => {
                self.refused
                    .with_label_values(&[refusal.cause.name()])
                    .inc();
            }
            Note::Adopted { .. } => self.adopted.inc(),
            Note::Ended { end, .. } => {
                let end = end.map_or(UNKNOWN, End::name);
                self.ended.with_label_values(&[end]).inc();
            }
            Note::Cancelling { cause, .. } => {
                self.cancelled.with_label_values(&[*cause]).inc();
            }
            Note::Failed { cause, .. } => self.failed.with_label_values(&[*cause]).inc(),
        }
    }

    pub(super) fn findings(&self, findings: &[Finding]) {
        for verdict in [
            Verdict::Ok,
            Verdict::Unknown,
            Verdict::Warning,
            Verdict::Fatal,
        ] {
            let count = findings.iter().filter(|f| f.verdict == verdict).count();
            let gauge = self.checked.with_label_values(&[verdict.name()]);
            gauge.set(count as f64);
        }
    }

    /// Shows nodes by kind; nothing where all are of one kind.
    pub(super) fn of_kinds(&self, counts: &BTreeMap<KindName, OfKind>) {
        self.of_kinds.reset();
        for (kind, count) in counts {
            for (state, nodes) in [
                ("demand", count.demand),
                ("idle", count.idle),
                ("waiting", count.waiting),
                ("running", count.running),
            ] {
                let gauge = self.of_kinds.with_label_values(&[kind.as_str(), state]);
                gauge.set(f64::from(nodes));
            }
        }
    }

    pub(super) fn state(&self, counts: Counts, mode: Mode, blind: bool) {
        for (state, count) in [
            ("submitting", counts.submitting),
            ("pending", counts.pending),
            ("running", counts.running),
            ("ending", counts.ending),
        ] {
            self.pilots
                .with_label_values(&[state])
                .set(f64::from(count));
        }
        for (state, count) in [
            ("idle", counts.idle),
            ("agent", counts.agents),
            ("held back", counts.held_back),
            ("quarantined", counts.quarantined),
        ] {
            self.nodes.with_label_values(&[state]).set(f64::from(count));
        }
        for each in MODES {
            let value = f64::from(u8::from(each == mode));
            self.mode.with_label_values(&[each.name()]).set(value);
        }
        self.blind.set(i64::from(blind));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exposition_is_the_golden_one() {
        let registry = Registry::new();
        let made = PilotMetrics::new(&registry).unwrap();
        let _observed = super::super::ObservedMetrics::new(&registry).unwrap();
        made.of_kinds(&BTreeMap::new());
        let none = metrics::expose(&registry).unwrap();
        assert!(!none.contains("lacuna_control_pilots_kind_"), "{none}");
        let kind = KindName::new("cpu").unwrap();
        made.of_kinds(&[(kind, OfKind::default())].into());
        made.findings(&[]);
        made.state(Counts::default(), Mode::Observe, true);
        let text = metrics::expose(&registry).unwrap();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/pilots.txt");
        lacuna_testkit::golden(path, &text);
    }
}
