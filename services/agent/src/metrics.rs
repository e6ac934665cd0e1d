//! The metrics of an agent.

use lacuna_runtime::metrics;
use prometheus::{IntCounter, IntCounterVec, IntGauge};

metrics! {
    /// An agent's metrics.
    pub struct Metrics {
        pub(crate) nodes: IntGauge = "lacuna_agent_nodes", "nodes that this process serves";
        pub(crate) running: IntGauge = "lacuna_agent_running", "nodes on which an incarnation runs";
        pub(crate) commands: IntCounterVec = "lacuna_agent_commands_total",
            "commands received, by outcome",
            by ["outcome"], of [
                "run", "prepare", "release", "repeated", "refused", "contradicted", "recovered",
                "held",
            ];
        pub(crate) statuses: IntCounter = "lacuna_agent_statuses_total", "statuses sent";
        pub(crate) progress: IntCounter = "lacuna_agent_progress_reports_total",
            "progress reports sent";
        pub(crate) replaced: IntCounter = "lacuna_agent_replaced_total",
            "statuses and progress reports that were replaced by newer ones before they were sent";
        pub(crate) older_renewals: IntCounter = "lacuna_agent_older_renewals_total",
            "renewals that were ignored because a newer one had been received";
        pub(crate) released: IntCounterVec = "lacuna_agent_given_back_total",
            "nodes given back without a command, by cause",
            by ["cause"], of [
                "lease timeout", "agent stopped", "agent suspended", "wanted", "alone", "forgotten",
            ];
        starts: IntCounter = "lacuna_agent_programs_started_total", "programs started";
        exits: IntCounterVec = "lacuna_agent_programs_exited_total",
            "programs that ended by themselves", by ["how"], of ["zero", "non-zero"];
        garbage: IntCounter = "lacuna_agent_garbage_lines_total",
            "lines in progress files that were not valid";
        guard_kills: IntCounter = "lacuna_agent_guard_kills_total",
            "guards that did not end by themselves after the grace";
        devices_held: IntCounter = "lacuna_agent_devices_held_total",
            "programs that ended while a process of the agent's user kept a device open";
        hangs: IntCounter = "lacuna_agent_hangs_total",
            "programs that regroup and were killed because they were silent";
    }
}

impl Metrics {
    pub(crate) fn started(&self) {
        self.starts.inc();
    }

    pub(crate) fn exited(&self, code: i32) {
        let how = if code == 0 { "zero" } else { "non-zero" };
        self.exits.with_label_values(&[how]).inc();
    }

    pub(crate) fn garbage(&self, lines: u64) {
        self.garbage.inc_by(lines);
    }

    pub(crate) fn guard_killed(&self) {
        self.guard_kills.inc();
    }

    pub(crate) fn device_held(&self) {
        self.devices_held.inc();
    }

    pub(crate) fn hung(&self) {
        self.hangs.inc();
    }
}

#[cfg(test)]
mod tests {
    use lacuna_runtime::metrics::Registry;

    use super::*;

    #[test]
    fn the_exposition_is_the_golden_one() {
        let registry = Registry::new();
        let _metrics = Metrics::new(&registry).unwrap();
        lacuna_runtime::bus::declare_metrics(&registry, "agent").unwrap();
        let text = metrics::expose(&registry).unwrap();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/metrics.txt");
        lacuna_testkit::golden(path, &text);
    }
}
