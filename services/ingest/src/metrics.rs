//! Metrics of ingest.

use lacuna_runtime::metrics;
use lacuna_runtime::metrics::LATENCY_BOUNDS;
use prometheus::{Gauge, GaugeVec, Histogram, IntCounter, IntCounterVec, IntGauge};

metrics! {
    /// Metrics of ingest.
    pub struct Metrics {
        pub events: IntCounterVec = "lacuna_ingest_events_total",
            "node events published", by ["type"], of TYPES;
        pub external: IntCounterVec = "lacuna_ingest_external_total",
            "events of external programs, by outcome", by ["outcome"], of OUTCOMES;
        pub seq: IntGauge = "lacuna_ingest_seq", "newest event number";
        pub idle: IntGauge = "lacuna_ingest_idle_nodes", "idle nodes";
        pub snapshots: IntCounter = "lacuna_ingest_snapshots_total", "full snapshots published";
        pub pending: IntGauge = "lacuna_ingest_pending_events",
            "external events that wait in the stream";
        pub retries: IntCounter = "lacuna_ingest_publish_retries_total",
            "events published again because no stream acknowledged them";
        pub lag: Gauge = "lacuna_ingest_lag_seconds",
            "seconds by which the trace is behind the cluster's time";
        pub step: IntGauge = "lacuna_ingest_step", "step of the trace";
        pub latency: Histogram = "lacuna_ingest_latency_seconds",
            "seconds from the arrival of an event until a stream keeps it", within LATENCY_BOUNDS;
        pub topology_nodes: IntGauge = "lacuna_ingest_topology_nodes",
            "nodes of the topology, 0 without one";
        pub topology_leaves: IntGauge = "lacuna_ingest_topology_leaves", "leaves of the topology";
        pub topology_unknown: IntGauge = "lacuna_ingest_topology_unknown_nodes",
            "idle nodes that the topology does not know, each with a leaf of its own";
        pub topology_failures: IntCounter = "lacuna_ingest_topology_failures_total",
            "readings of the topology that failed and left it as it was";
        pub kind_idle: GaugeVec = "lacuna_ingest_kind_idle_nodes",
            "idle nodes by kind, with an empty kind for those without one", by ["kind"], of [""];
        pub kinds_failures: IntCounter = "lacuna_ingest_kind_failures_total",
            "readings of the kinds of nodes that failed and left them as they were";
    }
}

/// Event types as labels.
const TYPES: [&str; 7] = [
    "node.idle",
    "node.busy",
    "node.down",
    "node.wanted",
    "node.released",
    "job.planned",
    "reservation",
];

/// Outcomes of external events.
const OUTCOMES: [&str; 8] = [
    "taken",
    "duplicate",
    "unchanged",
    "late",
    "ahead",
    "unknown_node",
    "malformed",
    "deadly",
];

/// The label of an event's type.
pub(crate) fn type_of(kind: &lacuna_model::EventKind) -> &'static str {
    use lacuna_model::EventKind as Kind;
    match kind {
        Kind::NodeIdle { .. } => "node.idle",
        Kind::NodeBusy { .. } => "node.busy",
        Kind::NodeDown { .. } => "node.down",
        Kind::NodeWanted { .. } => "node.wanted",
        Kind::NodeReleased { .. } => "node.released",
        Kind::JobPlanned { .. } => "job.planned",
        Kind::Reservation { .. } => "reservation",
        Kind::Snapshot { .. } => "snapshot",
    }
}
