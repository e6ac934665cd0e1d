//! Metrics of the gateway: its own, and those of nats-server, which exports none.

use lacuna_model::ClusterId;
use lacuna_runtime::metrics::{Error, Registry, counter, counters, gauge, gauges};
use lacuna_wire::access::Account;
use prometheus::{GaugeVec, IntCounter, IntCounterVec, IntGauge};

use crate::bus_state::BusState;

/// The metrics of the gateway.
#[derive(Debug, Clone)]
pub struct Metrics {
    pub(crate) requests: IntCounterVec,
    pub(crate) refused: IntCounter,
    pub(crate) viewers: IntGauge,
    pub(crate) bus: BusMetrics,
}

/// The state of nats-server. Nothing is exported of a server that is not watched.
#[derive(Debug, Clone)]
pub(crate) struct BusMetrics {
    watched: GaugeVec,
    disk: GaugeVec,
    room: GaugeVec,
    free: GaugeVec,
    memory: GaugeVec,
    streams: GaugeVec,
    limits: GaugeVec,
    connections: GaugeVec,
    most_connections: GaugeVec,
    most_of_account: GaugeVec,
    slow: IntCounterVec,
}

impl Metrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// If a name is taken.
    pub fn new(registry: &Registry) -> Result<Self, Error> {
        let requests = counters(
            registry,
            "lacuna_gateway_requests_total",
            "Answered requests by kind: page, past, node, live.",
            &["what"],
        )?;
        for what in ["page", "past", "node", "live"] {
            requests.with_label_values(&[what]);
        }
        Ok(Self {
            requests,
            refused: counter(
                registry,
                "lacuna_gateway_refused_total",
                "Requests without the token.",
            )?,
            viewers: gauge(
                registry,
                "lacuna_gateway_viewers",
                "Browsers that follow the page now.",
            )?,
            bus: BusMetrics::new(registry)?,
        })
    }
}

impl BusMetrics {
    fn new(registry: &Registry) -> Result<Self, Error> {
        let of_server = |name: &str, help: &str| gauges(registry, name, help, &["server"]);
        let of_stream = |name: &str, help: &str| gauges(registry, name, help, &["stream"]);
        Ok(Self {
            watched: of_server(
                "lacuna_bus_server_up",
                "Whether nats-server's monitor answers the gateway (1) or not (0).",
            )?,
            disk: of_server(
                "lacuna_bus_server_disk_bytes",
                "Files of all streams of nats-server.",
            )?,
            room: of_server(
                "lacuna_bus_server_disk_limit_bytes",
                "Room for these files by nats-server's configuration.",
            )?,
            free: of_server(
                "lacuna_bus_server_disk_free_bytes",
                "What is free in the file system of these files.",
            )?,
            memory: of_server(
                "lacuna_bus_server_memory_bytes",
                "Resident memory of nats-server.",
            )?,
            streams: of_stream("lacuna_bus_stream_bytes", "Size of a stream.")?,
            limits: of_stream(
                "lacuna_bus_stream_limit_bytes",
                "Largest size of a stream that has a limit.",
            )?,
            connections: gauges(
                registry,
                "lacuna_bus_server_connections",
                "Clients of nats-server by account and program.",
                &["account", "program"],
            )?,
            most_connections: of_server(
                "lacuna_bus_server_connections_limit",
                "Most clients that nats-server takes.",
            )?,
            most_of_account: gauges(
                registry,
                "lacuna_bus_account_connections_limit",
                "Most clients of an account, by the file that `lacuna keys` of this release writes.",
                &["account"],
            )?,
            slow: counters(
                registry,
                "lacuna_bus_server_slow_consumers_total",
                "Clients that nats-server closed because they did not read what was sent to them.",
                &["server"],
            )?,
        })
    }

    /// Shows the limits of a cluster's accounts.
    pub(crate) fn show_limits(&self, cluster: &ClusterId) {
        for account in Account::ALL {
            for name in account.names(cluster) {
                let gauge = self.most_of_account.with_label_values(&[name.as_str()]);
                gauge.set(f64::from(account.most_connections()));
            }
        }
    }

    /// Shows the newest state of the server at an address; nothing if it does not answer. `before`
    /// is the state before.
    pub(crate) fn show(&self, address: &str, state: Option<&BusState>, before: Option<&BusState>) {
        let server = [address];
        let up = f64::from(u8::from(state.is_some()));
        self.watched.with_label_values(&server).set(up);
        // What is gone has no series, and what is not known has none either.
        for gauge in [
            &self.disk,
            &self.room,
            &self.memory,
            &self.streams,
            &self.limits,
            &self.connections,
            &self.most_connections,
            &self.free,
        ] {
            gauge.reset();
        }
        let Some(state) = state else {
            return;
        };
        for (gauge, value) in [
            (&self.disk, state.stored),
            (&self.room, state.room),
            (&self.memory, state.memory),
            (&self.most_connections, state.most_connections),
        ] {
            gauge.with_label_values(&server).set(value as f64);
        }
        if let Some(free) = state.free {
            self.free.with_label_values(&server).set(free as f64);
        }
        for (name, (bytes, limit)) in &state.streams {
            let stream = [name.as_str()];
            self.streams.with_label_values(&stream).set(*bytes as f64);
            if let Some(limit) = limit {
                self.limits.with_label_values(&stream).set(*limit as f64);
            }
        }
        for ((account, program), count) in &state.connections {
            let labels = [account.as_str(), program.as_str()];
            self.connections
                .with_label_values(&labels)
                .set(*count as f64);
        }
        // The server counts from its start.
        let counted = before.map_or(0, |before| before.slow);
        let more = state.slow.checked_sub(counted).unwrap_or(state.slow);
        self.slow.with_label_values(&server).inc_by(more);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use lacuna_runtime::metrics::expose;
    use lacuna_testkit::golden;

    use super::*;

    #[test]
    fn the_state_of_the_server_is_exported_as_written_down() {
        let registry = Registry::new();
        let metrics = Metrics::new(&registry).unwrap();
        let exposed = || expose(&registry).unwrap();
        assert!(!exposed().contains("lacuna_bus_"), "no server is watched");
        let agents = ("AGENTS".to_owned(), "agent".to_owned());
        let stream = ("lac_c_audit".to_owned(), (7, Some(8)));
        let mut state = BusState {
            version: "2.12.3".to_owned(),
            memory: 1,
            most_connections: 2,
            slow: 3,
            stored: 4,
            room: 5,
            free: Some(9),
            streams: [stream].into(),
            connections: [(agents, 6)].into(),
        };
        metrics.bus.show("127.0.0.1:8222", Some(&state), None);
        metrics.bus.show_limits(&ClusterId::new("c").unwrap());
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/bus.txt");
        golden(path, &exposed());
        // A server that began again counts from 0.
        let before = state.clone();
        state.slow = 1;
        metrics
            .bus
            .show("127.0.0.1:8222", Some(&state), Some(&before));
        assert!(exposed().contains("slow_consumers_total{server=\"127.0.0.1:8222\"} 4"));
        metrics.bus.show("127.0.0.1:8222", None, Some(&state));
        // A figure that stands still would keep its alert firing, or from firing.
        let gone = exposed();
        let of = |line: &&str| line.starts_with("lacuna_bus_s") && !line.contains("_total");
        let left: Vec<&str> = gone.lines().filter(of).collect();
        assert_eq!(left, ["lacuna_bus_server_up{server=\"127.0.0.1:8222\"} 0"]);
    }
}
