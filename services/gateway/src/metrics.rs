//! Metrics of the gateway.

use lacuna_runtime::metrics::{Error, Registry, counter, counters, gauge};
use prometheus::{IntCounter, IntCounterVec, IntGauge};

/// The metrics of the gateway.
#[derive(Debug, Clone)]
pub struct Metrics {
    pub(crate) requests: IntCounterVec,
    pub(crate) refused: IntCounter,
    pub(crate) viewers: IntGauge,
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
        })
    }
}
