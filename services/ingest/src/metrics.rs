//! Metrics of ingest.

use lacuna_runtime::metrics::{self, Error, LATENCY_BOUNDS, Registry};
use prometheus::{Gauge, GaugeVec, Histogram, IntCounter, IntCounterVec, IntGauge};

/// Metrics of ingest.
#[derive(Debug, Clone)]
pub struct Metrics {
    /// Events published, by type.
    pub events: IntCounterVec,
    /// External events, by outcome.
    pub external: IntCounterVec,
    /// Newest event number.
    pub seq: IntGauge,
    /// Number of idle nodes.
    pub idle: IntGauge,
    /// Snapshots published.
    pub snapshots: IntCounter,
    /// External events that wait in the stream.
    pub pending: IntGauge,
    /// Events that were published again.
    pub retries: IntCounter,
    /// Seconds by which the trace is behind the cluster's time.
    pub lag: Gauge,
    /// Step of the trace.
    pub step: IntGauge,
    /// Seconds from the arrival of an event until a stream keeps it.
    pub latency: Histogram,
    /// Nodes of the topology; 0 without one.
    pub topology_nodes: IntGauge,
    /// Leaves of the topology.
    pub topology_leaves: IntGauge,
    /// Idle nodes that the topology does not know.
    pub topology_unknown: IntGauge,
    /// Readings of the topology that failed.
    pub topology_failures: IntCounter,
    /// Idle nodes by kind, with an empty kind for those without one while nodes have kinds.
    pub kind_idle: GaugeVec,
    /// Readings of the kinds of nodes that failed.
    pub kinds_failures: IntCounter,
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

impl Metrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// If a name is already registered.
    pub fn new(registry: &Registry) -> Result<Self, Error> {
        let made = Self {
            events: metrics::counters(
                registry,
                "lacuna_ingest_events_total",
                "node events published",
                &["type"],
            )?,
            external: metrics::counters(
                registry,
                "lacuna_ingest_external_total",
                "events of external programs, by outcome",
                &["outcome"],
            )?,
            seq: metrics::gauge(registry, "lacuna_ingest_seq", "newest event number")?,
            idle: metrics::gauge(registry, "lacuna_ingest_idle_nodes", "idle nodes")?,
            snapshots: metrics::counter(
                registry,
                "lacuna_ingest_snapshots_total",
                "full snapshots published",
            )?,
            pending: metrics::gauge(
                registry,
                "lacuna_ingest_pending_events",
                "external events that wait in the stream",
            )?,
            retries: metrics::counter(
                registry,
                "lacuna_ingest_publish_retries_total",
                "events published again because no stream acknowledged them",
            )?,
            lag: metrics::float_gauge(
                registry,
                "lacuna_ingest_lag_seconds",
                "seconds by which the trace is behind the cluster's time",
            )?,
            step: metrics::gauge(registry, "lacuna_ingest_step", "step of the trace")?,
            latency: metrics::histogram(
                registry,
                "lacuna_ingest_latency_seconds",
                "seconds from the arrival of an event until a stream keeps it",
                &LATENCY_BOUNDS,
            )?,
            topology_nodes: metrics::gauge(
                registry,
                "lacuna_ingest_topology_nodes",
                "nodes of the topology, 0 without one",
            )?,
            topology_leaves: metrics::gauge(
                registry,
                "lacuna_ingest_topology_leaves",
                "leaves of the topology",
            )?,
            topology_unknown: metrics::gauge(
                registry,
                "lacuna_ingest_topology_unknown_nodes",
                "idle nodes that the topology does not know, each with a leaf of its own",
            )?,
            topology_failures: metrics::counter(
                registry,
                "lacuna_ingest_topology_failures_total",
                "readings of the topology that failed and left it as it was",
            )?,
            kind_idle: metrics::gauges(
                registry,
                "lacuna_ingest_kind_idle_nodes",
                "idle nodes by kind, with an empty kind for those without one",
                &["kind"],
            )?,
            kinds_failures: metrics::counter(
                registry,
                "lacuna_ingest_kind_failures_total",
                "readings of the kinds of nodes that failed and left them as they were",
            )?,
        };
        made.kind_idle.with_label_values(&[""]);
        for kind in TYPES {
            made.events.with_label_values(&[kind]);
        }
        for outcome in OUTCOMES {
            made.external.with_label_values(&[outcome]);
        }
        Ok(made)
    }
}

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
