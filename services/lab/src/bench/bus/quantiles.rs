//! Quantiles of measured latencies.

use serde::Serialize;

use lacuna_cli::output::quantile;

/// Quantiles of one latency, seconds.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Quantiles {
    /// The measured latency.
    pub(crate) what: &'static str,
    /// The number of samples.
    pub(crate) samples: usize,
    /// Median, seconds.
    pub(crate) p50_s: Option<f64>,
    /// 99th percentile, seconds.
    pub(crate) p99_s: Option<f64>,
    /// Longest, seconds.
    pub(crate) max_s: Option<f64>,
}

impl Quantiles {
    /// The quantiles of a list in any order.
    #[must_use]
    pub(crate) fn of(what: &'static str, mut list: Vec<f64>) -> Self {
        list.sort_by(f64::total_cmp);
        Self {
            what,
            samples: list.len(),
            p50_s: quantile(&list, 0.5),
            p99_s: quantile(&list, 0.99),
            max_s: list.last().copied(),
        }
    }
}
