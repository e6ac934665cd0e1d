//! Metrics of the gateway: its own, and those of nats-server, which exports none.

use lacuna_model::ClusterId;
use lacuna_runtime::metrics;
use lacuna_wire::access::Account;
use prometheus::{GaugeVec, IntCounter, IntCounterVec, IntGauge};

use crate::bus_state::BusState;

metrics! {
    /// The metrics of the gateway.
    pub struct Metrics {
        pub(crate) requests: IntCounterVec = "lacuna_gateway_requests_total",
            "Answered requests by kind: page, past, node, live.",
            by ["what"], of ["page", "past", "node", "live"];
        pub(crate) refused: IntCounter = "lacuna_gateway_refused_total", "Requests without the token.";
        pub(crate) viewers: IntGauge = "lacuna_gateway_viewers", "Browsers that follow the page now.";
        pub(crate) bus: BusMetrics;
    }
}

metrics! {
    /// The state of nats-server. Nothing is exported of a server that is not watched.
    pub(crate) struct BusMetrics {
        watched: GaugeVec = "lacuna_bus_server_up",
            "Whether nats-server's monitor answers the gateway (1) or not (0).", by ["server"];
        disk: GaugeVec = "lacuna_bus_server_disk_bytes",
            "Files of all streams of nats-server.", by ["server"];
        room: GaugeVec = "lacuna_bus_server_disk_limit_bytes",
            "Room for these files by nats-server's configuration.", by ["server"];
        free: GaugeVec = "lacuna_bus_server_disk_free_bytes",
            "What is free in the file system of these files.", by ["server"];
        memory: GaugeVec = "lacuna_bus_server_memory_bytes",
            "Resident memory of nats-server.", by ["server"];
        streams: GaugeVec = "lacuna_bus_stream_bytes", "Size of a stream.", by ["stream"];
        limits: GaugeVec = "lacuna_bus_stream_limit_bytes",
            "Largest size of a stream that has a limit.", by ["stream"];
        connections: GaugeVec = "lacuna_bus_server_connections",
            "Clients of nats-server by account and program.", by ["account", "program"];
        most_connections: GaugeVec = "lacuna_bus_server_connections_limit",
            "Most clients that nats-server takes.", by ["server"];
        most_of_account: GaugeVec = "lacuna_bus_account_connections_limit",
            "Most clients of an account, by the file that `lacuna keys` of this release writes.",
            by ["account"];
        slow: IntCounterVec = "lacuna_bus_server_slow_consumers_total",
            "Clients that nats-server closed because they did not read what was sent to them.",
            by ["server"];
    }
}

impl BusMetrics {
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

    use lacuna_runtime::metrics::{Registry, expose};
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
