//! The metrics of an agent.

use lacuna_runtime::metrics::{self, Error, Registry};
use prometheus::{IntCounter, IntCounterVec, IntGauge};

/// An agent's metrics.
#[derive(Debug, Clone)]
pub struct Metrics {
    pub(crate) nodes: IntGauge,
    pub(crate) running: IntGauge,
    pub(crate) commands: IntCounterVec,
    pub(crate) statuses: IntCounter,
    pub(crate) progress: IntCounter,
    pub(crate) replaced: IntCounter,
    pub(crate) older_renewals: IntCounter,
    pub(crate) released: IntCounterVec,
    starts: IntCounter,
    exits: IntCounterVec,
    garbage: IntCounter,
    guard_kills: IntCounter,
    devices_held: IntCounter,
    hangs: IntCounter,
}

impl Metrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// If a name is taken.
    pub fn new(registry: &Registry) -> Result<Self, Error> {
        let counter = |name: &str, help: &str| metrics::counter(registry, name, help);
        let gauge = |name: &str, help: &str| metrics::gauge(registry, name, help);
        let labelled = |name: &str, help: &str, label: &str, values: &[&str]| {
            let vec = metrics::counters(registry, name, help, &[label])?;
            for value in values {
                let _ = vec.with_label_values(&[*value]);
            }
            Ok::<_, Error>(vec)
        };
        Ok(Self {
            nodes: gauge("lacuna_agent_nodes", "nodes that this process serves")?,
            running: gauge("lacuna_agent_running", "nodes on which an incarnation runs")?,
            commands: labelled(
                "lacuna_agent_commands_total",
                "commands received, by outcome",
                "outcome",
                &[
                    "run",
                    "prepare",
                    "release",
                    "repeated",
                    "refused",
                    "contradicted",
                    "recovered",
                    "held",
                ],
            )?,
            statuses: counter("lacuna_agent_statuses_total", "statuses sent")?,
            progress: counter(
                "lacuna_agent_progress_reports_total",
                "progress reports sent",
            )?,
            replaced: counter(
                "lacuna_agent_replaced_total",
                "statuses and progress reports that were replaced by newer ones before they were sent",
            )?,
            older_renewals: counter(
                "lacuna_agent_older_renewals_total",
                "renewals that were ignored because a newer one had been received",
            )?,
            released: labelled(
                "lacuna_agent_given_back_total",
                "nodes given back without a command, by cause",
                "cause",
                &[
                    "dead man",
                    "agent stopped",
                    "agent suspended",
                    "wanted",
                    "alone",
                    "forgotten",
                ],
            )?,
            starts: counter("lacuna_agent_programs_started_total", "programs started")?,
            exits: labelled(
                "lacuna_agent_programs_exited_total",
                "programs that ended by themselves",
                "how",
                &["zero", "non-zero"],
            )?,
            garbage: counter(
                "lacuna_agent_garbage_lines_total",
                "lines in progress files that were not valid",
            )?,
            guard_kills: counter(
                "lacuna_agent_guard_kills_total",
                "guards that did not end by themselves after the grace",
            )?,
            devices_held: counter(
                "lacuna_agent_devices_held_total",
                "programs that ended while a process of the agent's user kept a device open",
            )?,
            hangs: counter(
                "lacuna_agent_hangs_total",
                "programs that regroup and were killed because they were silent",
            )?,
        })
    }

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
