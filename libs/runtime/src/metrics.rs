//! Metrics: declared once in each service by [`metrics!`](crate::metrics!), in the registry of its
//! context. Names begin with `lacuna_<service>_`, use base units, and end in `_total` or a unit.

use prometheus::core::Collector;
use prometheus::{
    CounterVec, Encoder, Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter,
    IntCounterVec, IntGauge, Opts, TextEncoder,
};

pub use prometheus::{Counter, Error, Registry};

/// A metric as its row of the table declares it.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    name: &'a str,
    help: &'a str,
    labels: &'a [&'a str],
    values: &'a [&'a str],
    bounds: &'a [f64],
}

impl<'a> Row<'a> {
    /// A metric without labels.
    #[must_use]
    pub const fn new(name: &'a str, help: &'a str) -> Self {
        Self {
            name,
            help,
            labels: &[],
            values: &[],
            bounds: &[],
        }
    }

    /// With these labels.
    #[must_use]
    pub const fn by(self, labels: &'a [&'a str]) -> Self {
        Self { labels, ..self }
    }

    /// With these values of its only label, which are exported from the start.
    #[must_use]
    pub const fn of(self, values: &'a [&'a str]) -> Self {
        Self { values, ..self }
    }

    /// With these upper bounds.
    #[must_use]
    pub const fn within(self, bounds: &'a [f64]) -> Self {
        Self { bounds, ..self }
    }
}

/// A type of metric that a table can declare.
pub trait Metric: Collector + Clone + Sized + 'static {
    /// The metric of this row, in no registry.
    ///
    /// # Errors
    /// If the name is not valid.
    fn of(row: Row<'_>) -> Result<Self, Error>;

    /// The metric of this row.
    ///
    /// # Errors
    /// If the name is taken or not valid.
    fn register(registry: &Registry, row: Row<'_>) -> Result<Self, Error> {
        let metric = Self::of(row)?;
        registry.register(Box::new(metric.clone()))?;
        Ok(metric)
    }
}

macro_rules! plain {
    ($($Type:ty),*) => {$(
        impl Metric for $Type {
            fn of(row: Row<'_>) -> Result<Self, Error> {
                Self::new(row.name, row.help)
            }
        }
    )*};
}
plain!(IntCounter, Counter, IntGauge, Gauge);

macro_rules! labelled {
    ($($Type:ty),*) => {$(
        impl Metric for $Type {
            fn of(row: Row<'_>) -> Result<Self, Error> {
                let metric = Self::new(Opts::new(row.name, row.help), row.labels)?;
                for value in row.values {
                    metric.get_metric_with_label_values(&[*value])?;
                }
                Ok(metric)
            }
        }
    )*};
}
labelled!(IntCounterVec, CounterVec, GaugeVec);

impl Metric for Histogram {
    fn of(row: Row<'_>) -> Result<Self, Error> {
        Self::with_opts(HistogramOpts::new(row.name, row.help).buckets(row.bounds.to_vec()))
    }
}

impl Metric for HistogramVec {
    fn of(row: Row<'_>) -> Result<Self, Error> {
        let options = HistogramOpts::new(row.name, row.help).buckets(row.bounds.to_vec());
        let metric = Self::new(options, row.labels)?;
        for value in row.values {
            metric.get_metric_with_label_values(&[*value])?;
        }
        Ok(metric)
    }
}

/// A struct of metrics as a table, with a constructor `new` that registers them. A row without a
/// name is another such struct.
///
/// ```
/// use lacuna_runtime::metrics::{LATENCY_BOUNDS, Registry};
/// use prometheus::{Histogram, IntCounterVec, IntGauge};
///
/// lacuna_runtime::metrics! {
///     /// Metrics of a watcher.
///     pub struct Metrics {
///         pools: IntGauge = "lacuna_watcher_pools", "pools seen";
///         ended: IntCounterVec = "lacuna_watcher_ended_total", "pools that ended, by cause",
///             by ["cause"], of ["lost", "closed"];
///         delay: Histogram = "lacuna_watcher_delay_seconds", "delay", within LATENCY_BOUNDS;
///     }
/// }
///
/// let metrics = Metrics::new(&Registry::new()).unwrap();
/// metrics.ended.with_label_values(&["lost"]).inc();
/// ```
#[macro_export]
macro_rules! metrics {
    (
        $(#[$attribute:meta])*
        $public:vis struct $Name:ident {$(
            $(#[$field_attribute:meta])*
            $seen:vis $field:ident: $Type:ty $(
                = $name:literal, $help:literal
                $(, by $labels:expr)? $(, of $values:expr)? $(, within $bounds:expr)?
            )?;
        )*}
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Clone)]
        $public struct $Name {$(
            $(#[doc = $help])?
            $(#[$field_attribute])*
            $seen $field: $Type,
        )*}

        impl $Name {
            /// Registers them.
            ///
            /// # Errors
            /// If a name is taken.
            $public fn new(
                registry: &$crate::metrics::Registry,
            ) -> Result<Self, $crate::metrics::Error> {
                Ok(Self {$(
                    $field: $crate::metrics!(@row registry, $Type $(, $crate::metrics::Row::new(
                        $name, $help)$(.by(&$labels))?$(.of(&$values))?$(.within(&$bounds))?)?),
                )*})
            }
        }
    };
    (@row $registry:ident, $Type:ty) => { <$Type>::new($registry)? };
    (@row $registry:ident, $Type:ty, $row:expr) => {
        <$Type as $crate::metrics::Metric>::register($registry, $row)?
    };
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
