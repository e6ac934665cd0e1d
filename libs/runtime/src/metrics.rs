//! Metrics: declared once in each service, in the registry of its context. Names begin with
//! `lacuna_<service>_`, use base units, and end in `_total` or a unit.

use prometheus::{
    Encoder, Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec,
    IntGauge, Opts, TextEncoder,
};

pub use prometheus::{Counter, Error, Registry};

/// A counter of whole numbers.
///
/// # Errors
/// If the name is taken or not a valid name.
pub fn counter(registry: &Registry, name: &str, help: &str) -> Result<IntCounter, Error> {
    let metric = IntCounter::new(name, help)?;
    registry.register(Box::new(metric.clone()))?;
    Ok(metric)
}

/// A counter of seconds, samples and other real numbers.
///
/// # Errors
/// If the name is taken or not a valid name.
pub fn float_counter(registry: &Registry, name: &str, help: &str) -> Result<Counter, Error> {
    let metric = Counter::new(name, help)?;
    registry.register(Box::new(metric.clone()))?;
    Ok(metric)
}

/// Counters by label. Touch each known label value once (`with_label_values`), so that it is
/// exported as zero instead of being absent.
///
/// # Errors
/// If the name is taken or not a valid name.
pub fn counters(
    registry: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
) -> Result<IntCounterVec, Error> {
    let metric = IntCounterVec::new(Opts::new(name, help), labels)?;
    registry.register(Box::new(metric.clone()))?;
    Ok(metric)
}

/// A gauge of whole numbers.
///
/// # Errors
/// If the name is taken or not a valid name.
pub fn gauge(registry: &Registry, name: &str, help: &str) -> Result<IntGauge, Error> {
    let metric = IntGauge::new(name, help)?;
    registry.register(Box::new(metric.clone()))?;
    Ok(metric)
}

/// A gauge of seconds, shares and other real numbers.
///
/// # Errors
/// If the name is taken or not a valid name.
pub fn float_gauge(registry: &Registry, name: &str, help: &str) -> Result<Gauge, Error> {
    let metric = Gauge::new(name, help)?;
    registry.register(Box::new(metric.clone()))?;
    Ok(metric)
}

/// Gauges by label.
///
/// # Errors
/// If the name is taken or not a valid name.
pub fn gauges(
    registry: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
) -> Result<GaugeVec, Error> {
    let metric = GaugeVec::new(Opts::new(name, help), labels)?;
    registry.register(Box::new(metric.clone()))?;
    Ok(metric)
}

/// A histogram with the given upper bounds.
///
/// # Errors
/// If the name is taken or not a valid name.
pub fn histogram(
    registry: &Registry,
    name: &str,
    help: &str,
    bounds: &[f64],
) -> Result<Histogram, Error> {
    let options = HistogramOpts::new(name, help).buckets(bounds.to_vec());
    let metric = Histogram::with_opts(options)?;
    registry.register(Box::new(metric.clone()))?;
    Ok(metric)
}

/// Histograms by label, with the given upper bounds.
///
/// # Errors
/// If the name is taken or not a valid name.
pub fn histograms(
    registry: &Registry,
    name: &str,
    help: &str,
    bounds: &[f64],
    labels: &[&str],
) -> Result<HistogramVec, Error> {
    let options = HistogramOpts::new(name, help).buckets(bounds.to_vec());
    let metric = HistogramVec::new(options, labels)?;
    registry.register(Box::new(metric.clone()))?;
    Ok(metric)
}

/// Upper bounds for latencies, seconds: 1 ms to 10 s.
pub const LATENCY_BOUNDS: [f64; 13] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

/// All metrics in the text format of Prometheus.
///
/// # Errors
/// If a metric family is malformed.
pub fn expose(registry: &Registry) -> Result<String, Error> {
    let mut bytes = Vec::new();
    TextEncoder::new().encode(&registry.gather(), &mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
