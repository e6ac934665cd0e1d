//! The executor's metrics.

use std::collections::BTreeMap;

use lacuna_model::KindName;
use lacuna_pilots::keeper::{Cause, Counts, Mode, Note, OfKind};
use lacuna_runtime::metrics;
use lacuna_runtime::metrics::LATENCY_BOUNDS;
use lacuna_scheduler::check::{Finding, Verdict};
use lacuna_scheduler::job::End;
use prometheus::{GaugeVec, HistogramVec, IntCounter, IntCounterVec, IntGauge};

metrics! {
    /// The executor's metrics.
    pub struct PilotMetrics {
        pub(super) submitted: IntCounter = "lacuna_control_pilots_submitted_total",
            "pilots that the main scheduler has accepted";
        refused: IntCounterVec = "lacuna_control_pilots_refused_total",
            "submissions that failed or whose outcome is unknown, by cause",
            by ["cause"], of Cause::ALL.map(Cause::name);
        ended: IntCounterVec = "lacuna_control_pilots_ended_total",
            "pilots that have ended, by how they ended",
            by ["end"], of ENDS.map(|end| end.map_or(UNKNOWN, End::name));
        cancelled: IntCounterVec = "lacuna_control_pilots_cancelled_total",
            "pilots that were asked to be cancelled, by cause",
            by ["cause"], of [
                "pending", "duplicate", "no agent", "mute", "stray", "withheld", "idle", "off",
                "observe", "other trainer", "over",
            ];
        failed: IntCounterVec = "lacuna_control_pilots_failed_total",
            "failures of pilots that count against their node, by cause",
            by ["cause"], of ["refused", "died young", "failed", "node failed", "no agent", "mute"];
        adopted: IntCounter = "lacuna_control_pilots_adopted_total",
            "pilots found that this process has not submitted";
        pilots: GaugeVec = "lacuna_control_pilots", "pilots, by state", by ["state"];
        nodes: GaugeVec = "lacuna_control_pilots_nodes",
            "nodes as the executor sees them: idle, with an agent, left alone for a time \
             after failures, in quarantine",
            by ["state"];
        of_kinds: GaugeVec = "lacuna_control_pilots_kind_nodes",
            "nodes by kind, where two kinds at least are known: those that trainers can use, \
             idle ones, those for which pilots wait, and those with pilots",
            by ["kind", "state"];
        mode: GaugeVec = "lacuna_control_pilots_mode",
            "whether pilots are submitted (1 for the mode in force)", by ["mode"];
        blind: IntGauge = "lacuna_control_pilots_blind",
            "whether pilots or pool are unknown, so that nothing is submitted";
        checked: GaugeVec = "lacuna_control_pilots_check_conditions",
            "conditions of the site's scheduler, by verdict (lacuna check slurm)", by ["verdict"];
        pub(super) seconds: HistogramVec = "lacuna_control_pilots_command_seconds",
            "time that commands of the main scheduler took, by command",
            by ["command"], of COMMANDS, within LATENCY_BOUNDS;
        pub(super) command_failures: IntCounterVec = "lacuna_control_pilots_command_failures_total",
            "commands of the main scheduler that failed, by command", by ["command"], of COMMANDS;
    }
}

const MODES: [Mode; 3] = [Mode::On, Mode::Observe, Mode::Off];
/// How pilots end; none of these where the scheduler no longer knows one.
const ENDS: [Option<End>; 7] = [
    Some(End::Completed),
    Some(End::Cancelled),
    Some(End::Preempted),
    Some(End::TimeLimit),
    Some(End::Failed),
    Some(End::NodeFailed),
    None,
];
/// Commands of the scheduler.
const COMMANDS: [&str; 4] = ["submit", "cancel", "list", "end"];
/// A pilot that the scheduler no longer knows.
const UNKNOWN: &str = "unknown";

impl PilotMetrics {
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
    use lacuna_runtime::metrics::Registry;

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
